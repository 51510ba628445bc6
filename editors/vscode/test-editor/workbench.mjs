// Opens workbenches of a real VS Code, each with a workspace and a home folder of its own. The agent is the real server,
// and its model is cassette.json.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { EditorHost, listProcesses, measureRendererMegabytes } from "./host.mjs";
import { waitUntil } from "./wait.mjs";

export { TIMEOUT_MS, waitUntil } from "./wait.mjs";

const testFolder = path.dirname(fileURLToPath(import.meta.url));

export const server = path.resolve(process.env.AGENTLS ?? path.join(testFolder, "../../../target/debug/agentls"));
/** The folder for screenshots. Git ignores it. */
export const screenshotFolder = path.resolve(testFolder, "../shots");
/** A server configuration that uses the cassette. Text appended to it belongs to the agent. */
export const CASSETTE_CONFIG = `[provider.tape]
kind = "script"
cassette = "cassette.json"
model = "tape"

[agent.default]
provider = "tape"
`;

const SETTINGS = {
  "workbench.startupEditor": "none",
  "chat.disableAIFeatures": true,
  "chat.agentHost.enabled": false,
  "telemetry.telemetryLevel": "off",
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "git.enabled": false,
  "files.autoSave": "off",
  "editor.minimap.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.colorTheme": "Default Dark Modern",
  "window.commandCenter": false,
  "extensions.webWorker": false,
};

/** Opens a workbench for `body` and always closes it. Takes a screenshot on failure. */
export async function withWorkbench(name, options, body) {
  const s = await openWorkbench(options);
  try {
    await body(s, s.page);
  } catch (error) {
    await s.reportFailure(name);
    throw error;
  } finally {
    await s.close();
  }
}

/** Returns a function that runs a step of a test. After a failure, it skips the steps that depend on that one. */
export function createStepRunner(t, s) {
  let hasFailed = false;
  return (name, body) =>
    t.test(name, { skip: hasFailed }, async () => {
      try {
        await body();
      } catch (error) {
        hasFailed = true;
        await s.reportFailure(name);
        throw error;
      }
    });
}

/** The host for workbenches without demands of their own. The first one starts it. */
let sharedHost;
after(() => sharedHost?.then((host) => host.close()));
function getSharedHost() {
  sharedHost ??= EditorHost.start({});
  return sharedHost;
}

/**
 * `config`: the server's config.toml. `settings`: the editor's settings. `files`: the workspace's files by name.
 * `second`: the files of a second folder. `program`: the server; an empty string for none. `exchanges`: go before those
 * of the cassette. `weak`: the exchanges of a second cassette. `trust`: whether VS Code asks about trust.
 *
 * Workbenches of a test file share an editor host, except those with `vsix` (another package of the extension),
 * `otherVsix` (the package of a second extension), `env` (further environment variables), `path` (a folder that precedes
 * the PATH), `sandbox` (the one of this machine), or `ownHost`.
 */
export async function openWorkbench({
  config,
  settings = {},
  files = {},
  second,
  exchanges = [],
  weak,
  program = server,
  trust = false,
  ...hostOptions
}) {
  const home = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "agentls-editor-")));
  const workspace = path.join(home, "shop");
  for (const folder of [".config/agentls", "shop"]) fs.mkdirSync(path.join(home, folder), { recursive: true });
  const folders = { [workspace]: files, ...(second && { [path.join(home, "second")]: second }) };
  for (const [folder, contents] of Object.entries(folders)) {
    for (const [name, text] of Object.entries(contents)) {
      fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      fs.writeFileSync(path.join(folder, name), text);
    }
  }
  const multiRootWorkspace = path.join(home, "both.code-workspace");
  if (second) fs.writeFileSync(multiRootWorkspace, JSON.stringify({ folders: [{ path: "shop" }, { path: "second" }] }));
  if (config !== undefined) fs.writeFileSync(path.join(home, ".config/agentls/config.toml"), config);
  const cassette = JSON.parse(fs.readFileSync(path.join(testFolder, "cassette.json"), "utf8"));
  cassette.exchanges.unshift(...exchanges);
  fs.writeFileSync(path.join(home, ".config/agentls/cassette.json"), JSON.stringify(cassette));
  if (weak)
    fs.writeFileSync(path.join(home, ".config/agentls/weak.json"), JSON.stringify({ cassette: 1, exchanges: weak }));

  const ownHost = Object.keys(hostOptions).length > 0;
  const host = await (ownHost ? EditorHost.start({ home, ...hostOptions }) : getSharedHost());
  host.writeSettings(
    { ...SETTINGS, "security.workspace.trust.enabled": trust, ...settings },
    { "agentls.server.path": ownHost ? program : wrapProgram(home, program) },
  );
  const page = await host.openPage(second ? `workspace=${multiRootWorkspace}` : `folder=${workspace}`);
  return new Workbench({
    home,
    workspace,
    page,
    host,
    async close() {
      host.afterExit(home, () => fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
      await page.close();
      if (ownHost) await host.close();
    },
  });
}

/**
 * Writes a script that runs the program with the workbench's home folder, and returns its path. An empty path and one
 * where no program is stay as they are.
 */
function wrapProgram(home, program) {
  if (!fs.existsSync(program)) return program;
  const script = path.join(home, "agentls");
  fs.writeFileSync(script, `#!/bin/sh\nHOME='${home}' exec '${program}' "$@"\n`, { mode: 0o755 });
  return script;
}

