#!/usr/bin/env node
// A fake server for features that the real one does not trigger: editor edits, saving, credential requests, and other
// major versions. It uses LSP framing on stdin and stdout. The first word of a prompt selects its behavior.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const pendingRequests = new Map();
const documents = new Map();
let nextId = 1;
let input = Buffer.alloc(0);
let root = "";
let seq = 0;
let turn = 0;
/** All sent events. With FAKE_HISTORY_TURNS, it starts with that number of unsent turns. */
const sentEvents = [];
let isRecalling = false;
/** Runs at the user's next answer. */
let onAnswer = () => {};
const SESSION = "ses_fake";

function writeMessage(message) {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  process.stdout.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}
function sendRequest(method, params) {
  writeMessage({ id: nextId, method, params });
  return new Promise((answer) => pendingRequests.set(nextId++, answer));
}
function emitEvent(method, params) {
  seq += 1;
  const event = {
    method: `agent/${method}`,
    params: { sessionId: SESSION, seq, at: Date.now(), turnId: `turn_${turn}`, ...params },
  };
  sentEvents.push(event);
  if (!isRecalling) writeMessage(event);
}

const USAGE = { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 };
const STATE = { cwd: "", mode: "ask", usage: USAGE, model: "fake/one" };

const requestHandlers = {
  initialize(params) {
    root = new URL(params.rootUri).pathname;
    fs.writeFileSync(path.join(root, "initialize.json"), JSON.stringify(params, undefined, 1));
    const major = Number(process.env.FAKE_MAJOR ?? 1);
    const agent = {
      protocolVersion: { major, minor: 0 },
      methods: ["agent/prompt", "agent/newSession", "agent/limitRespond", "agent/questionRespond", "agent/steer"],
      notifications: [],
      features: ["credentials"],
    };
    return { capabilities: { textDocumentSync: { openClose: true, change: 1, save: true }, experimental: { agent } } };
  },
  shutdown: () => null,
  "agent/newSession": () => ({ sessionId: SESSION, mode: "ask", seq: 0, model: "fake/one" }),
  // Pages of the past exist only if a test wants them.
  "agent/loadSession": ({ beforeSeq = Number.POSITIVE_INFINITY, afterSeq = 0, tail = 60 }) => {
    if (sentEvents.length === 0 && process.env.FAKE_HISTORY_TURNS !== undefined) {
      isRecalling = true;
      turn += 1;
      behaviors.long(process.env.FAKE_HISTORY_TURNS);
      isRecalling = false;
    }
    const all = sentEvents.filter(({ params }) => params.seq < beforeSeq && params.seq > afterSeq);
    const events = process.env.FAKE_HISTORY_TURNS === undefined ? [] : all.slice(-tail);
    const hasEarlier = events.length > 0 && events.length < all.length;
    return { events, hasEarlier, openApprovals: [], seq, state: { ...STATE, cwd: root } };
  },
  "agent/listSessions": () => ({
    sessions:
      process.env.FAKE_HISTORY_TURNS === undefined
        ? []
        : [{ sessionId: SESSION, title: "A past", cwd: root, createdAt: 1, updatedAt: 1 }],
  }),
  "agent/listModels": () => ({
    models: [],
    providers: [{ provider: "anthropic", kind: "anthropic", health: "notConfigured" }],
  }),
  "agent/setTrust": () => ({}),
  "agent/reloadConfig": () => ({ problems: [] }),
  "agent/limitRespond": (params) => {
    emitEvent("limitResolved", {
      limitId: params.limitId,
      limit: "max_session_cost",
      outcome: params.stop ? "stopped" : "raised",
      raisedBy: params.raiseBy,
      by: "person",
    });
    endTurn();
    return {};
  },
  "agent/questionRespond": (params) => {
    emitEvent("questionResolved", { questionId: params.questionId, answers: params.answers, by: "person" });
    endTurn();
    return {};
  },
  "agent/approvalRespond": () => {
    onAnswer();
    return {};
  },
  "agent/steer": (params) => {
    onAnswer(params);
    return { turnId: `turn_${turn}` };
  },
  async "agent/prompt"({ prompt }) {
    const text = typeof prompt === "string" ? prompt : (prompt.find((block) => block.type === "text")?.text ?? "");
    turn += 1;
    emitEvent("turnStarted", { by: "prompt" });
    emitEvent("message", { messageId: `u${seq}`, role: "user", content: [{ type: "text", text }] });
    const [command, ...args] = text.split(" ");
    const answer = await (behaviors[command] ?? behaviors.echo)(args.join(" "), prompt);
    if (answer !== undefined) {
      emitEvent("message", { messageId: `m${seq}`, role: "assistant", content: [{ type: "text", text: answer }] });
      endTurn();
    }
    return { turnId: `turn_${turn}`, reason: "completed", state: "completed", text: answer ?? "", usage: USAGE };
  },
};

