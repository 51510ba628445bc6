// What stands in the chat, each kind in its form.

import type { JSX } from "preact";
import { costOfUse, tokens } from "../format";
import type { AssistantItem, Item, PlanListItem, TurnEndItem, UserItem } from "../state";
import { endLine } from "../state";
import { type KeyCheck, keyLine, type Offers, type ViewState } from "../webviewProtocol";
import { Changes } from "./changes";
import { Button, Markdown, Still } from "./components";
import { Limit, Question } from "./inquiries";
import { Instructions } from "./instructions";
import { useKept } from "./persistentState";
import { post } from "./store";
import type { Inner } from "./subagents";
import { Tool } from "./tool";

interface Props {
  item: Item;
  /** It is the end of the last turn, so it can be gone on with. */
  resumable: boolean;
  offers: Offers;
  /** How reviews differ from their proposals; of calls that ask only, or under which something stands. */
  reviews?: ViewState["reviews"] | undefined;
  /** Whether a turn runs; of changes only. */
  running?: boolean;
  /** The key that was entered last; of the last item only. */
  checked?: KeyCheck | undefined;
  /** What stands under calls; only where something stands under this one. */
  inner?: Inner | undefined;
}

const NO_REVIEWS = {};

export class Entry extends Still<Props> {
  render({
    item,
    resumable,
    offers,
    reviews = NO_REVIEWS,
    running = false,
    checked,
    inner,
  }: Props): JSX.Element | null {
    switch (item.kind) {
      case "user":
        return <User item={item} />;
      case "assistant":
        return <Assistant item={item} />;
      case "tool":
        // The plan itself stands below, and so does the question.
        if (["update_plan", "ask_user"].includes(item.name) && item.status !== "failed") return null;
        return <Tool tool={item} inner={inner} offers={offers} reviews={reviews} />;
      case "plan":
        return <Plan item={item} />;
      case "warning":
        return (
          <p class="warning" role="note" data-testid="warning">
            {item.message}
          </p>
        );
      case "note":
        return <p class="note">{item.text}</p>;
      case "limit":
        return offers.limits || item.resolved ? <Limit item={item} /> : null;
      case "question":
        return offers.questions || item.resolved ? <Question item={item} /> : null;
      case "changes":
        return <Changes item={item} offers={offers} running={running} />;
      case "instructions":
        return <Instructions item={item} />;
      case "turnEnd":
        return <TurnEnd item={item} resumable={resumable} offers={offers} checked={checked} />;
    }
  }
}

function User({ item }: { item: UserItem }): JSX.Element {
  return (
    <article class="user" aria-label={item.steer ? "You, meanwhile" : "You"} data-testid="user">
      {item.steer && <span class="tag">meanwhile</span>}
      <div class="said-text">{item.text}</div>
      {(item.references.length > 0 || item.images > 0) && (
        <ul class="references" aria-label="Attached">
          {item.references.map((reference) => (
            <li key={reference}>
              <button type="button" class="chip" title={reference} onClick={() => openReference(reference)}>
                {short(reference)}
              </button>
            </li>
          ))}
          {item.images > 0 && <li>{item.images === 1 ? "a picture" : `${item.images} pictures`}</li>}
        </ul>
      )}
    </article>
  );
}

/** A path outside of what people write: its last parts. */
function short(reference: string): string {
  const parts = reference.split(/[/\\]/);
  return parts.length > 4 ? parts.slice(-2).join("/") : reference;
}

function openReference(reference: string): void {
  const [, path = reference, line] = /^(.*?)(?::(\d+)(?:-\d+)?)?$/.exec(reference) ?? [];
  post({ type: "openPath", path, line: line === undefined ? undefined : Number.parseInt(line, 10) });
}

function Assistant({ item }: { item: AssistantItem }): JSX.Element {
  const thinking = item.open && item.text === "";
  const [open, setOpen] = useKept<boolean | undefined>(`reasoning ${item.id}`, undefined);
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
          <Markdown text={item.reasoning} open={item.open} />
        </details>
      )}
      {item.text !== "" && <Markdown text={item.text} open={item.open} />}
      {item.more !== undefined && (
        <Button
          label="Read the whole in an editor"
          kind="quiet"
          onPress={() => post({ type: "openText", title: "answer.md", text: item.text, ref: item.more?.ref })}
        />
      )}
      {item.incomplete && <p class="dim">This answer was cut.</p>}
    </article>
  );
}

const STEPS = { pending: "to do", inProgress: "being done", completed: "done" };

