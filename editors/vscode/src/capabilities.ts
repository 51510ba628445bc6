// Reads what the connected server can do.

import { requests, type ServerCapability } from "./protocol";
import type { Capabilities } from "./webviewProtocol";

export const NO_CAPABILITIES: Capabilities = {
  images: false,
  steer: false,
  compact: false,
  circuits: false,
  credentials: false,
  limits: false,
  questions: false,
  queue: false,
  revert: false,
  fork: false,
  exports: false,
  agents: false,
  commands: false,
  trust: false,
  mcp: false,
};

export function readCapabilities(capability: ServerCapability): Capabilities {
  const methods = new Set(capability.methods);
  const features = new Set<string>(capability.features);
  return {
    images: features.has("images"),
    steer: methods.has("agent/steer"),
    compact: methods.has(requests.compact),
    circuits: methods.has(requests.resetCircuit),
    credentials: features.has("credentials"),
    limits: methods.has(requests.limitRespond),
    questions: methods.has(requests.questionRespond),
    queue: methods.has(requests.queue),
    revert: methods.has(requests.revert),
    fork: methods.has(requests.forkSession),
    exports: methods.has(requests.exportSession),
    agents: methods.has(requests.listAgents),
    commands: methods.has(requests.listCommands),
    trust: methods.has(requests.describeTrust),
    mcp: methods.has(requests.listMcpServers),
  };
}
