// The page as a whole: the connection's banner, the chat or the list of sessions, what passes, the input.

import type { JSX } from "preact";
import { type Activity, asked, type State } from "../state";
import type { Connection, ViewState } from "../webviewProtocol";
import { RevertCard } from "./changes";
import { Button, Clock, Still } from "./components";
import { Composer } from "./composer";
import { Log } from "./conversation";
import { NoticeLine } from "./notices";
import { WaitingPrompts } from "./pendingPrompts";
import { Queue } from "./queue";
import { Sessions } from "./sessions";
import { post } from "./store";

export function App({ view }: { view: ViewState }): JSX.Element {
  const { chat, list, connection } = view;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.isComposing || event.defaultPrevented) return;
    if (chat?.running !== undefined || view.sending) post({ type: "cancel" });
  };
  return (
    <main
      class="app"
      onKeyDown={onKeyDown}
      data-testid="app"
      data-connection={connection.state}
      data-running={chat?.running !== undefined}
    >
      {(connection.state !== "ready" || connection.silent) && <Banner connection={connection} />}
      {view.warnings.map((warning) => (
        <p key={warning} class="warning" role="status">
          {warning}
        </p>
      ))}
      {list ? (
        <Sessions list={list} current={chat?.sessionId} />
      ) : (
        <>
          {chat ? (
            <Chat chat={chat} view={view} />
          ) : view.waiting ? (
            <div class="log-frame">
              <div class="log entries">
                <WaitingPrompts prompts={view.waiting} />
              </div>
            </div>
          ) : (
            <Begin loading={view.loading} commands={view.offers.commands} />
          )}
          <Passing chat={chat} view={view} />
          <p class={view.answered === undefined ? "said" : "answered"} role="status" data-testid="answered">
            {view.answered}
          </p>
          {view.elsewhere > 0 && (
            <p class="elsewhere" role="status" data-testid="elsewhere">
              Another session asks you.{" "}
              <Button label="Show it" kind="quiet" onPress={() => post({ type: "showElsewhere" })} />
            </p>
          )}
          {view.locked && (
            <section class="warning" role="alert" data-testid="locked">
              <p>This session is open in {view.locked.holder}. Here it can only be read.</p>
              {view.locked.pid !== undefined && (
                <Button label="Take it over…" kind="main" onPress={() => post({ type: "takeOver" })} />
              )}
            </section>
          )}
          {view.trouble !== undefined && !view.locked && (
            <section class="failure slim" role="alert" data-testid="trouble">
              <p>{view.trouble}</p>
              <Button label="×" kind="quiet" title="Dismiss" onPress={() => post({ type: "dismissTrouble" })} />
            </section>
          )}
          {view.revert && view.revert.sessionId === chat?.sessionId && <RevertCard asked={view.revert} />}
          {(chat?.queue ?? view.editing) && <Queue queue={chat?.queue} editing={view.editing} />}
          <Composer view={view} />
        </>
      )}
      <Announcer chat={chat} />
    </main>
  );
}

function Banner({ connection }: { connection: Connection }): JSX.Element {
  const { state, message, until, remedy } = connection;
  const title = {
    starting: "The server starts…",
    waiting: "The server ended and is started again",
    failed: "There is no server",
    ready: "The server does not answer",
  }[state];
  const ways = state === "failed" || state === "waiting" || connection.silent;
  return (
    <section
      class={`banner ${connection.silent ? "waiting" : state}`}
      role={state === "failed" ? "alert" : "status"}
      data-testid="banner"
    >
      <p>
        <b>{title}</b> {state === "waiting" && <Clock till={until} />}
      </p>
      {message !== undefined && <p>{message}</p>}
      {ways && (
        <div class="ways">
          {remedy === "missing" && (
            <Button
              label="Name the program…"
              kind="main"
              onPress={() => post({ type: "command", name: "openServerPath" })}
            />
          )}
          <Button label="Start it again" onPress={() => post({ type: "command", name: "restart" })} />
          <Button label="Show the log" kind="quiet" onPress={() => post({ type: "command", name: "showLog" })} />
        </div>
      )}
    </section>
  );
}

