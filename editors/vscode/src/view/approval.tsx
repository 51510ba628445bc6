// The approval card of a tool call. Letter keys decide while the user has focused it. Enter alone never allows a call.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatBytes, revealHidden } from "../format";
import { summarizeLosses } from "../losses";
import { type ApprovalRequestedNotification, approvalKeys, type Decision } from "../protocol";
import type { ReviewSummary } from "../webviewProtocol";
import { Button, CodeBlock, isPointer, useAutoFocus } from "./components";
import { useFormDraft } from "./formDraft";
import { AnswerKeys, SubmitKeys } from "./keyHints";
import { LossList } from "./losses";
import {
  ANSWER_EVENT,
  acceptsLetters,
  focusInput,
  focusQuestion,
  hasBeenRead,
  isInSight,
  isTextField,
  type KeyAnswer,
  moveQuestionFocus,
  onQuestionAdded,
  onQuestionRemoved,
  REOPENED_EVENT,
  rememberReviewOrigin,
  revealQuestion,
} from "./questionFocus";
import { postMessage, saveDraft } from "./store";
import { useIsArmed } from "./useIsArmed";

const RISK_LABELS: Record<string, string> = { low: "low risk", medium: "medium risk", high: "high risk" };

type Action = (typeof approvalKeys)[number]["action"];
/** The keys of what a card keeps while it is open. */
const FORMS = ["form of", "reason", "arguments", "rule"];

type CardMode = "ask" | "deny" | "edit" | "rule";
/** `isSeen`: the user sees what the action is about, because they clicked here or review the edit. */
type Run = (isSeen: boolean) => void;
type Actions = Partial<Record<Action, Run>>;

interface Props {
  approval: ApprovalRequestedNotification;
  /** The user's changes to the proposal. */
  review: ReviewSummary | undefined;
}

/** Use the approval's id as the key, so that each approval gets a new instance. */
export function ApprovalCard({ approval, review }: Props): JSX.Element {
  const [mode, saveMode] = useFormDraft(`form of ${approval.approvalId}`, "ask");
  /** Only a form that the user opens here takes the focus. */
  const [isFormWanted, setIsFormWanted] = useState(false);
  const setMode = (next: CardMode) => {
    saveMode(next);
    setIsFormWanted(true);
  };
  const [isSent, setIsSent] = useState(false);
  const isAnswered = useRef(false);
  isAnswered.current = isSent;
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
      if (isAnswered.current) for (const form of FORMS) saveDraft(`${form} ${approval.approvalId}`, "");
    };
  }, []);

  const sendAnswer = (isSeen: boolean, decision: Decision, extraParams: object = {}) => {
    const card = cardRef.current;
    if (isSent || !isArmed || card === null) return;
    const isShown = isSeen ? hasBeenRead(card) : isInSight(card);
    if (decision !== "deny" && !isShown) return revealQuestion(card);
    // What the user types next is text.
    if (card.contains(document.activeElement)) focusInput();
    setIsSent(true);
    postMessage({ type: "approve", approvalId: approval.approvalId, decision, ...extraParams });
  };
  const actions = listActions(approval, sendAnswer, setMode);
  const losses = summarizeLosses(approval);
  /** A key must not allow the original call next to an open form with a changed one. */
  const runByKey = (action: Action, isSeen: boolean) => {
    if (mode === "ask" || action === "deny") actions[action]?.(isSeen);
  };
  useEffect(() => {
    const question = cardRef.current;
    const onAnswer = (event: Event) => {
      const { action, isReviewed } = (event as CustomEvent<KeyAnswer>).detail;
      runByKey(action, isReviewed);
    };
    question?.addEventListener(ANSWER_EVENT, onAnswer);
    return () => question?.removeEventListener(ANSWER_EVENT, onAnswer);
  });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && mode !== "ask") {
      event.stopPropagation();
      setMode("ask");
      if (cardRef.current) focusQuestion(cardRef.current);
      return;
    }
    if (moveQuestionFocus(event) || isTextField(event.target) || event.isComposing) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = approvalKeys.find(({ key }) => key === event.key.toLowerCase())?.action;
    if (!action || !cardRef.current || !acceptsLetters(cardRef.current)) return;
    event.preventDefault();
    // A held key answers only one approval.
    if (!event.repeat) runByKey(action, false);
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
        <span class="risk">{RISK_LABELS[approval.risk] ?? approval.risk}</span> {losses?.reason ?? approval.why}
      </p>
      <CallSubject approval={approval} />
      <p class="dim cwd">in {revealHidden(approval.cwd)}</p>
      {losses && <LossList key={approval.seq} losses={losses} />}
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
          draftKey={`reason ${approval.approvalId}`}
          takesFocus={isFormWanted}
          label="What should the agent do instead?"
          action="Deny"
          onDone={(feedback) => sendAnswer(true, "deny", feedback === "" ? {} : { feedback })}
          onCancel={() => setMode("ask")}
        />
      )}
      {mode === "edit" && (
        <InputField
          draftKey={`arguments ${approval.approvalId}`}
          takesFocus={isFormWanted}
          label="Arguments (JSON)"
          action="Allow with edits"
          value={JSON.stringify(approval.input, undefined, 2)}
          validate={validateJson}
          code
          onDone={(input, isSeen) => sendAnswer(isSeen, "allow", { input })}
          onCancel={() => setMode("ask")}
        />
      )}
      {mode === "rule" && (
        <InputField
          draftKey={`rule ${approval.approvalId}`}
          takesFocus={isFormWanted}
          label="Rule to always allow in this workspace"
          action="Always allow"
          value={approval.rule ?? ""}
          validate={(text) => (text.trim() === "" ? "Enter a rule." : undefined)}
          code
          onDone={(text, isSeen) => sendAnswer(isSeen, "allowAlways", { rule: text.trim() })}
          onCancel={() => setMode("ask")}
        />
      )}
    </section>
  );
}

