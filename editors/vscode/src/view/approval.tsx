// The approval card of a tool call. Letter keys decide while it has the focus. Enter alone never allows a call.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatBytes, revealHidden } from "../format";
import { type ApprovalRequestedNotification, approvalKeys, type Decision } from "../protocol";
import type { ReviewSummary } from "../webviewProtocol";
import { Button, CodeBlock, useAutoFocus } from "./components";
import {
  ANSWER_EVENT,
  APPEARED_EVENT,
  onQuestionAdded,
  onQuestionRemoved,
  REOPENED_EVENT,
  SETTLE_DELAY_MS,
} from "./questionFocus";
import { postMessage } from "./store";

const RISK_LABELS: Record<string, string> = { low: "low risk", medium: "medium risk", high: "high risk" };

type Action = (typeof approvalKeys)[number]["action"];
type CardMode = "ask" | "deny" | "edit" | "rule";

interface Props {
  approval: ApprovalRequestedNotification;
  /** The user's changes to the proposal. */
  review: ReviewSummary | undefined;
}

/** Whether the card accepts keys: a short delay after it appears or scrolls into view prevents stray answers. */
function useIsArmed(cardRef: { current: HTMLElement | null }): boolean {
  const [isArmed, setIsArmed] = useState(false);
  useEffect(() => {
    const question = cardRef.current;
    let timer: ReturnType<typeof setTimeout>;
    const restartTimer = () => {
      setIsArmed(false);
      clearTimeout(timer);
      timer = setTimeout(() => setIsArmed(true), SETTLE_DELAY_MS);
    };
    restartTimer();
    question?.addEventListener(APPEARED_EVENT, restartTimer);
    return () => {
      clearTimeout(timer);
      question?.removeEventListener(APPEARED_EVENT, restartTimer);
    };
  }, []);
  return isArmed;
}

