// The list of MCP servers in a real VS Code, with the real server and real MCP servers.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { CASSETTE_CONFIG, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const peer = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../../tests/peers/mcp_server.py");

const CONFIG = `${CASSETTE_CONFIG}
[mcp.peer]
command = "python3"
args = [${JSON.stringify(peer)}]

[mcp.tickets]
command = "sh"
args = ["-c", "printf 'no %s' database >&2; exit 3"]

[mcp.spare]
command = "spare-mcp"
enabled = false
`;

const THEIRS = JSON.stringify({ mcpServers: { theirs: { command: "python3", args: [peer] } } });

const listRows = (page) => page.locator(".quick-input-list .monaco-list-row");

async function waitForRow(page, name, text) {
  await listRows(page).filter({ hasText: name }).filter({ hasText: text }).first().waitFor();
}

/** Presses a button of an entry, which appears under the mouse. */
async function pressRowButton(page, name, label) {
  const row = listRows(page).filter({ hasText: name }).first();
  await row.hover();
  await row.locator(`.quick-input-list-entry-action-bar [aria-label="${label}"]`).click();
}

test("MCP servers are listed with their states and restarted", { timeout: 6 * TIMEOUT_MS }, async () => {
  const options = { config: CONFIG, files: { ".mcp.json": THEIRS }, ownHost: true };
  await withWorkbench("mcp servers", options, async (s, page) => {
    const rows = listRows(page);
    const see = (name, text) => waitForRow(page, name, text);
    const pressButton = (name, label) => pressRowButton(page, name, label);
    await s.showChat();
    await s.runCommand("Agent: MCP Servers");
    await see("peer", "starts with the next turn");
    await see("spare", "disabled in the configuration");
    await see("theirs", "off, because the folder is not trusted");
    await page.keyboard.press("Escape");

    await s.sendPrompt("hello");
    await s.waitForTurnEnd(1, "completed");
    await s.runCommand("Agent: MCP Servers");
    await see("peer", "tools · Scripted peer 1.0.0");
    await see("tickets", "failed · it ended with exit code 3");
    await see("tickets", "from ~/.config/agentls/config.toml");
    await see("theirs", "from .mcp.json");
    await s.takeScreenshot("mcp-servers");

    const findPeers = () => s.listPrograms(peer).filter(({ command }) => command.startsWith("python3"));
    const [first] = findPeers();
    await pressButton("peer", "Restart");
    await waitUntil(() => findPeers().some(({ pid }) => pid !== first.pid), "another process");
    await see("peer", "tools · Scripted peer 1.0.0");

    await pressButton("tickets", "Show Log and Tools");
    await page.locator(".monaco-editor .view-line", { hasText: "no database" }).first().waitFor();
    await s.takeScreenshot("mcp-log");

    // The keyboard alone reaches the actions, and trusting starts with the list of what it activates.
    await s.runCommand("Agent: MCP Servers");
    await see("theirs", "off, because the folder is not trusted");
    await page.keyboard.type("theirs");
    await waitUntil(async () => (await rows.count()) === 1 || (await rows.first().textContent()).includes("theirs"));
    await page.keyboard.press("Enter");
    await see("Review and Trust Folder…", "");
    await page.keyboard.press("Enter");
    await rows.filter({ hasText: "Yes, activate what the document lists: 1 MCP server" }).click();
    await page.locator(".notification-toast", { hasText: "is trusted" }).first().waitFor();
    await s.runCommand("Agent: MCP Servers");
    await see("theirs", "starts with the next turn");
    await s.sendPrompt("hello again").catch(() => {});
    assert.equal(await s.view.locator('[data-testid="error"]').count(), 0);
  });
});

/** Starts a scripted MCP server over HTTP that wants a login. */
async function startOAuthPeer() {
  const child = spawn("python3", [peer, "--http", "--oauth"], { stdio: ["ignore", "pipe", "inherit"] });
  const [address] = await once(child.stdout, "data");
  return { child, address: String(address).trim() };
}

