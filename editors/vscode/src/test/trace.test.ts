// The trace channel follows the setting and never contains shared keys.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { TraceChannel } from "../trace";
import { configurationListeners, LogLevel, settings, shownMessages } from "./vscode.mock";

beforeEach(() => {
  shownMessages.length = 0;
  settings.clear();
});

test("the setting determines the log level", () => {
  const { channel } = new TraceChannel();
  const levels: number[] = [];
  channel.onDidChangeLogLevel((level) => void levels.push(level));
  assert.equal(channel.logLevel, LogLevel.Off);
  settings.set("trace.server", "verbose");
  assert.equal(channel.logLevel, LogLevel.Trace);
  for (const listener of configurationListeners) listener({ affectsConfiguration: (name) => name === "agentls.trace" });
  assert.deepEqual(levels, [LogLevel.Trace]);
  channel.trace("Sending request");
  assert.deepEqual(shownMessages, ["Sending request"]);
});

test("keys are masked, both plain and in JSON", () => {
  const trace = new TraceChannel();
  trace.hideSecret('sk-"canary"');
  trace.channel.trace(`Sending response 'agent/getCredential'. Result: ${JSON.stringify({ apiKey: 'sk-"canary"' })}`);
  trace.channel.trace('plain: sk-"canary"');
  assert.deepEqual(shownMessages, [`Sending response 'agent/getCredential'. Result: {"apiKey":"***"}`, "plain: ***"]);
});
