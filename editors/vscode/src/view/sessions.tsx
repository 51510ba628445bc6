// The list of sessions: search, open, rename, delete. Arrow keys go through it.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ago } from "../format";
import type { SessionInfo } from "../protocol";
import type { SessionList } from "../webviewProtocol";
import { Button, useFocus } from "./components";
import { post } from "./store";

export function Sessions({ list, current }: { list: SessionList; current: string | undefined }): JSX.Element {
  const search = useFocus<HTMLInputElement>();
  const rows = useRef<HTMLUListElement>(null);
  const [query, setQuery] = useState(list.query);
  const [renaming, setRenaming] = useState<string | undefined>(undefined);
  useEffect(() => {
    if (query === list.query) return undefined;
    const timer = setTimeout(() => post({ type: "sessions", show: true, query }), 150);
    return () => clearTimeout(timer);
  }, [query]);
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Escape" && renaming === undefined) {
      event.stopPropagation();
      post({ type: "sessions", show: false });
      return;
    }
    if (step === 0) return;
    event.preventDefault();
    const all = [...(rows.current?.querySelectorAll<HTMLElement>(".row-open") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (at + step < 0) search.current?.focus();
    else all[Math.min(at + step, all.length - 1)]?.focus();
  };
  return (
    <section class="sessions" aria-label="Sessions" data-testid="sessions" onKeyDown={move}>
      <div class="bar">
        <input
          ref={search}
          type="search"
          value={query}
          placeholder="Search titles, prompts and answers"
          aria-label="Search sessions"
          data-testid="search"
          onInput={(event) => setQuery(event.currentTarget.value)}
        />
        <Button label="Back" kind="quiet" onPress={() => post({ type: "sessions", show: false })} />
      </div>
      {list.error !== undefined && (
        <p class="problem" role="alert">
          {list.error}
        </p>
      )}
      <p class="said" role="status">
        {list.loading ? "Searching" : `${list.sessions.length} sessions`}
      </p>
      <ul ref={rows}>
        {list.sessions.map((session) => (
          <Row
            key={session.sessionId}
            session={session}
            current={session.sessionId === current}
            renaming={session.sessionId === renaming}
            rename={(on) => setRenaming(on ? session.sessionId : undefined)}
          />
        ))}
      </ul>
      {!list.loading && list.sessions.length === 0 && (
        <p class="empty">{list.query === "" ? "There are no sessions yet." : "Nothing was found."}</p>
      )}
      {list.more && <Button label="Show more" kind="quiet" onPress={() => post({ type: "moreSessions" })} />}
    </section>
  );
}

interface RowProps {
  session: SessionInfo;
  current: boolean;
  renaming: boolean;
  rename: (on: boolean) => void;
}

function Row({ session, current, renaming, rename }: RowProps): JSX.Element {
  const title = session.title ?? "Untitled";
  if (renaming) return <Rename session={session} title={title} done={() => rename(false)} />;
  const folder = session.cwd
    .split(/[/\\]/)
    .filter((part) => part !== "")
    .pop();
  return (
    <li class={current ? "current" : ""}>
      <button
        type="button"
        class="row-open"
        data-testid="session"
        aria-current={current}
        onClick={() => post({ type: "openSession", sessionId: session.sessionId })}
        onKeyDown={(event) => {
          if (event.key === "F2") rename(true);
          if (event.key === "Delete") post({ type: "deleteSession", sessionId: session.sessionId, title });
        }}
      >
        <span class="title">{title}</span>
        {session.snippet !== undefined && <span class="snippet">{session.snippet}</span>}
        <span class="dim">
          {session.running ? "works · " : ""}
          {ago(session.updatedAt, Date.now())}
          {folder === undefined ? "" : ` · ${folder}`}
        </span>
      </button>
      <span class="row-do">
        <button
          type="button"
          class="icon rename"
          title="Rename (F2)"
          aria-label={`Rename ${title}`}
          onClick={() => rename(true)}
        />
        <button
          type="button"
          class="icon delete"
          title="Delete"
          aria-label={`Delete ${title}`}
          onClick={() => post({ type: "deleteSession", sessionId: session.sessionId, title })}
        />
      </span>
    </li>
  );
}

function Rename({ session, title, done }: { session: SessionInfo; title: string; done: () => void }): JSX.Element {
  const place = useFocus<HTMLInputElement>();
  return (
    <li>
      <input
        ref={place}
        type="text"
        maxLength={200}
        defaultValue={title}
        aria-label={`New title of ${title}`}
        data-testid="new-title"
        onKeyDown={(event) => {
          if (event.isComposing) return;
          if (event.key === "Escape") {
            event.stopPropagation();
            done();
          }
          if (event.key !== "Enter") return;
          const next = event.currentTarget.value.trim();
          if (next !== "" && next !== title) post({ type: "renameSession", sessionId: session.sessionId, title: next });
          done();
        }}
        onBlur={done}
      />
    </li>
  );
}
