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
    const most = await measureFlood(s, "noise", async () =>
      s.view.locator('[data-testid="tool"][data-status="completed"]').waitFor(),
    );
    assert.ok(most.lines <= 2000, `${most.lines} lines in the page`);
  });
});

/** Measures the longest frame and drawing, and checks their limits. */
async function measureFlood(s, word, over) {
  const frame = await s
    .at("app")
    .elementHandle()
    .then((handle) => handle.ownerFrame());
  await frame.evaluate(() => {
    const seen = { longest: 0, frames: 0, lines: 0, draws: [], last: performance.now(), on: true };
    window.agentlsSeen = seen;
    window.agentlsLongestDraw();
    const step = (now) => {
      seen.longest = Math.max(seen.longest, now - seen.last);
      seen.frames += 1;
      const draw = window.agentlsLongestDraw();
      if (draw > 0) seen.draws.push(Math.round(draw));
      seen.last = now;
      const output = document.querySelector(".output pre")?.textContent ?? "";
      seen.lines = Math.max(seen.lines, output.split("\n").length);
      if (seen.on) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  const begun = Date.now();
  await s.sendPrompt(word);
  await over();
  const seen = await frame.evaluate(() => {
    window.agentlsSeen.on = false;
    return { ...window.agentlsSeen, draw: Math.max(...window.agentlsSeen.draws) };
  });
  const sorted = seen.draws.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)];
  console.log(
    `${word}: ${Date.now() - begun} ms, ${seen.frames} frames, longest ${Math.round(seen.longest)} ms; ` +
      `${sorted.length} drawings, median ${median} ms, longest ${sorted.slice(-4).join(", ")} ms (at ${seen.draws.indexOf(sorted.at(-1))})`,
  );
  // On a busy machine, the times say nothing about the webview.
  if (os.loadavg()[0] > 4 * os.cpus().length) {
    console.log(`NOT TESTED: how long drawings take; the machine is too busy (${os.loadavg()[0]})`);
    return seen;
  }
  // The limits are generous: test machines are busy and have no graphics card.
  assert.ok(median < 150, `half of the drawings took more than ${median} ms`);
  assert.ok(seen.draw < 1000, `a drawing took ${seen.draw} ms`);
  return seen;
}
