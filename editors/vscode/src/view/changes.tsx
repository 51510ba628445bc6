// A turn's changes at its end, and the preview of a revert.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ChangeKind, FileDiff } from "../protocol";
import { type ChangesItem, describeChanges, getItemKey, sumLines } from "../state";
import { type Capabilities, type RevertPreview, TURN_RUNNING_MESSAGE } from "../webviewProtocol";
import { Button, isPointer, PureComponent } from "./components";
import { readPersistent, writePersistent } from "./persistentState";
import { focusInput, isInSight, isTextField, moveQuestionFocus, revealQuestion, updateKeyHints } from "./questionFocus";
import { postMessage } from "./store";
import { useIsArmed } from "./useIsArmed";

/** Up to this number, files are listed without a click. */
const MAX_OPEN_FILES = 6;

const CHANGE_KINDS: Record<ChangeKind, { letter: string; label: string }> = {
  created: { letter: "A", label: "new" },
  modified: { letter: "M", label: "modified" },
  deleted: { letter: "D", label: "deleted" },
};

interface Props {
  item: ChangesItem;
  capabilities: Capabilities;
  /** Reverts are disabled while a turn runs. */
  isRunning: boolean;
}

export class TurnChanges extends PureComponent<Props> {
  override state = { open: readPersistent<boolean>(getItemKey(this.props.item)) };

  render({ item, capabilities, isRunning }: Props): JSX.Element {
    const { files, standing, unlisted = 0 } = item;
    const count = files.length + unlisted;
    const open = this.state.open ?? count <= MAX_OPEN_FILES;
    const { added, removed } = sumLines(files);
    const reverted = standing === "reverted";
    return (
      <section
        class={`changes ${standing}`}
        aria-label={`${describeChanges(item)}${reverted ? ", reverted" : ""}`}
        data-testid="changes"
        data-standing={standing}
      >
        <div class="head">
          <button type="button" class="fold" aria-expanded={open} onClick={() => this.#setOpen(!open)}>
            <span class="chevron" aria-hidden="true" />
            <span>
              {count === 1 ? "1 file" : `${count} files`}
              <span class="optional"> changed</span>
            </span>{" "}
            {added + removed > 0 && unlisted === 0 && <LineCounts added={added} removed={removed} />}
            {reverted && <span class="tag">reverted</span>}
            {standing === "redone" && <span class="tag">redone</span>}
          </button>
          <span class="head-actions">
            <Button
              label="Review"
              kind="quiet"
              title="Show all changes in the diff editor"
              testId="review-changes"
              onPress={() => postMessage({ type: "openChanges", turnId: item.id })}
            />
            {capabilities.revert && files.some((file) => !file.unrestorable) && (
              <RevertButton item={item} isRunning={isRunning} />
            )}
          </span>
        </div>
        {open && (
          <ul>
            {sortByPath(files).map((file) => (
              <ChangedFile
                key={file.path}
                turnId={item.id}
                file={file}
                isUnreverted={item.unrevertedPaths?.includes(file.path) ?? false}
              />
            ))}
            {unlisted > 0 && <li class="dim">and {unlisted === 1 ? "one more file" : `${unlisted} more files`}</li>}
          </ul>
        )}
        {item.partial && (
          <p class="dim">Commands may have changed more files. This workspace is too large to track all of them.</p>
        )}
      </section>
    );
  }

  #setOpen(open: boolean): void {
    writePersistent(getItemKey(this.props.item), open);
    this.setState({ open });
  }
}

