// The question about an effect, at its tool call. Letters decide while it has the focus; Enter alone never allows.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApprovalRequestedNotification } from "../protocol";
import { Button, useFocus } from "./parts";
import { post } from "./store";

const RISKS: Record<string, string> = { low: "low risk", medium: "medium risk", high: "high risk" };

/** A key that was on its way when the question came is not its answer. */
const SETTLE_MS = 400;

type Way = "ask" | "deny" | "edit" | "rule";

interface Props {
  approval: ApprovalRequestedNotification;
}

export function Approval({ approval }: Props): JSX.Element {
  const [way, setWay] = useState<Way>("ask");
  const [sent, setSent] = useState(false);
  const [armed, setArmed] = useState(false);
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => setArmed(true), SETTLE_MS);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    setSent(false);
    // Nobody who types is interrupted.
    const active = document.activeElement;
    const typing = active instanceof HTMLTextAreaElement && active.value !== "";
    if (!typing && document.hasFocus() && active?.closest(".approval") === null) place.current?.focus();
  }, [approval.approvalId]);

  const answer = (decision: "allow" | "allowSession" | "allowAlways" | "deny", more: object = {}) => {
    if (sent || !armed) return;
    setSent(true);
    // It may be refused; then the person decides again.
    setTimeout(() => setSent(false), 3000);
    post({ type: "approve", approvalId: approval.approvalId, decision, ...more });
  };
  const keys: Record<string, () => void> = {
    y: () => answer("allow"),
    n: () => answer("deny"),
    f: () => setWay("deny"),
    // Arguments that were cut for the wire cannot be sent whole.
    ...(approval.more?.["input"] === undefined ? { e: () => setWay("edit") } : {}),
    ...(approval.rule === undefined
      ? {}
      : { s: () => answer("allowSession", { rule: approval.rule }), a: () => setWay("rule") }),
    ...(approval.diff === undefined ? {} : { d: () => post({ type: "review", approvalId: approval.approvalId }) }),
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const inField = event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLInputElement;
    if (event.key === "Escape" && way !== "ask") {
      event.stopPropagation();
      setWay("ask");
      place.current?.focus();
      return;
    }
    if (inField || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const run = keys[event.key.toLowerCase()];
    if (!run) return;
    event.preventDefault();
    run();
  };

  return (
    <section
      ref={place}
      class={`approval ${approval.risk}`}
      role="group"
      tabIndex={0}
      aria-label={`The agent asks: ${approval.title}. ${approval.why}. Y allows, N denies, E edits, F denies with a word.`}
      data-testid="approval"
      data-armed={armed}
      onKeyDown={onKeyDown}
    >
      <p class="why">
        <span class="risk">{RISKS[approval.risk] ?? approval.risk}</span> {approval.why}
      </p>
      <p class="dim cwd" title={approval.cwd}>
        in {approval.cwd}
      </p>
      {way === "ask" && <Ways approval={approval} sent={sent} keys={keys} />}
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
          value={approval.rule ?? ""}
          check={(text) => (text.trim() === "" ? "The rule is empty." : undefined)}
          code
          onDone={(rule) => answer("allowAlways", { rule: rule.trim() })}
          onCancel={() => setWay("ask")}
        />
      )}
    </section>
  );
}

function Ways({ approval, sent, keys }: Props & { sent: boolean; keys: Record<string, () => void> }): JSX.Element {
  return (
    <div class="ways">
      <Way label="Allow" letter="y" kind="main" keys={keys} sent={sent} />
      {approval.rule !== undefined && (
        <Way label="This session" letter="s" keys={keys} sent={sent} title={`Allow ${approval.rule} in this session`} />
      )}
      {approval.rule !== undefined && (
        <Way label="Always…" letter="a" keys={keys} sent={sent} title={`Allow ${approval.rule} in this workspace`} />
      )}
      <Way label="Deny" letter="n" keys={keys} sent={sent} />
      <Way label="Deny and say why…" letter="f" kind="quiet" keys={keys} sent={sent} />
      {keys["e"] && <Way label="Edit…" letter="e" kind="quiet" keys={keys} sent={sent} />}
      {approval.diff !== undefined && <Way label="Review changes" letter="d" kind="quiet" keys={keys} sent={sent} />}
    </div>
  );
}

interface WayProps {
  label: string;
  letter: string;
  kind?: "main" | "plain" | "quiet";
  keys: Record<string, () => void>;
  sent: boolean;
  title?: string;
}

function Way({ label, letter, kind = "plain", keys, sent, title }: WayProps): JSX.Element {
  return (
    <Button
      label={label}
      kind={kind}
      title={title ?? ""}
      disabled={sent}
      notByEnter
      testId={`way-${letter}`}
      onPress={() => keys[letter]?.()}
    >
      {label} <kbd>{letter.toUpperCase()}</kbd>
    </Button>
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
  return (
    <div class="field">
      <label>
        <span>{label}</span>
        <textarea
          ref={place}
          class={code ? "mono" : ""}
          rows={Math.min(12, Math.max(2, text.split("\n").length))}
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
