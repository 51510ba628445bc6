// Waits for conditions, for at most a common limit.

import { setTimeout as sleep } from "node:timers/promises";

/** Timeout in ms. A busy machine is slow. */
export const TIMEOUT_MS = Number(process.env.TIMEOUT_MS ?? 120_000);

export async function waitUntil(condition, description = "the condition") {
  const end = Date.now() + TIMEOUT_MS;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`${description} was not met in time: ${condition}`);
    await sleep(50);
  }
}
