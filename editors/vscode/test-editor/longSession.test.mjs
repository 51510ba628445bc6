// A long session stays light, because the page contains only nearby entries. It measures memory, so nothing else may
// run in parallel.

import assert from "node:assert/strict";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";

const TURNS = 501;
/** Maximum growth of the renderer. */
const MAX_GROWTH_MB = 200;

testWithFakeServer("a long session", {}, async (s, t) => {
  await s.showChat();
  const cdp = await s.page.context().newCDPSession(s.page);
  const measureMemory = async (label) => {
    await cdp.send("HeapProfiler.collectGarbage");
    const megabytes = s.measureRendererMegabytes();
    const elements = await s.at("app").evaluate(() => document.querySelectorAll("*").length);
    console.log(`${label}: ${Math.round(megabytes)} MB resident in the renderer, ${elements} elements in the page`);
    return { megabytes, elements };
  };
  const hideChat = () => s.page.locator('.activitybar a[aria-label^="Explorer"]').click();
  /** Measures the time from the click and the first drawing. */
  const measureReopening = async (label, waitForDrawing) => {
    const startedAt = Date.now();
    await s.page.locator('.activitybar a[aria-label^="agentls"]').click();
    await waitForDrawing();
    const elapsedMs = Date.now() - startedAt;
    const firstDrawMs = await s.at("app").evaluate(() => Math.round(window.agentlsFirstDraw ?? -1));
    console.log(`${label}: shown ${elapsedMs} ms after the click; the first drawing took ${firstDrawMs} ms`);
    return elapsedMs;
  };
  /** Takes the shortest of three runs, because other load only adds time. */
  const measureFastestReopening = async (label, waitForDrawing) => {
    const times = [];
    for (let run = 0; run < 3; run++) {
      await hideChat();
      times.push(await measureReopening(label, waitForDrawing));
    }
    return Math.min(...times);
  };
  const waitForLastAnswer = () => waitForAnswer(s, `the end of ${TURNS}`);
  let emptyMs;
  let baseline;

  await t.test("baseline: an empty chat", async () => {
    baseline = await measureMemory("an empty chat");
    emptyMs = await measureFastestReopening("an empty chat", () => s.at("welcome").waitFor());
  });

  await t.test(`${TURNS} turns use little memory`, async () => {
    await s.sendPrompt(`long ${TURNS}`);
    await waitForLastAnswer();
    const loaded = await measureMemory(`${TURNS} turns`);
    assert.ok(loaded.megabytes - baseline.megabytes < MAX_GROWTH_MB, "the renderer's growth");
    assert.ok(loaded.elements < 5000, "elements");
  });

  await t.test("a hidden session reappears with few elements", async () => {
    const reopenMs = await measureFastestReopening(`${TURNS} turns`, waitForLastAnswer);
    // Information only: the time depends on the machine's load. The number of elements does not.
    console.log(`${TURNS} turns: ${reopenMs - emptyMs} ms beyond an empty chat`);
    const { elements } = await measureMemory(`${TURNS} turns, shown again`);
    assert.ok(elements < 5000, "elements");
  });
});