test("a login shows its address and opens it after the user agrees", { timeout: 6 * TIMEOUT_MS }, async () => {
  const { child, address } = await startOAuthPeer();
  try {
    const options = { config: `${CASSETTE_CONFIG}\n[mcp.wiki]\nurl = "${address}"\n` };
    await withWorkbench("mcp login", options, async (s, page) => {
      await s.showChat();
      await s.sendPrompt("hello");
      await s.waitForTurnEnd(1, "completed");
      await s.runCommand("Agent: MCP Servers");
      await waitForRow(page, "wiki", "needs a login");
      await pressRowButton(page, "wiki", "Log In…");
      const dialog = page.locator(".monaco-dialog-box", { hasText: "Log in to wiki at 127.0.0.1" });
      await dialog.waitFor();
      assert.match(await dialog.textContent(), /\/authorize\?.*code_challenge=/);
      await s.takeScreenshot("mcp-login");
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await waitForRow(page, "wiki", "the login was canceled");
      await pressRowButton(page, "wiki", "Log In…");
      // code-server forwards ports of this machine, which changes the address. So this test plays the browser.
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await dialog.getByRole("button", { name: "Copy Address" }).click();
      await waitForRow(page, "wiki", "waits for the login in your browser");
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(await (await fetch(copied)).text(), /agentls has the answer/);
      await waitForRow(page, "wiki", "tools · Scripted peer 1.0.0");
      await s.takeScreenshot("mcp-logged-in");
      await pressRowButton(page, "wiki", "Log Out");
      await waitForRow(page, "wiki", "needs a login");
    });
  } finally {
    child.kill();
  }
});

const callTool = (prompt, tool) => [
  { when: { prompt, step: 0 }, repeat: true, events: [{ tool: { name: `mcp__peer__${tool}`, input: {} } }] },
  { when: { prompt, step: 1 }, repeat: true, events: [{ text: "It has asked." }] },
];

test("a server asks with a form and with an address", { timeout: 6 * TIMEOUT_MS }, async () => {
  const table = `[mcp.peer]\ncommand = "python3"\nargs = [${JSON.stringify(peer)}]\n`;
  const options = {
    config: `${CASSETTE_CONFIG}\n${table}\n[approvals]\nallow = ["mcp:peer/*"]\n`,
    exchanges: [...callTool("let it ask", "elicit_form"), ...callTool("let it lead", "elicit_url")],
  };
  await withWorkbench("mcp questions", options, async (s) => {
    await s.showChat();
    await s.sendPrompt("let it ask");
    const question = s.at("question");
    await question.filter({ hasText: "The MCP server peer asks: Who are you?" }).waitFor();
    // Names of fields and what is allowed are not in the labels, and the default is filled in.
    assert.deepEqual(await question.locator("legend").allTextContents(), [
      "Your name",
      "email optional",
      "age optional",
      "share optional",
      "agree",
      "color optional",
      "size optional",
      "tags optional",
    ]);
    assert.ok(await question.getByLabel(/No$/).isChecked());
    // What does not fit is not sent.
    await question.getByLabel("Your name").fill("A");
    await question.getByLabel("age").fill("200");
    await question.getByLabel("age").press("Control+Enter");
    await question.locator('input[aria-label="Your name"]:focus').waitFor();
    await question.getByLabel("age").fill("");
    await question.getByLabel("Your name").fill("Ada");
    await question.getByLabel("Yes").check();
    await question.getByLabel("Green").check();
    await s.takeScreenshot("mcp-form");
    await question.getByLabel("Your name").press("Control+Enter");
    await s.waitForTurnEnd(1, "completed");
    await s.view.locator(".note", { hasText: "→ Ada, true, green" }).waitFor();

    await s.sendPrompt("let it lead");
    await question.getByRole("link", { name: "https://peer.example/sign-in?id=1" }).waitFor();
    await s.takeScreenshot("mcp-address");
    await question.getByLabel("Decline").check();
    await question.getByRole("button", { name: "Answer" }).click();
    await s.waitForTurnEnd(2, "completed");
    await s.view.locator(".note", { hasText: "→ decline" }).waitFor();
  });
});
