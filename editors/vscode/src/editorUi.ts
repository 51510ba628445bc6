// What the editor shows of the chat outside its view: the status bar, context keys for keys and menus, the followed
// file; and what the server is told of the editor: trust and settings.

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
import type { Panel } from "./chatViewProvider";
import { costOfUse } from "./format";
import { plain, severity } from "./mentions";
import type { GetDiagnosticsParams, GetDiagnosticsResult, ToolCallNotification } from "./protocol";
import { asked, type Event } from "./state";

/** The status bar and the context keys. */
export class Surroundings implements Disposable {
  readonly #item: StatusBarItem = window.createStatusBarItem("agentls.status", StatusBarAlignment.Right, 90);
  readonly #keys = new Map<string, unknown>();

  constructor(
    readonly chat: Chat,
    readonly panel: Panel,
  ) {
    this.#item.name = "agentls";
    this.#item.command = "agentls.open";
    this.#item.show();
    this.changed();
  }

  dispose(): void {
    this.#item.dispose();
  }

  changed(): void {
    const { view, status } = this.chat;
    const { chat, offers } = view;
    const waiting = Math.max(status?.openApprovals ?? 0, chat === undefined ? 0 : asked(chat));
    this.#key("agentls.hasSession", chat !== undefined);
    this.#key("agentls.running", chat?.running !== undefined);
    this.#key("agentls.resumable", chat?.resumable !== undefined);
    this.#key("agentls.asked", (chat?.approvals.length ?? 0) > 0);
    this.#key("agentls.can.compact", offers.compact);
    this.#key("agentls.can.circuits", offers.circuits);
    this.#key("agentls.can.credentials", offers.credentials);
    this.#key("agentls.can.revert", offers.revert);
    this.#key("agentls.can.fork", offers.fork);
    this.#key("agentls.can.export", offers.exports);
    this.#key("agentls.can.agents", offers.agents);
    this.#key("agentls.hasQueue", chat?.queue !== undefined);
    this.panel.title(chat?.title ?? "Chat");
    this.panel.badge(waiting, waiting === 1 ? "The agent asks you" : `The agent asks you ${waiting} things`);
    const { text, tooltip, grave } = this.#line(waiting);
    // Each assignment goes to the workbench, so only what is new is assigned.
    if (this.#item.text !== text) {
      this.#item.text = text;
      this.#item.accessibilityInformation = { label: `agentls: ${tooltip}` };
    }
    if (this.#item.tooltip !== tooltip) this.#item.tooltip = tooltip;
    if (grave !== (this.#item.backgroundColor !== undefined)) {
      this.#item.backgroundColor = grave ? new ThemeColor("statusBarItem.warningBackground") : undefined;
    }
  }

  #line(waiting: number): { text: string; tooltip: string; grave: boolean } {
    const { view, status } = this.chat;
    const { connection, chat, warnings } = view;
    if (connection.state === "failed" || connection.state === "waiting" || connection.silent) {
      return { text: "$(warning) agentls", tooltip: connection.message ?? "no server", grave: true };
    }
    if (connection.state === "starting") return { text: "$(sync~spin) agentls", tooltip: "starts", grave: false };
    if (waiting > 0) {
      return { text: `$(question) agentls: ${waiting}`, tooltip: `asks you (${waiting})`, grave: true };
    }
    const running = status?.runningTurns ?? (chat?.running === undefined ? 0 : 1);
    const cost = chat?.contextUsed ? ` · ${costOfUse(chat.costUsd)}` : "";
    const [recovery] = (chat?.notices ?? []).filter((notice) => notice.kind === "retry" || notice.kind === "wait");
    if (recovery) return { text: "$(watch) agentls", tooltip: recovery.text, grave: false };
    const line = status?.line ?? warnings[0];
    if (running > 0) {
      return { text: "$(loading~spin) agentls", tooltip: `works (${running})${cost}`, grave: false };
    }
    return { text: "$(comment-discussion) agentls", tooltip: `${line ?? "ready"}${cost}`, grave: false };
  }

  #key(name: string, value: unknown): void {
    if (this.#keys.get(name) === value) return;
    this.#keys.set(name, value);
    void commands.executeCommand("setContext", name, value);
  }
}

/** Shows the file that the agent works on, where the person wants that. */
export async function follow(chat: Chat, event: Event): Promise<void> {
  if (event.method !== "agent/toolCall" || !workspace.getConfiguration("agentls").get("follow", false)) return;
  const call = event.params as ToolCallNotification;
  const [where] = call.locations ?? [];
  if (!where || call.sessionId !== chat.shown?.sessionId || (call.locations?.length ?? 0) > 1) return;
  if (call.status !== "running" && call.status !== "completed") return;
  try {
    const document = await workspace.openTextDocument(Uri.parse(where.uri));
    const line = Math.min((where.line ?? 1) - 1, document.lineCount - 1);
    await window.showTextDocument(document, {
      preserveFocus: true,
      preview: true,
      viewColumn: ViewColumn.One,
      ...(where.line === undefined ? {} : { selection: new Range(line, 0, line, 0) }),
    });
  } catch {
    // A folder, a picture, or gone again: there is nothing to show.
  }
}

/** Answers `agent/getDiagnostics`. */
export function diagnostics({ uri }: GetDiagnosticsParams): GetDiagnosticsResult {
  const all =
    uri === undefined
      ? languages.getDiagnostics()
      : [[Uri.parse(uri), languages.getDiagnostics(Uri.parse(uri))] as const];
  return {
    diagnostics: all
      .filter(([of]) => of.scheme === "file")
      .flatMap(([of, found]) =>
        found.map((one) => ({
          uri: of.toString(),
          range: plain(one.range),
          severity: severity(one.severity),
          message: one.message,
          ...(one.source === undefined ? {} : { source: one.source }),
        })),
      ),
  };
}

/** The settings that lie over the server's files. */
export function options(): Record<string, unknown> {
  return workspace.getConfiguration("agentls").get<Record<string, unknown>>("options", {});
}
