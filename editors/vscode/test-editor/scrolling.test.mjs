// The conversation follows its end unless the user scrolls up. Then the visible text stays in place.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";
import { waitUntil } from "./workbench.mjs";

testWithFakeServer("the conversation follows its end", {}, async (s, t) => {
  const { page } = s;
  const log = () => s.at("log");
  /** Returns the distance from the end in pixels. */
  const measureDistanceFromEnd = () =>
    log().evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight));
  const openExplorer = () => page.locator('.activitybar a[aria-label^="Explorer"]').click();
  const openChat = async () => {
    await page.locator('.activitybar a[aria-label^="agentls"]').click();
    await log().waitFor();
  };
  /** Checks that the end stays visible during a second of growth. */
  const assertFollowsEnd = async (label) => {
    let maxDistance = 0;
    const readTextLength = () =>
      log().evaluate((box) => [...box.querySelectorAll(".assistant")].at(-1)?.textContent.length ?? 0);
    const before = await readTextLength();
    for (let check = 0; check < 20; check++) {
      maxDistance = Math.max(maxDistance, await measureDistanceFromEnd());
      await sleep(50);
    }
    assert.notEqual(await readTextLength(), before, `${label}: it grows`);
    assert.ok(maxDistance < 40, `${label}: ${maxDistance} px off`);
  };
  /** Returns the first visible entry and its position. */
  const readPosition = () =>
    log().evaluate((box) => {
      const top = box.getBoundingClientRect().top;
      const entries = [...box.querySelectorAll("[data-entry]")];
      const first = entries.find((entry) => entry.getBoundingClientRect().bottom > top + 1);
      return [first?.dataset.entry, Math.round((first?.getBoundingClientRect().top ?? 0) - top)];
    });
  const scrollWheel = async (deltaY) => {
    const box = await log().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.wheel(0, deltaY);
  };
  /** Checks that the visible text does not move while the rest grows. */
  const assertStaysInPlace = async (label, expected) => {
    const height = await log().evaluate((box) => box.scrollHeight);
    await waitUntil(async () => (await log().evaluate((box) => box.scrollHeight)) > height + 200, "growth");
    const [entry, offset] = await readPosition();
    assert.equal(entry, expected[0], label);
    assert.ok(Math.abs(offset - expected[1]) <= 2, `${label}: moved from ${expected[1]} to ${offset}`);
  };

  await s.showChat();
  await s.sendPrompt("long 40");
  await waitForAnswer(s, "the end of 40");
  await s.sendPrompt("drip");
  await s.at("assistant").filter({ hasText: "Paragraph 0 " }).last().waitFor();

  await t.test("while it grows, after hiding, and after a resize", async () => {
    await assertFollowsEnd("at first");
    for (let round = 0; round < 3; round++) {
      await openExplorer();
      await sleep(300);
      await openChat();
      await assertFollowsEnd("back from another view");
    }
    await s.runCommand("Agent: Show Sessions");
    await s.at("search").waitFor();
    await s.view.getByRole("button", { name: "Back" }).click();
    await log().waitFor();
    await assertFollowsEnd("back from the list of sessions");
    await page.setViewportSize({ width: 1400, height: 600 });
    await assertFollowsEnd("in a smaller window");
    await page.setViewportSize({ width: 1400, height: 860 });
    await assertFollowsEnd("in a larger window");
  });

  await t.test("a wheel scroll during growth stops following", async () => {
    await log().evaluate((box) => {
      box.dispatchEvent(new WheelEvent("wheel", { deltaY: -600, bubbles: true }));
      box.firstElementChild.style.paddingBottom = "300px";
      box.scrollTop -= 600;
    });
    await s.view.locator(".scroll-to-end").click();
    await log().evaluate((box) => {
      box.firstElementChild.style.paddingBottom = "";
    });
    await assertFollowsEnd("at the end again");
  });

  let position;
  await t.test("the visible text stays in place, even after hiding", async () => {
    await scrollWheel(-6000);
    await s.view.locator(".scroll-to-end").waitFor();
    await sleep(300);
    position = await readPosition();
    await assertStaysInPlace("after scrolling up", position);
    await s.takeScreenshot("scrolled-up");
    // The position is saved although scrolling never stops.
    await log().evaluate((box) => {
      let step = 1;
      setInterval(() => {
        box.scrollTop += step;
        step = -step;
      }, 20);
    });
    await scrollWheel(-300);
    await sleep(300);
    position = await readPosition();
    await openExplorer();
    await sleep(300);
    await openChat();
    await s.view.locator(".scroll-to-end").waitFor();
    await assertStaysInPlace("back from another view", position);
  });

  await t.test("all entries can be reached, and expanded ones stay expanded", async () => {
    await log().evaluate((box) => box.scrollTo(0, 0));
    await s.at("user").filter({ hasText: "long 40" }).waitFor();
    const fold = s.view.locator('[data-testid="tool"] .head').filter({ hasText: /read 1(?!\d)/ });
    await fold.click();
    assert.equal(await fold.getAttribute("aria-expanded"), "true");
    // A focused element stays in the page, so move the focus.
    await s.at("input").focus();
    await log().evaluate((box) => box.scrollTo(0, box.scrollHeight / 2));
    await fold.waitFor({ state: "detached" });
    await log().evaluate((box) => box.scrollTo(0, 0));
    await fold.waitFor();
    assert.equal(await fold.getAttribute("aria-expanded"), "true");
  });

  await t.test("sending scrolls to the end and shows the prompt until it is taken", async () => {
    await s.sendPrompt("what else?");
    await s.at("waiting").filter({ hasText: "what else?" }).waitFor({ timeout: 1500 });
    await assertFollowsEnd("after sending");
    await s.takeScreenshot("steer-waits");
    await waitForAnswer(s, "It is taken.");
    await s.at("user").filter({ hasText: "what else?" }).waitFor();
    assert.equal(await s.at("waiting").count(), 0);
    assert.ok((await measureDistanceFromEnd()) < 40);
  });
});

testWithFakeServer("earlier turns load above the visible text", { env: { FAKE_HISTORY_TURNS: "19" } }, async (s) => {
  await s.showChat();
  await s.runCommand("Agent: Show Sessions");
  await s.at("session").first().click();
  const log = s.at("log");
  await log.waitFor();
  await s.at("assistant").filter({ hasText: "the end of 19" }).waitFor();
  const readFirstIndex = () => log.getAttribute("data-first");
  const before = await readFirstIndex();
  await log.evaluate((box) => box.scrollTo(0, 0));
  const earlierButton = s.view.getByRole("button", { name: "Show earlier" });
  await earlierButton.waitFor();
  const [name, top] = await log.evaluate((box) => {
    const entry = box.querySelector("[data-entry]");
    return [entry.dataset.entry, Math.round(entry.getBoundingClientRect().top)];
  });
  await earlierButton.click();
  await waitUntil(async () => (await readFirstIndex()) !== before, "the earlier page");
  await sleep(500);
  const now = await log.evaluate((box, name) => {
    const cell = [...box.querySelectorAll("[data-entry]")].find((entry) => entry.dataset.entry === name);
    return cell && Math.round(cell.getBoundingClientRect().top);
  }, name);
  assert.ok(Math.abs(now - top) <= 2, `${name} was at ${top} and is at ${now}`);
});