/** The actions that this approval offers. */
function listActions(
  { approvalId, rule, diff, more }: ApprovalRequestedNotification,
  sendAnswer: (isSeen: boolean, decision: Decision, extraParams?: object) => void,
  setMode: (mode: CardMode) => void,
): Actions {
  const actions: Actions = {
    allow: (isSeen) => sendAnswer(isSeen, "allow"),
    deny: () => sendAnswer(true, "deny"),
  };
  // Truncated arguments cannot be sent in full.
  if (more?.["input"] === undefined) actions.edit = () => setMode("edit");
  if (rule !== undefined) {
    actions.allowSession = (isSeen) => sendAnswer(isSeen, "allowSession", { rule });
    actions.allowAlways = () => setMode("rule");
  }
  if (diff !== undefined) actions.diff = () => openReview(approvalId);
  return actions;
}

function openReview(approvalId: string): void {
  postMessage({ type: "review", approvalId, isFromChat: rememberReviewOrigin(approvalId) });
}

function describeKeys(actions: Actions): string {
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
      <Button label="Open review" kind="quiet" onPress={() => openReview(approvalId)} />
      {changed && (
        <Button label="Discard…" kind="quiet" onPress={() => postMessage({ type: "discardReview", approvalId })} />
      )}
    </p>
  );
}

interface ApprovalActionsProps extends Props {
  isSent: boolean;
  actions: Actions;
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
              onPress={(event) => run(isPointer(event))}
            >
              {text}
              {NEEDS_INPUT.has(action) ? "…" : ""} <AnswerKeys letter={key} action={action} />
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
  /** The text is kept under this key. */
  draftKey: string;
  takesFocus: boolean;
  label: string;
  action: string;
  value?: string;
  code?: boolean;
  validate?: (text: string) => string | undefined;
  /** `isSeen`: the user clicked the button. */
  onDone: (text: string, isSeen: boolean) => void;
  onCancel: () => void;
}

/** A text field. Ctrl+Enter or the button submits it. */
function InputField({
  draftKey,
  takesFocus,
  label,
  action,
  value = "",
  code = false,
  validate,
  onDone,
  onCancel,
}: InputFieldProps): JSX.Element {
  const [text, setText] = useFormDraft(draftKey, value);
  const inputRef = useAutoFocus<HTMLTextAreaElement>(takesFocus);
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
            if (problem === undefined && !event.repeat) onDone(text, false);
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
        <Button
          label={action}
          kind="main"
          disabled={problem !== undefined}
          ignoresEnter
          onPress={(event) => onDone(text, isPointer(event))}
        >
          {action} <SubmitKeys />
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
