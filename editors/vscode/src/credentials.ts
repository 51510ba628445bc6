// API keys: entered once, kept in the editor's secret storage, handed to the server when it asks, and nowhere else.

import { type ExtensionContext, window } from "vscode";
import type { Chat } from "./chat";
import { escapeNotification } from "./format";
import { describeKeyCheck, type KeyCheck } from "./webviewProtocol";

const KNOWN_PROVIDERS: [name: string, label: string][] = [
  ["anthropic", "Anthropic"],
  ["openai", "OpenAI"],
  ["openrouter", "OpenRouter"],
];

export class CredentialStore {
  constructor(
    readonly context: ExtensionContext,
    readonly chat: Chat,
    readonly onKeyShared: (key: string) => void,
  ) {}

  /** Answers `agent/getCredential`. Without a key there is nothing in the answer; with one `handed` hears it first. */
  async getCredential({ provider }: { provider: string }): Promise<{ apiKey?: string }> {
    const apiKey = await this.context.secrets.get(getSecretName(provider));
    if (apiKey !== undefined) this.onKeyShared(apiKey);
    return apiKey === undefined ? {} : { apiKey };
  }

  async enterKey(): Promise<boolean> {
    const provider = await this.#pickProvider("Select a Provider");
    if (provider === undefined) return false;
    const key = await window.showInputBox({
      title: `API Key for ${provider}`,
      prompt: "Stored in the editor's secret storage and sent only to the agentls server.",
      password: true,
      ignoreFocusOut: true,
      validateInput: (text) => (text.trim() === "" ? "Enter a key." : undefined),
    });
    if (key === undefined) return false;
    await this.context.secrets.store(getSecretName(provider), key.trim());
    const check = await this.#checkKey(provider);
    // The card of the chat tells it too, but the chat may be out of sight.
    const told = describeKeyCheck(check);
    if (check.result === "refused") void window.showErrorMessage(escapeNotification(told));
    else void window.showInformationMessage(escapeNotification(told));
    return check.result === "works";
  }

  /** The server asks for the key again, and asks its provider whether it is right. */
  async #checkKey(provider: string): Promise<KeyCheck> {
    this.chat.updateView({ keyCheck: { provider, result: "asking" } });
    await this.chat.request("agent/reloadConfig", {});
    const models = await this.chat.request("agent/listModels", { check: provider });
    const found = models?.providers.find((one) => one.provider === provider);
    const result = found?.health === "ok" ? "works" : found?.health === "failing" ? "refused" : "untried";
    const key: KeyCheck = { provider, result, message: found?.message };
    this.chat.updateView({ keyCheck: key });
    await this.chat.refreshModels();
    return key;
  }

  async forgetKey(): Promise<void> {
    const provider = await this.#pickProvider("Select the Provider Whose Key to Delete");
    if (provider === undefined) return;
    await this.context.secrets.delete(getSecretName(provider));
    await this.chat.request("agent/reloadConfig", {});
  }

  async #pickProvider(title: string): Promise<string | undefined> {
    const models = await this.chat.request("agent/listModels", {});
    const others = (models?.providers ?? []).filter(
      ({ provider }) => !KNOWN_PROVIDERS.some(([name]) => name === provider),
    );
    const items = [
      ...KNOWN_PROVIDERS.map(([name, label]) => ({ label, description: name, name })),
      ...others.map(({ provider }) => ({ label: provider, description: "", name: provider })),
    ];
    return (await window.showQuickPick(items, { title }))?.name;
  }
}

function getSecretName(provider: string): string {
  return `agentls.key.${provider}`;
}
