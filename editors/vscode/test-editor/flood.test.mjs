// Floods of events with the fake server. It measures time, so nothing else may run in parallel.

import assert from "node:assert/strict";
import os from "node:os";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";

testWithFakeServer("floods", {}, async (s, t) => {
  await s.showChat();

  await t.test("10,000 deltas", async () => {
    await measureFlood(s, "flood", async () => waitForAnswer(s, "piece 9999"));
  });

  await t.test("10 MB of output", async () => {
    const measurement = await measureFlood(s, "noise", async () =>
      s.view.locator('[data-testid="tool"][data-status="completed"]').waitFor(),
    );
    assert.ok(measurement.lines <= 2000, `${measurement.lines} lines in the page`);
  });
});

/** Measures the longest frame and drawing, and checks their limits. */
async function measureFlood(s, prompt, waitForEnd) {
  const frame = await s
    .at("app")
    .elementHandle()
    .then((handle) => handle.ownerFrame());
  await frame.evaluate(() => {
    const stats = { longest: 0, frames: 0, lines: 0, draws: [], last: performance.now(), on: true };
    window.agentlsSeen = stats;
    window.agentlsLongestDraw();
    const step = (now) => {
      stats.longest = Math.max(stats.longest, now - stats.last);
      stats.frames += 1;
      const draw = window.agentlsLongestDraw();
      if (draw > 0) stats.draws.push(Math.round(draw));
      stats.last = now;
      const output = document.querySelector(".output pre")?.textContent ?? "";
      stats.lines = Math.max(stats.lines, output.split("\n").length);
      if (stats.on) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  const startedAt = Date.now();
  await s.sendPrompt(prompt);
  await waitForEnd();
  const stats = await frame.evaluate(() => {
    window.agentlsSeen.on = false;
    return { ...window.agentlsSeen, draw: Math.max(...window.agentlsSeen.draws) };
  });
  const sorted = stats.draws.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)];
  console.log(
    `${prompt}: ${Date.now() - startedAt} ms, ${stats.frames} frames, longest ${Math.round(stats.longest)} ms; ` +
      `${sorted.length} drawings, median ${median} ms, longest ${sorted.slice(-4).join(", ")} ms (at ${stats.draws.indexOf(sorted.at(-1))})`,
  );
  // On a busy machine, the times say nothing about the webview.
  if (os.loadavg()[0] > 4 * os.cpus().length) {
    console.log(`NOT TESTED: how long drawings take; the machine is too busy (${os.loadavg()[0]})`);
    return stats;
  }
  // The limits are generous: test machines are busy and have no graphics card.
  assert.ok(median < 150, `half of the drawings took more than ${median} ms`);
  assert.ok(stats.draw < 1000, `a drawing took ${stats.draw} ms`);
  return stats;
}
