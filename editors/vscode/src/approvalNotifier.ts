// Notifies the user about approvals, questions, and turn ends while the window is not focused, and routes editor keys
// to the visible approval. It does not decide anything; see decisions.ts.

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
    readonly chatView: ChatViewProvider,
    readonly reviews: { readonly activeApproval: ApprovalRequestedNotification | undefined },
  ) {}

  dispose(): void {}

  /**
   * Passes an editor key to the approval that the user sees: the active review, or one in the chat view. Only the
   * webview knows what is visible, so it picks the approval. If the view is hidden, the first press shows it.
   */
  async answerVisibleApproval(action: "allow" | "deny" | "diff"): Promise<void> {
    const { activeApproval: active } = this.reviews;
    if (active !== undefined && active.sessionId !== this.chat.activeSession?.sessionId) {
      await this.chat.openSession(active.sessionId);
      return this.chatView.showPendingQuestion();
    }
    if (!this.chatView.isVisible) return this.chatView.showPendingQuestion();
    this.chatView.postMessage({ type: "answerVisible", action, reviewedId: active?.approvalId });
  }

  /** Notifies the user about events that they would otherwise miss. */
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
    const durationMs = end.durationMs ?? 0;
    if (durationMs < readNotifyThreshold() * 1000) return;
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
      void this.chat.openSession(state.sessionId).then(() => this.chatView.showPendingQuestion());
    });
  }
}

/** Returns the minimum turn duration in seconds for a notification. 0 turns notifications off. */
function readNotifyThreshold(): number {
  return workspace.getConfiguration("agentls").get("notifyAfterSeconds", 20);
}
