// The input: text, what is attached, the choices for the next prompt, send and stop.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Attachment, Suggestion, ViewState } from "../webviewProtocol";
import { Button } from "./components";
import { showEnd } from "./conversation";
import { answerShown, reopen, showFirstQuestion } from "./questionFocus";
import { Choices } from "./sessionBar";
import { draft, hear, keepDraft, post } from "./store";
import { Suggestions } from "./suggestions";

const PICTURES = /^image\/(png|jpeg|gif|webp)$/;
/** Larger pictures are refused by every provider. */
const PICTURE_BYTES = 5_000_000;

export function Composer({ view }: { view: ViewState }): JSX.Element {
  const session = view.chat?.sessionId ?? "";
  const [text, setText] = useState(() => draft(session));
  const [attach, setAttachShown] = useState<Attachment[]>([]);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const [asked, setAsked] = useState<string | undefined>(undefined);
  const [suggestions, setSuggestions] = useState<Suggestion[]>([]);
  const [chosen, setChosen] = useState(0);
  const place = useRef<HTMLTextAreaElement>(null);
  const latest = useRef(0);
  const was = useRef(session);
  /** What is attached in each session; the shown one's is drawn. */
  const attached = useRef(new Map<string, Attachment[]>());
  const setAttach = (change: Attachment[] | ((old: Attachment[]) => Attachment[])) => {
    const old = attached.current.get(was.current) ?? [];
    const next = typeof change === "function" ? change(old) : change;
    attached.current.set(was.current, next);
    setAttachShown(next);
    post({ type: "attached", session: was.current, attach: next });
  };

  const write = (next: string) => {
    setText(next);
    keepDraft(session, next);
  };
  useEffect(() => {
    if (was.current === session) return;
    // A session that was just made takes over what is being typed.
    const goesOn = was.current === "" && text !== "" && draft(session) === "";
    if (goesOn) keepDraft("", "");
    else setText(draft(session));
    const moved = was.current === "" ? attached.current.get("") : undefined;
    was.current = session;
    setProblem(undefined);
    setAttachShown(attached.current.get(session) ?? []);
    // So does what was attached to it meanwhile.
    if (goesOn && moved) setAttach(moved);
  }, [session]);
  useEffect(() => {
    hear((message) => {
      if (message.type === "suggestions") {
        if (message.id !== latest.current) return;
        setSuggestions(message.items);
        setChosen(0);
      } else if (message.type === "compose") {
        if (message.text !== undefined) {
          const now = place.current?.value ?? "";
          write(now === "" || message.replace ? message.text : `${message.text}\n\n${now}`);
        }
        if (message.attach) setAttach((old) => added(old, message.attach ?? []));
        place.current?.focus();
      } else if (message.type === "attached") {
        for (const [of, list] of Object.entries(message.bySession)) attached.current.set(of, list);
        setAttachShown(attached.current.get(session) ?? []);
      } else if (message.type === "showAsked") {
        showFirstQuestion(place.current, (view.chat?.approvals.length ?? 0) > 0);
      } else if (message.type === "stillOpen") {
        reopen(message.approvalId);
      } else if (message.type === "answerShown") {
        if (!answerShown(message.action, message.reviewed)) place.current?.focus();
      }
    });
  });
  useEffect(() => {
    // As high as its text, up to a third of the view.
    const box = place.current;
    if (!box) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight + 2, Math.max(80, window.innerHeight / 3))}px`;
  }, [text]);

  /** What follows an `@` before the cursor, or a `/` at the text's beginning. */
  const look = (value: string, cursor: number) => {
    const before = value.slice(0, cursor);
    const name = view.offers.commands ? /^\/([^\s/]*)$/.exec(before)?.[1] : undefined;
    const query = name ?? /(?:^|\s)@([^\s@]*)$/.exec(before)?.[1];
    setAsked(query);
    if (query === undefined) return;
    latest.current += 1;
    post({ type: "suggest", id: latest.current, sign: name === undefined ? "@" : "/", query });
  };
  const take = (one: Suggestion) => {
    const box = place.current;
    if (!box) return;
    const cursor = box.selectionStart;
    const head = text.slice(0, cursor).replace(one.kind === "command" ? /^\/\S*$/ : /@[^\s@]*$/, `${one.label} `);
    write(head + text.slice(cursor));
    if (one.kind !== "command") setAttach((old) => added(old, [one]));
    setAsked(undefined);
    requestAnimationFrame(() => {
      box.focus();
      box.setSelectionRange(head.length, head.length);
    });
  };
  const running = view.chat?.running !== undefined;
  const busy = running || view.sending;
  const isLocked = view.locked !== undefined && view.locked.sessionId === view.chat?.sessionId;
  const ready = view.connection.state === "ready" && !isLocked;
  const empty = text.trim() === "" && attach.length === 0;
  /** While a turn runs, or prompts wait, a prompt may wait too. */
  const mayWait = view.offers.queue && (running || view.chat?.queue !== undefined);
  const send = (later = false) => {
    // What stands in the box counts, also what came since it was drawn last.
    const now = (place.current?.value ?? text).trim();
    if ((now === "" && attach.length === 0) || !ready || (view.sending && !running)) return;
    post({ type: "send", text: now, attach, later: later && mayWait });
    showEnd();
    write("");
    setAttach([]);
    setProblem(undefined);
    setAsked(undefined);
  };
  const open = asked !== undefined && suggestions.length > 0;
  const onKeyDown = (event: KeyboardEvent) => {
    // While an input method composes, all keys are its own; 229 is how some engines say so.
    if (event.isComposing || event.keyCode === 229) return;
    if (open) {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step !== 0) {
        event.preventDefault();
        setChosen((chosen + step + suggestions.length) % suggestions.length);
        return;
      }
      const one = suggestions[chosen];
      if ((event.key === "Enter" || event.key === "Tab") && one) {
        event.preventDefault();
        take(one);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        setAsked(undefined);
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send(event.altKey);
    }
  };
  /** Attaches the pictures among them; of what cannot be attached it says why. */
  const takeFiles = (files: readonly File[]) => {
    const problems: string[] = [];
    for (const file of files) {
      const wrong = refusal(file, view.offers.images);
      if (wrong !== undefined) problems.push(wrong);
      else void picture(file).then((one) => setAttach((old) => added(old, [one])));
    }
    setProblem(problems.length > 0 ? problems.join("\n") : undefined);
  };
  const onPaste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    takeFiles(files);
  };
  const onDrop = (event: DragEvent) => {
    const data = event.dataTransfer;
    const uris = droppedUris(data);
    const files = [...(data?.files ?? [])];
    if (uris.length === 0 && files.length === 0) return;
    event.preventDefault();
    if (uris.length > 0) post({ type: "dropped", uris });
    else takeFiles(files);
  };
  const { near } = view;
  const nearShown = near && !attach.some((one) => one.label === near.label);

  return (
    <form
      class="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={onDrop}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {problem !== undefined && (
        <p class="problem slim" role="alert" data-testid="not-attached">
          {problem} <Button label="×" kind="quiet" title="Dismiss" onPress={() => setProblem(undefined)} />
        </p>
      )}
      {(attach.length > 0 || nearShown) && (
        <ul class="chips" aria-label="Attached to the prompt">
          {attach.map((one) => (
            <li key={one.label}>
              <span class="chip" title={one.detail ?? ""}>
                {one.label}
                <button
                  type="button"
                  aria-label={`Take ${one.label} off`}
                  onClick={() => setAttach(attach.filter((other) => other !== one))}
                >
                  ×
                </button>
              </span>
            </li>
          ))}
          {nearShown && (
            <li>
              <button
                type="button"
                class="chip offer"
                title="Attach it"
                data-testid="near"
                onClick={() => {
                  setAttach(added(attach, [{ kind: near.block.type === "selection" ? "selection" : "file", ...near }]));
                  place.current?.focus();
                }}
              >
                + {near.label}
              </button>
            </li>
          )}
        </ul>
      )}
      {open && <Suggestions items={suggestions} chosen={chosen} take={take} />}
      <div class="box">
        <textarea
          ref={place}
          rows={1}
          value={text}
          data-testid="input"
          aria-label={running ? "Say something to the working agent" : "Ask the agent"}
          placeholder={isLocked ? READ_ONLY : running ? "Say something meanwhile…" : "Ask, or @ to point at files"}
          role="combobox"
          aria-expanded={open}
          aria-controls="suggestions"
          aria-activedescendant={open ? `suggestion-${chosen}` : undefined}
          aria-autocomplete="list"
          onInput={(event) => {
            write(event.currentTarget.value);
            look(event.currentTarget.value, event.currentTarget.selectionStart);
          }}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
          onBlur={() => setTimeout(() => setAsked(undefined), 150)}
        />
        {busy && (
          <button
            type="button"
            class="round stop"
            data-testid="stop"
            title={view.stopping ? "Stop at once" : "Stop (Escape)"}
            aria-label={view.stopping ? "Stop at once" : "Stop the agent"}
            onClick={() => post({ type: "cancel" })}
          >
            <span class="square" aria-hidden="true" />
          </button>
        )}
        {mayWait && !empty && (
          <button
            type="button"
            class="round later"
            data-testid="send-later"
            disabled={!ready}
            title="Send when the turn has ended (Alt+Enter)"
            aria-label="Queue: send when the turn has ended"
            onClick={() => send(true)}
          >
            <span class="lines" aria-hidden="true" />
          </button>
        )}
        {(!busy || (running && view.offers.steer && !empty)) && (
          <button
            type="submit"
            class="round send"
            data-testid="send"
            disabled={empty || !ready}
            title={isLocked ? READ_ONLY : running ? "Send to the working agent (Enter)" : "Send (Enter)"}
            aria-label={running ? "Send to the working agent" : "Send"}
          >
            <span class="arrow" aria-hidden="true" />
          </button>
        )}
      </div>
      <Choices view={view} />
    </form>
  );
}

/** Says it before a prompt is typed: the server would refuse the prompt. */
const READ_ONLY = "Read-only: open in another window";

/** Why a file cannot be attached. */
function refusal({ name, type, size }: File, images: boolean): string | undefined {
  const what = name || "The file";
  if (!PICTURES.test(type)) {
    return `${what} is not attached: only PNG, JPEG, GIF and WebP pictures are. Point at a file of the workspace with @.`;
  }
  if (!images) return `${what} is not attached: this server takes no pictures.`;
  if (size <= PICTURE_BYTES) return undefined;
  return `${what} is not attached: it has ${(size / 1_000_000).toFixed(1)} MB, and a picture may have 5 MB.`;
}

/** Files of the editor's own lists, which have addresses. */
function droppedUris(data: DataTransfer | null): string[] {
  const list = data?.getData("application/vnd.code.uri-list") || data?.getData("text/uri-list") || "";
  return list.split(/\r?\n/).filter((uri) => /^(file|vscode-remote):/.test(uri));
}

function added(old: Attachment[], more: readonly Attachment[]): Attachment[] {
  return [...old, ...more.filter((one) => !old.some((other) => other.label === one.label))];
}

async function picture(file: File): Promise<Attachment> {
  const url = await new Promise<string>((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
  const data = url.slice(url.indexOf(",") + 1);
  const label = `${file.name || "picture"} (${Math.ceil(file.size / 1000)} KB)`;
  return { kind: "image", label, block: { type: "image", mediaType: file.type, data } };
}
