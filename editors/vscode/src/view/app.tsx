// The page as a whole: the connection's banner, the chat or the list of sessions, what passes, the input.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Connection, KeyCheck, Offers, ViewState } from "../messages";
import { type Activity, asked, type Item, keyOf, type Notice, type State } from "../state";
import { RevertCard } from "./changes";
import { Composer } from "./composer";
import { Entry } from "./items";
import { nest } from "./nest";
import { NoticeLine } from "./notices";
import { Button, Clock, Still } from "./parts";
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
      {connection.state !== "ready" && <Banner connection={connection} />}
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
            <Chat chat={chat} offers={view.offers} reviews={view.reviews} checked={view.key} />
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
          {view.trouble !== undefined && (
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
    ready: "",
  }[state];
  return (
    <section class={`banner ${state}`} role={state === "failed" ? "alert" : "status"} data-testid="banner">
      <p>
        <b>{title}</b> {state === "waiting" && <Clock till={until} />}
      </p>
      {message !== undefined && <p>{message}</p>}
      {state === "failed" && (
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
  offers: Offers;
  reviews: ViewState["reviews"];
  checked: KeyCheck | undefined;
}

function Chat({ chat, offers, reviews, checked }: ChatProps): JSX.Element {
  return (
    <Log session={chat.sessionId} first={chat.firstSeq} changed={chat.items}>
      {chat.hasEarlier && <Button label="Show earlier" kind="quiet" onPress={() => post({ type: "earlier" })} />}
      <Entries
        items={chat.items}
        notices={chat.notices}
        resumable={chat.running === undefined ? chat.resumable : undefined}
        running={chat.running !== undefined}
        offers={offers}
        reviews={reviews}
        checked={checked}
      />
    </Log>
  );
}

interface EntriesProps {
  items: readonly Item[];
  notices: readonly Notice[];
  resumable: string | undefined;
  running: boolean;
  offers: Offers;
  reviews: ViewState["reviews"];
  checked: KeyCheck | undefined;
}

class Entries extends Still<EntriesProps> {
  render({ items, notices, resumable, running, offers, reviews, checked }: EntriesProps): JSX.Element {
    const { top, inner } = nest(items, notices);
    return (
      <>
        {top.map((item, at) => (
          <Entry
            key={keyOf(item)}
            item={item}
            offers={offers}
            reviews={inner?.has(item) || (item.kind === "tool" && item.approval) ? reviews : undefined}
            running={running && item.kind === "changes"}
            inner={inner?.has(item) ? inner : undefined}
            checked={at === top.length - 1 ? checked : undefined}
            resumable={resumable !== undefined && item.kind === "turnEnd" && item.id === resumable}
          />
        ))}
      </>
    );
  }
}

/** Keeps the end in sight, unless the person has scrolled away from it. */
function Log({
  session,
  first,
  changed,
  children,
}: {
  session: string;
  /** The number of the first event that is shown; for tests. */
  first: number | undefined;
  changed: unknown;
  children: ComponentChildren;
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const end = useRef(true);
  const [away, setAway] = useState(false);
  const toEnd = () => {
    const box = place.current;
    if (box) box.scrollTop = box.scrollHeight;
  };
  useLayoutEffect(() => {
    end.current = true;
    toEnd();
  }, [session]);
  useLayoutEffect(() => {
    if (end.current) toEnd();
  }, [changed]);
  useEffect(() => {
    // The view is resized, a part is opened: the end stays in sight.
    const inner = place.current?.firstElementChild;
    if (!inner) return undefined;
    const observer = new ResizeObserver(() => {
      if (end.current) toEnd();
    });
    observer.observe(inner);
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="log-frame">
      <div
        ref={place}
        class="log"
        role="log"
        aria-live="off"
        aria-label="Conversation"
        tabIndex={0}
        data-testid="log"
        data-first={first}
        onScroll={() => {
          const box = place.current;
          if (!box) return;
          end.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
          if (end.current === away) setAway(!end.current);
        }}
      >
        <div class="entries">{children}</div>
      </div>
      {away && (
        <button
          type="button"
          class="to-end"
          onClick={() => {
            end.current = true;
            toEnd();
          }}
        >
          ↓ Newest
        </button>
      )}
    </div>
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
