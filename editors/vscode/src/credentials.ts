// Owns API keys. A key is entered once, stays in the editor's secret storage, and is sent only to the server, on
// request.

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

  /** Answers `agent/getCredential`. Reports a key to `onKeyShared` before the server gets it. */
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
    // The chat also shows the result, but it may be hidden.
    const message = describeKeyCheck(check);
    if (check.result === "refused") void window.showErrorMessage(escapeNotification(message));
    else void window.showInformationMessage(escapeNotification(message));
    return check.result === "works";
  }

  /** Makes the server request the key again and check it with the provider. */
  async #checkKey(provider: string): Promise<KeyCheck> {
    this.chat.updateView({ keyCheck: { provider, result: "asking" } });
    await this.chat.request("agent/reloadConfig", {});
    const models = await this.chat.request("agent/listModels", { check: provider });
    const providerStatus = models?.providers.find((candidate) => candidate.provider === provider);
    const result =
      providerStatus?.health === "ok" ? "works" : providerStatus?.health === "failing" ? "refused" : "untried";
    const keyCheck: KeyCheck = { provider, result, message: providerStatus?.message };
    this.chat.updateView({ keyCheck });
    await this.chat.refreshModels();
    return keyCheck;
  }

  async forgetKey(): Promise<void> {
    const provider = await this.#pickProvider("Select the Provider Whose Key to Delete");
    if (provider === undefined) return;
    await this.context.secrets.delete(getSecretName(provider));
    await this.chat.request("agent/reloadConfig", {});
  }

  async #pickProvider(title: string): Promise<string | undefined> {
    const models = await this.chat.request("agent/listModels", {});
    const otherProviders = (models?.providers ?? []).filter(
      ({ provider }) => !KNOWN_PROVIDERS.some(([name]) => name === provider),
    );
    const items = [
      ...KNOWN_PROVIDERS.map(([name, label]) => ({ label, description: name, name })),
      ...otherProviders.map(({ provider }) => ({ label: provider, description: "", name: provider })),
    ];
    return (await window.showQuickPick(items, { title }))?.name;
  }
}

function getSecretName(provider: string): string {
  return `agentls.key.${provider}`;
}
