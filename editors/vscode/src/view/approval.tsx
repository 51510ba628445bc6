// The question about an effect, at its tool call. Letters decide while it has the focus; Enter alone never allows.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { bytes, reveal } from "../format";
import { type ApprovalRequestedNotification, approvalKeys, type Decision } from "../protocol";
import type { ReviewSummary } from "../webviewProtocol";
import { Button, Code, useFocus } from "./components";
import { ANSWER, APPEARED, questionAppeared, questionGoes, SETTLE_MS, STILL_OPEN } from "./questionFocus";
import { post } from "./store";

const RISKS: Record<string, string> = { low: "low risk", medium: "medium risk", high: "high risk" };

type Action = (typeof approvalKeys)[number]["action"];
type Way = "ask" | "deny" | "edit" | "rule";

interface Props {
  approval: ApprovalRequestedNotification;
  /** What a person has done to the proposal in the diff editor. */
  review: ReviewSummary | undefined;
}

/** Whether the question has settled: a while after it appeared, or came into sight. */
function useArmed(place: { current: HTMLElement | null }): boolean {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    const question = place.current;
    let timer: ReturnType<typeof setTimeout>;
    const settle = () => {
      setArmed(false);
      clearTimeout(timer);
      timer = setTimeout(() => setArmed(true), SETTLE_MS);
    };
    settle();
    question?.addEventListener(APPEARED, settle);
    return () => {
      clearTimeout(timer);
      question?.removeEventListener(APPEARED, settle);
    };
  }, []);
  return armed;
}

