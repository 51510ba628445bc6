// Shows the chat's state outside its view: status bar, context keys, and the followed file. Also answers the server's
// questions about diagnostics and settings.

import {
  commands,
  type Disposable,
  languages,
  Range,
  StatusBarAlignment,
  type StatusBarItem,
  ThemeColor,
  Uri,
  ViewColumn,
  window,
  workspace,
} from "vscode";
import type { Chat } from "./chat";
import type { ChatViewProvider } from "./chatViewProvider";
import { CONFIG_DIAGNOSTICS } from "./configDiagnostics";
import { formatCost, formatSandbox } from "./format";
import { toRange, toSeverity } from "./mentions";
import { describeProblems } from "./problemText";
import type { GetDiagnosticsParams, GetDiagnosticsResult, ToolCallNotification } from "./protocol";
import type { AgentEvent } from "./state";
import { isTypeScriptError, type TypeScriptErrors } from "./typeScriptErrors";

export class EditorUi implements Disposable {
  readonly #statusItem: StatusBarItem = window.createStatusBarItem("agentls.status", StatusBarAlignment.Right, 90);
  readonly #contextKeys = new Map<string, unknown>();

  constructor(
    readonly chat: Chat,
    readonly chatView: ChatViewProvider,
  ) {
    this.#statusItem.name = "agentls";
    this.#statusItem.command = "agentls.open";
    this.#statusItem.show();
    this.refreshUi();
  }

  dispose(): void {
    this.#statusItem.dispose();
  }

