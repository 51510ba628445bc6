// The conversation follows its end unless the user scrolls up. Then the visible text stays in place.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";
import { waitUntil } from "./workbench.mjs";

testWithFakeServer("the conversation follows its end", {}, async (s, t) => {
  const { page } = s;
  const log = () => s.at("log");
  /** Returns the distance from the end in pixels. */
  const off = () => log().evaluate((box) => Math.round(box.scrollHeight - box.scrollTop - box.clientHeight));
  const explorer = () => page.locator('.activitybar a[aria-label^="Explorer"]').click();
  const chat = async () => {
    await page.locator('.activitybar a[aria-label^="agentls"]').click();
    await log().waitFor();
  };
  /** Checks that the end stays visible during a second of growth. */
  const follows = async (what) => {
    let farthest = 0;
    const words = () =>
      log().evaluate((box) => [...box.querySelectorAll(".assistant")].at(-1)?.textContent.length ?? 0);
    const before = await words();
    for (let look = 0; look < 20; look++) {
      farthest = Math.max(farthest, await off());
      await sleep(50);
    }
    assert.notEqual(await words(), before, `${what}: it grows`);
    assert.ok(farthest < 40, `${what}: ${farthest} px off`);
  };
  /** Returns the first visible entry and its position. */
  const reading = () =>
    log().evaluate((box) => {
      const top = box.getBoundingClientRect().top;
      const entries = [...box.querySelectorAll("[data-entry]")];
      const first = entries.find((one) => one.getBoundingClientRect().bottom > top + 1);
      return [first?.dataset.entry, Math.round((first?.getBoundingClientRect().top ?? 0) - top)];
    });
  const wheel = async (by) => {
    const box = await log().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.wheel(0, by);
  };
  /** Checks that the visible text does not move while the rest grows. */
  const stays = async (what, was) => {
    const height = await log().evaluate((box) => box.scrollHeight);
    await waitUntil(async () => (await log().evaluate((box) => box.scrollHeight)) > height + 200, "growth");
    const [entry, offset] = await reading();
    assert.equal(entry, was[0], what);
    assert.ok(Math.abs(offset - was[1]) <= 2, `${what}: moved from ${was[1]} to ${offset}`);
  };

  await s.showChat();
  await s.sendPrompt("long 40");
  await waitForAnswer(s, "the end of 40");
  await s.sendPrompt("drip");
  await s.at("assistant").filter({ hasText: "Paragraph 0 " }).last().waitFor();

  await t.test("while it grows, after hiding, and after a resize", async () => {
    await follows("at first");
    for (let again = 0; again < 3; again++) {
      await explorer();
      await sleep(300);
      await chat();
      await follows("back from another view");
    }
    await s.runCommand("Agent: Show Sessions");
    await s.at("search").waitFor();
    await s.view.getByRole("button", { name: "Back" }).click();
    await log().waitFor();
    await follows("back from the list of sessions");
    await page.setViewportSize({ width: 1400, height: 600 });
    await follows("in a smaller window");
    await page.setViewportSize({ width: 1400, height: 860 });
    await follows("in a larger window");
  });

  await t.test("a wheel scroll during growth stops following", async () => {
    await log().evaluate((box) => {
      box.dispatchEvent(new WheelEvent("wheel", { deltaY: -600, bubbles: true }));
      box.firstElementChild.style.paddingBottom = "300px";
      box.scrollTop -= 600;
    });
    await s.view.locator(".to-end").click();
    await log().evaluate((box) => {
      box.firstElementChild.style.paddingBottom = "";
    });
    await follows("at the end again");
  });

  let was;
  await t.test("the visible text stays in place, even after hiding", async () => {
    await wheel(-6000);
    await s.view.locator(".to-end").waitFor();
    await sleep(300);
    was = await reading();
    await stays("after scrolling up", was);
    await s.takeScreenshot("scrolled-up");
    // The position is saved although scrolling never stops.
    await log().evaluate((box) => {
      let by = 1;
      setInterval(() => {
        box.scrollTop += by;
        by = -by;
      }, 20);
    });
    await wheel(-300);
    await sleep(300);
    was = await reading();
    await explorer();
    await sleep(300);
    await chat();
    await s.view.locator(".to-end").waitFor();
    await stays("back from another view", was);
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
    await follows("after sending");
    await s.takeScreenshot("steer-waits");
    await waitForAnswer(s, "It is taken.");
    await s.at("user").filter({ hasText: "what else?" }).waitFor();
    assert.equal(await s.at("waiting").count(), 0);
    assert.ok((await off()) < 40);
  });
});

testWithFakeServer("earlier turns load above the visible text", { env: { FAKE_PAST: "19" } }, async (s) => {
  await s.showChat();
  await s.runCommand("Agent: Show Sessions");
  await s.at("session").first().click();
  const log = s.at("log");
  await log.waitFor();
  await s.at("assistant").filter({ hasText: "the end of 19" }).waitFor();
  const begins = () => log.getAttribute("data-first");
  const before = await begins();
  await log.evaluate((box) => box.scrollTo(0, 0));
  const earlier = s.view.getByRole("button", { name: "Show earlier" });
  await earlier.waitFor();
  const [name, top] = await log.evaluate((box) => {
    const one = box.querySelector("[data-entry]");
    return [one.dataset.entry, Math.round(one.getBoundingClientRect().top)];
  });
  await earlier.click();
  await waitUntil(async () => (await begins()) !== before, "the earlier page");
  await sleep(500);
  const now = await log.evaluate((box, name) => {
    const one = [...box.querySelectorAll("[data-entry]")].find((entry) => entry.dataset.entry === name);
    return one && Math.round(one.getBoundingClientRect().top);
  }, name);
  assert.ok(Math.abs(now - top) <= 2, `${name} was at ${top} and is at ${now}`);
});
