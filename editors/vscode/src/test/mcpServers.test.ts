// The list of MCP servers: what it shows, how it follows changes, and its actions.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { setImmediate as settle } from "node:timers/promises";
import { buildMcpDocument, buildMcpItems, McpServerList } from "../mcpServers";
import type { McpServerInfo, McpServerState } from "../protocol";
import type { ReviewManager } from "../review";
import { FakeServer } from "./fakeServer";
import {
  choices,
  copiedTexts,
  type FakeQuickPick,
  openedAddresses,
  pressedButtons,
  quickPicks,
  shownLists,
  shownMessages,
} from "./vscode.mock";

function describeServer(name: string, state: string, more: Partial<McpServerInfo> = {}): McpServerInfo {
  return { name, folder: "/w", state: state as McpServerState, target: `${name}-mcp`, toolCount: 0, ...more };
}

const DOCS = describeServer("docs", "ready", { title: "Docs $(x) 1.2", toolCount: 2, source: ".mcp.json" });
const TICKETS = describeServer("tickets", "failed", {
  reason: "it ended with exit code 1\u202e",
  stderr: ["error: no \u202edatabase"],
});

let shownTexts: { name: string; text: string }[] = [];
let server: FakeServer;
let list: McpServerList;

function listed(...servers: McpServerInfo[]): void {
  server.answers["agent/listMcpServers"] = { servers };
}

function currentPick(): FakeQuickPick {
  const pick = quickPicks.at(-1);
  assert.ok(pick);
  return pick;
}

beforeEach(async () => {
  quickPicks.length = 0;
  shownLists.length = 0;
  choices.length = 0;
  shownMessages.length = 0;
  pressedButtons.length = 0;
  openedAddresses.length = 0;
  shownTexts = [];
  server = await new FakeServer().connectChat("agent/listMcpServers");
  for (const method of ["restartMcpServer", "cancelMcpLogin", "logoutMcpServer"])
    server.answers[`agent/${method}`] = {};
  const reviews = { showText: async (name: string, text: string) => void shownTexts.push({ name, text }) };
  list = new McpServerList(server.chat, reviews as unknown as ReviewManager);
});

test("an entry shows the state, the reason, and where the server comes from", () => {
  const items = buildMcpItems([
    DOCS,
    TICKETS,
    describeServer("theirs", "untrusted", { source: ".mcp.json" }),
    describeServer("later", "sleeping"),
    describeServer("broken", "invalid", { target: "", source: ".mcp.json", reason: "env.KEY: KEY is not set" }),
  ]);
  const rows = items.map(({ label, description, detail, buttons }) => [
    label,
    description,
    detail,
    buttons?.map(({ tooltip }) => tooltip).join(", "),
  ]);
  assert.deepEqual(rows, [
    ["$(check) docs", "ready · 2 tools · Docs \\$(x) 1.2", "docs-mcp · from .mcp.json", "Restart, Show Log and Tools"],
    ["$(error) tickets", "failed · it ended with exit code 1<U+202E>", "tickets-mcp", "Restart, Show Log and Tools"],
    [
      "$(shield) theirs",
      "off, because the folder is not trusted",
      "theirs-mcp · from .mcp.json",
      "Review and Trust Folder…, Show Log and Tools",
    ],
    ["$(question) later", "sleeping", "later-mcp", "Restart, Show Log and Tools"],
    [
      "$(warning) broken",
      "its settings cannot be used · env.KEY: KEY is not set",
      "from .mcp.json",
      "Show Log and Tools",
    ],
  ]);
});

test("the document contains the log and the tools", () => {
  const text = buildMcpDocument({ ...TICKETS, tools: ["search"] });
  for (const excerpt of ["tickets: failed", "error: no <U+202E>database", "  search".trim()])
    assert.ok(text.includes(excerpt), excerpt);
  assert.match(buildMcpDocument(DOCS), /standard error:\n\n\(none\)/);
});

test("an open list follows changes and keeps the active entry, and a closed one asks for nothing", async () => {
  listed(DOCS, TICKETS);
  await list.showServers();
  const pick = currentPick();
  pick.activeItems = [pick.items[1]];
  listed({ ...DOCS, state: "failed", reason: "signal 9 ended it" }, TICKETS);
  list.onNotification({ method: "agent/mcpServerUpdated", params: {} });
  await settle();
  assert.equal(pick.items[0]?.label, "$(error) docs");
  assert.equal(pick.activeItems[0], pick.items[1]);
  pick.hide();
  const count = server.requests.length;
  list.onNotification({ method: "agent/mcpServerUpdated", params: {} });
  await settle();
  assert.equal(server.requests.length, count);
});

