// The one path of an answer to an approval: every button, key and command ends here. What is allowed is what the person
// sees: if the call has a review, the reviewed version runs, or nothing does.

import type { Chat } from "./chat";
import { given } from "./chat";
import type { ApprovalRequestedNotification, Decision } from "./protocol";
import type { ReviewOutcome } from "./review";

/** What a person adds to a decision. */
export interface DecisionDetails {
  feedback?: string | undefined;
  /** Edited arguments, whole. */
  input?: unknown;
  rule?: string | undefined;
}

/** What decisions need of the reviews. */
export interface ReviewSource {
  outcome(approval: ApprovalRequestedNotification): Promise<ReviewOutcome>;
  close(approvalId: string): Promise<void>;
}

/** What decisions tell. */
export interface DecisionListener {
  /** Why an answer was not sent, for the person. */
  refused(message: string): void;
  /** The answer did not reach the server, or was refused there: the question can be answered again. */
  stillOpen(approvalId: string): void;
}

export class Decisions {
  /** Approvals whose answer is on its way. */
  readonly #sending = new Set<string>();

  constructor(
    readonly chat: Chat,
    readonly reviews: ReviewSource,
    readonly listener: DecisionListener,
  ) {}

  /** Answers an open approval. Refuses, with a sentence, what would run anything else than what is shown. */
  async decide(approvalId: string, decision: Decision, details: DecisionDetails = {}): Promise<void> {
    const approval = this.chat.approval(approvalId);
    if (approval === undefined) return this.listener.refused("This question is no longer open.");
    if (this.#sending.has(approvalId)) return;
    this.#sending.add(approvalId);
    try {
      if (!(await this.#send(approval, decision, details))) this.listener.stillOpen(approvalId);
    } finally {
      this.#sending.delete(approvalId);
    }
  }

  async #send(approval: ApprovalRequestedNotification, decision: Decision, details: DecisionDetails): Promise<boolean> {
    const { feedback, rule } = details;
    let { input } = details;
    if (decision !== "deny") {
      const outcome = await this.reviews.outcome(approval);
      if (outcome.kind === "refused") return this.#refuse(outcome.message);
      if (outcome.kind !== "none" && input !== undefined) {
        return this.#refuse("This call also has a review. Discard the review, or allow what the review shows.");
      }
      if (outcome.kind === "edited") input = outcome.input;
    }
    const { approvalId } = approval;
    if (!(await this.chat.approve(approvalId, decision, given({ feedback, input, rule })))) return false;
    await this.reviews.close(approvalId);
    return true;
  }

  #refuse(message: string): false {
    this.listener.refused(message);
    return false;
  }
}