/** Parallel calls have no meaningful order. */
function sortByPath(files: readonly FileDiff[]): FileDiff[] {
  return [...files].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Reverts the changes, or redoes them with all that were reverted together. */
function RevertButton({ item, isRunning }: { item: ChangesItem; isRunning: boolean }): JSX.Element {
  const redo = item.standing === "reverted";
  const turnId = item.revertedWith ?? item.id;
  const title = redo
    ? "Redo these changes (shows a preview first)"
    : "Revert these changes and those of all later turns (shows a preview first)";
  return (
    <Button
      label={redo ? "Redo…" : "Revert…"}
      kind="quiet"
      title={isRunning ? TURN_RUNNING_MESSAGE : title}
      disabled={isRunning}
      testId={redo ? "redo" : "revert"}
      onPress={() => postMessage({ type: "previewRevert", turnId, redo })}
    />
  );
}

interface ChangedFileProps {
  turnId: string;
  file: FileDiff;
  /** The revert did not change this file. */
  isUnreverted: boolean;
}

function ChangedFile({ turnId, file, isUnreverted }: ChangedFileProps): JSX.Element {
  const { path, kind, added, removed, unrestorable } = file;
  const slash = path.lastIndexOf("/") + 1;
  return (
    <li class={isUnreverted ? "unreverted" : ""}>
      <button
        type="button"
        class="file"
        title={`Show changes to ${path}`}
        data-testid="changed-file"
        onClick={() => postMessage({ type: "openChanges", turnId, path })}
      >
        <ChangeKindBadge kind={kind} />
        <span class="path">
          {path.slice(slash)} <span class="dim">{path.slice(0, slash)}</span>
        </span>
        {(added > 0 || removed > 0) && <LineCounts added={added} removed={removed} />}
      </button>
      {isUnreverted && !unrestorable && <span class="tag">not reverted</span>}
      {unrestorable && (
        <span class="tag" title="A command changed this file, and its previous content is unknown">
          cannot be reverted
        </span>
      )}
    </li>
  );
}

function ChangeKindBadge({ kind }: { kind: ChangeKind }): JSX.Element {
  const { letter, label } = CHANGE_KINDS[kind];
  return (
    <span class={`change-kind ${kind}`} role="img" aria-label={label} title={label}>
      {letter}
    </span>
  );
}

function LineCounts({ added, removed }: { added: number; removed: number }): JSX.Element {
  return (
    <span class="change" role="img" aria-label={`${added} lines added, ${removed} removed`}>
      <span class="add">+{added}</span> <span class="del">−{removed}</span>
    </span>
  );
}

/** Previews a revert or redo and asks for confirmation once. */
export function RevertCard({ preview }: { preview: RevertPreview }): JSX.Element {
  const { turnId, redo, turns, files, fileCount, conflicts, conflictCount } = preview;
  const cardRef = useRef<HTMLElement>(null);
  const isArmed = useIsArmed(cardRef);
  // The user asked for the preview, but may write something else by now.
  useEffect(() => {
    if (!isTextField(document.activeElement)) cardRef.current?.focus();
    updateKeyHints();
  }, [turnId, redo]);
  const close = (type: "cancelRevert" | "confirmRevert") => {
    focusInput();
    postMessage({ type });
  };
  const dismissPreview = () => close("cancelRevert");
  const applyRevert = (isSeen: boolean) => {
    const card = cardRef.current;
    if (card === null || !isArmed) return;
    if (isSeen || isInSight(card)) close("confirmRevert");
    else revealQuestion(card);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (moveQuestionFocus(event)) return;
    const key = event.key.toLowerCase();
    const run =
      key === "escape" || key === "n"
        ? dismissPreview
        : key === "y" && fileCount > 0
          ? () => applyRevert(false)
          : undefined;
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) run();
  };
  const verb = redo ? "Redo" : "Revert";
  const scope =
    turns > 1 ? `this turn and ${turns === 2 ? "the later turn" : `${turns - 1} later turns`}` : "this turn";
  return (
    <section
      ref={cardRef}
      class="approval medium revert"
      role="group"
      tabIndex={0}
      aria-label={`${redo ? "Redo the reverted changes" : `Revert the changes of ${scope}`}? Press Y to confirm or N to cancel.`}
      data-testid="revert-card"
      data-question
      data-armed={isArmed}
      onKeyDown={onKeyDown}
    >
      <p class="reason">
        {fileCount === 0
          ? `Nothing to ${verb.toLowerCase()}: ${conflictCount === 0 ? "all files already match." : "no file can be changed."}`
          : redo
            ? "Redo the reverted changes?"
            : `Revert the changes of ${scope}?`}
      </p>
      {fileCount > 0 && (
        <ul aria-label="Files to change">
          {files.map(({ path, uri, kind }) => (
            <li key={uri}>
              <ChangeKindBadge kind={kind} />
              <button type="button" class="file" title={path} onClick={() => postMessage({ type: "openFile", uri })}>
                <span class="path">{path}</span>
              </button>
              <span class="dim">{REVERT_EFFECTS[kind]}</span>
            </li>
          ))}
          <MoreItems total={fileCount} shownCount={files.length} />
        </ul>
      )}
      {conflictCount > 0 && (
        <>
          <p class="problem">Stays unchanged:</p>
          <ul aria-label="Files that stay unchanged" data-testid="conflicts">
            {conflicts.map(({ path, uri, why }) => (
              <li key={uri}>
                <button type="button" class="file" title={path} onClick={() => postMessage({ type: "openFile", uri })}>
                  <span class="path">{path}</span>
                </button>
                <span class="dim">{why}</span>
              </li>
            ))}
            <MoreItems total={conflictCount} shownCount={conflicts.length} />
          </ul>
        </>
      )}
      <div class="actions">
        {fileCount > 0 && (
          <Button
            label={verb}
            kind="main"
            ignoresEnter
            testId="confirm-revert"
            onPress={(event) => applyRevert(isPointer(event))}
          >
            {verb} {fileCount === 1 ? "1 file" : `${fileCount} files`} <kbd class="letter">Y</kbd>
          </Button>
        )}
        <Button label="Cancel" onPress={dismissPreview}>
          {fileCount > 0 ? "Cancel" : "Close"} <kbd class="letter">N</kbd>
        </Button>
      </div>
    </section>
  );
}

const REVERT_EFFECTS: Record<ChangeKind, string> = {
  created: "will be created",
  modified: "will be restored",
  deleted: "will be deleted",
};

function MoreItems({ total, shownCount }: { total: number; shownCount: number }): JSX.Element | null {
  return total > shownCount ? <li class="dim">and {total - shownCount} more</li> : null;
}
