// Runs tests in a workbench with the fake server.

import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { PATIENCE, within } from "./workbench.mjs";

const fake = path.join(path.dirname(fileURLToPath(import.meta.url)), "fake-server.mjs");

export function faked(name, options, body) {
  test(name, { timeout: 6 * PATIENCE }, (t) => within(name, { program: fake, ...options }, (s) => body(s, t)));
}

export async function answered(s, text) {
  await s.at("assistant").filter({ hasText: text }).last().waitFor();
}
