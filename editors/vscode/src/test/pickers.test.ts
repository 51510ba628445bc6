// The lists that change a session: they start at what is current.

import assert from "node:assert/strict";
import { test } from "node:test";
import { selectEffort, selectMode, selectModel } from "../pickers";
import { suggestCommands } from "../slashCommands";
import { FakeServer } from "./fakeServer";
import { quickPicks } from "./vscode.mock";

const MODELS = [
  { model: "tape/one", provider: "tape", current: true },
  { model: "tape/two", provider: "tape" },
];

async function connectWithLastChoice() {
  const fake = new FakeServer();
  fake.answers["agent/listModels"] = { models: MODELS, providers: [] };
  fake.storage.set("chosen", JSON.stringify({ mode: "autoEdit", model: "tape/two", effort: "high" }));
  return fake.connectChat();
}

test("before the first prompt, each list starts at the last choice, which is the current one", async () => {
  const { chat } = await connectWithLastChoice();
  for (const [select, current] of [
    [selectMode, "Auto-edit"],
    [selectModel, "tape/two"],
    [selectEffort, "High"],
  ] as const) {
    const selecting = select(chat);
    await new Promise(setImmediate);
    const pick = quickPicks.at(-1);
    const marked = pick?.items.filter(({ description }) => description === "current");
    assert.deepEqual(
      marked?.map(({ label }) => label),
      [current],
    );
    assert.deepEqual(pick?.activeItems, marked);
    pick?.hide();
    await selecting;
  }
  assert.deepEqual(chat.view.nextSession, {});
});

test("a list where nothing is current starts at no item", async () => {
  const { chat } = await new FakeServer().connectChat();
  void selectMode(chat);
  assert.deepEqual(quickPicks.at(-1)?.activeItems, []);
});

test("the commands are the editor's and the user's own, which come first and replace the others", async () => {
  const fake = await new FakeServer().connectChat("agent/listCommands", "agent/compact");
  const suggest = async (query: string) =>
    (await suggestCommands(fake.chat, query)).map(({ label, run }) => [label, run]);
  fake.answers["agent/listCommands"] = { commands: [] };
  assert.deepEqual(await suggest("mo"), [
    ["/mode", "selectMode"],
    ["/model", "selectModel"],
  ]);
  assert.deepEqual(await suggest("compact"), [], "there is no session");
  assert.deepEqual(await suggest("nothing"), []);
  fake.answers["agent/listCommands"] = { commands: [{ name: "model", trusted: true }] };
  assert.deepEqual(await suggest("mo"), [
    ["/model", undefined],
    ["/mode", "selectMode"],
  ]);
  await fake.chat.sendPrompt("hello", []);
  assert.deepEqual(await suggest("compact"), [["/compact", "compact"]]);
});
