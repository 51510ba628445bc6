// Renders each kind of item of the conversation.

import type { JSX } from "preact";
import { formatCost, formatTokens } from "../format";
import { adaptText } from "../problemText";
import type { AssistantItem, ChatItem, PlanListItem, TurnEndItem, UserItem } from "../state";
import { describeTurnEnd, getProposedPlan } from "../state";
import { type Capabilities, describeKeyCheck, type KeyCheck, type ViewState } from "../webviewProtocol";
import { TurnChanges } from "./changes";
import { Button, Markdown, PureComponent } from "./components";
import { LimitEntry, QuestionEntry } from "./inquiries";
import { InstructionsEntry } from "./instructions";
import { usePersistentState } from "./persistentState";
import { postMessage } from "./store";
import type { SubagentTree } from "./subagents";
import { ToolCall } from "./tool";

interface Props {
  item: ChatItem;
  isLast?: boolean;
  /** The item ends the last turn, which can be resumed. */
  isResumable: boolean;
  capabilities: Capabilities;
  /** Set only for calls with an approval or with sub-agents. */
  reviews?: ViewState["reviews"] | undefined;
  /** Whether a turn runs. Set only for changes. */
  isRunning?: boolean;
  /** The last entered key. Set only for the last item. */
  keyCheck?: KeyCheck | undefined;
  /** Set only if this call has sub-agents. */
  subagents?: SubagentTree | undefined;
}

const NO_REVIEWS = {};

export class Entry extends PureComponent<Props> {
  render({
    item,
    isLast = false,
    isResumable,
    capabilities,
    reviews = NO_REVIEWS,
    isRunning = false,
    keyCheck,
    subagents,
  }: Props): JSX.Element | null {
    switch (item.kind) {
      case "user":
        return <UserMessage item={item} />;
      case "assistant":
        return <AssistantMessage item={item} />;
      case "tool": {
        // The plan and the question are items of their own.
        if (["update_plan", "ask_user"].includes(item.name) && item.status !== "failed") return null;
        const plan = getProposedPlan(item);
        if (plan !== undefined) return <ProposedPlan text={plan} />;
        return <ToolCall tool={item} subagents={subagents} capabilities={capabilities} reviews={reviews} />;
      }
      case "plan":
        return <PlanEntry item={item} />;
      case "warning":
        return (
          <p class="warning" role="note" data-testid="warning">
            {adaptText(item.message)}
          </p>
        );
      case "note":
        return <p class="note">{item.text}</p>;
      case "limit":
        return capabilities.limits || item.resolved ? <LimitEntry item={item} /> : null;
      case "question":
        return capabilities.questions || item.resolved ? <QuestionEntry item={item} /> : null;
      case "changes":
        return <TurnChanges item={item} capabilities={capabilities} isRunning={isRunning} />;
      case "instructions":
        return <InstructionsEntry item={item} />;
      case "turnEnd":
        return (
          <TurnEnd
            item={item}
            isLast={isLast}
            isResumable={isResumable}
            capabilities={capabilities}
            keyCheck={keyCheck}
          />
        );
    }
  }
}

function UserMessage({ item }: { item: UserItem }): JSX.Element {
  return (
    <article class="user" aria-label={item.steer ? "You, during the turn" : "You"} data-testid="user">
      {item.steer && <span class="tag">steer</span>}
      <div class="message-text">{item.text}</div>
      {(item.references.length > 0 || item.images > 0) && (
        <ul class="references" aria-label="Attached">
          {item.references.map((reference) => (
            <li key={reference}>
              <button type="button" class="chip" title={reference} onClick={() => openReference(reference)}>
                {shortenPath(reference)}
              </button>
            </li>
          ))}
          {item.images > 0 && <li>{item.images === 1 ? "1 picture" : `${item.images} pictures`}</li>}
        </ul>
      )}
    </article>
  );
}

/** Shortens a long path to its last parts. */
function shortenPath(reference: string): string {
  const parts = reference.split(/[/\\]/);
  return parts.length > 4 ? parts.slice(-2).join("/") : reference;
}

