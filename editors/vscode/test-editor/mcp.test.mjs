// The list of MCP servers in a real VS Code, with the real server and real MCP servers.

import assert from "node:assert/strict";
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

test("MCP servers are listed with their states and restarted", { timeout: 6 * TIMEOUT_MS }, async () => {
  const options = { config: CONFIG, files: { ".mcp.json": THEIRS } };
  await withWorkbench("mcp servers", options, async (s, page) => {
    const rows = page.locator(".quick-input-list .monaco-list-row");
    const see = (name, text) => rows.filter({ hasText: name }).filter({ hasText: text }).first().waitFor();
    /** A button of an entry appears under the mouse. */
    const pressButton = async (name, label) => {
      const row = rows.filter({ hasText: name }).first();
      await row.hover();
      await row.locator(`.quick-input-list-entry-action-bar [aria-label="${label}"]`).click();
    };
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
