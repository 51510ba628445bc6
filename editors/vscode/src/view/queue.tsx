// The prompts that wait for the turn's end: each may be edited, taken out, or sent at once.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { QueuedPrompt, QueueState } from "../protocol";
import type { QueueEdit } from "../webviewProtocol";
import { Button, useFocus } from "./components";
import { draft, keepDraft, post } from "./store";

interface Props {
  queue: QueueState | undefined;
  editing: QueueEdit | undefined;
}

export function Queue({ queue, editing }: Props): JSX.Element {
  const { paused, prompts } = queue ?? { paused: false, prompts: [] };
  const sent = editing !== undefined && !prompts.some(({ promptId }) => promptId === editing.promptId);
  const many = prompts.length === 1 ? "1 prompt" : `${prompts.length} prompts`;
  return (
    <section
      class={`queue ${paused ? "held" : ""}`}
      aria-label={`Queue: ${many}${paused ? ", held" : ""}`}
      data-testid="queue"
      data-paused={paused}
    >
      <p class="dim" role="status">
        {paused ? `Held: ${many}. Nothing is sent until you send one, or a turn completes.` : `Queued: ${many}`}
      </p>
      <ol>
        {prompts.map((prompt) =>
          editing?.promptId === prompt.promptId ? (
            <Edit key={prompt.promptId} editing={editing} />
          ) : (
            <Row key={prompt.promptId} prompt={prompt} />
          ),
        )}
        {sent && <Edit key={editing.promptId} editing={editing} sent />}
      </ol>
    </section>
  );
}

function Row({ prompt }: { prompt: QueuedPrompt }): JSX.Element {
  const { promptId } = prompt;
  const text = prompt.text === "" ? "(no text)" : prompt.text;
  return (
    <li data-testid="queued">
      <span class="text" title={text}>
        {text}
      </span>
      <span class="row-do">
        <button
          type="button"
          class="icon send-now"
          title="Send now"
          aria-label={`Send now: ${text}`}
          onClick={() => post({ type: "queue", action: "sendNow", promptId })}
        />
        <button
          type="button"
          class="icon rename"
          title="Edit"
          aria-label={`Edit: ${text}`}
          onClick={() => post({ type: "queue", action: "edit", promptId })}
        />
        <button
          type="button"
          class="icon delete"
          title="Take out of the queue"
          aria-label={`Take out: ${text}`}
          onClick={() => post({ type: "queue", action: "remove", promptId })}
        />
      </span>
    </li>
  );
}

/** `sent`: it does not wait any more; what was typed is not lost with it. */
function Edit({ editing, sent = false }: { editing: QueueEdit; sent?: boolean }): JSX.Element {
  const { promptId } = editing;
  const key = `edit ${promptId}`;
  const [text, setText] = useState(() => draft(key) || editing.text);
  const place = useFocus<HTMLTextAreaElement>();
  const write = (next: string) => {
    setText(next);
    keepDraft(key, next);
  };
  const stop = () => {
    keepDraft(key, "");
    post({ type: "stopEditing" });
  };
  const save = () => {
    if (text.trim() === "") return;
    keepDraft(key, "");
    post({ type: "queue", action: "save", promptId, text });
  };
  return (
    <li class="field" data-testid="queue-edit">
      <textarea
        ref={place}
        rows={Math.min(10, Math.max(2, text.split("\n").length))}
        value={text}
        aria-label="The queued prompt"
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.isComposing) return;
          if (event.key === "Escape") {
            event.stopPropagation();
            stop();
          } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            save();
          }
        }}
      />
      <div class="ways">
        <Button label={sent ? "To the input" : "Save"} kind="main" disabled={text.trim() === ""} onPress={save} />
        <Button label="Back" kind="quiet" onPress={stop} />
        {sent && <span class="dim">It was sent meanwhile.</span>}
      </div>
    </li>
  );
}