function Begin({ loading, commands }: { loading: boolean; commands: boolean }): JSX.Element {
  if (loading)
    return (
      <div class="log begin" role="status">
        Loading the session…
      </div>
    );
  return (
    <div class="log begin" data-testid="begin">
      <h1>What shall be done?</h1>
      <ul>
        <li>
          <kbd>@</kbd> points at files, symbols, the selection and problems
        </li>
        <li>
          <kbd>Enter</kbd> sends, also while the agent works; <kbd>Escape</kbd> stops it
        </li>
        {commands && (
          <li>
            <kbd>/</kbd> begins a command: a prompt that you have written down
          </li>
        )}
        <li>Commands and edits ask you first, unless you choose another mode below</li>
      </ul>
      <div class="ways">
        <Button label="Earlier sessions" kind="quiet" onPress={() => post({ type: "sessions", show: true })} />
        <Button label="Get started" kind="quiet" onPress={() => post({ type: "command", name: "walkthrough" })} />
      </div>
    </div>
  );
}

interface ChatProps {
  chat: State;
  view: ViewState;
}

function Chat({ chat, view }: ChatProps): JSX.Element {
  return (
    <Log
      key={chat.sessionId}
      session={chat.sessionId}
      first={chat.firstSeq}
      items={chat.items}
      notices={chat.notices}
      hasEarlier={chat.hasEarlier}
      resumable={chat.running === undefined ? chat.resumable : undefined}
      running={chat.running !== undefined}
      offers={view.offers}
      reviews={view.reviews}
      checked={view.key}
      waiting={view.waiting}
    />
  );
}

const ACTIVITIES: Record<Activity, string> = {
  thinking: "Thinks",
  answering: "Answers",
  calling: "Writes a call",
  tool: "Runs a tool",
};

/** What the turn does, and what of recovery is going on. */
function Passing({ chat, view }: { chat: State | undefined; view: ViewState }): JSX.Element | null {
  const { sending, stopping } = view;
  const notices = (chat?.notices ?? []).filter(({ parent }) => parent === undefined);
  const running = chat?.running !== undefined;
  if (!running && !sending && notices.length === 0) return null;
  const waits = chat !== undefined && asked(chat) > 0;
  const does = stopping
    ? "Stops"
    : waits
      ? "Waits for you"
      : running
        ? ACTIVITIES[chat.activity ?? "thinking"]
        : "Sends";
  return (
    <div class="passing" data-testid="passing">
      {notices.map((notice) => (
        <NoticeLine key={notice.key} notice={notice} circuits={view.offers.circuits} />
      ))}
      {(running || sending) && (
        <p class={`does ${waits ? "waits" : ""}`} data-testid="activity">
          <span class="pulse" aria-hidden="true" />
          {does}
          <Clock from={chat?.startedAt} />
        </p>
      )}
    </div>
  );
}

/** Tells a screen reader what is whole: an answer, a question, an end; never a piece. */
class Announcer extends Still<{ chat: State | undefined }> {
  render({ chat }: { chat: State | undefined }): JSX.Element {
    const last = chat?.items.findLast((item) => item.kind === "assistant" && !item.open);
    const end = chat?.items.at(-1);
    const open = chat && openQuestion(chat);
    return (
      <>
        <div class="said" role="status" aria-live="polite">
          {last?.kind === "assistant" ? last.text.slice(0, 2000) : ""}
          {end?.kind === "turnEnd" ? ` ${end.state}` : ""}
        </div>
        <div class="said" role="alert" aria-live="assertive">
          {open === undefined ? "" : `The agent asks: ${open}`}
        </div>
      </>
    );
  }
}

/** The first thing that waits for the person, in words. */
function openQuestion({ approvals, items }: State): string | undefined {
  const [approval] = approvals;
  if (approval) return `${approval.shown ?? approval.title}. ${approval.why}`;
  const item = items.find((one) => (one.kind === "limit" || one.kind === "question") && one.resolved === undefined);
  if (item?.kind === "limit") return item.asked.message;
  return item?.kind === "question" ? item.asked.text : undefined;
}
