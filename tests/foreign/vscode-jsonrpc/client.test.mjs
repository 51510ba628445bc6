// Drives the real server with the JSON-RPC library that VS Code extensions use. The model is a cassette, so the test
// needs no network. `tests/run.sh` installs the library and runs this.
//
// AGENTLS: the binary. AGENTLS_NODE: the folder whose node_modules has the library.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../../..");
const binary = path.resolve(process.env.AGENTLS ?? path.join(root, "target/debug/agentls"));
const packages = path.resolve(process.env.AGENTLS_NODE ?? path.join(root, ".cache/node"));
const rpc = createRequire(path.join(packages, "package.json"))("vscode-jsonrpc/node");

/** Timeout of each wait in ms. A busy machine is slow. */
const TIMEOUT_MS = 60_000;
/** Timeout in ms for processes to end. The server promises 2 s, or 7.5 s with commands that may finish. */
const EXIT_TIMEOUT_MS = 10_000;
const REQUEST_CANCELLED = -32800;
const TEXT = "Grüße: one two three four five six seven eight nine ten.";

let home;
before(() => {
  home = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "agentls-jsonrpc-")));
  for (const folder of ["config/agentls", "data", "state"]) fs.mkdirSync(path.join(home, folder), { recursive: true });
  fs.copyFileSync(path.join(here, "../cassette.json"), path.join(home, "config/agentls/cassette.json"));
  fs.writeFileSync(
    path.join(home, "config/agentls/config.toml"),
    '[provider.tape]\nkind = "script"\ncassette = "cassette.json"\nmodel = "tape"\n\n[agent.default]\nprovider = "tape"\n',
  );
});
after(() => fs.rmSync(home, { recursive: true, force: true }));

/** Runs `body` with a server in a new workspace, and checks that none of its processes survives. */
function testWithServer(name, body) {
  test(name, { timeout: 2 * TIMEOUT_MS }, async () => {
    const workspace = fs.mkdtempSync(path.join(home, "work-"));
    const mark = `foreign-${path.basename(home)}-${path.basename(workspace)}`;
    const server = new Server(workspace, mark);
    try {
      await body(server, workspace);
      assert.deepEqual(server.unreadable, [], "the library could read everything that the server sent");
    } finally {
      server.process.kill("SIGKILL");
      if (!server.ended) await once(server.process, "exit");
      server.connection.dispose();
    }
    await waitForProcessesToEnd(mark);
  });
}

/** Waits until no process carries the mark in its environment. Only Linux shows a process's environment. */
async function waitForProcessesToEnd(mark) {
  if (process.platform !== "linux") return;
  const until = Date.now() + EXIT_TIMEOUT_MS;
  for (;;) {
    const remaining = listMarked(mark);
    if (remaining.length === 0) return;
    const names = remaining.map((pid) => `${pid} ${readCommandLine(pid)}`).join("; ");
    if (Date.now() > until) assert.fail(`processes still run: ${names}`);
    await sleep(50);
  }
}

function listMarked(mark) {
  return fs.readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && readEnvironment(pid).includes(mark));
}

