// The server's process and the connection to it: start, stop, restart. It moves messages and knows nothing of them.
//
// The framing, the documents and `workspace/applyEdit` are vscode-languageclient's. Only the restart is our own: the
// stock one gives up after five ends within three minutes, ours waits longer each time and never gives up (restart.ts).

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import {
  CancellationTokenSource,
  type Disposable,
  type ExtensionContext,
  type LogOutputChannel,
  Uri,
  window,
  workspace,
} from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";
import type { Api } from "./chat";
import type { Connection } from "./messages";
import { protocolVersion, type RequestTypes, type ServerCapability, serverNotifications } from "./protocol";
import { RestartPolicy } from "./restart";
import type { Event } from "./state";
import { Trace } from "./trace";

/** What the server may ask of us, beside LSP's own. */
export type Handlers = Record<string, (params: never) => unknown>;

export interface ClientListener {
  connected(api: Api, capability: ServerCapability): void;
  disconnected(connection: Connection): void;
  received(event: Event): void;
}

export class Client implements Disposable {
  readonly log: LogOutputChannel = window.createOutputChannel("agentls", { log: true });
  readonly trace = new Trace();
  readonly #policy = new RestartPolicy();
  #client: LanguageClient | undefined;
  #timer: NodeJS.Timeout | undefined;
  #disposed = false;

  constructor(
    readonly context: ExtensionContext,
    readonly listener: ClientListener,
    readonly handlers: Handlers,
    readonly middleware: NonNullable<LanguageClientOptions["middleware"]>,
  ) {}

  /** Whether a server is running and ready. */
  get ready(): boolean {
    return this.#client?.isRunning() ?? false;
  }

