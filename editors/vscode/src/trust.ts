// Owns trust in workspace folders. VS Code's prompt does not list what a folder's configuration starts. Here the user
// reads that list first, and then decides for each folder. In Restricted Mode, no folder is trusted.

import { type QuickPickItem, type Uri, window, workspace } from "vscode";
import type { Chat, ServerApi } from "./chat";
import { escapeLabel, escapeNotification, revealHidden } from "./format";
import type { DescribeTrustResult, ProviderRedirect, TrustItem } from "./protocol";
import type { ReviewManager } from "./review";

/** Number of lines that the quick pick covers. */
const COVERED_LINES = 6;

/** The known kinds in list order. */
const KNOWN_KINDS = ["hook", "tool", "mcpServer", "setting", "gitSetting"];

/** The nouns of kinds whose name is none. */
const KIND_NAMES = new Map([
  ["gitSetting", "git setting"],
  ["mcpServer", "MCP server"],
]);

/** Returns the noun of a kind; those of a later server are shown as they are. */
function nameKind(kind: string): string {
  return KIND_NAMES.get(kind) ?? kind;
}

/** Lists known kinds first. A later server may add others. */
function listKinds(items: readonly TrustItem[]): string[] {
  return [...new Set([...KNOWN_KINDS, ...items.map(({ kind }) => kind)])].filter((kind) =>
    items.some((item) => item.kind === kind),
  );
}