function Plan({ item }: { item: PlanListItem }): JSX.Element {
  const done = item.items.filter((one) => one.status === "completed").length;
  return (
    <section class="plan" aria-label={`Plan, ${done} of ${item.items.length} done`} data-testid="plan">
      <h2>
        Plan{" "}
        <span class="dim">
          {done}/{item.items.length}
        </span>
      </h2>
      <ol>
        {item.items.map((one) => (
          <li key={one.text} class={one.status}>
            <span class={`mark ${one.status}`} role="img" aria-label={STEPS[one.status]} />
            {one.text}
          </li>
        ))}
      </ol>
    </section>
  );
}

interface EndProps extends Props {
  item: TurnEndItem;
}

function TurnEnd({ item, resumable, offers, checked }: EndProps): JSX.Element {
  if (item.reason === "not_configured") return <FirstContact item={item} offers={offers} checked={checked} />;
  const { usage } = item;
  const used = usage && usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.outputTokens;
  const line = [endLine(item)];
  if (used) line.push(`${tokens(used)} tokens`, costOfUse(item.costUsd));
  return (
    <>
      {item.error && item.state !== "cancelled" && <Failure item={item} offers={offers} checked={checked} />}
      <p class={`end ${item.state}`} data-testid="turn-end" data-state={item.state}>
        <span>{line.join(" · ")}</span>
        {resumable && <Button label="Go on" kind="quiet" testId="resume" onPress={() => post({ type: "resume" })} />}
        {offers.fork && item.turnId !== undefined && <Fork turnId={item.turnId} />}
      </p>
    </>
  );
}

function Fork({ turnId }: { turnId: string }): JSX.Element {
  const title = "Makes a new session of what was said and done up to here, and shows it";
  return (
    <span class="later-on">
      <Button
        label="Fork here"
        kind="quiet"
        title={title}
        testId="fork"
        onPress={() => post({ type: "fork", turnId })}
      />
    </span>
  );
}

interface FailureProps {
  item: TurnEndItem;
  offers: Offers;
  checked: KeyCheck | undefined;
}

function Failure({ item, offers, checked }: FailureProps): JSX.Element | null {
  const { error } = item;
  if (!error) return null;
  const refused = error.status === 401 && offers.credentials;
  const facts = [
    error.provider,
    error.model,
    error.status === undefined ? undefined : `HTTP ${error.status}`,
    error.attempts !== undefined && error.attempts > 1 ? `${error.attempts} attempts` : undefined,
    error.requestId,
  ].filter((fact) => fact !== undefined);
  return (
    <section class="failure" role="alert" data-testid="failure">
      <h2>{error.message}</h2>
      {error.cause !== undefined && <p>{error.cause}</p>}
      {error.userAction !== undefined && <p class="todo">{error.userAction}</p>}
      {facts.length > 0 && <p class="dim">{facts.join(" · ")}</p>}
      <Checked checked={checked} />
      <div class="ways">
        {refused && <Button label="Enter a key…" onPress={() => post({ type: "command", name: "enterKey" })} />}
        <Button label="Try again" onPress={() => post({ type: "command", name: "retry" })} />
        <Button
          label="Choose another model"
          kind="quiet"
          onPress={() => post({ type: "command", name: "selectModel" })}
        />
        <Button label="Show the log" kind="quiet" onPress={() => post({ type: "command", name: "showLog" })} />
      </div>
    </section>
  );
}

/** No model can be asked: the ways to one. */
function FirstContact({ item, offers, checked }: FailureProps): JSX.Element {
  const ways = (item.error?.userAction ?? "").split("\n").filter((line) => line.trim() !== "");
  return (
    <section class="card" role="group" aria-label="The agent has no model yet" data-testid="first-contact">
      <h2>The agent has no model yet</h2>
      <p>{item.error?.cause ?? item.error?.message}</p>
      {ways.length > 0 && (
        <ol>
          {ways.map((way) => (
            <li key={way}>
              {way.split("`").map((part, at) => (at % 2 === 1 ? <code key={part}>{part}</code> : part))}
            </li>
          ))}
        </ol>
      )}
      <Checked checked={checked} />
      <div class="ways">
        {offers.credentials && (
          <Button label="Enter an API key…" kind="main" onPress={() => post({ type: "command", name: "enterKey" })} />
        )}
        <Button label="Open the configuration" onPress={() => post({ type: "command", name: "openConfig" })} />
        <Button label="Get Ollama" onPress={() => post({ type: "command", name: "openOllama" })} />
        <Button label="How it is set up" kind="quiet" onPress={() => post({ type: "command", name: "walkthrough" })} />
        <Button label="Try again" kind="quiet" onPress={() => post({ type: "command", name: "retry" })} />
      </div>
    </section>
  );
}

/** What came of the key that was entered. */
function Checked({ checked }: { checked: KeyCheck | undefined }): JSX.Element {
  return (
    <p class={`checked ${checked?.result ?? ""}`} role="status" data-testid="checked">
      {checked && keyLine(checked)}
    </p>
  );
}