  refreshUi(): void {
    const { view } = this.chat;
    const { chat, capabilities } = view;
    const pendingCount = view.openRequestCount;
    const command = pendingCount > 0 ? "agentls.showQuestion" : "agentls.open";
    if (this.#statusItem.command !== command) this.#statusItem.command = command;
    this.#setContextKey("agentls.hasSession", chat !== undefined);
    this.#setContextKey("agentls.running", chat?.running !== undefined);
    this.#setContextKey("agentls.resumable", chat?.resumable !== undefined);
    this.#setContextKey("agentls.asked", (chat?.approvals.length ?? 0) > 0);
    this.#setContextKey("agentls.can.compact", capabilities.compact);
    this.#setContextKey("agentls.can.circuits", capabilities.circuits);
    this.#setContextKey("agentls.can.credentials", capabilities.credentials);
    this.#setContextKey("agentls.can.revert", capabilities.revert);
    this.#setContextKey("agentls.can.fork", capabilities.fork);
    this.#setContextKey("agentls.can.export", capabilities.exports);
    this.#setContextKey("agentls.can.agents", capabilities.agents);
    this.#setContextKey("agentls.can.mcp", capabilities.mcp);
    this.#setContextKey("agentls.hasQueue", chat?.queue !== undefined);
    this.chatView.setTitle(chat?.title ?? "Chat");
    this.chatView.setBadge(
      pendingCount,
      pendingCount === 1 ? "The agent needs your answer" : `The agent needs ${pendingCount} answers`,
    );
    const { text, tooltip, isWarning } = this.#describeStatus(pendingCount);
    // Each assignment is sent to the workbench, so skip assignments that change nothing.
    if (this.#statusItem.text !== text) this.#statusItem.text = text;
    if (this.#statusItem.tooltip !== tooltip) {
      this.#statusItem.tooltip = tooltip;
      this.#statusItem.accessibilityInformation = { label: `agentls: ${tooltip}` };
    }
    if (isWarning !== (this.#statusItem.backgroundColor !== undefined)) {
      this.#statusItem.backgroundColor = isWarning ? new ThemeColor("statusBarItem.warningBackground") : undefined;
    }
  }

  #describeStatus(pendingCount: number): { text: string; tooltip: string; isWarning: boolean } {
    const { view, serverStatus: status } = this.chat;
    const { connection, chat, warnings } = view;
    if (connection.state === "failed" || connection.state === "waiting" || connection.isSilent) {
      return { text: "$(warning) agentls", tooltip: connection.message ?? "no server", isWarning: true };
    }
    if (connection.state === "starting") return { text: "$(sync~spin) agentls", tooltip: "starting", isWarning: false };
    if (pendingCount > 0) {
      return {
        text: `$(question) agentls: ${pendingCount}`,
        tooltip: `needs your answer (${pendingCount})`,
        isWarning: true,
      };
    }
    const runningCount = status?.runningTurns ?? (chat?.running === undefined ? 0 : 1);
    const sandbox = formatSandbox(status?.sandbox, chat?.mode ?? view.nextSession.mode);
    const cost = (chat?.contextUsed ? ` · ${formatCost(chat.costUsd)}` : "") + (sandbox && ` · ${sandbox}`);
    const [recovery] = (chat?.notices ?? []).filter((notice) => notice.kind === "retry" || notice.kind === "wait");
    if (recovery) return { text: "$(watch) agentls", tooltip: recovery.text, isWarning: false };
    const line = status?.line ?? (warnings.problems.length > 0 ? describeProblems(warnings) : undefined);
    if (runningCount > 0) {
      return { text: "$(loading~spin) agentls", tooltip: `working (${runningCount})${cost}`, isWarning: false };
    }
    return { text: "$(comment-discussion) agentls", tooltip: `${line ?? "ready"}${cost}`, isWarning: false };
  }

  #setContextKey(name: string, value: unknown): void {
    if (this.#contextKeys.get(name) === value) return;
    this.#contextKeys.set(name, value);
    void commands.executeCommand("setContext", name, value);
  }
}

export async function followActiveFile(chat: Chat, event: AgentEvent): Promise<void> {
  if (event.method !== "agent/toolCall" || !workspace.getConfiguration("agentls").get("follow", false)) return;
  const call = event.params as ToolCallNotification;
  const [location] = call.locations ?? [];
  if (!location || call.sessionId !== chat.activeSession?.sessionId || (call.locations?.length ?? 0) > 1) return;
  if (call.status !== "running" && call.status !== "completed") return;
  try {
    const document = await workspace.openTextDocument(Uri.parse(location.uri));
    const line = Math.min((location.line ?? 1) - 1, document.lineCount - 1);
    await window.showTextDocument(document, {
      preserveFocus: true,
      preview: true,
      viewColumn: ViewColumn.One,
      ...(location.line === undefined ? {} : { selection: new Range(line, 0, line, 0) }),
    });
  } catch {
    // The file is a folder, is binary, or was deleted.
  }
}

/** Answers `agent/getDiagnostics`. What TypeScript was just asked for replaces what the editor shows of it. */
export function collectDiagnostics(
  { uri }: GetDiagnosticsParams,
  typeScript: TypeScriptErrors = new Map(),
): GetDiagnosticsResult {
  const all =
    uri === undefined
      ? languages.getDiagnostics()
      : [[Uri.parse(uri), languages.getDiagnostics(Uri.parse(uri))] as const];
  const shown = all
    .filter(([fileUri]) => fileUri.scheme === "file")
    .flatMap(([fileUri, diagnostics]) =>
      diagnostics
        // The agent must not take its own configuration for a fault of the code.
        .filter((diagnostic) => diagnostic.source !== CONFIG_DIAGNOSTICS)
        .filter((diagnostic) => !(typeScript.has(fileUri.toString()) && isTypeScriptError(diagnostic)))
        .map((diagnostic) => ({
          uri: fileUri.toString(),
          range: toRange(diagnostic.range),
          severity: toSeverity(diagnostic.severity),
          message: diagnostic.message,
          ...(diagnostic.source === undefined ? {} : { source: diagnostic.source }),
        })),
    );
  return { diagnostics: [...shown, ...[...typeScript.values()].flat()] };
}

/** Returns the settings that override the server's configuration files. */
export function readServerOptions(): Record<string, unknown> {
  return workspace.getConfiguration("agentls").get<Record<string, unknown>>("options", {});
}
