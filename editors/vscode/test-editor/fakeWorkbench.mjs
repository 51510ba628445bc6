// Runs tests in a workbench with the fake server.

import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { TIMEOUT_MS, withWorkbench } from "./workbench.mjs";

export const fakeServer = path.join(path.dirname(fileURLToPath(import.meta.url)), "fake-server.mjs");

export function testWithFakeServer(name, options, body) {
  test(name, { timeout: 6 * TIMEOUT_MS }, (t) =>
    withWorkbench(name, { program: fakeServer, ...options }, (s) => body(s, t)),
  );
}

export async function waitForAnswer(s, text) {
  await s.at("assistant").filter({ hasText: text }).last().waitFor();
}