  /** Starts the server; what fails is told to the listener. */
  async start(): Promise<void> {
    clearTimeout(this.#timer);
    const command = this.#program();
    if (command === undefined) return;
    this.#policy.started(Date.now());
    this.listener.disconnected({ state: "starting" });
    const client = this.#make(command);
    this.#client = client;
    try {
      await client.start();
    } catch (error) {
      if (this.#client !== client) return;
      this.log.error(`the server did not start: ${reason(error)}`);
      await this.#drop(client);
      this.#again(`The agentls server did not start: ${reason(error)}`);
      return;
    }
    if (this.#client !== client) return;
    const capability = client.initializeResult?.capabilities.experimental?.agent as ServerCapability | undefined;
    const wrong = unsuited(capability);
    if (wrong !== undefined || capability === undefined) {
      await this.#drop(client);
      this.listener.disconnected({ state: "failed", remedy: "version", message: wrong });
      return;
    }
    this.listener.connected(api(client), capability);
  }

  /** Ends the server and starts another. */
  async restart(): Promise<void> {
    this.#policy.reset();
    await this.stop();
    await this.start();
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = undefined;
    if (client) await this.#drop(client);
  }

  notify(method: string, params: unknown): void {
    if (this.ready) void this.#client?.sendNotification(method, params);
  }

  /**
   * Tells the server now of changes of documents. The stock client holds them back for a quarter of a second, or as
   * long as somebody types, but sends them before anything else that it sends; this is the least that it can send.
   */
  async tellChanges(): Promise<void> {
    if (this.ready) await this.#client?.sendNotification("$/setTrace", { value: "off" });
  }

  dispose(): void {
    this.#disposed = true;
    clearTimeout(this.#timer);
    this.log.dispose();
    this.trace.dispose();
  }

  #make(command: string): LanguageClient {
    const settings = workspace.getConfiguration("agentls");
    const env = { ...process.env, ...settings.get<Record<string, string>>("server.env", {}) };
    const client = new LanguageClient(
      "agentls",
      "agentls",
      { command, options: { env } },
      {
        documentSelector: [{ scheme: "file" }],
        outputChannel: this.log,
        traceOutputChannel: this.trace.channel,
        revealOutputChannelOn: RevealOutputChannelOn.Never,
        initializationOptions: () => ({
          ...settings.get<Record<string, unknown>>("options", {}),
          // VS Code's trust alone activates nothing (trust.ts).
          trusted: false,
        }),
        initializationFailedHandler: () => false,
        middleware: this.middleware,
        errorHandler: {
          error: () => ({ action: ErrorAction.Continue, handled: true }),
          closed: () => {
            if (this.#client === client && client.isRunning()) {
              // Its clean-up comes first.
              setImmediate(() => this.#again("The agentls server ended."));
              this.#client = undefined;
            }
            return { action: CloseAction.DoNotRestart, handled: true };
          },
        },
      },
    );
    client.registerFeature({
      fillClientCapabilities(capabilities) {
        // What of this protocol we answer (R-WIRE). A server that does not know a flag ignores it.
        const flags = { saveDocuments: true, getDiagnostics: true, getCredential: true, questions: true };
        capabilities.experimental = { ...capabilities.experimental, agent: { client: flags } };
      },
      initialize() {},
      getState: () => ({ kind: "static" }),
      clear() {},
    });
    for (const method of Object.values(serverNotifications)) {
      client.onNotification(method, (params) => {
        if (this.#client === client) this.listener.received({ method, params });
      });
    }
    for (const [method, handler] of Object.entries(this.handlers)) {
      client.onRequest(method, (params) => handler(params as never));
    }
    return client;
  }

  /** The program: of the settings, of the extension, of the path. */
  #program(): string | undefined {
    const name = process.platform === "win32" ? "agentls.exe" : "agentls";
    const set = workspace.getConfiguration("agentls").get<string>("server.path", "").trim();
    if (set !== "") {
      if (existsSync(set)) return set;
      return this.#missing(`There is no program at ${set}, which the setting agentls.server.path names.`);
    }
    const own = Uri.joinPath(this.context.extensionUri, "server", name).fsPath;
    if (existsSync(own)) return own;
    for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
      const program = join(folder, name);
      if (folder !== "" && existsSync(program)) return program;
    }
    return this.#missing("The agentls program was not found: it is neither in this extension nor on the PATH.");
  }

  #missing(message: string): undefined {
    this.log.error(message);
    this.listener.disconnected({ state: "failed", remedy: "missing", message });
    return undefined;
  }

  #again(message: string): void {
    if (this.#disposed) return;
    const delay = this.#policy.ended(Date.now());
    this.log.warn(`${message} Started again in ${delay} ms.`);
    this.listener.disconnected({ state: "waiting", remedy: "start", message, until: Date.now() + delay });
    this.#timer = setTimeout(() => void this.start(), delay);
  }

  async #drop(client: LanguageClient): Promise<void> {
    if (this.#client === client) this.#client = undefined;
    await client.dispose().catch((error: unknown) => this.log.debug(`while stopping: ${reason(error)}`));
  }
}

/** Why this server cannot be talked to, in one sentence. */
function unsuited(capability: ServerCapability | undefined): string | undefined {
  const ours = protocolVersion.major;
  const theirs = capability?.protocolVersion.major;
  if (theirs === ours) return undefined;
  if (theirs === undefined) return "The program that agentls.server.path names is no agentls server.";
  const older = theirs > ours ? "this extension" : "the agentls program";
  return `The server speaks version ${theirs} of the protocol and this extension version ${ours}: update ${older}.`;
}

function api(client: LanguageClient): Api {
  const ask = async (method: string, params: unknown, signal?: AbortSignal): Promise<unknown> => {
    if (!signal) return client.sendRequest(method, params);
    const source = new CancellationTokenSource();
    const cancel = () => source.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    try {
      return await client.sendRequest(method, params, source.token);
    } finally {
      signal.removeEventListener("abort", cancel);
      source.dispose();
    }
  };
  return {
    ask,
    request: (method, params, signal) =>
      ask(method, params, signal) as Promise<RequestTypes[typeof method]["result"]> as never,
    notify: (method, params) => void client.sendNotification(method, params),
  };
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