function openReference(reference: string): void {
  const [, path = reference, line] = /^(.*?)(?::(\d+)(?:-\d+)?)?$/.exec(reference) ?? [];
  postMessage({ type: "openPath", path, line: line === undefined ? undefined : Number.parseInt(line, 10) });
}

function AssistantMessage({ item }: { item: AssistantItem }): JSX.Element {
  const thinking = item.open && item.text === "";
  const [open, setOpen] = usePersistentState<boolean | undefined>(`reasoning ${item.id}`, undefined);
  return (
    <article class="assistant" aria-label="Agent" aria-busy={item.open} data-testid="assistant">
      {item.reasoning !== "" && (
        <details class="reasoning" open={open ?? thinking}>
          <summary
            onClick={(event) => {
              event.preventDefault();
              setOpen(!(open ?? thinking));
            }}
          >
            {thinking ? "Thinking…" : "Thoughts"}
          </summary>
          <Markdown text={item.reasoning} isOpen={item.open} />
        </details>
      )}
      {item.text !== "" && <Markdown text={item.text} isOpen={item.open} />}
      {item.more !== undefined && (
        <Button
          label="Open the full answer in an editor"
          kind="quiet"
          onPress={() => postMessage({ type: "openText", title: "answer.md", text: item.text, ref: item.more?.ref })}
        />
      )}
      {item.incomplete && <p class="dim">This answer is incomplete.</p>}
    </article>
  );
}

const STEP_LABELS = { pending: "to do", inProgress: "in progress", completed: "done" };

/** A plan that the agent has worked out in plan mode. The question about it follows. */
function ProposedPlan({ text }: { text: string }): JSX.Element {
  return (
    <section class="proposed-plan" aria-label="The proposed plan" data-testid="proposed-plan">
      <h2>Proposed plan</h2>
      <Markdown text={text} isOpen={false} />
    </section>
  );
}

function PlanEntry({ item }: { item: PlanListItem }): JSX.Element {
  const completedCount = item.items.filter((step) => step.status === "completed").length;
  return (
    <section class="plan" aria-label={`To-do, ${completedCount} of ${item.items.length} done`} data-testid="plan">
      <h2>
        To-do{" "}
        <span class="dim">
          {completedCount}/{item.items.length}
        </span>
      </h2>
      <ol>
        {item.items.map((step) => (
          <li key={step.text} class={step.status}>
            <span class={`mark ${step.status}`} role="img" aria-label={STEP_LABELS[step.status]} />
            {step.text}
          </li>
        ))}
      </ol>
    </section>
  );
}

interface TurnEndProps extends Props {
  item: TurnEndItem;
}

function TurnEnd({ item, isLast, isResumable, capabilities, keyCheck }: TurnEndProps): JSX.Element {
  if (item.reason === "not_configured") {
    if (!isLast) return <p class="note">No model was connected</p>;
    return <SetupCard item={item} capabilities={capabilities} keyCheck={keyCheck} />;
  }
  const { usage } = item;
  const tokenCount = usage && usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.outputTokens;
  const line = [describeTurnEnd(item)];
  if (tokenCount) line.push(`${formatTokens(tokenCount)} tokens`, formatCost(item.costUsd));
  return (
    <>
      {item.error && item.state !== "cancelled" && (
        <TurnFailure item={item} capabilities={capabilities} keyCheck={keyCheck} />
      )}
      <p class={`turn-end ${item.state}`} data-testid="turn-end" data-state={item.state}>
        <span>{line.join(" · ")}</span>
        {isResumable && (
          <Button label="Resume" kind="quiet" testId="resume" onPress={() => postMessage({ type: "resume" })} />
        )}
        {capabilities.fork && item.turnId !== undefined && <ForkButton turnId={item.turnId} />}
      </p>
    </>
  );
}

