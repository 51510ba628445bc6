// Owns the server process and its connection: start, stop, and restart. It forwards messages and does not interpret
// them.
//
// vscode-languageclient provides framing, document sync, and `workspace/applyEdit`. Restarting is our own, because the
// stock client gives up after five exits in three minutes. See restartPolicy.ts.

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Disposable, type ExtensionContext, type LogOutputChannel, Uri, window, workspace } from "vscode";
import {
  CancellationToken,
  CancellationTokenSource,
  CloseAction,
  ErrorAction,
  ErrorCodes,
  LanguageClient,
  type LanguageClientOptions,
  ResponseError,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";
import type { ServerApi } from "./chat";
import { protocolVersion, type RequestTypes, type ServerCapability, serverNotifications } from "./protocol";
import { RestartPolicy } from "./restartPolicy";
import { ServerProcess } from "./serverProcess";
import { ServerWatchdog } from "./serverWatchdog";
import type { AgentEvent } from "./state";
import { TraceChannel } from "./trace";
import type { Connection } from "./webviewProtocol";

/** A program that does not respond within this time after its start is not a server. */
const START_TIMEOUT_MS = 20_000;
/** After Stop is pressed, a server that does not respond within this time is killed. */
const STOP_TIMEOUT_MS = 3000;
/** Time for a server to exit on its own. */
const EXIT_TIMEOUT_MS = 1000;
/** A request without effects. Every server answers it, even if only with an error. */
const PING_METHOD = "$/agentls/ping";

/** The stock client without its notifications. The chat reports failures instead. */
class QuietClient extends LanguageClient {
  readonly #rejections = new Set<(error: Error) => void>();

  /**
   * Sends a request that is rejected when this client is disposed. The stock client leaves its requests pending if the
   * server did not answer `shutdown`.
   */
  async sendTracked(method: string, params: unknown, token = CancellationToken.None): Promise<unknown> {
    let rejectDisposed: (error: Error) => void = () => {};
    const disposed = new Promise<never>((_resolve, reject) => {
      rejectDisposed = reject;
    });
    this.#rejections.add(rejectDisposed);
    return Promise.race([this.sendRequest(method, params, token), disposed]).finally(() => {
      this.#rejections.delete(rejectDisposed);
    });
  }

  override async dispose(timeout?: number): Promise<void> {
    try {
      await super.dispose(timeout);
    } finally {
      const error = new ResponseError(ErrorCodes.PendingResponseRejected, "The connection to the server was closed.");
      for (const reject of this.#rejections) reject(error);
    }
  }

  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }

  override warn(message: string, data?: unknown): void {
    super.warn(message, data, false);
  }
}

/** Requests from the server beyond those of LSP. */
export type RequestHandlers = Record<string, (params: never) => unknown>;

export interface ClientListener {
  onConnected(api: ServerApi, capability: ServerCapability): void;
  onDisconnected(connection: Connection): void;
  /** Called with a message when the server stops responding, and without one when it responds again. */
  onSilenceChanged(message: string | undefined): void;
  onNotification(event: AgentEvent): void;
}

export class AgentClient implements Disposable {
  readonly logChannel: LogOutputChannel = window.createOutputChannel("agentls", { log: true });
  readonly traceChannel = new TraceChannel();
  readonly #restartPolicy = new RestartPolicy();
  #client: QuietClient | undefined;
  #server: ServerProcess | undefined;
  #watchdog: ServerWatchdog | undefined;
  /** Kept until a server is ready. */
  #lastExitReason: string | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  /** Counts transitions. See `#beginTransition`. */
  #transitionCount = 0;
  /** Resolves when the previous server has exited. */
  #previousExit: Promise<unknown> = Promise.resolve();

  constructor(
    readonly context: ExtensionContext,
    readonly listener: ClientListener,
    readonly handlers: RequestHandlers,
    readonly middleware: NonNullable<LanguageClientOptions["middleware"]>,
  ) {}

  get isReady(): boolean {
    return this.#client?.isRunning() ?? false;
  }

  /** Starts the server, after one that runs has stopped. Reports failures to the listener. */
  async start(): Promise<void> {
    const isCurrent = this.#beginTransition();
    await this.#stopServer();
    if (isCurrent()) await this.#startServer(isCurrent);
  }

  async #startServer(isCurrent: () => boolean): Promise<void> {
    const command = this.#findProgram();
    if (command === undefined) return;
    this.#restartPolicy.recordStart(Date.now());
    this.listener.onDisconnected({ state: "starting", message: this.#lastExitReason });
    const server = this.#spawnServer(command);
    this.#server = server;
    const client = this.#createClient(server);
    this.#client = client;
    const outcome = await awaitStart(client, server);
    if (!isCurrent()) return;
    if (outcome !== "ready") {
      await this.#stopServer();
      if (!isCurrent()) return;
      if (outcome === "silent") return this.#reportUnresponsive(command, server);
      this.#scheduleRestart(appendStderr(`The agentls server did not start: ${outcome}`, server));
      return;
    }
    const capability = client.initializeResult?.capabilities.experimental?.agent as ServerCapability | undefined;
    const incompatibility = describeIncompatibility(capability);
    if (incompatibility !== undefined || capability === undefined) {
      await this.#stopServer();
      if (isCurrent()) this.listener.onDisconnected({ state: "failed", remedy: "version", message: incompatibility });
      return;
    }
    this.#lastExitReason = undefined;
    this.#watchdog = new ServerWatchdog(
      () => client.sendTracked(PING_METHOD, {}),
      (isSilent) => this.listener.onSilenceChanged(isSilent ? SILENT_MESSAGE : undefined),
    );
    this.#watchdog.start();
    this.listener.onConnected(createApi(client, server), capability);
  }

  async restart(): Promise<void> {
    this.#restartPolicy.reset();
    await this.start();
  }

  /** Replaces a server that does not respond after the user pressed Stop. */
  async onTurnStopped(): Promise<void> {
    const watchdog = this.#watchdog;
    if (watchdog === undefined || (await watchdog.respondsWithin(STOP_TIMEOUT_MS)) || this.#watchdog !== watchdog)
      return;
    const isCurrent = this.#beginTransition();
    // Closing the pipes rejects pending requests, which restores the user's drafts.
    this.#server?.kill();
    await this.#stopServer();
    if (isCurrent()) this.#scheduleRestart("The agentls server did not respond and was stopped.");
  }

  async stop(): Promise<void> {
    this.#beginTransition();
    await this.#stopServer();
  }

  sendNotification(method: string, params: unknown): void {
    if (this.isReady) void this.#client?.sendNotification(method, params);
  }

  /**
   * Sends pending document changes now. The stock client delays them by 250 ms or while the user types, but sends them
   * before any other message. This notification is the smallest one.
   */
  async flushDocumentChanges(): Promise<void> {
    if (this.isReady) await this.#client?.sendNotification("$/setTrace", { value: "off" });
  }

  dispose(): void {
    this.#beginTransition();
    this.logChannel.dispose();
    this.traceChannel.dispose();
  }

  /**
   * Begins a start, a stop, or the handling of an exit. The result tells whether no other one has begun since, so that
   * only the last one starts a server.
   */
  #beginTransition(): () => boolean {
    clearTimeout(this.#restartTimer);
    this.#transitionCount += 1;
    const transition = this.#transitionCount;
    return () => transition === this.#transitionCount;
  }

  #spawnServer(command: string): ServerProcess {
    const extraEnv = workspace.getConfiguration("agentls").get<Record<string, string>>("server.env", {});
    const folder = workspace.workspaceFolders?.[0]?.uri.fsPath;
    const cwd = folder !== undefined && existsSync(folder) ? folder : undefined;
    return new ServerProcess(command, { ...process.env, ...extraEnv }, cwd);
  }

  #createClient(server: ServerProcess): QuietClient {
    const settings = workspace.getConfiguration("agentls");
    const client = new QuietClient("agentls", "agentls", () => Promise.resolve(server.child), {
      documentSelector: [{ scheme: "file" }],
      outputChannel: this.logChannel,
      traceOutputChannel: this.traceChannel.channel,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: () => ({
        ...settings.get<Record<string, unknown>>("options", {}),
        // VS Code's workspace trust alone activates nothing (trust.ts).
        trusted: false,
      }),
      initializationFailedHandler: () => false,
      middleware: this.middleware,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          if (this.#client === client && client.isRunning()) void this.#onConnectionClosed(server);
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    });
    client.registerFeature({
      fillClientCapabilities(capabilities) {
        // Client capabilities of this protocol. Servers ignore flags that they do not know.
        const flags = {
          saveDocuments: true,
          getDiagnostics: true,
          languageQueries: true,
          codeFixes: true,
          getCredential: true,
          questions: true,
        };
        capabilities.experimental = { ...capabilities.experimental, agent: { client: flags } };
      },
      initialize() {},
      getState: () => ({ kind: "static" }),
      clear() {},
    });
    for (const method of Object.values(serverNotifications)) {
      client.onNotification(method, (params) => {
        if (this.#client === client) this.listener.onNotification({ method, params });
      });
    }
    for (const [method, handler] of Object.entries(this.handlers)) {
      client.onRequest(method, (params) => handler(params as never));
    }
    return client;
  }

  /** Searches the setting, then the extension, then the PATH. */
  #findProgram(): string | undefined {
    const name = process.platform === "win32" ? "agentls.exe" : "agentls";
    const configuredPath = workspace.getConfiguration("agentls").get<string>("server.path", "").trim();
    if (configuredPath !== "") {
      if (existsSync(configuredPath)) return configuredPath;
      return this.#reportMissing(`No program found at ${configuredPath}. Check the setting agentls.server.path.`);
    }
    const bundledPath = Uri.joinPath(this.context.extensionUri, "server", name).fsPath;
    if (existsSync(bundledPath)) return bundledPath;
    for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
      const program = join(folder, name);
      if (folder !== "" && existsSync(program)) return program;
    }
    return this.#reportMissing("The agentls program was not found in this extension or in the PATH.");
  }

  #reportMissing(message: string): undefined {
    this.logChannel.error(message);
    this.listener.onDisconnected({ state: "failed", remedy: "missing", message });
    return undefined;
  }

  #reportUnresponsive(command: string, server: ServerProcess): void {
    const message = appendStderr(
      `${command} did not respond within ${START_TIMEOUT_MS / 1000} s and was stopped. Check that it is an agentls server`,
      server,
    );
    this.logChannel.error(message);
    this.listener.onDisconnected({ state: "failed", remedy: "missing", message });
  }

  #scheduleRestart(message: string): void {
    this.#lastExitReason = message;
    const delay = this.#restartPolicy.recordExit(Date.now());
    this.logChannel.warn(`${message} Restarting in ${delay} ms.`);
    this.listener.onDisconnected({ state: "waiting", remedy: "start", message, retryAt: Date.now() + delay });
    this.#restartTimer = setTimeout(() => void this.start(), delay);
  }

  async #onConnectionClosed(server: ServerProcess): Promise<void> {
    const isCurrent = this.#beginTransition();
    this.#forgetConnection();
    // The client cleans up first, and the exit status arrives a moment later.
    const description = Promise.race([server.exited, sleep(EXIT_TIMEOUT_MS, "connection closed")]);
    this.#previousExit = description.then(async () => {
      server.kill();
      await server.exited;
    });
    await this.#previousExit;
    if (isCurrent()) this.#scheduleRestart(appendStderr(`The agentls server exited: ${await description}`, server));
  }

  /**
   * Disposes the client and stops its server, if there is one. A server that does not respond is killed at once.
   * Returns when no server is left, including one that another call stops.
   */
  async #stopServer(): Promise<void> {
    const client = this.#client;
    const server = this.#server;
    const isSilent = this.#watchdog?.isSilent ?? true;
    this.#forgetConnection();
    if (client) {
      if (isSilent) server?.kill();
      this.#previousExit = client
        .dispose()
        .catch((error: unknown) => this.logChannel.debug(`while stopping: ${getErrorMessage(error)}`))
        .then(() => server?.waitForExit(EXIT_TIMEOUT_MS));
    }
    await this.#previousExit;
  }

  #forgetConnection(): void {
    this.#client = undefined;
    this.#server = undefined;
    this.#watchdog?.stop();
    this.#watchdog = undefined;
  }
}

