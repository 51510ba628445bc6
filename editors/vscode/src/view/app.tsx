// The root component: connection banner, conversation or session list, status, and input.

import type { JSX } from "preact";
import { type ChatState, listOpenInquiries, type TurnActivity } from "../state";
import type { Connection, ViewState } from "../webviewProtocol";
import { RevertCard } from "./changes";
import { Button, Clock, PureComponent } from "./components";
import { Composer } from "./composer";
import { Conversation } from "./conversation";
import { NoticeLine } from "./notices";
import { PendingPrompts } from "./pendingPrompts";
import { PromptQueue } from "./queue";
import { SessionListView } from "./sessions";
import { postMessage } from "./store";
import { ServerWarnings } from "./warnings";

export function App({ view }: { view: ViewState }): JSX.Element {
  const { chat, sessionList, connection } = view;
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.isComposing || event.defaultPrevented) return;
    if (chat?.running !== undefined || view.isSending) postMessage({ type: "cancel" });
  };
  return (
    <main
      class="app"
      onKeyDown={onKeyDown}
      data-testid="app"
      data-connection={connection.state}
      data-server-pid={connection.serverPid}
      data-running={chat?.running !== undefined}
    >
      {(connection.state !== "ready" || connection.isSilent) && <ConnectionBanner connection={connection} />}
      <ServerWarnings view={view} />
      {sessionList ? (
        <SessionListView list={sessionList} current={chat?.sessionId} waitingSessions={view.waitingSessions} />
      ) : (
        <>
          {chat ? (
            <ChatConversation chat={chat} view={view} />
          ) : view.pendingPrompts ? (
            <div class="log-frame">
              <div class="log entries">
                <PendingPrompts prompts={view.pendingPrompts} />
              </div>
            </div>
          ) : (
            <StartPage isLoading={view.isLoading} />
          )}
          <Dock chat={chat} view={view} />
          <TurnActivityLine chat={chat} view={view} />
          <Composer view={view} />
        </>
      )}
      <Announcer chat={chat} />
    </main>
  );
}

/** What belongs to the input. It scrolls, so that the conversation keeps its place. */
function Dock({ chat, view }: { chat: ChatState | undefined; view: ViewState }): JSX.Element {
  const notices = (chat?.notices ?? []).filter(({ parent }) => parent === undefined);
  return (
    <div class="dock" data-testid="dock">
      {notices.length > 0 && (
        <div class="turn-status" data-testid="turn-status">
          {notices.map((notice) => (
            <NoticeLine key={notice.key} notice={notice} circuits={view.capabilities.circuits} />
          ))}
        </div>
      )}
      <p
        class={view.lastAnswer === undefined ? "visually-hidden" : "last-answer"}
        role="status"
        data-testid="last-answer"
        title={view.lastAnswer}
      >
        {view.lastAnswer}
      </p>
      {view.pendingElsewhere > 0 && (
        <p class="pending-elsewhere" role="status" data-testid="pending-elsewhere">
          {view.pendingElsewhere === 1
            ? "Another session needs your answer."
            : `Other sessions need ${view.pendingElsewhere} answers.`}{" "}
          <Button label="Show it" kind="quiet" onPress={() => postMessage({ type: "showPendingSession" })} />
        </p>
      )}
      {view.locked && (
        <section class="warning" role="alert" data-testid="locked">
          <p>This session is open in {view.locked.holder}. It is read-only here.</p>
          {view.locked.pid !== undefined && (
            <Button label="Take over…" kind="main" onPress={() => postMessage({ type: "takeOver" })} />
          )}
        </section>
      )}
      {view.error !== undefined && !view.locked && (
        <section class="failure slim" role="alert" data-testid="error">
          <p>{view.error}</p>
          <Button label="×" kind="quiet" title="Dismiss" onPress={() => postMessage({ type: "dismissError" })} />
        </section>
      )}
      {view.pendingRevert && view.pendingRevert.sessionId === chat?.sessionId && (
        <RevertCard preview={view.pendingRevert} />
      )}
      {(chat?.queue ?? view.queueEdit) && <PromptQueue queue={chat?.queue} queueEdit={view.queueEdit} />}
    </div>
  );
}

function ConnectionBanner({ connection }: { connection: Connection }): JSX.Element {
  const { state, message, retryAt, remedy } = connection;
  const title = {
    starting: "Starting the server…",
    waiting: "The server exited and is restarting",
    failed: "The server is unavailable",
    ready: "The server is not responding",
  }[state];
  const hasActions = state === "failed" || state === "waiting" || connection.isSilent;
  return (
    <section
      class={`banner ${connection.isSilent ? "waiting" : state}`}
      role={state === "failed" ? "alert" : "status"}
      data-testid="banner"
    >
      <p>
        <b>{title}</b> {state === "waiting" && <Clock endsAt={retryAt} />}
      </p>
      {message !== undefined && <p>{message}</p>}
      {hasActions && (
        <div class="actions">
          {remedy === "missing" && (
            <Button
              label="Set server path…"
              kind="main"
              onPress={() => postMessage({ type: "command", name: "openServerPath" })}
            />
          )}
          <Button label="Restart server" onPress={() => postMessage({ type: "command", name: "restart" })} />
          <Button label="Show log" kind="quiet" onPress={() => postMessage({ type: "command", name: "showLog" })} />
        </div>
      )}
    </section>
  );
}