function readEnvironment(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/environ`, "latin1");
  } catch {
    return "";
  }
}

function readCommandLine(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ");
  } catch {
    return "(exited)";
  }
}

class Server {
  notes = [];
  unreadable = [];
  ended = undefined;
  #waiters = new Set();

  constructor(workspace, mark) {
    this.workspace = workspace;
    this.mark = mark;
    this.process = spawn(binary, [], {
      cwd: workspace,
      stdio: ["pipe", "pipe", "inherit"],
      env: {
        PATH: process.env.PATH,
        HOME: home,
        XDG_CONFIG_HOME: path.join(home, "config"),
        XDG_DATA_HOME: path.join(home, "data"),
        XDG_STATE_HOME: path.join(home, "state"),
        AGENTLS_TEST_MARK: mark,
      },
    });
    this.process.once("exit", (code, signal) => {
      this.ended = { code, signal };
      this.#notifyWaiters();
    });
    this.process.stdin.on("error", () => {}); // The pipe breaks if the server is killed.
    const { StreamMessageReader, StreamMessageWriter, createMessageConnection } = rpc;
    this.connection = createMessageConnection(
      new StreamMessageReader(this.process.stdout),
      new StreamMessageWriter(this.process.stdin),
    );
    this.connection.onNotification((method, params) => {
      this.notes.push({ method, params });
      this.#notifyWaiters();
    });
    this.connection.onError(([error]) => this.unreadable.push(String(error)));
    this.connection.onUnhandledNotification((note) => this.unreadable.push(note.method));
    this.connection.listen();
  }

  #notifyWaiters() {
    for (const check of this.#waiters) check();
  }

  /** Waits until `find` returns a value. It is called after each notification. */
  async until(description, find) {
    let check, timer;
    try {
      return await new Promise((resolve, reject) => {
        check = () => {
          const found = find();
          if (found !== undefined) resolve(found);
        };
        timer = setTimeout(() => {
          const received = this.notes.map((note) => note.method).join(", ");
          reject(new Error(`timed out waiting for ${description}; received: ${received || "nothing"}`));
        }, TIMEOUT_MS);
        this.#waiters.add(check);
        check();
      });
    } finally {
      clearTimeout(timer);
      this.#waiters.delete(check);
    }
  }

  /** Waits for the first `method` notification that matches. */
  note(method, matches = () => true) {
    return this.until(method, () => this.notes.find((note) => note.method === method && matches(note.params))?.params);
  }

  all(method) {
    return this.notes.filter((note) => note.method === method).map((note) => note.params);
  }

  /** `rest`: the parameters and an optional cancellation token. An omitted token must not be passed as `undefined`. */
  request(method, ...rest) {
    return this.connection.sendRequest(method, ...rest);
  }

  async initialize() {
    const answer = await this.request("initialize", {
      processId: process.pid,
      capabilities: { general: { positionEncodings: ["utf-16"] } },
      workspaceFolders: [{ uri: pathToFileURL(this.workspace).href, name: "work" }],
    });
    await this.connection.sendNotification("initialized", {});
    return answer;
  }

  /** Initializes the server, creates a session, and returns its id. */
  async session() {
    await this.initialize();
    return (await this.request("agent/newSession", {})).sessionId;
  }

  async exited() {
    return this.until("the server's exit", () => this.ended);
  }

  /** Shuts the server down cleanly. */
  async shutdown() {
    assert.equal(await this.request("shutdown"), null);
    await this.connection.sendNotification("exit");
    assert.deepEqual(await this.exited(), { code: 0, signal: null });
  }
}

testWithServer("initialize announces the protocol; shutdown and exit end with code 0", async (server) => {
  const { capabilities, serverInfo } = await server.initialize();
  assert.equal(serverInfo.name, "agentls");
  const { protocolVersion, methods, notifications } = capabilities.experimental.agent;
  assert.equal(protocolVersion.major, 1);
  assert.ok(methods.includes("agent/prompt") && notifications.includes("agent/textDelta"));
  await assert.rejects(server.request("agent/noSuchMethod", {}), (error) => error.code === -32601);
  await server.shutdown();
});

testWithServer("a prompt streams, and its answer follows all its notifications", async (server) => {
  const sessionId = await server.session();
  const answer = await server.request("agent/prompt", { sessionId, prompt: "stream, please" });
  assert.deepEqual([answer.state, answer.reason, answer.text], ["completed", "completed", TEXT]);
  const deltas = server.all("agent/textDelta");
  assert.ok(deltas.length > 2, `only ${deltas.length} deltas arrived`);
  let text = "";
  for (const delta of deltas) {
    assert.equal(delta.offset, Buffer.byteLength(text), "offsets count bytes of UTF-8");
    text += delta.text;
  }
  assert.equal(text, TEXT);
  assert.equal(server.all("agent/turnEnded").length, 1);
  const numbers = server.notes.map((note) => note.params.seq).filter((seq) => seq !== undefined);
  assert.deepEqual(numbers, numbers.map((_, at) => at + 1), "durable notifications have no gaps");
  await server.shutdown();
});

testWithServer("two sessions stream concurrently", async (server) => {
  const first = await server.session();
  const second = (await server.request("agent/newSession", {})).sessionId;
  const ask = (sessionId) => server.request("agent/prompt", { sessionId, prompt: "stream, please" });
  const answers = await Promise.all([ask(first), ask(second)]);
  assert.deepEqual(answers.map((answer) => answer.text), [TEXT, TEXT]);
  for (const sessionId of [first, second]) {
    const deltas = server.all("agent/textDelta").filter((delta) => delta.sessionId === sessionId);
    assert.equal(deltas.map((delta) => delta.text).join(""), TEXT);
  }
  await server.shutdown();
});

testWithServer("a write needs approval, shows its diff, and happens once allowed", async (server, workspace) => {
  const made = path.join(workspace, "made.txt");
  const sessionId = await server.session();
  const prompt = server.request("agent/prompt", { sessionId, prompt: "write the file" });
  const approval = await server.note("agent/approvalRequested");
  assert.equal(approval.name, "write_file");
  assert.match(approval.diff, /^\+made by the agent$/m);
  assert.equal(fs.existsSync(made), false, "nothing happens before the answer");
  await server.request("agent/approvalRespond", { approvalId: approval.approvalId, decision: "allow" });
  const answer = await prompt;
  assert.deepEqual([answer.state, answer.text], ["completed", "Written."]);
  assert.equal(fs.readFileSync(made, "utf8"), "made by the agent\n");
  const statuses = server.all("agent/toolCall").map((call) => call.status);
  assert.deepEqual(statuses, ["pending", "awaitingApproval", "running", "completed"]);
  await server.shutdown();
});

testWithServer("a denied write does not happen, and the turn continues", async (server, workspace) => {
  const sessionId = await server.session();
  const prompt = server.request("agent/prompt", { sessionId, prompt: "write the file" });
  const { approvalId } = await server.note("agent/approvalRequested");
  await server.request("agent/approvalRespond", { approvalId, decision: "deny", feedback: "not now" });
  assert.equal((await prompt).state, "completed");
  await server.note("agent/toolCall", (call) => call.status === "denied");
  assert.deepEqual(fs.readdirSync(workspace), []);
  await assert.rejects(
    server.request("agent/approvalRespond", { approvalId, decision: "allow" }),
    (error) => error instanceof rpc.ResponseError && error.data.refusal !== undefined,
  );
  await server.shutdown();
});

testWithServer("the library's cancellation token cancels a turn: error -32800 with the turn's result", async (server) => {
  const sessionId = await server.session();
  const source = new rpc.CancellationTokenSource();
  const prompt = server.request("agent/prompt", { sessionId, prompt: "go on forever" }, source.token);
  await server.note("agent/textDelta");
  source.cancel();
  const error = await prompt.then(
    () => assert.fail("the prompt succeeded in spite of the cancellation"),
    (error) => error,
  );
  assert.ok(error instanceof rpc.ResponseError);
  assert.equal(error.code, REQUEST_CANCELLED);
  assert.deepEqual(
    [error.data.state, error.data.reason, error.data.text],
    ["cancelled", "aborted_streaming", "Once upon a time"],
  );
  const [ended] = server.all("agent/turnEnded");
  assert.equal(ended.state, "cancelled", "turnEnded precedes the answer");
  // The session still works.
  assert.equal((await server.request("agent/prompt", { sessionId, prompt: "stream" })).text, TEXT);
  await server.shutdown();
});

testWithServer("the token cancels an open approval, and nothing is written", async (server, workspace) => {
  const sessionId = await server.session();
  const source = new rpc.CancellationTokenSource();
  const prompt = server.request("agent/prompt", { sessionId, prompt: "write the file" }, source.token);
  const { approvalId } = await server.note("agent/approvalRequested");
  source.cancel();
  await assert.rejects(prompt, (error) => error.code === REQUEST_CANCELLED && error.data.state === "cancelled");
  const resolved = await server.note("agent/approvalResolved", (note) => note.approvalId === approvalId);
  assert.deepEqual([resolved.decision, resolved.by], ["deny", "cancel"]);
  assert.deepEqual(fs.readdirSync(workspace), []);
  await server.shutdown();
});

testWithServer("agent/cancel ends the turn with a result, and has no effect without a turn", async (server) => {
  const sessionId = await server.session();
  await server.connection.sendNotification("agent/cancel", { sessionId });
  const prompt = server.request("agent/prompt", { sessionId, prompt: "go on forever" });
  await server.note("agent/textDelta");
  await server.connection.sendNotification("agent/cancel", { sessionId });
  await server.connection.sendNotification("agent/cancel", { sessionId });
  const answer = await prompt;
  assert.deepEqual([answer.state, answer.reason], ["cancelled", "aborted_streaming"]);
  assert.equal(server.all("agent/turnEnded").length, 1);
  await server.shutdown();
});

/** Starts a command that would take ten minutes, and waits until it runs. */
async function startCommand(server) {
  const sessionId = await server.session();
  const prompt = server.request("agent/prompt", { sessionId, prompt: "run the command" });
  prompt.catch(() => {}); // If the server ends first, nothing waits for the answer.
  const { approvalId } = await server.note("agent/approvalRequested");
  await server.request("agent/approvalRespond", { approvalId, decision: "allow" });
  await server.note("agent/toolOutputDelta", (delta) => delta.text.includes("started"));
  // If the command were invisible here, its end would be too.
  if (process.platform === "linux") {
    const isRunning = () => listMarked(server.mark).some((pid) => readCommandLine(pid).startsWith("sleep 600"));
    for (const until = Date.now() + TIMEOUT_MS; !isRunning(); await sleep(20)) {
      assert.ok(Date.now() < until, "the command did not start");
    }
  }
  return { sessionId, prompt };
}

testWithServer("agent/cancel stops a running command", async (server) => {
  const { sessionId, prompt } = await startCommand(server);
  await server.connection.sendNotification("agent/cancel", { sessionId });
  const answer = await prompt;
  assert.deepEqual([answer.state, answer.reason], ["cancelled", "aborted_tools"]);
  await server.shutdown();
});

testWithServer("shutdown and exit during a command: code 0, and the command ends", async (server) => {
  await startCommand(server);
  await server.shutdown();
});

testWithServer("the end of the input ends the server and its command", async (server) => {
  await startCommand(server);
  server.connection.end();
  const { signal } = await server.exited();
  assert.equal(signal, null, "the server exits by itself");
});

testWithServer("a killed server leaves no command behind", async (server) => {
  await startCommand(server);
  server.process.kill("SIGKILL");
  assert.equal((await server.exited()).signal, "SIGKILL");
});
