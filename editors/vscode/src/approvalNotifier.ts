// Decisions of a person outside the page: by command and key, and the notices when nobody looks.

import { type Disposable, window, workspace } from "vscode";
import type { Chat } from "./chat";
import type { Panel } from "./chatViewProvider";
import { notificationText } from "./format";
import type { ApprovalRequestedNotification } from "./protocol";
import type { Event, State, TurnEndItem } from "./state";
import { endLine } from "./state";

export class Approvals implements Disposable {
  constructor(
    readonly chat: Chat,
    readonly panel: Panel,
    readonly reviews: { readonly active: ApprovalRequestedNotification | undefined },
  ) {}

  dispose(): void {}

  /**
   * A key of the editor answers the question that the person sees: the one of the review they are in, else one that the
   * page shows. Only the page knows what is in sight, so it decides; without it the first press shows it.
   */
  async answerShown(action: "allow" | "deny" | "diff"): Promise<void> {
    const { active } = this.reviews;
    if (active !== undefined && active.sessionId !== this.chat.shown?.sessionId) {
      await this.chat.open(active.sessionId);
      return this.panel.showAsked();
    }
    if (!this.panel.visible) return this.panel.showAsked();
    this.panel.post({ type: "answerShown", action, reviewed: active?.approvalId });
  }

  /** Tells what a person who is elsewhere would miss. */
  happened(event: Event, before: State, after: State): void {
    if (event.method === "agent/approvalRequested") {
      const { shown, title } = event.params as ApprovalRequestedNotification;
      this.#tell(after, `The agent asks: ${shown ?? title}`, "warning");
    }
    if (event.method === "agent/limitRequested" || event.method === "agent/questionRequested") {
      const { message, text } = event.params as { message?: string; text?: string };
      this.#tell(after, `The agent asks: ${message ?? text}`, "warning");
    }
    if (event.method !== "agent/turnEnded" || before.startedAt === undefined) return;
    const end = after.items.findLast((item): item is TurnEndItem => item.kind === "turnEnd");
    if (end === undefined || end.state === "cancelled") return;
    const took = end.tookMs ?? 0;
    if (took < limit() * 1000) return;
    this.#tell(after, `${after.title ?? "The agent"}: ${endLine(end)}`, end.state === "failed" ? "warning" : "info");
  }

  #tell(state: State, text: string, kind: "info" | "warning"): void {
    if (window.state.focused || limit() === 0) return;
    const show = kind === "info" ? window.showInformationMessage : window.showWarningMessage;
    void show(notificationText(text), "Show").then((answer) => {
      if (answer === undefined) return;
      void this.chat.open(state.sessionId).then(() => this.panel.showAsked());
    });
  }
}

/** Seconds from which on a turn is long; 0: nothing is told. */
function limit(): number {
  return workspace.getConfiguration("agentls").get("notifyAfterSeconds", 20);
}
