// A tool call: what it is, what it was given, what it gives while it runs and at its end, and the question about it.

import type { ComponentChildren, JSX } from "preact";
import { bytes, lastLines, lineCount, seconds } from "../format";
import { keyOf, type ToolItem } from "../state";
import type { Offers, ViewState } from "../webviewProtocol";
import { Approval } from "./approval";
import { Button, Clock, Code, counts, Diff, Still } from "./components";
import { Entry } from "./entry";
import { NoticeLine } from "./notices";
import { keepChoice, keptChoice, useKept } from "./persistentState";
import { post } from "./store";
import type { Inner } from "./subagents";

/** Lines of output that are shown at first, and at most. */
const FEW = 12;
const MOST = 2000;

const WORDS: Record<ToolItem["status"], string> = {
  writing: "is being written",
  pending: "waits",
  awaitingApproval: "asks you",
  running: "runs",
  completed: "done",
  failed: "failed",
  denied: "denied",
  cancelled: "stopped",
};

interface Props {
  tool: ToolItem;
  /** What stands under it and others; only where something stands under it. */
  inner?: Inner | undefined;
  offers: Offers;
  /** How reviews differ from their proposals, by the ids of the approvals. */
  reviews: ViewState["reviews"];
}

export class Tool extends Still<Props> {
  override state = { open: keptChoice<boolean>(`tool ${this.props.tool.id}`) };

  render({ tool, inner, offers, reviews }: Props): JSX.Element {
    const wants = tool.status === "running" || tool.status === "failed" || tool.approval !== undefined;
    const chosen = this.state.open ?? (wants || (tool.diff !== undefined && tool.status === "completed"));
    // A sub-agent that asks is never out of sight.
    const open = chosen || (inner?.asks(tool) ?? false);
    const calls = inner?.calls(tool) ?? 0;
    const id = `tool-${tool.id}`;
    return (
      <section
        class={`tool ${tool.status}${tool.parentToolCallId ? " nested" : ""}`}
        data-testid="tool"
        data-status={tool.status}
      >
        <button type="button" class="head" aria-expanded={open} aria-controls={id} onClick={() => this.#open(!open)}>
          <span class={`mark ${tool.status}`} aria-hidden="true" />
          <span class="title">
            {named(tool) || <span class="name">{tool.name} </span>}
            {title(tool)}
          </span>
          {calls > 0 && <span class="dim">{calls === 1 ? "1 call" : `${calls} calls`}</span>}
          <Change tool={tool} />
          <span class="after">
            {tool.status === "failed" && tool.exitCode !== undefined && (
              <span class="exit" data-testid="exit">
                exit {tool.exitCode}
              </span>
            )}
            {tool.status === "running" ? <Clock from={tool.runningSince} /> : <Took tool={tool} />}
            <span class="said">{WORDS[tool.status]}</span>
          </span>
        </button>
        <div id={id} class="body" hidden={!open}>
          {open && (
            <Body tool={tool}>{inner && <Nested tool={tool} inner={inner} offers={offers} reviews={reviews} />}</Body>
          )}
        </div>
        {tool.approval && (
          <Approval
            key={tool.approval.approvalId}
            approval={tool.approval}
            review={reviews[tool.approval.approvalId]}
          />
        )}
      </section>
    );
  }

  #open(open: boolean): void {
    keepChoice(`tool ${this.props.tool.id}`, open);
    this.setState({ open });
  }
}

/** Whether the title says what is done ("Edit src/a.ts"), so that the tool's name adds nothing. */
function named(tool: ToolItem): boolean {
  return tool.name !== "bash" && tool.status !== "writing" && /^[A-Z][a-z]+:? /.test(tool.title);
}

/** The title without the name that stands before it. */
function title(tool: ToolItem): string {
  if (tool.status === "writing") return tool.written ? `… ${bytes(tool.written)}` : "…";
  return tool.title === tool.name ? "" : tool.title;
}

function Change({ tool }: { tool: ToolItem }): JSX.Element | null {
  if (tool.diff === undefined) return null;
  const { added, removed } = counts(tool.diff);
  return (
    <span class="change" role="img" aria-label={`${added} lines added, ${removed} removed`}>
      <span class="add">+{added}</span> <span class="del">−{removed}</span>
    </span>
  );
}

function Took({ tool }: { tool: ToolItem }): JSX.Element | null {
  if (tool.durationMs === undefined || tool.durationMs < 1000) return null;
  return <span class="clock">{seconds(tool.durationMs)}</span>;
}

/** What a sub-agent does, under the call that delegated to it. */
function Nested({ tool, inner, offers, reviews }: Props & { inner: Inner }): JSX.Element {
  return (
    <div class="inner" role="group" aria-label={`What ${tool.title} does`} data-testid="inner">
      {inner.items(tool).map((item) => (
        <Entry
          key={keyOf(item)}
          item={item}
          offers={offers}
          reviews={reviews}
          resumable={false}
          inner={inner.has(item) ? inner : undefined}
        />
      ))}
      {inner.notices(tool).map((notice) => (
        <NoticeLine key={notice.key} notice={notice} circuits={offers.circuits} />
      ))}
    </div>
  );
}