function endTurn() {
  emitEvent("turnEnded", { reason: "completed", state: "completed", usage: USAGE });
}

async function applyEdit(name, replace, version) {
  const uri = pathToFileURL(path.join(root, name)).toString();
  const document = documents.get(uri);
  const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } };
  const result = await sendRequest("workspace/applyEdit", {
    edit: {
      documentChanges: [
        { textDocument: { uri, version: version ?? document?.version ?? null }, edits: [{ range, newText: replace }] },
      ],
    },
  });
  return { uri, result };
}

const SAMPLE_TEXT = "A **word** with `code`, and [a link](https://example.com), in a long sentence for tests.\n\n";
const CODE =
  "export function total(items: Item[]): number {\n  return items.reduce((sum, { price }) => sum + price, 0);\n}\n";

function emitToolCall(at, name) {
  const call = { toolCallId: `${name} ${at}`, name: name === "edit" ? "edit_file" : "bash", title: `${name} ${at}` };
  const lines = Array.from({ length: 20 }, (_, line) => `${line % 2 ? "+" : "-"}line ${line} of ${at}\n`).join("");
  const fields = name === "edit" ? { diff: `--- a\n+++ b\n@@ -1,10 +1,10 @@\n${lines}` } : {};
  emitEvent("toolCall", { ...call, status: "running", input: { command: `${name} ${at}` } });
  emitEvent("toolCall", { ...call, ...fields, status: "completed", output: `${name} output ${at}\n`, durationMs: 10 });
}

