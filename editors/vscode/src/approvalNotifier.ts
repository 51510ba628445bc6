// Decisions of a person outside the page: by command and key, and the notices when nobody looks.

import { type Disposable, window, workspace } from "vscode";
import type { Chat } from "./chat";
import type { ChatViewProvider } from "./chatViewProvider";
import { escapeNotification } from "./format";
import type { ApprovalRequestedNotification } from "./protocol";
import type { AgentEvent, ChatState, TurnEndItem } from "./state";
import { describeTurnEnd } from "./state";

export class ApprovalNotifier implements Disposable {
  constructor(
    readonly chat: Chat,
    readonly panel: ChatViewProvider,
    readonly reviews: { readonly activeApproval: ApprovalRequestedNotification | undefined },
  ) {}

  dispose(): void {}

  /**
   * A key of the editor answers the question that the person sees: the one of the review they are in, else one that the
   * page shows. Only the page knows what is in sight, so it decides; without it the first press shows it.
   */
  async answerVisibleApproval(action: "allow" | "deny" | "diff"): Promise<void> {
    const { activeApproval: active } = this.reviews;
    if (active !== undefined && active.sessionId !== this.chat.activeSession?.sessionId) {
      await this.chat.openSession(active.sessionId);
      return this.panel.showPendingQuestion();
    }
    if (!this.panel.isVisible) return this.panel.showPendingQuestion();
    this.panel.postMessage({ type: "answerShown", action, reviewed: active?.approvalId });
  }

  /** Tells what a person who is elsewhere would miss. */
  onEvent(event: AgentEvent, before: ChatState, after: ChatState): void {
    if (event.method === "agent/approvalRequested") {
      const { shown, title } = event.params as ApprovalRequestedNotification;
      this.#notifyIfAway(after, `Approval needed: ${shown ?? title}`, "warning");
    }
    if (event.method === "agent/limitRequested" || event.method === "agent/questionRequested") {
      const { message, text } = event.params as { message?: string; text?: string };
      this.#notifyIfAway(after, `The agent asks: ${message ?? text}`, "warning");
    }
    if (event.method !== "agent/turnEnded" || before.startedAt === undefined) return;
    const end = after.items.findLast((item): item is TurnEndItem => item.kind === "turnEnd");
    if (end === undefined || end.state === "cancelled") return;
    const took = end.durationMs ?? 0;
    if (took < readNotifyThreshold() * 1000) return;
    this.#notifyIfAway(
      after,
      `${after.title ?? "The agent"}: ${describeTurnEnd(end)}`,
      end.state === "failed" ? "warning" : "info",
    );
  }

  #notifyIfAway(state: ChatState, text: string, kind: "info" | "warning"): void {
    if (window.state.focused || readNotifyThreshold() === 0) return;
    const show = kind === "info" ? window.showInformationMessage : window.showWarningMessage;
    void show(escapeNotification(text), "Show").then((answer) => {
      if (answer === undefined) return;
      void this.chat.openSession(state.sessionId).then(() => this.panel.showPendingQuestion());
    });
  }
}

/** Seconds from which on a turn is long; 0: nothing is told. */
function readNotifyThreshold(): number {
  return workspace.getConfiguration("agentls").get("notifyAfterSeconds", 20);
}
