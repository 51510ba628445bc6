// A tool call: title, input, live and final output, and its approval.

import type { ComponentChildren, JSX } from "preact";
import { countDiffLines, countLines, findNewErrors, formatBytes, formatDuration, takeLastLines } from "../format";
import { getItemKey, type ToolItem } from "../state";
import type { Capabilities, ViewState } from "../webviewProtocol";
import { ApprovalCard } from "./approval";
import { Button, Clock, CodeBlock, DiffPreview, Markdown, PureComponent } from "./components";
import { Entry } from "./entry";
import { NoticeLine } from "./notices";
import { readPersistent, usePersistentState, writePersistent } from "./persistentState";
import { postMessage } from "./store";
import type { SubagentTree } from "./subagents";

/** Number of output lines shown at first, and at most. */
const COLLAPSED_LINES = 12;
const MAX_LINES = 2000;

const STATUS_LABELS: Record<ToolItem["status"], string> = {
  writing: "writing",
  pending: "pending",
  awaitingApproval: "needs approval",
  running: "running",
  completed: "done",
  failed: "failed",
  denied: "denied",
  cancelled: "stopped",
};

interface Props {
  tool: ToolItem;
  /** Set only if this call has sub-agents. */
  subagents?: SubagentTree | undefined;
  capabilities: Capabilities;
  /** Review differences by approval id. */
  reviews: ViewState["reviews"];
}

export class ToolCall extends PureComponent<Props> {
  override state = { open: readPersistent<boolean>(`tool ${this.props.tool.id}`) };

  render({ tool, subagents, capabilities, reviews }: Props): JSX.Element {
    const opensByDefault = tool.status === "running" || tool.status === "failed" || tool.approval !== undefined;
    const isOpen = this.state.open ?? (opensByDefault || (tool.diff !== undefined && tool.status === "completed"));
    // A sub-agent's open question is always visible.
    const open = isOpen || (subagents?.hasOpenQuestion(tool) ?? false);
    const calls = subagents?.countCalls(tool) ?? 0;
    const errors = findEditErrors(tool);
    const id = `tool-${tool.id}`;
    return (
      <section
        class={`tool ${tool.status}${tool.parentToolCallId ? " nested" : ""}`}
        data-testid="tool"
        data-status={tool.status}
      >
        <button type="button" class="head" aria-expanded={open} aria-controls={id} onClick={() => this.#setOpen(!open)}>
          <span class={`mark ${tool.status}`} aria-hidden="true" />
          <span class="title">
            {hasDescriptiveTitle(tool) || <span class="name">{tool.name} </span>}
            {formatTitle(tool)}
          </span>
          {calls > 0 && <span class="dim">{calls === 1 ? "1 call" : `${calls} calls`}</span>}
          <DiffCounts tool={tool} />
          {errors && (
            <span class="exit" data-testid="new-errors">
              {errors.summary}
            </span>
          )}
          <span>
            {tool.status === "failed" && tool.exitCode !== undefined && (
              <span class="exit" data-testid="exit">
                exit {tool.exitCode}
              </span>
            )}
            {tool.status === "running" ? <Clock startedAt={tool.runningSince} /> : <ToolDuration tool={tool} />}
            <span class="visually-hidden">{STATUS_LABELS[tool.status]}</span>
          </span>
        </button>
        <div id={id} class="body" hidden={!open}>
          {open && (
            <ToolBody tool={tool}>
              {subagents && (
                <SubagentEntries tool={tool} subagents={subagents} capabilities={capabilities} reviews={reviews} />
              )}
            </ToolBody>
          )}
        </div>
        {tool.approval && (
          <ApprovalCard
            key={tool.approval.approvalId}
            approval={tool.approval}
            review={reviews[tool.approval.approvalId]}
          />
        )}
      </section>
    );
  }

  #setOpen(open: boolean): void {
    writePersistent(`tool ${this.props.tool.id}`, open);
    this.setState({ open });
  }
}

/** Whether the title describes the action ("Edit src/a.ts"), so that the tool name is redundant. */
function hasDescriptiveTitle(tool: ToolItem): boolean {
  return tool.name !== "bash" && tool.status !== "writing" && /^(\[.+?\] )?[A-Z][a-z]+:? /.test(tool.title);
}

/** Returns the title unless it only repeats the name. */
function formatTitle(tool: ToolItem): string {
  if (tool.status === "writing") return tool.written ? `… ${formatBytes(tool.written)}` : "…";
  return tool.title === tool.name ? "" : tool.title;
}

function DiffCounts({ tool }: { tool: ToolItem }): JSX.Element | null {
  if (tool.diff === undefined) return null;
  const { added, removed } = countDiffLines(tool.diff);
  return (
    <span class="change" role="img" aria-label={`${added} lines added, ${removed} removed`}>
      <span class="add">+{added}</span> <span class="del">−{removed}</span>
    </span>
  );
}

/** The errors that an edit has caused. */
function findEditErrors({ status, diff, output = "" }: ToolItem): ReturnType<typeof findNewErrors> {
  return status === "completed" && diff !== undefined ? findNewErrors(output) : undefined;
}

function ToolDuration({ tool }: { tool: ToolItem }): JSX.Element | null {
  if (tool.durationMs === undefined || tool.durationMs < 1000) return null;
  return <span class="clock">{formatDuration(tool.durationMs)}</span>;
}

