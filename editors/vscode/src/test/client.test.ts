// Restarts, stops, and exits that coincide leave at most one server, and the last one decides.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, type TestContext, test } from "node:test";
import { setImmediate as nextTick, setTimeout as sleep } from "node:timers/promises";
import type { ExtensionContext } from "vscode";
import { AgentClient } from "../client";
import type { Connection } from "../webviewProtocol";
import { createdClients } from "./languageClient.mock";
import { settings } from "./vscode.mock";

const folder = mkdtempSync(join(tmpdir(), "agentls-client-"));
const program = join(folder, "server");
writeFileSync(program, "#!/bin/sh\nexec cat\n", { mode: 0o755 });
after(() => rmSync(folder, { recursive: true }));
beforeEach(() => void createdClients.splice(0));

class ClientHarness {
  readonly states: Connection["state"][] = [];
  readonly client: AgentClient;

  constructor(t: TestContext) {
    settings.set("server.path", program);
    this.client = new AgentClient(
      {} as ExtensionContext,
      {
        onConnected: () => void this.states.push("ready"),
        onDisconnected: ({ state }) => void this.states.push(state),
        onSilenceChanged() {},
        onNotification() {},
      },
      {},
      {},
    );
    t.after(async () => {
      await this.client.stop();
      for (const { child } of createdClients) child?.kill("SIGKILL");
    });
  }

  get runningServers(): number[] {
    return createdClients.flatMap(({ isServerRunning }, index) => (isServerRunning ? [index] : []));
  }
}

test("a restart replaces the server", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  await harness.client.restart();
  assert.deepEqual(harness.runningServers, [1]);
  assert.deepEqual(harness.states, ["starting", "ready", "starting", "ready"]);
});

test("two restarts at once start one server", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  await Promise.all([harness.client.restart(), harness.client.restart()]);
  assert.deepEqual(harness.runningServers, [1]);
  assert.deepEqual(harness.states, ["starting", "ready", "starting", "ready"]);
});

test("a restart while the server starts leaves one server", async (t) => {
  const harness = new ClientHarness(t);
  const started = harness.client.start();
  while (createdClients.length === 0) await Promise.resolve();
  await Promise.all([started, harness.client.restart()]);
  assert.deepEqual(harness.runningServers, [1]);
  assert.equal(harness.states.at(-1), "ready");
});

test("a restart during the handling of an exit starts one server", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  createdClients[0]?.child?.kill("SIGKILL");
  createdClients[0]?.loseConnection();
  await harness.client.restart();
  await nextTick();
  assert.deepEqual(harness.runningServers, [1]);
  assert.equal(createdClients.length, 2);
  assert.deepEqual(harness.states, ["starting", "ready", "starting", "ready"]);
});

test("a restart waits until the server that lost its connection has exited", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  createdClients[0]?.loseConnection();
  await harness.client.restart();
  assert.deepEqual(harness.runningServers, [1]);
});

test("a restart while a stopped turn's server is replaced starts one server", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  const replaced = harness.client.onTurnStopped();
  await createdClients[0]?.disposed;
  await Promise.all([replaced, harness.client.restart()]);
  await nextTick();
  assert.deepEqual(harness.runningServers, [1]);
  assert.equal(createdClients.length, 2);
  assert.deepEqual(harness.states, ["starting", "ready", "starting", "ready"]);
});

test("an exit is followed by a restart", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  createdClients[0]?.child?.kill("SIGKILL");
  createdClients[0]?.loseConnection();
  while (harness.states.length < 5) await sleep(5);
  assert.deepEqual(harness.runningServers, [1]);
  assert.deepEqual(harness.states, ["starting", "ready", "waiting", "starting", "ready"]);
});

test("a stop during a restart leaves no server", async (t) => {
  const harness = new ClientHarness(t);
  await harness.client.start();
  const restarted = harness.client.restart();
  await harness.client.stop();
  assert.deepEqual(harness.runningServers, []);
  await restarted;
  assert.deepEqual(harness.runningServers, []);
});
