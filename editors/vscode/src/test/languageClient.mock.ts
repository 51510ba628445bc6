// The parts of vscode-languageclient that unit tests need. Its client starts a process but sends it nothing.

import type { ChildProcess } from "node:child_process";

export const CancellationToken = { None: {} };

export class CancellationTokenSource {
  readonly token = {};
  cancel(): void {}
  dispose(): void {}
}

export enum ErrorCodes {
  PendingResponseRejected = -32097,
}

export class ResponseError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

export enum CloseAction {
  DoNotRestart = 1,
}

export enum ErrorAction {
  Continue = 1,
}

export enum RevealOutputChannelOn {
  Never = 4,
}

interface FakeClientOptions {
  errorHandler: { closed: () => unknown };
}

/** The clients of a test, in the order of their creation. */
export const createdClients: LanguageClient[] = [];

/** A client whose server answers `initialize` at once, and other requests never. */
export class LanguageClient {
  child: ChildProcess | undefined;
  /** Resolves when `dispose` is called. */
  readonly disposed: Promise<void>;
  readonly initializeResult = {
    capabilities: { experimental: { agent: { protocolVersion: { major: 1, minor: 0 }, methods: [], features: [] } } },
  };
  #isRunning = false;
  #resolveDisposed = () => {};

  constructor(
    readonly id: string,
    readonly name: string,
    readonly startServer: () => Promise<ChildProcess>,
    readonly options: FakeClientOptions,
  ) {
    this.disposed = new Promise((resolve) => {
      this.#resolveDisposed = resolve;
    });
    createdClients.push(this);
  }

  get isServerRunning(): boolean {
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }

  isRunning(): boolean {
    return this.#isRunning;
  }

  async start(): Promise<void> {
    this.child = await this.startServer();
    this.#isRunning = true;
  }

  /** The server exits when its input ends. */
  async dispose(): Promise<void> {
    this.#isRunning = false;
    this.#resolveDisposed();
    this.child?.stdin?.end();
  }

  /** Reports a lost connection, as the real client does when the server's output ends. */
  loseConnection(): void {
    this.options.errorHandler.closed();
    this.#isRunning = false;
  }

  sendRequest(): Promise<unknown> {
    return new Promise(() => {});
  }

  async sendNotification(): Promise<void> {}
  registerFeature(): void {}
  onNotification(): void {}
  onRequest(): void {}
  error(): void {}
  warn(): void {}
}