/** Use the approval's id as the key, so that each approval gets a new instance. */
export function ApprovalCard({ approval, review }: Props): JSX.Element {
  const [mode, setMode] = useState<CardMode>("ask");
  const [isSent, setIsSent] = useState(false);
  const cardRef = useRef<HTMLElement>(null);
  const isArmed = useIsArmed(cardRef);
  useEffect(() => {
    const question = cardRef.current;
    if (!question) return undefined;
    onQuestionAdded(question);
    // A rejected answer can be repeated.
    const onReopened = () => setIsSent(false);
    question.addEventListener(REOPENED_EVENT, onReopened);
    return () => {
      question.removeEventListener(REOPENED_EVENT, onReopened);
      onQuestionRemoved(question);
    };
  }, []);

  const sendAnswer = (decision: Decision, extraParams: object = {}) => {
    if (isSent || !isArmed) return;
    // A disabled button loses the focus, and with it the keys.
    if (cardRef.current?.contains(document.activeElement)) cardRef.current.focus({ preventScroll: true });
    setIsSent(true);
    setMode("ask");
    postMessage({ type: "approve", approvalId: approval.approvalId, decision, ...extraParams });
  };
  const { rule } = approval;
  const actions: Partial<Record<Action, () => void>> = {
    allow: () => sendAnswer("allow"),
    deny: () => sendAnswer("deny"),
    // Truncated arguments cannot be sent in full.
    ...(approval.more?.["input"] === undefined ? { edit: () => setMode("edit") } : {}),
    ...(rule === undefined
      ? {}
      : { allowSession: () => sendAnswer("allowSession", { rule }), allowAlways: () => setMode("rule") }),
    ...(approval.diff === undefined
      ? {}
      : { diff: () => postMessage({ type: "review", approvalId: approval.approvalId }) }),
  };
  useEffect(() => {
    const question = cardRef.current;
    const onAnswer = (event: Event) => actions[(event as CustomEvent<Action>).detail]?.();
    question?.addEventListener(ANSWER_EVENT, onAnswer);
    return () => question?.removeEventListener(ANSWER_EVENT, onAnswer);
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const isInField = event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLInputElement;
    if (event.key === "Escape" && mode !== "ask") {
      event.stopPropagation();
      setMode("ask");
      cardRef.current?.focus();
      return;
    }
    if (isInField || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = approvalKeys.find(({ key }) => key === event.key.toLowerCase())?.action;
    const run = action && actions[action];
    if (!run) return;
    event.preventDefault();
    // A held key answers only one approval.
    if (!event.repeat) run();
  };

  return (
    <section
      ref={cardRef}
      class={`approval ${approval.risk}`}
      role="group"
      tabIndex={0}
      aria-label={`The agent asks: ${revealHidden(approval.shown ?? approval.title)}. ${approval.why}. ${describeKeys(actions)}`}
      data-testid="approval"
      data-question
      data-approval={approval.approvalId}
      data-armed={isArmed}
      onKeyDown={onKeyDown}
    >
      <p class="reason">
        <span class="risk">{RISK_LABELS[approval.risk] ?? approval.risk}</span> {approval.why}
      </p>
      <CallSubject approval={approval} />
      <p class="dim cwd">in {revealHidden(approval.cwd)}</p>
      {review && <ReviewStatus approvalId={approval.approvalId} review={review} />}
      {mode === "ask" && (
        <ApprovalActions
          approval={approval}
          isSent={isSent}
          actions={actions}
          review={review}
          denyWithReason={() => setMode("deny")}
        />
      )}
      {mode === "deny" && (
        <InputField
          label="What should the agent do instead?"
          action="Deny"
          onDone={(feedback) => sendAnswer("deny", feedback === "" ? {} : { feedback })}
          onCancel={() => setMode("ask")}
        />
      )}
      {mode === "edit" && (
        <InputField
          label="Arguments (JSON)"
          action="Allow with edits"
          value={JSON.stringify(approval.input, undefined, 2)}
          validate={validateJson}
          code
          onDone={(input) => sendAnswer("allow", { input })}
          onCancel={() => setMode("ask")}
        />
      )}
      {mode === "rule" && (
        <InputField
          label="Rule to always allow in this workspace"
          action="Always allow"
          value={rule ?? ""}
          validate={(text) => (text.trim() === "" ? "Enter a rule." : undefined)}
          code
          onDone={(text) => sendAnswer("allowAlways", { rule: text.trim() })}
          onCancel={() => setMode("ask")}
        />
      )}
    </section>
  );
}

function describeKeys(actions: Partial<Record<Action, () => void>>): string {
  const parts = approvalKeys.flatMap(({ key, action, label }) =>
    actions[action] ? [`${key.toUpperCase()}: ${label}`] : [],
  );
  return parts.join(", ");
}

/** Shows the full command line or address, its options, and all other arguments. */
function CallSubject({ approval }: { approval: ApprovalRequestedNotification }): JSX.Element {
  const { shown, options = [], diff, more, name } = approval;
  const { path } = approval.input as { path?: unknown };
  const otherArguments = listOtherArguments(approval);
  const truncated = more?.["shown"] ?? (diff === undefined ? more?.["input"] : undefined);
  return (
    <div class="subject" data-testid="subject">
      {shown !== undefined && <CodeBlock text={shown} language={name === "bash" ? "bash" : ""} wrap />}
      {options.length > 0 && (
        <ul class="options" aria-label="Options">
          {options.map((option) => (
            <li key={option}>{revealHidden(option)}</li>
          ))}
        </ul>
      )}
      {diff !== undefined && typeof path === "string" && (
        <p class="full-text">
          <code>{revealHidden(path)}</code>
        </p>
      )}
      {otherArguments !== undefined && (
        <CodeBlock text={JSON.stringify(otherArguments, undefined, 2)} language="json" wrap />
      )}
      {truncated !== undefined && (
        <p class="problem">
          Only the beginning of {formatBytes(truncated.bytes)} is shown.{" "}
          <Button
            label="Open in an editor"
            kind="quiet"
            onPress={() => postMessage({ type: "openText", title: "Full call", text: "", ref: truncated.ref })}
          />
        </p>
      )}
    </div>
  );
}

/** Returns the arguments that are not shown elsewhere. */
function listOtherArguments({ shown, diff, input, name }: ApprovalRequestedNotification): unknown {
  if (diff !== undefined) return undefined;
  if (typeof input !== "object" || input === null || Array.isArray(input))
    return shown === undefined ? input : undefined;
  const remaining: Record<string, unknown> = { ...input };
  if (shown !== undefined) delete remaining["command" in remaining ? "command" : "url"];
  // `options` already describes these.
  if (name === "bash") for (const argument of ["background", "timeout_s", "description"]) delete remaining[argument];
  return Object.keys(remaining).length === 0 ? undefined : remaining;
}

function ReviewStatus({ approvalId, review }: { approvalId: string; review: ReviewSummary }): JSX.Element {
  const changed = review.difference !== "";
  return (
    <p class="reviewed" role="status" data-testid="reviewed">
      {changed ? `Your reviewed version runs: ${review.difference}.` : "Your review matches the proposal."}{" "}
      <Button label="Open review" kind="quiet" onPress={() => postMessage({ type: "review", approvalId })} />
      {changed && (
        <Button label="Discard…" kind="quiet" onPress={() => postMessage({ type: "discardReview", approvalId })} />
      )}
    </p>
  );
}

interface ApprovalActionsProps extends Props {
  isSent: boolean;
  actions: Partial<Record<Action, () => void>>;
  denyWithReason: () => void;
}

/** Actions that need more input. */
const NEEDS_INPUT = new Set<Action>(["allowAlways", "edit"]);
const QUIET_ACTIONS = new Set<Action>(["edit", "diff"]);

function ApprovalActions({ approval, review, isSent, actions, denyWithReason }: ApprovalActionsProps): JSX.Element {
  const isReviewed = review !== undefined && review.difference !== "";
  return (
    <>
      {approval.rule !== undefined && (
        <p class="dim full-text" data-testid="rule">
          Rule for this session, or always: <code>{revealHidden(approval.rule)}</code>
        </p>
      )}
      <div class="actions">
        {approvalKeys.map(({ key, action, label }) => {
          const run = actions[action];
          if (!run) return null;
          const text = action === "allow" && isReviewed ? "Allow as reviewed" : label;
          const kind = action === "allow" ? "main" : QUIET_ACTIONS.has(action) ? "quiet" : "plain";
          return (
            <Button
              key={key}
              label={text}
              kind={kind}
              disabled={isSent}
              ignoresEnter
              testId={`action-${key}`}
              onPress={run}
            >
              {text}
              {NEEDS_INPUT.has(action) ? "…" : ""} <kbd>{key.toUpperCase()}</kbd>
            </Button>
          );
        })}
        <Button
          label="Deny with a reason…"
          kind="quiet"
          disabled={isSent}
          ignoresEnter
          testId="deny-reason"
          onPress={denyWithReason}
        />
      </div>
    </>
  );
}

interface InputFieldProps {
  label: string;
  action: string;
  value?: string;
  code?: boolean;
  validate?: (text: string) => string | undefined;
  onDone: (text: string) => void;
  onCancel: () => void;
}

/** A text field. Ctrl+Enter or the button submits it. */
function InputField({
  label,
  action,
  value = "",
  code = false,
  validate,
  onDone,
  onCancel,
}: InputFieldProps): JSX.Element {
  const [text, setText] = useState(value);
  const inputRef = useAutoFocus<HTMLTextAreaElement>();
  const problem = validate?.(text);
  useLayoutEffect(() => {
    // Fit the height to the text, so that no part of a rule is hidden.
    const box = inputRef.current;
    if (!box) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, Math.max(200, window.innerHeight / 2))}px`;
  }, [text]);
  const hidden = code && revealHidden(text) !== text;
  return (
    <div class="field">
      <label>
        <span>{label}</span>
        <textarea
          ref={inputRef}
          class={code ? "mono" : ""}
          rows={2}
          value={text}
          aria-invalid={problem !== undefined}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.isComposing || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            if (problem === undefined) onDone(text);
          }}
        />
      </label>
      {hidden && (
        <p class="problem full-text">
          With hidden characters shown: <code>{revealHidden(text)}</code>
        </p>
      )}
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div class="actions">
        <Button label={action} kind="main" disabled={problem !== undefined} ignoresEnter onPress={() => onDone(text)}>
          {action} <kbd>Ctrl Enter</kbd>
        </Button>
        <Button label="Back" kind="quiet" onPress={onCancel}>
          Back <kbd>Esc</kbd>
        </Button>
      </div>
    </div>
  );
}

function validateJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : "Enter a JSON object.";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
