// Owns the trace output channel. The stock client writes to it depending on the channel's log level, so this channel
// derives its level from `agentls.trace.server`. It masks all keys that were shared with the server.

import { Disposable, type Event, EventEmitter, LogLevel, type LogOutputChannel, window, workspace } from "vscode";

export class TraceChannel implements Disposable {
  readonly channel: LogOutputChannel;
  readonly #output = window.createOutputChannel("agentls (trace)", { log: true });
  readonly #levelEmitter = new EventEmitter<LogLevel>();
  readonly #secrets = new Set<string>();
  readonly #disposables: Disposable;

  constructor() {
    const onDidChangeLogLevel: Event<LogLevel> = this.#levelEmitter.event;
    const trace = (message: string) => this.#output.info(this.#maskSecrets(message));
    const overrides = {
      onDidChangeLogLevel,
      trace,
      get logLevel() {
        return readLogLevel();
      },
    };
    // The target is an empty object, because a proxy cannot override properties of a frozen one.
    this.channel = new Proxy({} as LogOutputChannel, {
      get: (_, name) => Reflect.get(name in overrides ? overrides : this.#output, name),
    });
    const changes = workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("agentls.trace")) this.#levelEmitter.fire(readLogLevel());
    });
    this.#disposables = Disposable.from(changes, this.#levelEmitter, this.#output);
  }

  /** Masks a secret in all later messages. */
  hideSecret(secret: string): void {
    this.#secrets.add(secret);
    this.#secrets.add(JSON.stringify(secret).slice(1, -1));
  }

  dispose(): void {
    this.#disposables.dispose();
  }

  #maskSecrets(message: string): string {
    let clean = message;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, "***");
    return clean;
  }
}

function readLogLevel(): LogLevel {
  const isOff = workspace.getConfiguration("agentls").get("trace.server", "off") === "off";
  return isOff ? LogLevel.Off : LogLevel.Trace;
}
