// The parts of the VS Code API that unit tests need. It records messages and lets tests set the focus.

export const shownMessages: string[] = [];
export const settings = new Map<string, unknown>();
export const executedCommands: string[] = [];

export const window = {
  state: { focused: true },
  showInformationMessage: (text: string) => recordMessage(`info: ${text}`),
  showWarningMessage: (text: string) => recordMessage(`warning: ${text}`),
  // Frozen, like the real channels.
  createOutputChannel: () =>
    Object.freeze({ logLevel: LogLevel.Info, info: (text: string) => void shownMessages.push(text), dispose() {} }),
};

export const workspace = {
  getConfiguration: () => ({ get: (name: string, defaultValue: unknown) => settings.get(name) ?? defaultValue }),
  onDidChangeConfiguration: (listener: (typeof configurationListeners)[number]) => {
    configurationListeners.push(listener);
    return { dispose() {} };
  },
};

export const configurationListeners: ((event: { affectsConfiguration: (name: string) => boolean }) => void)[] = [];

export enum LogLevel {
  Off = 0,
  Trace = 1,
  Info = 3,
}

export const Disposable = { from: () => ({ dispose() {} }) };

export class EventEmitter<T> {
  readonly #listeners: ((event: T) => void)[] = [];
  readonly event = (listener: (event: T) => void) => void this.#listeners.push(listener);
  fire(event: T): void {
    for (const listener of this.#listeners) listener(event);
  }
  dispose(): void {}
}

function recordMessage(text: string): Promise<undefined> {
  shownMessages.push(text);
  return Promise.resolve(undefined);
}

export class ThemeIcon {
  constructor(readonly id: string) {}
}
