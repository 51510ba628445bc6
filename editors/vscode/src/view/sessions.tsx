// The session list: search, open, rename, and delete, with arrow key navigation.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatAge } from "../format";
import type { SessionInfo } from "../protocol";
import type { SessionList } from "../webviewProtocol";
import { Button, useAutoFocus } from "./components";
import { postMessage } from "./store";

interface SessionListProps {
  list: SessionList;
  current: string | undefined;
  /** Sessions with an open question. */
  waitingSessions: readonly string[];
}

export function SessionListView({ list, current, waitingSessions }: SessionListProps): JSX.Element {
  const searchRef = useAutoFocus<HTMLInputElement>();
  const rowsRef = useRef<HTMLUListElement>(null);
  const [query, setQuery] = useState(list.query);
  const [renaming, setRenaming] = useState<string | undefined>(undefined);
  useEffect(() => {
    if (query === list.query) return undefined;
    const timer = setTimeout(() => postMessage({ type: "sessions", show: true, query }), 150);
    return () => clearTimeout(timer);
  }, [query]);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Escape" && renaming === undefined) {
      event.stopPropagation();
      postMessage({ type: "sessions", show: false });
      return;
    }
    if (step === 0) return;
    event.preventDefault();
    const rows = [...(rowsRef.current?.querySelectorAll<HTMLElement>(".row-open") ?? [])];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (at + step < 0) searchRef.current?.focus();
    else rows[Math.min(at + step, rows.length - 1)]?.focus();
  };
  return (
    <section class="sessions" aria-label="Sessions" data-testid="sessions" onKeyDown={onKeyDown}>
      <div class="bar">
        <input
          ref={searchRef}
          type="search"
          value={query}
          placeholder="Search titles, prompts and answers"
          aria-label="Search sessions"
          data-testid="search"
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <Button label="Back" kind="quiet" onPress={() => postMessage({ type: "sessions", show: false })} />
      </div>
      {list.error !== undefined && (
        <p class="problem" role="alert">
          {list.error}
        </p>
      )}
      <p class="visually-hidden" role="status">
        {list.isLoading ? "Searching" : `${list.sessions.length} sessions`}
      </p>
      <ul ref={rowsRef}>
        {putWaitingFirst(list.sessions, waitingSessions).map((session) => (
          <SessionRow
            key={session.sessionId}
            session={session}
            isCurrent={session.sessionId === current}
            isWaiting={waitingSessions.includes(session.sessionId)}
            isRenaming={session.sessionId === renaming}
            setRenaming={(isRenaming) => setRenaming(isRenaming ? session.sessionId : undefined)}
          />
        ))}
      </ul>
      {!list.isLoading && list.sessions.length === 0 && (
        <p class="empty">{list.query === "" ? "No sessions yet." : "No matching sessions."}</p>
      )}
      {list.hasMore && (
        <Button label="Show more" kind="quiet" onPress={() => postMessage({ type: "loadMoreSessions" })} />
      )}
    </section>
  );
}

function putWaitingFirst(sessions: readonly SessionInfo[], waitingSessions: readonly string[]): SessionInfo[] {
  const isWaiting = ({ sessionId }: SessionInfo) => waitingSessions.includes(sessionId);
  return [...sessions.filter(isWaiting), ...sessions.filter((session) => !isWaiting(session))];
}

interface SessionRowProps {
  session: SessionInfo;
  isCurrent: boolean;
  isWaiting: boolean;
  isRenaming: boolean;
  setRenaming: (isRenaming: boolean) => void;
}

function SessionRow({ session, isCurrent, isWaiting, isRenaming, setRenaming }: SessionRowProps): JSX.Element {
  const title = session.title ?? "Untitled";
  if (isRenaming) return <SessionTitleInput session={session} title={title} onDone={() => setRenaming(false)} />;
  const folder = session.cwd
    .split(/[/\\]/)
    .filter((part) => part !== "")
    .pop();
  return (
    <li class={isCurrent ? "current" : ""}>
      <button
        type="button"
        class="row-open"
        data-testid="session"
        aria-current={isCurrent}
        onClick={() => postMessage({ type: "openSession", sessionId: session.sessionId })}
        onKeyDown={(event) => {
          if (event.key === "F2") setRenaming(true);
          if (event.key === "Delete") postMessage({ type: "deleteSession", sessionId: session.sessionId, title });
        }}
      >
        <span class="title">{title}</span>
        {session.snippet !== undefined && <span class="snippet">{session.snippet}</span>}
        <span class="dim">
          {isWaiting ? <b class="needs-you">needs you</b> : session.running ? "running" : ""}
          {isWaiting || session.running ? " · " : ""}
          {formatAge(session.updatedAt, Date.now())}
          {folder === undefined ? "" : ` · ${folder}`}
        </span>
      </button>
      <span class="row-actions">
        <button
          type="button"
          class="icon rename"
          title="Rename (F2)"
          aria-label={`Rename ${title}`}
          onClick={() => setRenaming(true)}
        />
        <button
          type="button"
          class="icon delete"
          title="Delete"
          aria-label={`Delete ${title}`}
          onClick={() => postMessage({ type: "deleteSession", sessionId: session.sessionId, title })}
        />
      </span>
    </li>
  );
}

function SessionTitleInput({
  session,
  title,
  onDone,
}: {
  session: SessionInfo;
  title: string;
  onDone: () => void;
}): JSX.Element {
  const inputRef = useAutoFocus<HTMLInputElement>();
  return (
    <li>
      <input
        ref={inputRef}
        type="text"
        maxLength={200}
        defaultValue={title}
        aria-label={`New title of ${title}`}
        data-testid="new-title"
        onKeyDown={(event) => {
          if (event.isComposing) return;
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone();
          }
          if (event.key !== "Enter") return;
          const next = event.currentTarget.value.trim();
          if (next !== "" && next !== title)
            postMessage({ type: "renameSession", sessionId: session.sessionId, title: next });
          onDone();
        }}
        onBlur={onDone}
      />
    </li>
  );
}
