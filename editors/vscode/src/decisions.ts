// The only path for an answer to an approval: every button, key, and command ends here. Invariant: an allowed call runs
// exactly what the user sees. With a review, the reviewed version runs or nothing does.

import type { Chat } from "./chat";
import { omitUndefined } from "./chat";
import type { ApprovalRequestedNotification, Decision } from "./protocol";
import type { ReviewOutcome } from "./review";

export interface DecisionDetails {
  feedback?: string | undefined;
  /** Edited arguments in full. */
  input?: unknown;
  rule?: string | undefined;
}

/** The part of the reviews that decisions use. */
export interface ReviewSource {
  getOutcome(approval: ApprovalRequestedNotification): Promise<ReviewOutcome>;
  /** The user answered, in the review or elsewhere. Called before the review closes. */
  setDecided(approvalId: string, isDecided: boolean): void;
  closeReview(approvalId: string): Promise<void>;
}

export interface DecisionListener {
  /** Reports why an answer was not sent. */
  onRefused(message: string): void;
  /** The answer failed to reach the server or was rejected, so the user can answer again. */
  onReopened(approvalId: string): void;
}

export class Decisions {
  /** Approvals whose answer is being sent. */
  readonly #inFlight = new Set<string>();

  constructor(
    readonly chat: Chat,
    readonly reviews: ReviewSource,
    readonly listener: DecisionListener,
  ) {}

  /** Answers an open approval. Refuses to run anything other than what is shown. */
  async decideApproval(approvalId: string, decision: Decision, details: DecisionDetails = {}): Promise<void> {
    const approval = this.chat.findApproval(approvalId);
    if (approval === undefined) return this.listener.onRefused("This request is no longer open.");
    if (this.#inFlight.has(approvalId)) return;
    this.#inFlight.add(approvalId);
    try {
      if (!(await this.#sendDecision(approval, decision, details))) this.listener.onReopened(approvalId);
    } finally {
      this.#inFlight.delete(approvalId);
    }
  }

  async #sendDecision(
    approval: ApprovalRequestedNotification,
    decision: Decision,
    details: DecisionDetails,
  ): Promise<boolean> {
    const { feedback, rule } = details;
    let { input } = details;
    let reviewedDiff: string | undefined;
    if (decision !== "deny") {
      const outcome = await this.reviews.getOutcome(approval);
      if (outcome.kind === "refused") return this.#reportRefusal(outcome.message);
      if (outcome.kind !== "none" && input !== undefined) {
        return this.#reportRefusal("This edit also has a review. Discard the review, or allow the reviewed version.");
      }
      if (outcome.kind === "edited") ({ input, diff: reviewedDiff } = outcome);
    }
    const { approvalId } = approval;
    // The event of the answer may close the review before the response arrives.
    this.reviews.setDecided(approvalId, true);
    const isAccepted = await this.chat.respondToApproval(
      approvalId,
      decision,
      omitUndefined({ feedback, input, rule }),
      reviewedDiff,
    );
    if (isAccepted) await this.reviews.closeReview(approvalId);
    else this.reviews.setDecided(approvalId, false);
    return isAccepted;
  }

  #reportRefusal(message: string): false {
    this.listener.onRefused(message);
    return false;
  }
}
