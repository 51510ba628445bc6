// Describes the answer to an approval. Pure.

import type { ApprovalRequestedNotification, Decision } from "./protocol";

export function describeAnswer(
  { shown, title }: ApprovalRequestedNotification,
  decision: Decision,
  { input, rule }: { input?: unknown; rule?: string },
): string {
  const subject = input === undefined ? (shown ?? title) : `${title}, as edited by you`;
  switch (decision) {
    case "allow":
      return `Allowed once: ${subject}`;
    case "allowSession":
      return `Allowed for this session (${rule ?? "by rule"}): ${subject}`;
    case "allowAlways":
      return `Allowed always (${rule ?? "by rule"}): ${subject}`;
    case "deny":
      return `Denied: ${subject}`;
  }
}
