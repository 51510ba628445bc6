// The prompt input: text, attachments, suggestions, send, and stop.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Attachment, Suggestion, ViewState } from "../webviewProtocol";
import { Button } from "./components";
import { scrollToEnd } from "./conversation";
import {
  answerQuestion,
  focusFirstQuestion,
  handleChord,
  isTextField,
  reopenQuestion,
  returnFocusFromReview,
  showFirstQuestion,
  updateKeyHints,
} from "./questionFocus";
import { SessionBar } from "./sessionBar";
import {
  addToDraft,
  type HostCommand,
  listenForCommands,
  listSentPrompts,
  mergeAttachments,
  postMessage,
  readAttachments,
  readDraft,
  rememberPrompt,
  saveAttachments,
  saveDraft,
  storeAttachments,
} from "./store";
import { type Search, SuggestionList } from "./suggestions";

const PICTURE_TYPES = /^image\/(png|jpeg|gif|webp)$/;
/** The server scales large pictures down. */
const MAX_PICTURE_MB = 10;
/** For all pictures of a prompt. A message has at most 32 MiB, and Base64 makes them a third larger. */
const MAX_PICTURES_MB = 20;

type ComposeMessage = Extract<HostCommand, { type: "compose" }>;

export function Composer({ view }: { view: ViewState }): JSX.Element {
  // A session that is being loaded has its input already.
  const session = view.chat?.sessionId ?? view.openingSession ?? "";
  const [text, setText] = useState(() => readDraft(session));
  const [attachments, setShownAttachments] = useState(() => readAttachments(session));
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const [search, setSearch] = useState<Search | undefined>(undefined);
  const [selectedIndex, setSelectedIndex] = useState(0);
  const inputRef = useRef<HTMLTextAreaElement>(null);
  const latestRequest = useRef(0);
  const shownSession = useRef(session);
  /** How many prompts before the draft the input shows. */
  const historyIndex = useRef(0);
  const hasShownChat = useRef(false);
  const setAttachments = (change: readonly Attachment[] | ((old: readonly Attachment[]) => readonly Attachment[])) => {
    const next = typeof change === "function" ? change(readAttachments(shownSession.current)) : change;
    setShownAttachments(next);
    saveAttachments(shownSession.current, next);
  };

  const updateDraft = (next: string) => {
    setText(next);
    saveDraft(session, next);
  };
  /** A restored draft may belong to a session that is not shown. */
  const compose = ({ session: target = session, text: added, attach = [], replace }: ComposeMessage) => {
    if (target === session) saveDraft(session, replace ? "" : (inputRef.current?.value ?? text));
    const draft = addToDraft(target, added ?? "", attach);
    if (target !== session) return;
    setText(draft);
    setShownAttachments(readAttachments(session));
  };
  useEffect(() => {
    if (shownSession.current === session) return;
    // A new session takes over the text that is being typed, and so does the start page if a session is gone.
    const isMove = shownSession.current === "" || (session === "" && !hasShownChat.current);
    const keepsDraft = isMove && text !== "" && readDraft(session) === "";
    const moved = isMove ? readAttachments(shownSession.current) : [];
    if (keepsDraft) {
      saveDraft(shownSession.current, "");
      saveDraft(session, text);
      if (moved.length > 0) saveAttachments(shownSession.current, []);
    } else setText(readDraft(session));
    shownSession.current = session;
    hasShownChat.current = false;
    setProblem(undefined);
    setSearch(undefined);
    setShownAttachments(readAttachments(session));
    if (keepsDraft && moved.length > 0) setAttachments(moved);
  }, [session]);
  useEffect(() => {
    if (view.chat) hasShownChat.current = true;
  }, [view.chat]);
  useEffect(() => {
    return listenForCommands((message) => {
      if (message.type === "suggestions") {
        if (message.id !== latestRequest.current) return;
        const { items, problem } = message;
        setSearch((current) => current && { ...current, items, ...(problem !== undefined && { problem }) });
        setSelectedIndex(0);
      } else if (message.type === "compose") {
        compose(message);
        if (message.isWanted || document.activeElement === document.body) inputRef.current?.focus();
      } else if (message.type === "attached") {
        storeAttachments(message.bySession);
        setShownAttachments(readAttachments(session));
      } else if (message.type === "showOpenQuestion") {
        showFirstQuestion(inputRef.current, (view.chat?.approvals.length ?? 0) > 0);
      } else if (message.type === "reopenQuestion") {
        reopenQuestion(message.approvalId);
      } else if (message.type === "answerVisible") {
        if (!answerQuestion(message.action, message.reviewedId) && !isTextField(document.activeElement))
          inputRef.current?.focus();
      } else if (message.type === "returnFocus") {
        returnFocusFromReview(message.approvalId, message.isDecided);
      }
    });
  });
  useEffect(updateKeyHints, [text]);

  /** Starts a search for what is before the cursor. The items of an earlier one belong to another query. */
  const updateSuggestions = (value: string, cursor: number) => {
    const found = findQuery(value.slice(0, cursor));
    latestRequest.current += 1;
    setSearch(found);
    if (found) postMessage({ type: "suggest", id: latestRequest.current, ...found });
  };
  /** Waits, because a click on a suggestion also takes the focus. The focus may be back by then. */
  function closeSuggestionsUnlessBack(): void {
    setTimeout(() => {
      if (document.activeElement !== inputRef.current) setSearch(undefined);
    }, 150);
  }

  /** Ends the search when the cursor leaves its query. */
  const onCaretMoved = (box: HTMLTextAreaElement) => {
    const found = findQuery(box.value.slice(0, box.selectionStart));
    // The latest search, which may not be rendered yet while the user types fast.
    setSearch((current) => (current?.query === found?.query ? current : undefined));
  };
  const acceptSuggestion = (suggestion: Suggestion) => {
    const box = inputRef.current;
    if (!box) return;
    const cursor = box.selectionStart;
    const isCommand = suggestion.kind === "command";
    const run = isCommand ? suggestion.run : undefined;
    const inserted = run === undefined ? `${suggestion.label} ` : "";
    const head = text.slice(0, cursor).replace(isCommand ? /^\/\S*$/ : /@[^\s@]*$/, inserted);
    updateDraft(head + text.slice(cursor));
    if (run !== undefined) postMessage({ type: "command", name: run });
    if (!isCommand) setAttachments((old) => mergeAttachments(old, [suggestion]));
    setSearch(undefined);
    requestAnimationFrame(() => {
      // The editor's command has the focus.
      if (run === undefined) box.focus();
      box.setSelectionRange(head.length, head.length);
    });
  };
  /** Shows the prompt before or after the shown one, unless the user has changed that. */
  const showEarlierPrompt = (step: 1 | -1): boolean => {
    const box = inputRef.current;
    const prompts = listSentPrompts(view.chat?.items ?? []);
    const at = box?.value === "" ? 0 : historyIndex.current;
    if (!box || box.value !== (prompts[prompts.length - at] ?? "")) return false;
    // In a prompt of several lines, the cursor first moves to its first or last one.
    const beyond = step > 0 ? box.value.slice(0, box.selectionStart) : box.value.slice(box.selectionEnd);
    const next = at + step;
    if (beyond.includes("\n") || next < 0 || next > prompts.length) return false;
    historyIndex.current = next;
    updateDraft(prompts[prompts.length - next] ?? "");
    requestAnimationFrame(() => box.setSelectionRange(box.value.length, box.value.length));
    return true;
  };
  const isRunning = view.chat?.running !== undefined;
  const isBusy = isRunning || view.isSending;
  const isLocked = view.locked !== undefined && view.locked.sessionId === view.chat?.sessionId;
  const isReady = view.connection.state === "ready" && !isLocked && !view.isLoading;
  const isEmpty = text.trim() === "" && attachments.length === 0;
  /** A prompt can be queued while a turn runs or other prompts wait. */
  const canQueue = view.capabilities.queue && (isRunning || view.chat?.queue !== undefined);
  const submitPrompt = (isQueued = false) => {
    // Read the element, which may contain input from after the last render.
    const prompt = (inputRef.current?.value ?? text).trim();
    if ((prompt === "" && attachments.length === 0) || !isReady || (view.isSending && !isRunning)) return;
    postMessage({ type: "send", text: prompt, attach: [...attachments], isQueued: isQueued && canQueue });
    scrollToEnd();
    rememberPrompt(prompt);
    historyIndex.current = 0;
    updateDraft("");
    setAttachments([]);
    setProblem(undefined);
    setSearch(undefined);
  };
  const suggestions = search?.items ?? [];
  const isListOpen = suggestions.length > 0;
  const onKeyDown = (event: KeyboardEvent) => {
    // While an input method composes, it owns all keys. Some engines report keyCode 229 instead.
    if (event.isComposing || event.keyCode === 229 || handleChord(event)) return;
    // Enter takes a suggestion that the user has seen. Until the answer arrives, it neither takes one nor sends.
    if (search && search.items === undefined && (event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
      event.preventDefault();
      return;
    }
    if (search && event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      setSearch(undefined);
      return;
    }
    if (isListOpen) {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step !== 0) {
        event.preventDefault();
        setSelectedIndex((selectedIndex + step + suggestions.length) % suggestions.length);
        return;
      }
      const suggestion = suggestions[selectedIndex];
      if ((event.key === "Enter" || event.key === "Tab") && suggestion) {
        event.preventDefault();
        acceptSuggestion(suggestion);
        return;
      }
    }
    const hasModifier = event.shiftKey || event.ctrlKey || event.metaKey;
    if (!hasModifier && !event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      const isQuestionNext = event.key === "ArrowUp" && inputRef.current?.value === "" && focusFirstQuestion();
      if (isQuestionNext || showEarlierPrompt(event.key === "ArrowUp" ? 1 : -1)) event.preventDefault();
    }
    // Ctrl+Enter allows a call. Pressed twice, it must not send the draft after the question is gone.
    if (event.key === "Enter" && !hasModifier) {
      event.preventDefault();
      submitPrompt(event.altKey);
    }
  };
  /** Attaches pictures and reports files that are not supported. */
  const attachPictures = (files: readonly File[]) => {
    const problems: string[] = [];
    let attachedMegabytes = attachments.reduce((sum, { block }) => sum + measureMegabytes(block), 0);
    for (const file of files) {
      const pictureProblem = validatePicture(file, view.capabilities.images, attachedMegabytes);
      attachedMegabytes += pictureProblem === undefined ? file.size / 1_000_000 : 0;
      if (pictureProblem !== undefined) problems.push(pictureProblem);
      else void readPicture(file).then((picture) => setAttachments((old) => mergeAttachments(old, [picture])));
    }
    setProblem(problems.length > 0 ? problems.join("\n") : undefined);
  };
  const onPaste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    attachPictures(files);
  };
  const onDrop = (event: DragEvent) => {
    const data = event.dataTransfer;
    const uris = readDroppedUris(data);
    const files = [...(data?.files ?? [])];
    if (uris.length === 0 && files.length === 0) return;
    event.preventDefault();
    if (uris.length > 0) postMessage({ type: "dropped", uris });
    else attachPictures(files);
  };
  const { activeContext } = view;
  const showsActiveContext =
    activeContext && !attachments.some((attachment) => attachment.label === activeContext.label);

  return (
    <form
      class="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={onDrop}
      onSubmit={(event) => {
        event.preventDefault();
        submitPrompt();
      }}
    >
      {problem !== undefined && (
        <p class="problem slim" role="alert" data-testid="not-attached">
          {problem} <Button label="×" kind="quiet" title="Dismiss" onPress={() => setProblem(undefined)} />
        </p>
      )}
      {(attachments.length > 0 || showsActiveContext) && (
        <ul class="chips" aria-label="Attached to the prompt">
          {attachments.map((attachment) => (
            <li key={attachment.label}>
              <span class="chip" title={attachment.detail ?? ""}>
                {attachment.label}
                <button
                  type="button"
                  aria-label={`Remove ${attachment.label}`}
                  onClick={() => setAttachments(attachments.filter((other) => other !== attachment))}
                >
                  ×
                </button>
              </span>
            </li>
          ))}
          {showsActiveContext && (
            <li>
              <button
                type="button"
                class="chip offer"
                title="Attach to the prompt"
                data-testid="active-file"
                onClick={() => {
                  setAttachments(
                    mergeAttachments(attachments, [
                      { kind: activeContext.block.type === "selection" ? "selection" : "file", ...activeContext },
                    ]),
                  );
                  inputRef.current?.focus();
                }}
              >
                + {activeContext.label}
              </button>
            </li>
          )}
        </ul>
      )}
      {search && <SuggestionList search={search} chosenIndex={selectedIndex} onAccept={acceptSuggestion} />}
      <div class="box">
        <textarea
          ref={inputRef}
          rows={1}
          value={text}
          data-testid="input"
          aria-label={isRunning ? "Message the running agent" : "Ask the agent"}
          placeholder={
            isLocked
              ? READ_ONLY_MESSAGE
              : isRunning
                ? "Steer the running turn…"
                : "Ask the agent, or type @ to attach files"
          }
          role="combobox"
          aria-expanded={isListOpen}
          aria-controls="suggestions"
          aria-activedescendant={isListOpen ? `suggestion-${selectedIndex}` : undefined}
          aria-autocomplete="list"
          onInput={(event) => {
            updateDraft(event.currentTarget.value);
            updateSuggestions(event.currentTarget.value, event.currentTarget.selectionStart);
          }}
          onKeyDown={onKeyDown}
          onKeyUp={(event) => onCaretMoved(event.currentTarget)}
          onClick={(event) => onCaretMoved(event.currentTarget)}
          onPaste={onPaste}
          onBlur={closeSuggestionsUnlessBack}
        />
        {isBusy && (
          <button
            type="button"
            class="round stop"
            data-testid="stop"
            title={view.isStopping ? "Stop immediately" : "Stop (Escape)"}
            aria-label={view.isStopping ? "Stop immediately" : "Stop the agent"}
            onClick={() => postMessage({ type: "cancel" })}
          >
            <span class="square" aria-hidden="true" />
          </button>
        )}
        {canQueue && !isEmpty && (
          <button
            type="button"
            class="round enqueue"
            data-testid="enqueue"
            disabled={!isReady}
            title="Send when the turn ends (Alt+Enter)"
            aria-label="Queue: send when the turn ends"
            onClick={() => submitPrompt(true)}
          >
            <span class="lines" aria-hidden="true" />
          </button>
        )}
        {(!isBusy || (isRunning && view.capabilities.steer && !isEmpty)) && (
          <button
            type="submit"
            class="round send"
            data-testid="send"
            disabled={isEmpty || !isReady}
            title={isLocked ? READ_ONLY_MESSAGE : isRunning ? "Send to the running turn (Enter)" : "Send (Enter)"}
            aria-label={isRunning ? "Send to the running turn" : "Send"}
          >
            <span class="arrow" aria-hidden="true" />
          </button>
        )}
      </div>
      <SessionBar view={view} />
    </form>
  );
}

