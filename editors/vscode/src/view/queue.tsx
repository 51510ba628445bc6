// The prompt queue: edit, remove, or send each prompt.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { QueuedPrompt, QueueState } from "../protocol";
import type { QueueEdit } from "../webviewProtocol";
import { Button, useAutoFocus } from "./components";
import { postMessage, readDraft, saveDraft } from "./store";

interface Props {
  queue: QueueState | undefined;
  queueEdit: QueueEdit | undefined;
}

export function PromptQueue({ queue, queueEdit }: Props): JSX.Element {
  const { paused, prompts } = queue ?? { paused: false, prompts: [] };
  const isSent = queueEdit !== undefined && !prompts.some(({ promptId }) => promptId === queueEdit.promptId);
  const promptCount = prompts.length === 1 ? "1 prompt" : `${prompts.length} prompts`;
  return (
    <section
      class={`queue ${paused ? "paused" : ""}`}
      aria-label={`Queue: ${promptCount}${paused ? ", paused" : ""}`}
      data-testid="queue"
      data-paused={paused}
    >
      <p class="dim" role="status">
        {paused
          ? `Paused: ${promptCount}. The queue continues when you send one or a turn completes.`
          : `Queued: ${promptCount}`}
      </p>
      <ol>
        {prompts.map((prompt) =>
          queueEdit?.promptId === prompt.promptId ? (
            <QueuedPromptEditor key={prompt.promptId} queueEdit={queueEdit} />
          ) : (
            <QueuedPromptRow key={prompt.promptId} prompt={prompt} />
          ),
        )}
        {isSent && <QueuedPromptEditor key={queueEdit.promptId} queueEdit={queueEdit} isSent />}
      </ol>
    </section>
  );
}

function QueuedPromptRow({ prompt }: { prompt: QueuedPrompt }): JSX.Element {
  const { promptId } = prompt;
  const text = prompt.text === "" ? "(no text)" : prompt.text;
  return (
    <li data-testid="queued">
      <span class="text" title={text}>
        {text}
      </span>
      <span class="row-actions">
        <button
          type="button"
          class="icon send-now"
          title="Send now"
          aria-label={`Send now: ${text}`}
          onClick={() => postMessage({ type: "queue", action: "sendNow", promptId })}
        />
        <button
          type="button"
          class="icon rename"
          title="Edit"
          aria-label={`Edit: ${text}`}
          onClick={() => postMessage({ type: "queue", action: "edit", promptId })}
        />
        <button
          type="button"
          class="icon delete"
          title="Remove from the queue"
          aria-label={`Remove: ${text}`}
          onClick={() => postMessage({ type: "queue", action: "remove", promptId })}
        />
      </span>
    </li>
  );
}

/** With `sent`, the prompt was already sent, but the edited text can still be moved to the input. */
function QueuedPromptEditor({ queueEdit, isSent = false }: { queueEdit: QueueEdit; isSent?: boolean }): JSX.Element {
  const { promptId } = queueEdit;
  const key = `edit ${promptId}`;
  const [text, setText] = useState(() => readDraft(key) || queueEdit.text);
  const inputRef = useAutoFocus<HTMLTextAreaElement>();
  const updateDraft = (next: string) => {
    setText(next);
    saveDraft(key, next);
  };
  const cancelEdit = () => {
    saveDraft(key, "");
    postMessage({ type: "stopEditing" });
  };
  const saveEdit = () => {
    if (text.trim() === "") return;
    saveDraft(key, "");
    postMessage({ type: "queue", action: "save", promptId, text });
  };
  return (
    <li class="field" data-testid="queue-edit">
      <textarea
        ref={inputRef}
        rows={Math.min(10, Math.max(2, text.split("\n").length))}
        value={text}
        aria-label="Queued prompt"
        onInput={(event) => updateDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.isComposing) return;
          if (event.key === "Escape") {
            event.stopPropagation();
            cancelEdit();
          } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            saveEdit();
          }
        }}
      />
      <div class="actions">
        <Button
          label={isSent ? "Move to input" : "Save"}
          kind="main"
          disabled={text.trim() === ""}
          onPress={saveEdit}
        />
        <Button label="Back" kind="quiet" onPress={cancelEdit} />
        {isSent && <span class="dim">It was already sent.</span>}
      </div>
    </li>
  );
}
