// Processes that end, hang or never begin, and a watch that notices it.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ServerProcess } from "../serverProcess";
import { EVERY_MS, PATIENCE_MS, Watch } from "../serverWatchdog";

const folder = mkdtempSync(join(tmpdir(), "agentls-process-"));
after(() => rmSync(folder, { recursive: true }));

function running(name: string, script: string): ServerProcess {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return new ServerProcess(file, process.env, undefined);
}

test("how a program ended is known, with its last words", async () => {
  const server = running("dies", "echo one >&2; echo the lib is missing >&2; exit 3");
  assert.equal(await server.ended, "exit code 3");
  assert.equal(server.lastWords, "one\nthe lib is missing");
});

test("a program that cannot be started is an end too", async () => {
  const server = new ServerProcess("/nowhere/agentls", {}, undefined);
  assert.match(await server.ended, /cannot be started: .*ENOENT/);
});

test("a program that does not end is killed after its time", async () => {
  const server = running("stays", "trap '' TERM\nexec sleep 1000");
  await server.end(200);
  assert.equal(await server.ended, "signal SIGKILL");
});

/** Lets what waits for promises go on. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

test("a server that does not answer is noticed, and that it answers again", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const answers: (() => void)[] = [];
  const told: boolean[] = [];
  const watch = new Watch(
    () => new Promise<void>((answer) => answers.push(answer)),
    (silent) => told.push(silent),
  );
  const pass = async (ms: number) => {
    t.mock.timers.tick(ms);
    await settle();
  };
  watch.start();
  await pass(EVERY_MS);
  answers.shift()?.();
  await settle();
  await pass(EVERY_MS);
  await pass(PATIENCE_MS - 1);
  assert.deepEqual(told, []);
  await pass(1);
  assert.deepEqual(told, [true]);
  assert.equal(watch.silent, true);
  answers.shift()?.();
  await settle();
  assert.deepEqual(told, [true, false]);
  watch.stop();
  await pass(10 * EVERY_MS);
  assert.equal(answers.length, 0, "it asks no more");
});

test("an error is an answer", async () => {
  const watch = new Watch(
    () => Promise.reject(new Error("no such method")),
    () => {},
  );
  assert.equal(await watch.answers(1000), true);
});