/** Finds the query before the cursor: after `@`, or after `/` at the start of the text. */
function findQuery(before: string): Pick<Search, "sign" | "query"> | undefined {
  const name = /^\/([^\s/]*)$/.exec(before)?.[1];
  if (name !== undefined) return { sign: "/", query: name };
  const query = /(?:^|\s)@([^\s@]*)$/.exec(before)?.[1];
  return query === undefined ? undefined : { sign: "@", query };
}

/** Shown before the user types, because the server would reject the prompt. */
const READ_ONLY_MESSAGE = "Read-only: open in another window";

/** Returns why a file cannot be attached. */
function validatePicture({ name, type, size }: File, images: boolean, attachedMegabytes: number): string | undefined {
  const problem = `${name || "The file"} was not attached.`;
  if (!PICTURE_TYPES.test(type)) {
    return `${problem} Only PNG, JPEG, GIF, and WebP pictures are supported. Type @ to attach a workspace file.`;
  }
  if (!images) return `${problem} This server does not accept pictures.`;
  const megabytes = size / 1_000_000;
  if (megabytes > MAX_PICTURE_MB) {
    return `${problem} It is ${megabytes.toFixed(1)} MB, and the limit is ${MAX_PICTURE_MB} MB.`;
  }
  if (attachedMegabytes + megabytes <= MAX_PICTURES_MB) return undefined;
  return `${problem} The pictures of a prompt may have ${MAX_PICTURES_MB} MB in all.`;
}

/** Returns the size of an attached picture, without its Base64. */
function measureMegabytes(block: Attachment["block"]): number {
  return block.type === "image" ? (block.data.length * 3) / 4 / 1_000_000 : 0;
}

/** Returns the URIs of files that were dragged from VS Code. */
function readDroppedUris(data: DataTransfer | null): string[] {
  const list = data?.getData("application/vnd.code.uri-list") || data?.getData("text/uri-list") || "";
  return list.split(/\r?\n/).filter((uri) => /^(file|vscode-remote):/.test(uri));
}

async function readPicture(file: File): Promise<Attachment> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  const data = url.slice(url.indexOf(",") + 1);
  const label = `${file.name || "picture"} (${Math.ceil(file.size / 1000)} KB)`;
  return { kind: "image", label, block: { type: "image", mediaType: file.type, data } };
}