function StartPage({ isLoading }: { isLoading: boolean }): JSX.Element {
  if (isLoading)
    return (
      <div class="log welcome" role="status">
        Loading session…
      </div>
    );
  return (
    <div class="log welcome" data-testid="welcome">
      <h1>What should the agent do?</h1>
      <ul>
        <li>
          <kbd>@</kbd> attaches files, symbols, the selection, and problems
        </li>
        <li>
          <kbd>Enter</kbd> sends, even while the agent works; <kbd>Escape</kbd> stops the agent
        </li>
        <li>
          <kbd>/</kbd> lists the commands, also your own: prompts saved in files
        </li>
        <li>
          <kbd>↑</kbd> shows earlier prompts
        </li>
        <li>Commands and edits need your approval, unless you select another mode below</li>
      </ul>
      <div class="actions">
        <Button label="Show sessions" kind="quiet" onPress={() => postMessage({ type: "sessions", show: true })} />
        <Button
          label="Get started"
          kind="quiet"
          onPress={() => postMessage({ type: "command", name: "walkthrough" })}
        />
      </div>
    </div>
  );
}

interface ChatProps {
  chat: ChatState;
  view: ViewState;
}

function ChatConversation({ chat, view }: ChatProps): JSX.Element {
  return (
    <Conversation
      key={chat.sessionId}
      session={chat.sessionId}
      firstSeq={chat.firstSeq}
      items={chat.items}
      notices={chat.notices}
      hasEarlier={chat.hasEarlier}
      resumable={chat.running === undefined ? chat.resumable : undefined}
      isRunning={chat.running !== undefined}
      capabilities={view.capabilities}
      reviews={view.reviews}
      keyCheck={view.keyCheck}
      pendingPrompts={view.pendingPrompts}
    />
  );
}

const ACTIVITY_LABELS: Record<TurnActivity, string> = {
  thinking: "Thinking",
  answering: "Answering",
  calling: "Writing a tool call",
  tool: "Running a tool",
};

/** By the kind of the notice. */
const WAIT_LABELS: Record<string, string> = { retry: "Retrying", wait: "Waiting" };

/** Shows what the turn does. */
function TurnActivityLine({ chat, view }: { chat: ChatState | undefined; view: ViewState }): JSX.Element | null {
  const { isSending, isStopping } = view;
  const isRunning = chat?.running !== undefined;
  if (!isRunning && !isSending) return null;
  const isWaiting = chat !== undefined && listOpenInquiries(chat).length > 0;
  const wait = chat?.notices.find(({ kind, parent }) => parent === undefined && kind in WAIT_LABELS);
  const label = isStopping
    ? "Stopping"
    : isWaiting
      ? "Waiting for you"
      : isRunning
        ? (WAIT_LABELS[wait?.kind ?? ""] ?? ACTIVITY_LABELS[chat.activity ?? "thinking"])
        : "Sending";
  return (
    <p class={`activity ${isWaiting ? "waiting" : ""}`} data-testid="activity">
      <span class="pulse" aria-hidden="true" />
      {label}
      <Clock startedAt={chat?.startedAt} />
    </p>
  );
}

/** Announces complete answers, questions, and turn ends to screen readers, but no deltas. */
class Announcer extends PureComponent<{ chat: ChatState | undefined }> {
  render({ chat }: { chat: ChatState | undefined }): JSX.Element {
    const last = chat?.items.findLast((item) => item.kind === "assistant" && !item.open);
    const end = chat?.items.at(-1);
    const open = chat && describeOpenQuestion(chat);
    return (
      <>
        <div class="visually-hidden" role="status" aria-live="polite">
          {last?.kind === "assistant" ? last.text.slice(0, 2000) : ""}
          {end?.kind === "turnEnd" ? ` ${end.state}` : ""}
        </div>
        <div class="visually-hidden" role="alert" aria-live="assertive">
          {open === undefined ? "" : `The agent asks: ${open}`}
        </div>
      </>
    );
  }
}

function describeOpenQuestion({ approvals, items }: ChatState): string | undefined {
  const [approval] = approvals;
  if (approval) return `${approval.shown ?? approval.title}. ${approval.why}`;
  const item = items.find(
    (entry) => (entry.kind === "limit" || entry.kind === "question") && entry.resolved === undefined,
  );
  if (item?.kind === "limit") return item.request.message;
  return item?.kind === "question" ? item.request.text : undefined;
}
