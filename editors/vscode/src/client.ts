// The server's process and the connection to it: start, stop, restart. It moves messages and knows nothing of them.
//
// The framing, the documents and `workspace/applyEdit` are vscode-languageclient's. Only the restart is our own: the
// stock one gives up after five ends within three minutes, ours waits longer each time and never gives up (restart.ts).

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CancellationTokenSource,
  type Disposable,
  type ExtensionContext,
  type LogOutputChannel,
  Uri,
  window,
  workspace,
} from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";
import type { Api } from "./chat";
import { protocolVersion, type RequestTypes, type ServerCapability, serverNotifications } from "./protocol";
import { RestartPolicy } from "./restartPolicy";
import { ServerProcess } from "./serverProcess";
import { Watch } from "./serverWatchdog";
import type { Event } from "./state";
import { Trace } from "./trace";
import type { Connection } from "./webviewProtocol";

/** A program that says nothing for so long after its start is no server. */
const START_MS = 20_000;
/** A server that does not answer for so long after Stop was pressed is ended. */
const STOP_MS = 3000;
/** How long a server may take to end by itself. */
const END_MS = 1000;
/** A request of no effect; every server answers it, if only that it does not know it. */
const PING = "$/agentls/ping";

/** The stock client without its own notifications: what fails is said in the chat. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }

  override warn(message: string, data?: unknown): void {
    super.warn(message, data, false);
  }
}

/** What the server may ask of us, beside LSP's own. */
export type Handlers = Record<string, (params: never) => unknown>;

export interface ClientListener {
  connected(api: Api, capability: ServerCapability): void;
  disconnected(connection: Connection): void;
  /** The server does not answer, and what that means; without a message it answers again. */
  silent(message: string | undefined): void;
  received(event: Event): void;
}

export class Client implements Disposable {
  readonly log: LogOutputChannel = window.createOutputChannel("agentls", { log: true });
  readonly trace = new Trace();
  readonly #policy = new RestartPolicy();
  #client: LanguageClient | undefined;
  #server: ServerProcess | undefined;
  #watch: Watch | undefined;
  /** Why the last server ended, until one is ready. */
  #why: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #disposed = false;

  constructor(
    readonly context: ExtensionContext,
    readonly listener: ClientListener,
    readonly handlers: Handlers,
    readonly middleware: NonNullable<LanguageClientOptions["middleware"]>,
  ) {}

  /** Whether a server is running and ready. */
  get ready(): boolean {
    return this.#client?.isRunning() ?? false;
  }

  /** Starts the server; what fails is told to the listener. */
  async start(): Promise<void> {
    clearTimeout(this.#timer);
    const command = this.#program();
    if (command === undefined) return;
    this.#policy.started(Date.now());
    this.listener.disconnected({ state: "starting", message: this.#why });
    const server = this.#spawn(command);
    this.#server = server;
    const client = this.#make(server);
    this.#client = client;
    const outcome = await started(client, server);
    if (this.#client !== client) return;
    if (outcome !== "ready") {
      await this.#drop(client);
      if (outcome === "silent") return this.#neverAnswered(command, server);
      this.#again(withLastWords(`The agentls server did not start: ${outcome}`, server));
      return;
    }
    const capability = client.initializeResult?.capabilities.experimental?.agent as ServerCapability | undefined;
    const wrong = unsuited(capability);
    if (wrong !== undefined || capability === undefined) {
      await this.#drop(client);
      this.listener.disconnected({ state: "failed", remedy: "version", message: wrong });
      return;
    }
    this.#why = undefined;
    this.#watch = new Watch(
      () => client.sendRequest(PING),
      (silent) => this.listener.silent(silent ? SILENT : undefined),
    );
    this.#watch.start();
    this.listener.connected(api(client), capability);
  }

  /** Ends the server and starts another. */
  async restart(): Promise<void> {
    this.#policy.reset();
    await this.stop();
    await this.start();
  }

  /** The person has pressed Stop: a server that does not even answer is ended, and another started. */
  async stopped(): Promise<void> {
    const watch = this.#watch;
    if (watch === undefined || (await watch.answers(STOP_MS)) || this.#watch !== watch) return;
    const client = this.#client;
    if (client === undefined) return;
    // What was asked of it is refused when its pipes close, so that what was typed goes back.
    this.#server?.kill();
    await this.#drop(client);
    this.#again("The agentls server did not answer, so it was ended.");
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = undefined;
    if (client) await this.#drop(client);
  }

  notify(method: string, params: unknown): void {
    if (this.ready) void this.#client?.sendNotification(method, params);
  }

  /**
   * Tells the server now of changes of documents. The stock client holds them back for a quarter of a second, or as
   * long as somebody types, but sends them before anything else that it sends; this is the least that it can send.
   */
  async tellChanges(): Promise<void> {
    if (this.ready) await this.#client?.sendNotification("$/setTrace", { value: "off" });
  }

  dispose(): void {
    this.#disposed = true;
    clearTimeout(this.#timer);
    this.log.dispose();
    this.trace.dispose();
  }

  #spawn(command: string): ServerProcess {
    const more = workspace.getConfiguration("agentls").get<Record<string, string>>("server.env", {});
    const folder = workspace.workspaceFolders?.[0]?.uri.fsPath;
    const cwd = folder !== undefined && existsSync(folder) ? folder : undefined;
    return new ServerProcess(command, { ...process.env, ...more }, cwd);
  }

  #make(server: ServerProcess): LanguageClient {
    const settings = workspace.getConfiguration("agentls");
    const client = new QuietClient("agentls", "agentls", () => Promise.resolve(server.child), {
      documentSelector: [{ scheme: "file" }],
      outputChannel: this.log,
      traceOutputChannel: this.trace.channel,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: () => ({
        ...settings.get<Record<string, unknown>>("options", {}),
        // VS Code's trust alone activates nothing (trust.ts).
        trusted: false,
      }),
      initializationFailedHandler: () => false,
      middleware: this.middleware,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          if (this.#client === client && client.isRunning()) {
            this.#client = undefined;
            this.#watch?.stop();
            // Its clean-up comes first, and how it ended is known a moment later.
            void Promise.race([server.ended, sleep(END_MS, "its connection is closed")]).then((how) => {
              server.kill();
              this.#again(withLastWords(`The agentls server ended: ${how}`, server));
            });
          }
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    });
    client.registerFeature({
      fillClientCapabilities(capabilities) {
        // What of this protocol we answer (R-WIRE). A server that does not know a flag ignores it.
        const flags = { saveDocuments: true, getDiagnostics: true, getCredential: true, questions: true };
        capabilities.experimental = { ...capabilities.experimental, agent: { client: flags } };
      },
      initialize() {},
      getState: () => ({ kind: "static" }),
      clear() {},
    });
    for (const method of Object.values(serverNotifications)) {
      client.onNotification(method, (params) => {
        if (this.#client === client) this.listener.received({ method, params });
      });
    }
    for (const [method, handler] of Object.entries(this.handlers)) {
      client.onRequest(method, (params) => handler(params as never));
    }
    return client;
  }

  /** The program: of the settings, of the extension, of the path. */
  #program(): string | undefined {
    const name = process.platform === "win32" ? "agentls.exe" : "agentls";
    const set = workspace.getConfiguration("agentls").get<string>("server.path", "").trim();
    if (set !== "") {
      if (existsSync(set)) return set;
      return this.#missing(`There is no program at ${set}, which the setting agentls.server.path names.`);
    }
    const own = Uri.joinPath(this.context.extensionUri, "server", name).fsPath;
    if (existsSync(own)) return own;
    for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
      const program = join(folder, name);
      if (folder !== "" && existsSync(program)) return program;
    }
    return this.#missing("The agentls program was not found: it is neither in this extension nor on the PATH.");
  }

  #missing(message: string): undefined {
    this.log.error(message);
    this.listener.disconnected({ state: "failed", remedy: "missing", message });
    return undefined;
  }

  #neverAnswered(command: string, server: ServerProcess): void {
    const message = withLastWords(
      `${command} was started and has not answered for ${START_MS / 1000} s, so it was ended. Is it an agentls server?`,
      server,
    );
    this.log.error(message);
    this.listener.disconnected({ state: "failed", remedy: "missing", message });
  }