test("an answer that arrives late does not replace a later one", async () => {
  listed(DOCS);
  await list.showServers();
  delete server.answers["agent/listMcpServers"];
  list.onNotification({ method: "agent/mcpServerUpdated", params: {} });
  const first = server.lastRequest("agent/listMcpServers");
  list.onNotification({ method: "agent/mcpServerUpdated", params: {} });
  const second = server.lastRequest("agent/listMcpServers");
  second.resolve({ servers: [{ ...DOCS, state: "failed" }] });
  first.resolve({ servers: [{ ...DOCS, state: "starting" }] });
  await settle();
  assert.equal(currentPick().items[0]?.label, "$(error) docs");
});

test("restart keeps the list open, and the log opens a document", async () => {
  listed(DOCS, TICKETS);
  await list.showServers();
  currentPick().pressButton(1, "Restart");
  await settle();
  assert.deepEqual(server.lastRequest("agent/restartMcpServer").params, { name: "tickets" });
  assert.equal(quickPicks.length, 1);
  assert.ok(currentPick().isVisible);
  currentPick().pressButton(1, "Show Log and Tools");
  await settle();
  assert.equal(shownTexts[0]?.name, "MCP server tickets");
  assert.ok(shownTexts[0]?.text.includes("error: no <U+202E>database"));
});

test("the keyboard reaches every action", async () => {
  listed(TICKETS, describeServer("off", "disabled"));
  await list.showServers();
  choices.push("Restart");
  currentPick().accept(0);
  // A real quick pick hides when the next one opens.
  currentPick().hide();
  await settle();
  assert.deepEqual(shownLists[0], ["$(debug-restart) Restart", "$(output) Show Log and Tools"]);
  assert.deepEqual(server.lastRequest("agent/restartMcpServer").params, { name: "tickets" });
  assert.equal(quickPicks.length, 2, "the list is shown again");
  currentPick().accept(1);
  await settle();
  assert.deepEqual(shownLists[1], ["$(output) Show Log and Tools"]);
});

const LOGIN_URL = "https://login.example/authorize?state=a_b%2B1";

test("a login shows the whole address and opens it only after the user agrees", async () => {
  const wiki = describeServer("wiki", "needsLogin", { reason: "nobody logged in within 10 minutes" });
  server.answers["agent/loginMcpServer"] = { url: LOGIN_URL };
  listed(wiki);
  await list.showServers();
  currentPick().pressButton(0, "Log In…");
  await settle();
  assert.deepEqual(shownMessages, [`info: Log in to wiki at login.example?\n${LOGIN_URL}`]);
  assert.deepEqual(openedAddresses, []);
  assert.deepEqual(server.lastRequest("agent/cancelMcpLogin").params, { name: "wiki" });
  assert.equal(quickPicks.length, 2, "the list is shown again");
  const cancelCount = () => server.requests.filter(({ method }) => method === "agent/cancelMcpLogin").length;
  pressedButtons.push("Open in Browser");
  currentPick().pressButton(0, "Log In…");
  await settle();
  assert.deepEqual(openedAddresses, [LOGIN_URL]);
  pressedButtons.push("Copy Address");
  currentPick().pressButton(0, "Log In…");
  await settle();
  assert.deepEqual(copiedTexts, [LOGIN_URL]);
  assert.equal(openedAddresses.length, 1);
  assert.equal(cancelCount(), 1);
});

test("only a web address can be opened", async () => {
  server.answers["agent/loginMcpServer"] = { url: "file:///etc/passwd" };
  listed(describeServer("wiki", "needsLogin"));
  await list.showServers();
  pressedButtons.push("");
  currentPick().pressButton(0, "Log In…");
  await settle();
  assert.match(shownMessages[0] ?? "", /is not one of the web/);
  assert.deepEqual(openedAddresses, []);
});

test("a login that waits can be ended, and a logged-in server offers to log out", async () => {
  listed(
    describeServer("wiki", "needsLogin", { loginUrl: LOGIN_URL }),
    describeServer("tasks", "ready", { loggedIn: true }),
  );
  await list.showServers();
  assert.equal(currentPick().items[0]?.label, "$(link-external) wiki");
  currentPick().pressButton(0, "Stop Waiting for the Login");
  await settle();
  assert.deepEqual(server.lastRequest("agent/cancelMcpLogin").params, { name: "wiki" });
  currentPick().pressButton(1, "Log Out");
  await settle();
  assert.deepEqual(server.lastRequest("agent/logoutMcpServer").params, { name: "tasks" });
  assert.deepEqual(shownMessages, []);
  server.answers["agent/logoutMcpServer"] = { revocationProblem: "no answer within 5 s" };
  currentPick().pressButton(1, "Log Out");
  await settle();
  assert.match(shownMessages[0] ?? "", /^warning: Logged out of tasks, but .* did not revoke .*: no answer within 5 s/);
});
