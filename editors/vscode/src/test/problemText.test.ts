// Warnings of the server, as the chat and the list of problems show them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { adaptText, describeProblems, isFixedByTrust, parseSuggestion, parseWarnings } from "../problemText";
import { FakeServer } from "./fakeServer";

const HINT =
  "trust the folder (`/trust` in `agentls chat`, `:AgentTrust` in Neovim, or `Agent: Trust Folder…` in VS Code)";

test("a problem of a file has a place, and the rest is counted", () => {
  const list = parseWarnings([
    {
      code: "config",
      message: "/w/.agentls/config.toml:3:1: warning: agent.modle: unknown setting (did you mean `model`?)",
    },
    { code: "config", message: "AGENTLS_MODE: error: no such mode" },
    { code: "store", message: "the disk is full" },
    { code: "config", message: "and 12 more; agent/reloadConfig lists them all" },
  ]);
  assert.deepEqual(
    list.problems.map(({ place, severity }) => [place?.file, place?.line, severity]),
    [
      ["/w/.agentls/config.toml", 3, "warning"],
      ["AGENTLS_MODE", 0, "error"],
      [undefined, undefined, "warning"],
    ],
  );
  assert.equal(list.unlisted, 12);
  assert.equal(describeProblems(list), "15 problems in the configuration");
  assert.deepEqual(parseSuggestion(list.problems[0]?.message ?? ""), { wrong: "modle", right: "model" });
});

test("only what this editor has is named", () => {
  assert.equal(adaptText(`to use it, ${HINT}`), "to use it, trust the folder (“Agent: Trust Folder…”)");
  assert.ok(isFixedByTrust(adaptText(HINT)));
});

test("one warning is its own line", () => {
  assert.equal(describeProblems(parseWarnings([{ code: "store", message: "the disk is full" }])), "the disk is full");
  assert.equal(
    describeProblems(parseWarnings([{ code: "config", message: "/c.toml: error: x" }])),
    "1 problem in the configuration",
  );
});

test("a dismissed line comes back only with other warnings", async () => {
  const { chat } = await new FakeServer().connectChat();
  const report = (...messages: string[]) =>
    chat.onNotification({
      method: "agent/status",
      params: {
        state: "idle",
        runningTurns: 0,
        openApprovals: 0,
        warnings: messages.map((message) => ({ code: "config", message })),
      },
    });
  report("/c.toml:1:1: error: a", "and 1 more; agent/reloadConfig lists them all");
  chat.updateView({ areWarningsDismissed: true });
  report("/c.toml:1:1: error: a", "and 1 more; agent/reloadConfig lists them all");
  assert.equal(chat.view.areWarningsDismissed, true);
  chat.setConfigProblems([
    { file: "/c.toml", line: 1, severity: "error", message: "a" },
    { file: "/c.toml", line: 2, severity: "error", message: "b" },
  ]);
  const full = chat.view.warnings;
  report("/c.toml:1:1: error: a", "and 1 more; agent/reloadConfig lists them all");
  assert.equal(chat.view.warnings, full, "the full list stays");
  report("/c.toml:1:1: error: c");
  assert.equal(chat.view.areWarningsDismissed, false);
});