  #again(message: string): void {
    if (this.#disposed) return;
    this.#why = message;
    const delay = this.#policy.ended(Date.now());
    this.log.warn(`${message} Started again in ${delay} ms.`);
    this.listener.disconnected({ state: "waiting", remedy: "start", message, until: Date.now() + delay });
    this.#timer = setTimeout(() => void this.start(), delay);
  }

  /** Ends a client and its server: at once if that does not answer, else as it wishes, but surely. */
  async #drop(client: LanguageClient): Promise<void> {
    const server = this.#server;
    const silent = this.#watch?.silent ?? true;
    if (this.#client === client) this.#client = undefined;
    this.#watch?.stop();
    this.#watch = undefined;
    this.#server = undefined;
    if (silent) server?.kill();
    await client.dispose().catch((error: unknown) => this.log.debug(`while stopping: ${reason(error)}`));
    await server?.end(END_MS);
  }
}

const SILENT =
  "It has not answered for some seconds. Wait, or start it again: what you have typed is kept, and the session goes on where it was.";

/** Waits until the server is ready, has ended (how), or has said nothing for too long. */
async function started(client: LanguageClient, server: ServerProcess): Promise<string> {
  const timer = new AbortController();
  const failed = async (error: unknown) =>
    // A broken pipe says less than how the program ended.
    Promise.race([server.ended, sleep(END_MS, reason(error), { signal: timer.signal })]);
  try {
    return await Promise.race([
      client.start().then(() => "ready", failed),
      server.ended,
      sleep(START_MS, "silent", { signal: timer.signal }),
    ]);
  } finally {
    timer.abort();
  }
}

function withLastWords(message: string, { lastWords }: ServerProcess): string {
  return lastWords === "" ? `${message}.` : `${message}.\n${lastWords}`;
}

/** Why this server cannot be talked to, in one sentence. */
function unsuited(capability: ServerCapability | undefined): string | undefined {
  const ours = protocolVersion.major;
  const theirs = capability?.protocolVersion.major;
  if (theirs === ours) return undefined;
  if (theirs === undefined) return "The program that agentls.server.path names is no agentls server.";
  const older = theirs > ours ? "this extension" : "the agentls program";
  return `The server speaks version ${theirs} of the protocol and this extension version ${ours}: update ${older}.`;
}

function api(client: LanguageClient): Api {
  const ask = async (method: string, params: unknown, signal?: AbortSignal): Promise<unknown> => {
    if (!signal) return client.sendRequest(method, params);
    const source = new CancellationTokenSource();
    const cancel = () => source.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    try {
      return await client.sendRequest(method, params, source.token);
    } finally {
      signal.removeEventListener("abort", cancel);
      source.dispose();
    }
  };
  return {
    ask,
    request: (method, params, signal) =>
      ask(method, params, signal) as Promise<RequestTypes[typeof method]["result"]> as never,
    notify: (method, params) => void client.sendNotification(method, params),
  };
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