const behaviors = {
  echo: (_rest, prompt) => `Received ${JSON.stringify(prompt)}`,
  // Edits a file twice and saves it, which must form one undo step.
  async edit(name) {
    const first = await applyEdit(name, "// one\n");
    if (!documents.get(first.uri)?.text?.includes("// one")) return "the edit was applied before its change was sent";
    const second = await applyEdit(name, "// two\n");
    const saveResult = await sendRequest("agent/saveDocuments", { uris: [first.uri] });
    return `edited: ${JSON.stringify([first.result, second.result, saveResult?.saved?.length, saveResult?.failed])}`;
  },
  async stale(name) {
    const { result } = await applyEdit(name, "// never\n", 0);
    return `stale: ${JSON.stringify(result)}`;
  },
  async key(provider) {
    const answer = await sendRequest("agent/getCredential", { provider });
    return `key: ${answer?.apiKey ? `of ${answer.apiKey.length} characters` : "none"}`;
  },
  // Asks the editor's language support: `language KIND FILE [LINE CHARACTER]`, or `language workspaceSymbols QUERY`.
  async language(words) {
    const [kind, name, line, character] = words.split(" ");
    const subject =
      kind === "workspaceSymbols"
        ? { query: name }
        : { uri: pathToFileURL(path.join(root, name)).toString(), ...(kind === "rename" ? { query: "sum" } : {}) };
    const position = line === undefined ? {} : { position: { line: Number(line), character: Number(character) } };
    const params = { kind, ...subject, ...position, limit: 100 };
    const answer = await sendRequest("agent/languageQuery", params);
    if (answer.error !== undefined) return `language: ${answer.error};`;
    const at = ({ uri, range: { start } }) => `${path.basename(uri)}:${start.line}:${start.character}`;
    if (kind === "rename") {
      const edits = answer.edits.map((one) => `${one.edits.length} in ${path.basename(one.uri)}`).sort();
      return `language: ${edits.join(", ")}, all ${answer.edits.every((one) => one.edits[0].newText === "sum")};`;
    }
    const symbols = answer.symbols?.map((one) => `${one.kind} ${one.containerName ?? ""}.${one.name} ${at(one)}`);
    return `language: ${(symbols ?? answer.locations.map(at)).join(", ")};`;
  },
  // Edits a file, and lists the errors of all files once the compilers have read it.
  async errors(name) {
    const { uri } = await applyEdit(name, "export const broken: string = 1;\n");
    const { diagnostics } = await sendRequest("agent/getDiagnostics", { waitFor: uri, waitMs: 20000 });
    return `errors: ${diagnostics.map((one) => `${path.basename(one.uri)} ${one.message}`).join(", ")};`;
  },
  // Lists the errors once the compilers have read these files, which need not be open: `reported [MILLISECONDS] FILE …`.
  async reported(words) {
    const names = words.split(" ");
    const waitMs = /^\d/.test(names[0]) ? Number(names.shift()) : 600_000;
    const uris = names.map((name) => pathToFileURL(path.join(root, name)).toString());
    const params = { waitFor: uris[0], alsoWaitFor: uris.slice(1), waitMs };
    const { diagnostics, unreported } = await sendRequest("agent/getDiagnostics", params);
    const errors = diagnostics.map((one) => `${path.basename(one.uri)}:${one.range.start.line + 1} ${one.message}`);
    return `reported: ${errors.sort().join(", ")} unreported: ${unreported.length};`;
  },
  async problems() {
    const { diagnostics } = await sendRequest("agent/getDiagnostics", {});
    return `problems: ${diagnostics.length}`;
  },
  limit() {
    emitEvent("limitRequested", {
      limitId: "lim_1",
      limit: "max_session_cost",
      used: 5.12,
      max: 5,
      message: "session cost $5.12 exceeds limit $5.00",
    });
    return undefined;
  },
  question() {
    emitEvent("questionRequested", {
      questionId: "que_1",
      text: "Which database?",
      fields: [
        {
          name: "db",
          label: "",
          choices: [
            { value: "pg", label: "PostgreSQL" },
            { value: "lite", label: "SQLite" },
          ],
          free: true,
          required: true,
        },
      ],
    });
    return undefined;
  },
  form() {
    const yesOrNo = [
      { value: "true", label: "Yes" },
      { value: "false", label: "No" },
    ];
    emitEvent("questionRequested", {
      questionId: "que_2",
      text: "The MCP server wiki asks: Who are you?",
      detail: "It asks during a call of wiki/edit.\nYour answers go to the server.",
      fields: [
        { name: "name", label: "Your name [name] (2 to 20 characters)", required: true },
        { name: "mail", label: "mail (optional)" },
        { name: "agree", label: "agree (default: false)", choices: yesOrNo },
      ],
    });
    return undefined;
  },
  visit() {
    emitEvent("questionRequested", {
      questionId: "que_3",
      text: "The MCP server wiki asks you to open an address: Sign in.",
      detail: "https://login.example/authorize?client=a_b&state=%2B1\nOpen it only if you know it.",
      fields: [
        {
          name: "choice",
          label: "",
          choices: [
            { value: "accept", label: "I have opened it" },
            { value: "decline", label: "Decline" },
          ],
          required: true,
        },
      ],
    });
    return undefined;
  },
  // A sub-agent with calls, a retry, its own model, and a nested question. It continues after the answer.
  delegate() {
    const call = (toolCallId, name, title, status, parentToolCallId, fields = {}) =>
      emitEvent("toolCall", { toolCallId, name, title, status, parentToolCallId, ...fields });
    const error = { code: "provider_error", message: "overloaded", class: "retryable", status: 529 };
    call("d1", "delegate", "Delegate: find the bug", "running", undefined, { input: { prompt: "find the bug" } });
    call("d2", "read_file", "Read src/total.ts", "completed", "d1", { output: "one\n", durationMs: 3 });
    const resumeAt = Date.now() + 60_000;
    const retry = { attempt: 1, maxRetries: 3, delayMs: 60_000, resumeAt, provider: "fake", model: "one", next: "" };
    emitEvent("retry", { parentToolCallId: "d1", error, ...retry });
    onAnswer = () => {
      call("d3", "delegate", "Delegate: deeper", "running", "d1", { input: { prompt: "deeper" } });
      const switched = { from: "fake/one", to: "fake/two", why: "one failed" };
      emitEvent("modelSwitched", { parentToolCallId: "d3", ...switched });
      emitEvent("warning", { parentToolCallId: "d3", code: "checkpoint_partial", message: "not all is known" });
      call("d4", "bash", "make test", "awaitingApproval", "d3", { input: { command: "make test" } });
      const approval = { approvalId: "app_d", toolCallId: "d4", name: "bash", input: { command: "make test" } };
      emitEvent("approvalRequested", {
        ...approval,
        title: "make test",
        cwd: root,
        risk: "high",
        why: "it is a command",
      });
      onAnswer = () => {
        emitEvent("approvalResolved", { approvalId: "app_d", toolCallId: "d4", decision: "allow", by: "person" });
        call("d4", "bash", "make test", "completed", "d3", { output: "ok\n", durationMs: 900 });
        call("d3", "delegate", "Delegate: deeper", "completed", "d1", {
          output: "The test is green.",
          durationMs: 1200,
        });
        call("d1", "delegate", "Delegate: find the bug", "completed", undefined, {
          output: "It is in line 3.",
          durationMs: 4000,
        });
        endTurn();
      };
    };
    return undefined;
  },
  // Streams text until the user steers. The steer takes effect later, at the next step.
  drip() {
    const messageId = `m${seq}`;
    let text = "";
    const timer = setInterval(() => {
      const paragraph = `Paragraph ${text.length} of a story.\n\n`;
      writeMessage({
        method: "agent/textDelta",
        params: { sessionId: SESSION, turnId: `turn_${turn}`, messageId, offset: text.length, text: paragraph },
      });
      text += paragraph;
    }, 40);
    onAnswer = (params) => {
      setTimeout(() => {
        clearInterval(timer);
        emitEvent("message", { messageId, role: "assistant", content: [{ type: "text", text }] });
        emitEvent("message", { messageId: `u${seq}`, role: "user", content: [{ type: "text", text: params.prompt }] });
        emitEvent("message", {
          messageId: `m${seq}`,
          role: "assistant",
          content: [{ type: "text", text: "It is taken." }],
        });
        endTurn();
      }, 2000);
    };
    return undefined;
  },
  // A session with many turns.
  async long(count) {
    for (let at = 1; at <= Number(count); at++) {
      if (at > 1) {
        turn += 1;
        emitEvent("turnStarted", { by: "prompt" });
        emitEvent("message", {
          messageId: `u${seq}`,
          role: "user",
          content: [{ type: "text", text: `Request ${at}` }],
        });
      }
      for (const name of ["read", "edit", "test"]) emitToolCall(at, name);
      const text = `## Turn ${at}\n\n${SAMPLE_TEXT.repeat(3)}\n\n\`\`\`ts\n${CODE.repeat(6)}\`\`\`\n\n- one\n- two\n- the end of ${at}\n`;
      emitEvent("message", { messageId: `m${seq}`, role: "assistant", content: [{ type: "text", text }] });
      endTurn();
      if (at % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return undefined;
  },
  // Streams an answer of 10,000 deltas at full speed.
  async flood() {
    const messageId = `m${seq}`;
    let offset = 0;
    const all = [];
    for (let at = 0; at < 10_000; at++) {
      const text =
        at % 40 === 39
          ? `piece ${at}.\n\n`
          : at % 400 === 200
            ? "\n\n```ts\nconst a = 1;\n```\n\n"
            : `**piece** ${at} `;
      all.push(text);
      writeMessage({
        method: "agent/textDelta",
        params: { sessionId: SESSION, turnId: `turn_${turn}`, messageId, offset, text },
      });
      offset += Buffer.byteLength(text);
      if (at % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 4));
    }
    emitEvent("message", { messageId, role: "assistant", content: [{ type: "text", text: all.join("") }] });
    endTurn();
    return undefined;
  },
  // Streams 10 MB of live command output.
  async noise() {
    const call = { toolCallId: "call_1", name: "bash", title: "make noise" };
    emitEvent("toolCall", { ...call, status: "running", input: { command: "make noise" } });
    const line = `${"x".repeat(99)}\n`;
    for (let at = 0; at < 1600; at++) {
      writeMessage({
        method: "agent/toolOutputDelta",
        params: { sessionId: SESSION, turnId: `turn_${turn}`, toolCallId: "call_1", text: line.repeat(64) },
      });
      if (at % 8 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    }
    emitEvent("toolCall", {
      ...call,
      status: "completed",
      output: line.repeat(650),
      durationMs: 2000,
      more: { output: { ref: "e:1:output", bytes: 10_240_000, tail: line.repeat(650) } },
    });
    endTurn();
    return undefined;
  },
};

const notificationHandlers = {
  exit: () => process.exit(0),
  "textDocument/didOpen": ({ textDocument }) => documents.set(textDocument.uri, textDocument),
  "textDocument/didChange": ({ textDocument, contentChanges }) =>
    documents.set(textDocument.uri, { ...textDocument, text: contentChanges.at(-1).text }),
  "textDocument/didClose": ({ textDocument }) => documents.delete(textDocument.uri),
};

process.stdin.on("end", () => process.exit(0));
process.stdin.on("data", (chunk) => {
  input = Buffer.concat([input, chunk]);
  for (let end = input.indexOf("\r\n\r\n"); end >= 0; end = input.indexOf("\r\n\r\n")) {
    const length = Number(/Content-Length: (\d+)/i.exec(input.toString("latin1", 0, end))[1]);
    if (input.length < end + 4 + length) return;
    const { id, method, params, result, error } = JSON.parse(input.toString("utf8", end + 4, end + 4 + length));
    input = input.subarray(end + 4 + length);
    if (method === undefined) pendingRequests.get(id)?.(error ? { error: error.message } : result);
    else if (id === undefined) notificationHandlers[method]?.(params);
    else if (!(method in requestHandlers)) writeMessage({ id, error: { code: -32601, message: "no such method" } });
    else Promise.resolve(requestHandlers[method](params)).then((answer) => writeMessage({ id, result: answer }));
  }
});
