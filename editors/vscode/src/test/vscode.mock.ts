// The parts of the VS Code API that unit tests need. It records messages and quick picks, and lets tests set the focus.

export const shownMessages: string[] = [];
export const settings = new Map<string, unknown>();
export const executedCommands: string[] = [];

export class EventEmitter<T> {
  readonly #listeners: ((event: T) => void)[] = [];
  readonly event = (listener: (event: T) => void) => void this.#listeners.push(listener);
  fire(event: T): void {
    for (const listener of this.#listeners) listener(event);
  }
  dispose(): void {}
}

/** A quick pick as a test sees and operates it. */
export class FakeQuickPick {
  items: readonly { label: string; description?: string; buttons?: readonly { tooltip: string }[] }[] = [];
  activeItems: readonly unknown[] = [];
  selectedItems: readonly unknown[] = [];
  isVisible = false;
  readonly #onAccept = new EventEmitter<void>();
  readonly #onButton = new EventEmitter<{ item: unknown; button: unknown }>();
  readonly #onHide = new EventEmitter<void>();
  readonly onDidAccept = this.#onAccept.event;
  readonly onDidTriggerItemButton = this.#onButton.event;
  readonly onDidHide = this.#onHide.event;
  readonly onDidChangeValue = new EventEmitter<string>().event;
  value = "";
  show(): void {
    this.isVisible = true;
  }
  hide(): void {
    if (this.isVisible) this.#onHide.fire();
    this.isVisible = false;
  }
  dispose(): void {}
  accept(index: number): void {
    this.selectedItems = [this.items[index]];
    this.#onAccept.fire();
  }
  pressButton(index: number, tooltip: string): void {
    const item = this.items[index];
    this.#onButton.fire({ item, button: item?.buttons?.find((button) => button.tooltip === tooltip) });
  }
}

export const quickPicks: FakeQuickPick[] = [];
/** The lists of `showQuickPick`. Each chooses the entry that contains the next of `choices`. */
export const shownLists: string[][] = [];
export const choices: string[] = [];

export const window = {
  createQuickPick: () => {
    const pick = new FakeQuickPick();
    quickPicks.push(pick);
    return pick;
  },
  showQuickPick: (items: readonly { label: string }[]) => {
    shownLists.push(items.map(({ label }) => label));
    const choice = choices.shift();
    return Promise.resolve(items.find(({ label }) => choice !== undefined && label.includes(choice)));
  },
  state: { focused: true },
  showInformationMessage: (text: string, options?: { detail?: string }) =>
    recordMessage(`info: ${text}${options?.detail === undefined ? "" : `\n${options.detail}`}`),
  showWarningMessage: (text: string) => recordMessage(`warning: ${text}`),
  // Frozen, like the real channels.
  createOutputChannel: () =>
    Object.freeze({
      logLevel: LogLevel.Info,
      debug() {},
      info: (text: string) => void shownMessages.push(text),
      warn() {},
      error() {},
      dispose() {},
    }),
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

/** Modules import these, but no unit test uses them. */
export const Uri = {};
export const Range = {};
export const commands = {};
export const FileChangeType = {};
export const FileSystemError = {};
export const FileType = {};

export const Disposable = { from: () => ({ dispose() {} }) };

/** The buttons that the user presses in the next messages. */
export const pressedButtons: string[] = [];

function recordMessage(text: string): Promise<string | undefined> {
  shownMessages.push(text);
  return Promise.resolve(pressedButtons.shift());
}

export const openedAddresses: unknown[] = [];
export const copiedTexts: string[] = [];

export const env = {
  openExternal: (address: unknown) => Promise.resolve(openedAddresses.push(address) > 0),
  clipboard: { writeText: (text: string) => Promise.resolve(void copiedTexts.push(text)) },
};

export class ThemeIcon {
  constructor(readonly id: string) {}
}
