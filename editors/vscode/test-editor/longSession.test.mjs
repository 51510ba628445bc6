// A long session stays light, because the page contains only nearby entries. It measures memory, so nothing else may
// run in parallel.

import assert from "node:assert/strict";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";

const TURNS = 501;
/** Maximum growth of the renderer. */
const MOST_MB = 200;

testWithFakeServer("a long session", {}, async (s, t) => {
  await s.showChat();
  const cdp = await s.page.context().newCDPSession(s.page);
  const weigh = async (what) => {
    await cdp.send("HeapProfiler.collectGarbage");
    const megabytes = s.measureRendererMegabytes();
    const elements = await s.at("app").evaluate(() => document.querySelectorAll("*").length);
    console.log(`${what}: ${Math.round(megabytes)} MB resident in the renderer, ${elements} elements in the page`);
    return { megabytes, elements };
  };
  const hide = () => s.page.locator('.activitybar a[aria-label^="Explorer"]').click();
  /** Measures the time from the click and the first drawing. */
  const show = async (what, drawn) => {
    const begun = Date.now();
    await s.page.locator('.activitybar a[aria-label^="agentls"]').click();
    await drawn();
    const clicked = Date.now() - begun;
    const page = await s.at("app").evaluate(() => Math.round(window.agentlsFirstDraw ?? -1));
    console.log(`${what}: shown ${clicked} ms after the click; the first drawing took ${page} ms`);
    return clicked;
  };
  /** Takes the shortest of three runs, because other load only adds time. */
  const soonest = async (what, drawn) => {
    const times = [];
    for (let again = 0; again < 3; again++) {
      await hide();
      times.push(await show(what, drawn));
    }
    return Math.min(...times);
  };
  const last = () => waitForAnswer(s, `the end of ${TURNS}`);
  let empty;
  let plain;

  await t.test("baseline: an empty chat", async () => {
    plain = await weigh("an empty chat");
    empty = await soonest("an empty chat", () => s.at("begin").waitFor());
  });

  await t.test(`${TURNS} turns use little memory`, async () => {
    await s.sendPrompt(`long ${TURNS}`);
    await last();
    const grown = await weigh(`${TURNS} turns`);
    assert.ok(grown.megabytes - plain.megabytes < MOST_MB, "the renderer's growth");
    assert.ok(grown.elements < 5000, "elements");
  });

  await t.test("a hidden session reappears with few elements", async () => {
    const shown = await soonest(`${TURNS} turns`, last);
    // Information only: the time depends on the machine's load. The number of elements does not.
    console.log(`${TURNS} turns: ${shown - empty} ms beyond an empty chat`);
    const { elements } = await weigh(`${TURNS} turns, shown again`);
    assert.ok(elements < 5000, "elements");
  });
});