/** Returns text such as "2 hooks, 1 tool and 1 provider redirect". */
export function describeTrustCounts({ activates, redirects }: DescribeTrustResult): string {
  const formatCount = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const parts = listKinds(activates).map((kind) =>
    formatCount(activates.filter((item) => item.kind === kind).length, revealHidden(nameKind(kind))),
  );
  if (redirects.length > 0) parts.push(formatCount(redirects.length, "provider redirect"));
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** Lists everything that becomes active, with full commands and revealed hidden characters. */
export function buildTrustDocument(folder: string, { activates, redirects }: DescribeTrustResult): string {
  // The folder controls these texts, so mark continuation lines: none may look like a list entry.
  const escapeText = (value: string) => revealHidden(value).replaceAll("\n", "\n      | ");
  // The quick pick covers the top of the editor.
  const lines = [...Array<string>(COVERED_LINES).fill(""), `What ${escapeText(folder)} activates if you trust it`, ""];
  for (const kind of listKinds(activates)) {
    const items = activates.filter((item) => item.kind === kind);
    lines.push(`${escapeText(nameKind(kind))}s (${items.length}):`, "");
    for (const { name, detail, command } of items) {
      lines.push(`  - ${escapeText(name)}: ${escapeText(detail)}`);
      if (command !== undefined) lines.push(`    runs: ${escapeText(command)}`);
    }
    lines.push("");
  }
  if (redirects.length > 0) {
    lines.push(`provider redirects (${redirects.length}); each needs separate consent:`, "");
    for (const { provider, from, to, sends, accepted } of redirects) {
      lines.push(
        `  - ${escapeText(provider)}: ${from === undefined ? "" : `from ${escapeText(from)} `}to ${escapeText(to)}`,
      );
      lines.push(`    sends: ${sends.map(escapeText).join(", ")}${accepted ? " (you accepted this)" : ""}`);
    }
    lines.push("");
  }
  if (activates.length + redirects.length === 0) lines.push("Nothing.", "");
  return lines.join("\n");
}

export function needsDecision({ trusted, activates, redirects }: DescribeTrustResult): boolean {
  return (!trusted && activates.length > 0) || redirects.some(({ accepted }) => !accepted);
}

/** Asks about the selected workspace folder. */
export async function trustFolder(chat: Chat, reviews: ReviewManager): Promise<void> {
  if (!workspace.isTrusted) {
    await window.showWarningMessage("VS Code is in Restricted Mode. Trust the workspace in VS Code first.");
    return;
  }
  const folders = (workspace.workspaceFolders ?? []).map(({ uri }) => uri);
  const items = folders.map((uri) => ({ label: escapeLabel(uri.fsPath), uri }));
  const folder =
    items.length > 1 ? (await window.showQuickPick(items, { title: "Select a Folder to Trust" }))?.uri : folders[0];
  if (folder !== undefined) await reviewTrust(chat, reviews, folder);
}

async function reviewTrust(chat: Chat, reviews: ReviewManager, folder: Uri): Promise<void> {
  const description = await requestTrustOrWarn(chat, folder);
  if (description === undefined) return;
  await reviews.showText("Trust preview", buildTrustDocument(folder.fsPath, description));
  const isEmpty = description.activates.length + description.redirects.length === 0;
  const noLabel = description.trusted ? "No, stop trusting this folder" : "No, do not trust this folder";
  const yesLabel = isEmpty
    ? "Yes (it activates nothing now, and later additions are trusted)"
    : `Yes, activate what the document lists: ${describeTrustCounts(description)}`;
  const trusted = await confirmTrust(`Trust ${escapeLabel(folder.fsPath)}?`, noLabel, yesLabel);
  if (trusted === undefined) return;
  const acceptRedirects: { provider: string; to: string }[] = [];
  for (const redirect of trusted ? description.redirects.filter(({ accepted }) => !accepted) : []) {
    const accepted = await confirmRedirect(redirect);
    if (accepted === undefined) return;
    if (accepted) acceptRedirects.push({ provider: redirect.provider, to: redirect.to });
  }
  // Trust only what the user read: files may have changed in the meantime.
  const latest = await requestTrust(chat, folder);
  if (latest === undefined) return;
  if (trusted && fingerprintTrust(latest) !== fingerprintTrust(description)) {
    await window.showWarningMessage("The folder's configuration changed in the meantime. Review it again.");
    return;
  }
  const params = { folder: folder.toString(), trusted, ...(acceptRedirects.length > 0 ? { acceptRedirects } : {}) };
  if ((await chat.request("agent/setTrust", params)) === undefined) return;
  chat.memory.set(getDecisionKey(folder), fingerprintTrust(description));
  const status = trusted ? "is trusted" : "is not trusted";
  await window.showInformationMessage(`${escapeNotification(folder.fsPath)} ${status}.`);
}

/** "No" comes first, so a stray Enter does not trust anything. */
async function confirmTrust(title: string, noLabel: string, yesLabel: string): Promise<boolean | undefined> {
  const items: (QuickPickItem & { answer: boolean })[] = [
    { label: noLabel, answer: false },
    { label: yesLabel, answer: true },
  ];
  // Keep the quick pick open while the user scrolls the document.
  return (await window.showQuickPick(items, { title, ignoreFocusOut: true }))?.answer;
}

/** Asks about one redirect. The dialog shows the full address, and Enter presses "Do Not Send". */
async function confirmRedirect({ provider, from, to, sends }: ProviderRedirect): Promise<boolean | undefined> {
  const replacedAddress = from === undefined ? "" : ` instead of ${escapeNotification(from)}`;
  const question = `Send requests for provider ${escapeNotification(provider)} to ${escapeNotification(to)}${replacedAddress}?`;
  const detail = `This sends: ${escapeNotification(sends.join(", "))}.`;
  // An `isCloseAffordance` button would come last, so do not use one.
  const decline = { title: "Do Not Send" };
  const accept = { title: "Send There" };
  const answer = await window.showWarningMessage(question, { modal: true, detail }, decline, accept);
  return answer === undefined ? undefined : answer === accept;
}

async function requestTrustOrWarn(chat: Chat, folder: Uri): Promise<DescribeTrustResult | undefined> {
  if (chat.view.capabilities.trust) return requestTrust(chat, folder);
  await window.showWarningMessage(
    "This agentls program cannot list what a folder activates, so no folder is trusted. Update the program.",
  );
  return undefined;
}

async function requestTrust(chat: Chat, folder: Uri): Promise<DescribeTrustResult | undefined> {
  return chat.request("agent/describeTrust", { folder: folder.toString() });
}

/** The user is asked again only when the list changes. */
function getDecisionKey(folder: Uri): string {
  return `trustDecided ${folder.toString()}`;
}

function fingerprintTrust({ activates, redirects }: DescribeTrustResult): string {
  return JSON.stringify([activates, redirects.map(({ provider, to }) => [provider, to])]);
}

/** In Restricted Mode, withdraws trust that a folder got earlier or elsewhere. */
export async function withdrawTrust(api: ServerApi): Promise<void> {
  if (workspace.isTrusted) return;
  for (const { uri } of workspace.workspaceFolders ?? []) {
    // `TrustNotifier.checkFolders` retries and reports failures.
    await api.request("agent/setTrust", { folder: uri.toString(), trusted: false }).catch(() => undefined);
  }
}

/** Keeps the server's trust within VS Code's, and notifies once per window about undecided folders. */
export class TrustNotifier {
  #hasNotified = false;

  constructor(
    readonly chat: Chat,
    readonly reviews: ReviewManager,
  ) {}

  /** Runs when the server connects, or when the folders or VS Code's trust change. */
  async checkFolders(): Promise<void> {
    for (const { uri } of workspace.workspaceFolders ?? []) {
      if (!workspace.isTrusted) {
        await this.chat.request("agent/setTrust", { folder: uri.toString(), trusted: false });
      } else if (this.chat.view.capabilities.trust) await this.#notifyUndecided(uri);
    }
  }

  async #notifyUndecided(folder: Uri): Promise<void> {
    const description = await requestTrust(this.chat, folder);
    if (description === undefined || this.#hasNotified || !needsDecision(description)) return;
    if (this.chat.memory.get(getDecisionKey(folder)) === fingerprintTrust(description)) return;
    this.#hasNotified = true;
    const name = escapeNotification(folder.fsPath);
    const text = `${name} wants to activate ${describeTrustCounts(description)}. It stays inactive until you trust the folder.`;
    void window.showInformationMessage(text, "Review…").then((answer) => {
      if (answer !== undefined) void reviewTrust(this.chat, this.reviews, folder);
    });
  }
}