const SILENT_MESSAGE =
  "It has not responded for several seconds. Wait, or restart it. Your input is kept, and the session continues where it was.";

/** Resolves to "ready", "silent", or the reason for a failure. */
async function awaitStart(client: LanguageClient, server: ServerProcess): Promise<string> {
  const timer = new AbortController();
  const onStartFailed = async (error: unknown) =>
    // The exit status is more helpful than a broken pipe.
    Promise.race([server.exited, sleep(EXIT_TIMEOUT_MS, getErrorMessage(error), { signal: timer.signal })]);
  try {
    return await Promise.race([
      client.start().then(() => "ready", onStartFailed),
      server.exited,
      sleep(START_TIMEOUT_MS, "silent", { signal: timer.signal }),
    ]);
  } finally {
    timer.abort();
  }
}

function appendStderr(message: string, { stderrTail }: ServerProcess): string {
  return stderrTail === "" ? `${message}.` : `${message}.\n${stderrTail}`;
}

function describeIncompatibility(capability: ServerCapability | undefined): string | undefined {
  const supportedMajor = protocolVersion.major;
  const serverMajor = capability?.protocolVersion.major;
  if (serverMajor === supportedMajor) return undefined;
  if (serverMajor === undefined) return "The program in agentls.server.path is not an agentls server.";
  const outdated = serverMajor > supportedMajor ? "this extension" : "the agentls program";
  return `The server uses protocol version ${serverMajor}, but this extension uses version ${supportedMajor}. Update ${outdated}.`;
}

function createApi(client: QuietClient, server: ServerProcess): ServerApi {
  const sendRequest = async (method: string, params: unknown, signal?: AbortSignal): Promise<unknown> => {
    if (!signal) return client.sendTracked(method, params);
    const cancellation = new CancellationTokenSource();
    const onAbort = () => cancellation.cancel();
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await client.sendTracked(method, params, cancellation.token);
    } finally {
      signal.removeEventListener("abort", onAbort);
      cancellation.dispose();
    }
  };
  return {
    serverPid: server.child.pid,
    sendRequest,
    request: (method, params, signal) =>
      sendRequest(method, params, signal) as Promise<RequestTypes[typeof method]["result"]> as never,
    sendNotification: (method, params) => void client.sendNotification(method, params),
  };
}

function getErrorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