function ForkButton({ turnId }: { turnId: string }): JSX.Element {
  const title = "Start a new session from this point";
  return (
    <span class="turn-actions">
      <Button
        label="Fork here"
        kind="quiet"
        title={title}
        testId="fork"
        onPress={() => postMessage({ type: "fork", turnId })}
      />
    </span>
  );
}

interface TurnFailureProps {
  item: TurnEndItem;
  capabilities: Capabilities;
  keyCheck: KeyCheck | undefined;
}

function TurnFailure({ item, capabilities, keyCheck }: TurnFailureProps): JSX.Element | null {
  const { error } = item;
  if (!error) return null;
  const isKeyRefused = error.status === 401 && capabilities.credentials;
  const details = [
    error.provider,
    error.model,
    error.status === undefined ? undefined : `HTTP ${error.status}`,
    error.attempts !== undefined && error.attempts > 1 ? `${error.attempts} attempts` : undefined,
    error.requestId,
  ].filter((detail) => detail !== undefined);
  return (
    <section class="failure" role="alert" data-testid="failure">
      <h2>{error.message}</h2>
      {error.cause !== undefined && <p>{error.cause}</p>}
      {error.userAction !== undefined && <p class="user-action">{error.userAction}</p>}
      {details.length > 0 && <p class="dim">{details.join(" · ")}</p>}
      <KeyCheckStatus keyCheck={keyCheck} />
      <div class="actions">
        {isKeyRefused && (
          <Button label="Enter API key…" onPress={() => postMessage({ type: "command", name: "enterKey" })} />
        )}
        <Button label="Try again" onPress={() => postMessage({ type: "command", name: "retry" })} />
        <Button
          label="Select another model"
          kind="quiet"
          onPress={() => postMessage({ type: "command", name: "selectModel" })}
        />
        <Button label="Show log" kind="quiet" onPress={() => postMessage({ type: "command", name: "showLog" })} />
      </div>
    </section>
  );
}

/** Shows the ways to connect a model. */
function SetupCard({ item, capabilities, keyCheck }: TurnFailureProps): JSX.Element {
  const steps = (item.error?.userAction ?? "").split("\n").filter((line) => line.trim() !== "");
  if (keyCheck?.result === "works") {
    return (
      <section class="card" role="group" aria-label="A model is connected" data-testid="connected">
        <h2>A model is connected</h2>
        <KeyCheckStatus keyCheck={keyCheck} />
        <Button label="Send the prompt" kind="main" onPress={() => postMessage({ type: "command", name: "retry" })} />
      </section>
    );
  }
  return (
    <section class="card" role="group" aria-label="No model is connected" data-testid="first-contact">
      <h2>No model is connected</h2>
      <p>{item.error?.cause ?? item.error?.message}</p>
      {steps.length > 0 && (
        <ol>
          {steps.map((step) => (
            <li key={step}>
              {step.split("`").map((part, at) => (at % 2 === 1 ? <code key={part}>{part}</code> : part))}
            </li>
          ))}
        </ol>
      )}
      <KeyCheckStatus keyCheck={keyCheck} />
      <div class="actions">
        {capabilities.credentials && (
          <Button
            label="Enter API key…"
            kind="main"
            onPress={() => postMessage({ type: "command", name: "enterKey" })}
          />
        )}
        <Button label="Open configuration" onPress={() => postMessage({ type: "command", name: "openConfig" })} />
        <Button label="Get Ollama" onPress={() => postMessage({ type: "command", name: "openOllama" })} />
        <Button
          label="Open setup guide"
          kind="quiet"
          onPress={() => postMessage({ type: "command", name: "walkthrough" })}
        />
        <Button label="Try again" kind="quiet" onPress={() => postMessage({ type: "command", name: "retry" })} />
      </div>
    </section>
  );
}

function KeyCheckStatus({ keyCheck }: { keyCheck: KeyCheck | undefined }): JSX.Element {
  return (
    <p class={`key-check ${keyCheck?.result ?? ""}`} role="status" data-testid="key-check">
      {keyCheck && describeKeyCheck(keyCheck)}
    </p>
  );
}