/** Shows a sub-agent's work under the call that delegated to it. */
function SubagentEntries({ tool, subagents, capabilities, reviews }: Props & { subagents: SubagentTree }): JSX.Element {
  return (
    <div class="subagent" role="group" aria-label={`Sub-agent work for ${tool.title}`} data-testid="subagent">
      {subagents.getItems(tool).map((item) => (
        <Entry
          key={getItemKey(item)}
          item={item}
          capabilities={capabilities}
          reviews={reviews}
          isResumable={false}
          subagents={subagents.hasEntries(item) ? subagents : undefined}
        />
      ))}
      {subagents.getNotices(tool).map((notice) => (
        <NoticeLine key={notice.key} notice={notice} circuits={capabilities.circuits} />
      ))}
    </div>
  );
}

function ToolBody({ tool, children }: { tool: ToolItem; children: ComponentChildren }): JSX.Element {
  const { decision } = tool;
  const errors = findEditErrors(tool);
  // The answers of sub-agents, which are in Markdown.
  const isReport = tool.name === "delegate" && tool.more?.["output"] === undefined;
  const isCompletedEdit = tool.diff !== undefined && tool.status === "completed";
  return (
    <>
      {tool.diff === undefined ? (
        tool.approval === undefined && <ToolInput tool={tool} />
      ) : (
        <DiffPreview text={tool.diff} toolCallId={tool.id} />
      )}
      {isCompletedEdit && (
        <div class="row">
          <Button
            label="Open in the diff editor"
            kind="quiet"
            onPress={() => postMessage({ type: "openDiff", toolCallId: tool.id })}
          />
        </div>
      )}
      {errors && (
        <pre class="wrap" tabIndex={0} role="region" aria-label="New errors">
          {errors.list}
        </pre>
      )}
      {children}
      {tool.live !== undefined && (
        <ToolOutput id={tool.id} name={tool.title} text={tool.live} omittedLength={tool.liveDropped ?? 0} isLive />
      )}
      {isReport && tool.output !== undefined && <Markdown text={tool.output} isOpen={false} />}
      {tool.output !== undefined && !isReport && !isCompletedEdit && (
        <ToolOutput
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
          Added rule: <code>{decision.rule}</code>
        </p>
      )}
    </>
  );
}

/** Shows a command as code, and other input as JSON. */
function ToolInput({ tool }: { tool: ToolItem }): JSX.Element | null {
  const input = tool.input as Record<string, unknown> | undefined;
  if (input === undefined || Object.keys(input).length === 0) return null;
  const { command, path, pattern, prompt } = input;
  if (typeof command === "string") return <CodeBlock text={command} language="bash" wrap />;
  const [value, ...others] = Object.values(input);
  if (tool.name === "delegate" && typeof prompt === "string")
    return <CodeBlock text={describeTasks(input)} language="" wrap />;
  const isPlain = others.length === 0 && (typeof path === "string" || typeof pattern === "string");
  if (isPlain && tool.title.includes(String(value))) return null;
  return <CodeBlock text={JSON.stringify(input, undefined, 2)} language="json" />;
}

function describeTasks(input: Record<string, unknown>): string {
  const { prompt, agent, tasks, join } = input as { prompt: string; agent?: string; tasks?: unknown; join?: string };
  const formatAgent = (name: string | undefined) => (name === undefined ? "" : `${name}: `);
  const list = (Array.isArray(tasks) ? tasks : []) as { prompt?: string; agent?: string }[];
  const lines = [
    `${formatAgent(agent)}${prompt}`,
    ...list.map((task, at) => `${at + 1}. ${formatAgent(task.agent)}${task.prompt ?? ""}`),
  ];
  if (join !== undefined) lines.push(`(${join})`);
  return lines.filter((line) => line !== "").join("\n");
}

interface ToolOutputProps {
  id: string;
  name: string;
  text: string;
  tail?: string | undefined;
  /** Number of omitted characters at the start. */
  omittedLength?: number;
  /** Size of the full output in bytes. */
  total?: number | undefined;
  reference?: string | undefined;
  isLive?: boolean;
}

function ToolOutput({
  id,
  name,
  text,
  tail,
  omittedLength = 0,
  total,
  reference,
  isLive = false,
}: ToolOutputProps): JSX.Element | null {
  const [showsAll, setShowsAll] = usePersistentState(`output ${id}`, false);
  if (text === "" && tail === undefined) return isLive ? null : <p class="dim">No output.</p>;
  // For a running command, show the end of the output. For a truncated result, show its end too.
  const end = tail ?? text;
  const { text: visibleText, omitted } = takeLastLines(end, showsAll ? MAX_LINES : COLLAPSED_LINES);
  const lineCount = countLines(end);
  return (
    <div class="output" data-testid="output">
      {omitted > 0 && (
        <button type="button" class="quiet" onClick={() => setShowsAll(true)} disabled={showsAll}>
          {showsAll ? `${omitted} lines above are hidden` : `Show ${Math.min(lineCount, MAX_LINES)} lines`}
        </button>
      )}
      <pre tabIndex={0} role="region" aria-label={`Output of ${name}`}>
        {visibleText}
      </pre>
      {(showsAll || total !== undefined || omitted > 0 || omittedLength > 0) && !isLive && (
        <button
          type="button"
          class="quiet"
          onClick={() => postMessage({ type: "openText", title: `${name} (output)`, text, ref: reference })}
        >
          Open in an editor{total === undefined ? "" : ` (${formatBytes(total)})`}
        </button>
      )}
      {isLive && omittedLength > 0 && (
        <p class="dim">
          {formatBytes(omittedLength)} of earlier output; the full output is available when the command ends.
        </p>
      )}
    </div>
  );
}
