// Processes that exit, hang, or fail to start, and the watchdog that detects them.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ServerProcess } from "../serverProcess";
import { PING_INTERVAL_MS, PING_TIMEOUT_MS, ServerWatchdog } from "../serverWatchdog";

const folder = mkdtempSync(join(tmpdir(), "agentls-process-"));
after(() => rmSync(folder, { recursive: true }));

function startScript(name: string, script: string): ServerProcess {
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return new ServerProcess(file, process.env, undefined);
}

test("an exit is reported with its code and the end of stderr", async () => {
  const server = startScript("dies", "echo one >&2; echo the lib is missing >&2; exit 3");
  assert.equal(await server.exited, "exit code 3");
  assert.equal(server.stderrTail, "one\nthe lib is missing");
});

test("a program that fails to start counts as exited", async () => {
  const server = new ServerProcess("/nowhere/agentls", {}, undefined);
  assert.match(await server.exited, /cannot be started: .*ENOENT/);
});

test("a program that does not exit is killed after the timeout", async () => {
  const server = startScript("stays", "trap '' TERM\nexec sleep 1000");
  await server.waitForExit(200);
  assert.equal(await server.exited, "signal SIGKILL");
});

test("an exit is reported even if another process holds the pipes", async (t) => {
  const server = startScript("leaves-a-child", "sleep 60 & echo $! >&2; exit 3");
  t.after(() => process.kill(Number(server.stderrTail)));
  const description = await Promise.race([server.exited, sleep(10_000, "no exit", { ref: false })]);
  assert.equal(description, "exit code 3");
});

/** Lets pending promises settle. */
async function settlePromises(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

test("the watchdog reports silence and recovery", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const answers: (() => void)[] = [];
  const changes: boolean[] = [];
  const watch = new ServerWatchdog(
    () => new Promise<void>((answer) => answers.push(answer)),
    (isSilent) => changes.push(isSilent),
  );
  const advanceTime = async (ms: number) => {
    t.mock.timers.tick(ms);
    await settlePromises();
  };
  watch.start();
  await advanceTime(PING_INTERVAL_MS);
  answers.shift()?.();
  await settlePromises();
  await advanceTime(PING_INTERVAL_MS);
  await advanceTime(PING_TIMEOUT_MS - 1);
  assert.deepEqual(changes, []);
  await advanceTime(1);
  assert.deepEqual(changes, [true]);
  assert.equal(watch.isSilent, true);
  answers.shift()?.();
  await settlePromises();
  assert.deepEqual(changes, [true, false]);
  watch.stop();
  await advanceTime(10 * PING_INTERVAL_MS);
  assert.equal(answers.length, 0, "it asks no more");
});

test("the watchdog accepts an error as an answer", async () => {
  const watch = new ServerWatchdog(
    () => Promise.reject(new Error("no such method")),
    () => {},
  );
  assert.equal(await watch.respondsWithin(1000), true);
});