/** One instance for each question: give it the approval's id as its key. */
export function Approval({ approval, review }: Props): JSX.Element {
  const [way, setWay] = useState<Way>("ask");
  const [sent, setSent] = useState(false);
  const place = useRef<HTMLElement>(null);
  const armed = useArmed(place);
  useEffect(() => {
    const question = place.current;
    if (!question) return undefined;
    questionAppeared(question);
    // A refused answer leaves the question to be answered again.
    const onStillOpen = () => setSent(false);
    question.addEventListener(STILL_OPEN, onStillOpen);
    return () => {
      question.removeEventListener(STILL_OPEN, onStillOpen);
      questionGoes(question);
    };
  }, []);

  const answer = (decision: Decision, more: object = {}) => {
    if (sent || !armed) return;
    // A button that is disabled loses the focus, and the keys with it.
    if (place.current?.contains(document.activeElement)) place.current.focus({ preventScroll: true });
    setSent(true);
    setWay("ask");
    post({ type: "approve", approvalId: approval.approvalId, decision, ...more });
  };
  const { rule } = approval;
  const actions: Partial<Record<Action, () => void>> = {
    allow: () => answer("allow"),
    deny: () => answer("deny"),
    // Arguments that were cut for the wire cannot be sent whole.
    ...(approval.more?.["input"] === undefined ? { edit: () => setWay("edit") } : {}),
    ...(rule === undefined
      ? {}
      : { allowSession: () => answer("allowSession", { rule }), allowAlways: () => setWay("rule") }),
    ...(approval.diff === undefined ? {} : { diff: () => post({ type: "review", approvalId: approval.approvalId }) }),
  };
  useEffect(() => {
    const question = place.current;
    const onAnswer = (event: Event) => actions[(event as CustomEvent<Action>).detail]?.();
    question?.addEventListener(ANSWER, onAnswer);
    return () => question?.removeEventListener(ANSWER, onAnswer);
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const inField = event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLInputElement;
    if (event.key === "Escape" && way !== "ask") {
      event.stopPropagation();
      setWay("ask");
      place.current?.focus();
      return;
    }
    if (inField || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = approvalKeys.find(({ key }) => key === event.key.toLowerCase())?.action;
    const run = action && actions[action];
    if (!run) return;
    event.preventDefault();
    // A key that is held down answers one question.
    if (!event.repeat) run();
  };

  return (
    <section
      ref={place}
      class={`approval ${approval.risk}`}
      role="group"
      tabIndex={0}
      aria-label={`The agent asks: ${reveal(approval.shown ?? approval.title)}. ${approval.why}. ${keysLine(actions)}`}
      data-testid="approval"
      data-question
      data-approval={approval.approvalId}
      data-armed={armed}
      onKeyDown={onKeyDown}
    >
      <p class="why">
        <span class="risk">{RISKS[approval.risk] ?? approval.risk}</span> {approval.why}
      </p>
      <Subject approval={approval} />
      <p class="dim cwd">in {reveal(approval.cwd)}</p>
      {review && <Reviewed approvalId={approval.approvalId} review={review} />}
      {way === "ask" && (
        <Ways approval={approval} sent={sent} actions={actions} review={review} denyWithReason={() => setWay("deny")} />
      )}
      {way === "deny" && (
        <Field
          label="What shall the agent do instead?"
          action="Deny"
          onDone={(feedback) => answer("deny", feedback === "" ? {} : { feedback })}
          onCancel={() => setWay("ask")}
        />
      )}
      {way === "edit" && (
        <Field
          label="The arguments, as JSON"
          action="Allow as edited"
          value={JSON.stringify(approval.input, undefined, 2)}
          check={problemOfJson}
          code
          onDone={(input) => answer("allow", { input })}
          onCancel={() => setWay("ask")}
        />
      )}
      {way === "rule" && (
        <Field
          label="Allow without asking in this workspace what fits this rule"
          action="Always allow"
          value={rule ?? ""}
          check={(text) => (text.trim() === "" ? "The rule is empty." : undefined)}
          code
          onDone={(text) => answer("allowAlways", { rule: text.trim() })}
          onCancel={() => setWay("ask")}
        />
      )}
    </section>
  );
}

function keysLine(actions: Partial<Record<Action, () => void>>): string {
  const parts = approvalKeys.flatMap(({ key, action, label }) =>
    actions[action] ? [`${key.toUpperCase()}: ${label}`] : [],
  );
  return parts.join(", ");
}

/** What would be done, in full: the command line or address, its options, and every other argument. */
function Subject({ approval }: { approval: ApprovalRequestedNotification }): JSX.Element {
  const { shown, options = [], diff, more, name } = approval;
  const { path } = approval.input as { path?: unknown };
  const rest = otherArguments(approval);
  const cut = more?.["shown"] ?? (diff === undefined ? more?.["input"] : undefined);
  return (
    <div class="subject" data-testid="subject">
      {shown !== undefined && <Code text={shown} language={name === "bash" ? "bash" : ""} wrap />}
      {options.length > 0 && (
        <ul class="options" aria-label="Options">
          {options.map((option) => (
            <li key={option}>{reveal(option)}</li>
          ))}
        </ul>
      )}
      {diff !== undefined && typeof path === "string" && (
        <p class="whole">
          <code>{reveal(path)}</code>
        </p>
      )}
      {rest !== undefined && <Code text={JSON.stringify(rest, undefined, 2)} language="json" wrap />}
      {cut !== undefined && (
        <p class="problem">
          This is only the beginning of {bytes(cut.bytes)}.{" "}
          <Button
            label="Read all of it in an editor"
            kind="quiet"
            onPress={() => post({ type: "openText", title: "The whole call", text: "", ref: cut.ref })}
          />
        </p>
      )}
    </div>
  );
}

/** The arguments that are not shown otherwise. */
function otherArguments({ shown, diff, input, name }: ApprovalRequestedNotification): unknown {
  if (diff !== undefined) return undefined;
  if (typeof input !== "object" || input === null || Array.isArray(input))
    return shown === undefined ? input : undefined;
  const rest: Record<string, unknown> = { ...input };
  if (shown !== undefined) delete rest["command" in rest ? "command" : "url"];
  // The phrases in `options` say these.
  if (name === "bash") for (const told of ["background", "timeout_s", "description"]) delete rest[told];
  return Object.keys(rest).length === 0 ? undefined : rest;
}

/** How the review differs from the proposal: allowed is what it shows. */
function Reviewed({ approvalId, review }: { approvalId: string; review: ReviewSummary }): JSX.Element {
  const changed = review.difference !== "";
  return (
    <p class="reviewed" role="status" data-testid="reviewed">
      {changed ? `Your review is what runs: ${review.difference}.` : "Your review shows the agent's proposal."}{" "}
      <Button label="Open the review" kind="quiet" onPress={() => post({ type: "review", approvalId })} />
      {changed && (
        <Button label="Discard it…" kind="quiet" onPress={() => post({ type: "discardReview", approvalId })} />
      )}
    </p>
  );
}

interface WaysProps extends Props {
  sent: boolean;
  actions: Partial<Record<Action, () => void>>;
  denyWithReason: () => void;
}

/** Actions that ask something more first. */
const ASKS_MORE = new Set<Action>(["allowAlways", "edit"]);
const QUIET = new Set<Action>(["edit", "diff"]);

function Ways({ approval, review, sent, actions, denyWithReason }: WaysProps): JSX.Element {
  const reviewed = review !== undefined && review.difference !== "";
  return (
    <>
      {approval.rule !== undefined && (
        <p class="dim whole" data-testid="rule">
          For this session, or always: <code>{reveal(approval.rule)}</code>
        </p>
      )}
      <div class="ways">
        {approvalKeys.map(({ key, action, label }) => {
          const run = actions[action];
          if (!run) return null;
          const text = action === "allow" && reviewed ? "Allow as reviewed" : label;
          const kind = action === "allow" ? "main" : QUIET.has(action) ? "quiet" : "plain";
          return (
            <Button key={key} label={text} kind={kind} disabled={sent} notByEnter testId={`way-${key}`} onPress={run}>
              {text}
              {ASKS_MORE.has(action) ? "…" : ""} <kbd>{key.toUpperCase()}</kbd>
            </Button>
          );
        })}
        <Button
          label="Deny with a reason…"
          kind="quiet"
          disabled={sent}
          notByEnter
          testId="deny-reason"
          onPress={denyWithReason}
        />
      </div>
    </>
  );
}

interface FieldProps {
  label: string;
  action: string;
  value?: string;
  code?: boolean;
  check?: (text: string) => string | undefined;
  onDone: (text: string) => void;
  onCancel: () => void;
}

/** A text to enter. Control and Enter sends it, the mouse too. */
function Field({ label, action, value = "", code = false, check, onDone, onCancel }: FieldProps): JSX.Element {
  const [text, setText] = useState(value);
  const place = useFocus<HTMLTextAreaElement>();
  const problem = check?.(text);
  useLayoutEffect(() => {
    // As high as its text: no part of a rule is out of sight.
    const box = place.current;
    if (!box) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, Math.max(200, window.innerHeight / 2))}px`;
  }, [text]);
  const hidden = code && reveal(text) !== text;
  return (
    <div class="field">
      <label>
        <span>{label}</span>
        <textarea
          ref={place}
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
        <p class="problem whole">
          With what hides written out: <code>{reveal(text)}</code>
        </p>
      )}
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div class="ways">
        <Button label={action} kind="main" disabled={problem !== undefined} notByEnter onPress={() => onDone(text)}>
          {action} <kbd>Ctrl Enter</kbd>
        </Button>
        <Button label="Back" kind="quiet" onPress={onCancel}>
          Back <kbd>Esc</kbd>
        </Button>
      </div>
    </div>
  );
}

function problemOfJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? undefined : "It must be an object.";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