function Body({ tool, children }: { tool: ToolItem; children: ComponentChildren }): JSX.Element {
  const { decision } = tool;
  return (
    <>
      {tool.diff === undefined ? (
        tool.approval === undefined && <Input tool={tool} />
      ) : (
        <Diff text={tool.diff} toolCallId={tool.id} />
      )}
      {tool.diff !== undefined && tool.status === "completed" && (
        <div class="row">
          <Button
            label="Review in the diff editor"
            kind="quiet"
            onPress={() => post({ type: "openDiff", toolCallId: tool.id })}
          />
        </div>
      )}
      {children}
      {tool.live !== undefined && (
        <Output id={tool.id} name={tool.title} text={tool.live} dropped={tool.liveDropped ?? 0} live />
      )}
      {tool.output !== undefined && (tool.diff === undefined || tool.status !== "completed") && (
        <Output
          id={tool.id}
          name={tool.title}
          text={tool.output}
          tail={tool.more?.["output"]?.tail}
          total={tool.more?.["output"]?.bytes}
          reference={tool.more?.["output"]?.ref}
        />
      )}
      {decision?.feedback !== undefined && <p class="dim">You said: {decision.feedback}</p>}
      {decision?.rule !== undefined && (
        <p class="dim">
          Allowed from now on: <code>{decision.rule}</code>
        </p>
      )}
    </>
  );
}

/** What it was given: a command as one, all else as JSON. */
function Input({ tool }: { tool: ToolItem }): JSX.Element | null {
  const input = tool.input as Record<string, unknown> | undefined;
  if (input === undefined || Object.keys(input).length === 0) return null;
  const { command, path, pattern, prompt } = input;
  if (typeof command === "string") return <Code text={command} language="bash" wrap />;
  const [only, ...others] = Object.values(input);
  if (tool.name === "delegate" && typeof prompt === "string") return <Code text={tasksOf(input)} language="" wrap />;
  const plain = others.length === 0 && (typeof path === "string" || typeof pattern === "string");
  if (plain && tool.title.includes(String(only))) return null;
  return <Code text={JSON.stringify(input, undefined, 2)} language="json" />;
}

/** What sub-agents shall do, in words. */
function tasksOf(input: Record<string, unknown>): string {
  const { prompt, agent, tasks, join } = input as { prompt: string; agent?: string; tasks?: unknown; join?: string };
  const by = (name: string | undefined) => (name === undefined ? "" : `${name}: `);
  const list = (Array.isArray(tasks) ? tasks : []) as { prompt?: string; agent?: string }[];
  const lines = [
    `${by(agent)}${prompt}`,
    ...list.map((task, at) => `${at + 1}. ${by(task.agent)}${task.prompt ?? ""}`),
  ];
  if (join !== undefined) lines.push(`(${join})`);
  return lines.filter((line) => line !== "").join("\n");
}

interface OutputProps {
  id: string;
  name: string;
  text: string;
  tail?: string | undefined;
  /** Characters that are gone at its beginning. */
  dropped?: number;
  /** Bytes of the whole. */
  total?: number | undefined;
  reference?: string | undefined;
  live?: boolean;
}

function Output({
  id,
  name,
  text,
  tail,
  dropped = 0,
  total,
  reference,
  live = false,
}: OutputProps): JSX.Element | null {
  const [all, setAll] = useKept(`output ${id}`, false);
  if (text === "" && tail === undefined) return live ? null : <p class="dim">No output.</p>;
  // Of a running command the end counts, and of a result that was cut its beginning and its end.
  const end = tail ?? text;
  const { text: shown, left } = lastLines(end, all ? MOST : FEW);
  const whole = lineCount(end);
  return (
    <div class="output" data-testid="output">
      {left > 0 && (
        <button type="button" class="quiet left" onClick={() => setAll(true)} disabled={all}>
          {all ? `${left} lines above are not shown` : `Show ${Math.min(whole, MOST)} lines`}
        </button>
      )}
      <pre tabIndex={0} role="region" aria-label={`Output of ${name}`}>
        {shown}
      </pre>
      {(all || total !== undefined || left > 0 || dropped > 0) && !live && (
        <button
          type="button"
          class="quiet"
          onClick={() => post({ type: "openText", title: `${name} (output)`, text, ref: reference })}
        >
          Open in an editor{total === undefined ? "" : ` (${bytes(total)})`}
        </button>
      )}
      {live && dropped > 0 && <p class="dim">{bytes(dropped)} came before; all of it can be read at the end.</p>}
    </div>
  );
}