class Workbench {
  constructor(parts) {
    Object.assign(this, parts);
  }

  /** The webview is nested two frames deep. */
  get view() {
    const webviewSelector = 'iframe.webview.ready[src*="extensionId=agentls.agentls"]';
    return this.page.frameLocator(webviewSelector).frameLocator("#active-frame");
  }

  at(id) {
    return this.view.getByTestId(id);
  }

  /** Shows the chat and waits for the server. */
  async showChat() {
    await this.page.locator('.activitybar a[aria-label^="agentls"]').click();
    await this.waitUntilReady();
  }

  async waitUntilReady() {
    await this.view.locator('[data-testid="app"][data-connection="ready"]').waitFor();
  }

  /** Returns the process id of the connected server. */
  async readServerPid() {
    const { connection, serverPid } = await this.at("app").evaluate(({ dataset }) => ({ ...dataset }));
    if (serverPid === undefined) throw new Error(`no server is connected; the connection is ${connection}`);
    return Number(serverPid);
  }

  /**
   * Waits until another server than `oldPid` is connected, and is the only one. The view may lag behind the processes,
   * so its state alone could be that of the old connection.
   */
  async waitForNewServer(oldPid) {
    const isNew = `[data-connection="ready"][data-server-pid]:not([data-server-pid="${oldPid}"])`;
    await this.view.locator(`[data-testid="app"]${isNew}`).waitFor();
    const pid = await this.readServerPid();
    const isOther = (process) => process.pid !== pid;
    await waitUntil(() => !this.listServers().some(isOther), `the exit of all servers except ${pid}`);
  }

  /** Reloads the window with a command, so that the extension's state is saved first. */
  async reloadWindow() {
    const navigation = this.page.waitForEvent("framenavigated", (frame) => frame === this.page.mainFrame());
    await this.runCommand("Developer: Reload Window");
    await navigation;
  }

  async sendPrompt(text) {
    await this.at("input").fill(text);
    await this.at("input").press("Enter");
  }

  /** Returns the number of ended turns. The page may contain fewer. */
  async countEndedTurns() {
    const log = this.at("log");
    return (await log.count()) === 0 ? 0 : Number((await log.getAttribute("data-ends")) ?? 0);
  }

  /** Waits until turn `n`, the last one, ends. */
  async waitForTurnEnd(n, state) {
    await waitUntil(async () => (await this.countEndedTurns()) >= n, `the end of turn ${n}`);
    const turnState = await this.at("turn-end").last().getAttribute("data-state");
    if (turnState !== state) throw new Error(`turn ${n} ended ${turnState}, not ${state}`);
  }

  async runCommand(title) {
    await this.page.keyboard.press("F1");
    await this.page.locator(".quick-input-widget input.input").fill(`>${title}`);
    await this.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().click();
  }

  async openFile(name) {
    await this.page.keyboard.press("Control+P");
    await this.page.locator(".quick-input-widget input.input").fill(name);
    // The rows are redrawn while results arrive, so do not click them.
    await this.page.locator(".quick-input-list .monaco-list-row.focused", { hasText: name }).waitFor();
    await this.page.keyboard.press("Enter");
    await this.page.locator(`.tab.active[data-resource-name$="${name.split("/").pop()}"]`).waitFor();
    const lines = this.page.locator(`.monaco-editor[data-uri$="${name}"]:not(.monaco-diff-editor *) .view-line`);
    await lines.filter({ visible: true }).first().waitFor();
  }

  async takeScreenshot(name) {
    fs.mkdirSync(screenshotFolder, { recursive: true });
    await this.page.screenshot({ path: path.join(screenshotFolder, `${name}.png`) });
  }

  /** Takes a screenshot, and prints the state of the view, the processes, and the logs. */
  async reportFailure(name) {
    await this.takeScreenshot(`failed ${name.replaceAll(/\W+/g, "-").slice(0, 40)}`).catch(() => {});
    console.error(`failed: ${name}`, await this.#describeView(), this.listPrograms("agentls"));
    console.error(this.readLogs());
  }

  /** Returns the connection and the visible messages. Does not wait long for a view that is gone. */
  #describeView() {
    const describe = (app) => ({
      ...app.dataset,
      messages: [...app.querySelectorAll("[role=status], [role=alert]")]
        .map((message) => message.textContent)
        .filter((text) => text !== ""),
      input: app.querySelector("[data-testid=input]")?.value,
    });
    return this.at("app")
      .evaluate(describe, undefined, { timeout: 5000 })
      .catch((error) => `no view: ${error.message}`);
  }

  async allowRequest() {
    await this.card.press("y");
  }

  /** The first approval that accepts keys. */
  get card() {
    return this.view.locator('[data-testid="approval"][data-armed="true"]').first();
  }

  readFile(name) {
    return fs.readFileSync(path.join(this.workspace, name), "utf8");
  }

  listServers() {
    return listProcesses(this.home).filter(({ command }) => command.startsWith(server));
  }

  listPrograms(text) {
    return listProcesses(this.home).filter(({ command }) => command.includes(text));
  }

  measureRendererMegabytes() {
    return measureRendererMegabytes();
  }

  readLogs() {
    return this.host.readLogs();
  }
}
