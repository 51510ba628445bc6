// The output channel of the messages between editor and server. The stock client writes to it when the channel's own
// level says so; a person sets `agentls.trace.server`, so that is what this channel gives for its level. No key that
// was handed over is in it.

import { Disposable, type Event, EventEmitter, LogLevel, type LogOutputChannel, window, workspace } from "vscode";

export class Trace implements Disposable {
  readonly channel: LogOutputChannel;
  readonly #real = window.createOutputChannel("agentls (trace)", { log: true });
  readonly #changed = new EventEmitter<LogLevel>();
  readonly #secrets = new Set<string>();
  readonly #parts: Disposable;

  constructor() {
    const onDidChangeLogLevel: Event<LogLevel> = this.#changed.event;
    const trace = (message: string) => this.#real.info(this.#clean(message));
    const own = {
      onDidChangeLogLevel,
      trace,
      get logLevel() {
        return level();
      },
    };
    // Over an empty object: of a frozen one nothing could be given otherwise.
    this.channel = new Proxy({} as LogOutputChannel, {
      get: (_, name) => Reflect.get(name in own ? own : this.#real, name),
    });
    const changes = workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("agentls.trace")) this.#changed.fire(level());
    });
    this.#parts = Disposable.from(changes, this.#changed, this.#real);
  }

  /** From now on this is written nowhere. */
  hide(secret: string): void {
    this.#secrets.add(secret);
    this.#secrets.add(JSON.stringify(secret).slice(1, -1));
  }

  dispose(): void {
    this.#parts.dispose();
  }

  #clean(message: string): string {
    let clean = message;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, "***");
    return clean;
  }
}

function level(): LogLevel {
  const off = workspace.getConfiguration("agentls").get("trace.server", "off") === "off";
  return off ? LogLevel.Off : LogLevel.Trace;
}
