// What a turn changed, at its end; and what a revert would do, to be allowed.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { ChangeKind, FileDiff } from "../protocol";
import { type ChangesItem, changesLine, keyOf, totals } from "../state";
import { type Offers, type RevertAsked, TURN_RUNS } from "../webviewProtocol";
import { Button, Still } from "./components";
import { keepChoice, keptChoice } from "./persistentState";
import { post } from "./store";

/** Up to so many files are listed without being asked for. */
const FEW = 6;

const KINDS: Record<ChangeKind, { letter: string; word: string }> = {
  created: { letter: "A", word: "new" },
  modified: { letter: "M", word: "changed" },
  deleted: { letter: "D", word: "deleted" },
};

interface Props {
  item: ChangesItem;
  offers: Offers;
  /** A turn runs: nothing is reverted meanwhile. */
  running: boolean;
}

export class Changes extends Still<Props> {
  override state = { open: keptChoice<boolean>(keyOf(this.props.item)) };

  render({ item, offers, running }: Props): JSX.Element {
    const { files, standing, unlisted = 0 } = item;
    const count = files.length + unlisted;
    const open = this.state.open ?? count <= FEW;
    const { added, removed } = totals(files);
    const reverted = standing === "reverted";
    return (
      <section
        class={`changes ${standing}`}
        aria-label={`${changesLine(item)}${reverted ? ", reverted" : ""}`}
        data-testid="changes"
        data-standing={standing}
      >
        <div class="head">
          <button type="button" class="fold" aria-expanded={open} onClick={() => this.#open(!open)}>
            <span class="twist" aria-hidden="true" />
            <span>
              {count === 1 ? "1 file" : `${count} files`}
              <span class="word"> changed</span>
            </span>{" "}
            {added + removed > 0 && unlisted === 0 && <Lines added={added} removed={removed} />}
            {reverted && <span class="tag">reverted</span>}
            {standing === "redone" && <span class="tag">redone</span>}
          </button>
          <span class="acts">
            <Button
              label="Review"
              kind="quiet"
              title="Show all of it in the diff editor"
              testId="review-changes"
              onPress={() => post({ type: "openChanges", turnId: item.id })}
            />
            {offers.revert && files.some((file) => !file.unrestorable) && <Revert item={item} running={running} />}
          </span>
        </div>
        {open && (
          <ul>
            {byPath(files).map((file) => (
              <File key={file.path} turnId={item.id} file={file} left={item.left?.includes(file.path) ?? false} />
            ))}
            {unlisted > 0 && <li class="dim">and {unlisted === 1 ? "one more file" : `${unlisted} more files`}</li>}
          </ul>
        )}
        {item.partial && (
          <p class="dim">Commands may have changed more: this workspace has more files than are looked at.</p>
        )}
      </section>
    );
  }

  #open(open: boolean): void {
    keepChoice(keyOf(this.props.item), open);
    this.setState({ open });
  }
}

/** Calls that ran at once have no order that means anything. */
function byPath(files: readonly FileDiff[]): FileDiff[] {
  return [...files].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Reverts what stands; what was reverted is redone, with all that went along. */
function Revert({ item, running }: { item: ChangesItem; running: boolean }): JSX.Element {
  const redo = item.standing === "reverted";
  const turnId = item.revertedWith ?? item.id;
  const title = redo
    ? "Make these changes again; you are shown first what it would do"
    : "Take these changes back, and those of all later turns; you are shown first what it would do";
  return (
    <Button
      label={redo ? "Redo…" : "Revert…"}
      kind="quiet"
      title={running ? TURN_RUNS : title}
      disabled={running}
      testId={redo ? "redo" : "revert"}
      onPress={() => post({ type: "askRevert", turnId, redo })}
    />
  );
}

interface FileProps {
  turnId: string;
  file: FileDiff;
  /** The revert left it as it was. */
  left: boolean;
}

function File({ turnId, file, left }: FileProps): JSX.Element {
  const { path, kind, added, removed, unrestorable } = file;
  const slash = path.lastIndexOf("/") + 1;
  return (
    <li class={left ? "left" : ""}>
      <button
        type="button"
        class="file"
        title={`${path}: show what changed`}
        data-testid="changed-file"
        onClick={() => post({ type: "openChanges", turnId, path })}
      >
        <Kind kind={kind} />
        <span class="path">
          {path.slice(slash)} <span class="dim">{path.slice(0, slash)}</span>
        </span>
        {(added > 0 || removed > 0) && <Lines added={added} removed={removed} />}
      </button>
      {left && !unrestorable && <span class="tag">left as it is</span>}
      {unrestorable && (
        <span class="tag" title="A command changed it, and what it was before is not known">
          cannot be reverted
        </span>
      )}
    </li>
  );
}

function Kind({ kind }: { kind: ChangeKind }): JSX.Element {
  const { letter, word } = KINDS[kind];
  return (
    <span class={`kind-of ${kind}`} role="img" aria-label={word} title={word}>
      {letter}
    </span>
  );
}

function Lines({ added, removed }: { added: number; removed: number }): JSX.Element {
  return (
    <span class="change" role="img" aria-label={`${added} lines added, ${removed} removed`}>
      <span class="add">+{added}</span> <span class="del">−{removed}</span>
    </span>
  );
}

/** What a revert or a redo would do; it is asked once. */
export function RevertCard({ asked }: { asked: RevertAsked }): JSX.Element {
  const { turnId, redo, turns, files, fileCount, conflicts, conflictCount } = asked;
  const place = useRef<HTMLElement>(null);
  useEffect(() => place.current?.focus(), [turnId, redo]);
  const drop = () => post({ type: "dropRevert" });
  const act = () => post({ type: "doRevert" });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    const run = key === "escape" || key === "n" ? drop : key === "y" && fileCount > 0 ? act : undefined;
    if (!run) return;
    event.preventDefault();
    event.stopPropagation();
    run();
  };
  const verb = redo ? "Redo" : "Revert";
  const of =
    turns > 1 ? `this turn and of ${turns === 2 ? "the later one" : `the ${turns - 1} later ones`}` : "this turn";
  return (
    <section
      ref={place}
      class="approval medium revert"
      role="group"
      tabIndex={0}
      aria-label={`${redo ? "Redo what was reverted" : `Revert the changes of ${of}`}? Y does it, N leaves all as it is.`}
      data-testid="revert-card"
      onKeyDown={onKeyDown}
    >
      <p class="why">
        {fileCount === 0
          ? `Nothing to ${verb.toLowerCase()}: ${conflictCount === 0 ? "all files are so already." : "no file can be."}`
          : redo
            ? "Redo what was reverted?"
            : `Revert the changes of ${of}?`}
      </p>
      {fileCount > 0 && (
        <ul aria-label="What would be done">
          {files.map(({ path, uri, kind }) => (
            <li key={uri}>
              <Kind kind={kind} />
              <button type="button" class="file" title={path} onClick={() => post({ type: "openFile", uri })}>
                <span class="path">{path}</span>
              </button>
              <span class="dim">{DONE[kind]}</span>
            </li>
          ))}
          <More all={fileCount} shown={files.length} />
        </ul>
      )}
      {conflictCount > 0 && (
        <>
          <p class="problem">Left as {conflictCount === 1 ? "it is" : "they are"}:</p>
          <ul aria-label="What would be left as it is" data-testid="conflicts">
            {conflicts.map(({ path, uri, why }) => (
              <li key={uri}>
                <button type="button" class="file" title={path} onClick={() => post({ type: "openFile", uri })}>
                  <span class="path">{path}</span>
                </button>
                <span class="dim">{why}</span>
              </li>
            ))}
            <More all={conflictCount} shown={conflicts.length} />
          </ul>
        </>
      )}
      <div class="ways">
        {fileCount > 0 && (
          <Button label={verb} kind="main" notByEnter testId="do-revert" onPress={act}>
            {verb} {fileCount === 1 ? "1 file" : `${fileCount} files`} <kbd>Y</kbd>
          </Button>
        )}
        <Button label="Leave it" onPress={drop}>
          {fileCount > 0 ? "Leave it" : "Close"} <kbd>N</kbd>
        </Button>
      </div>
    </section>
  );
}

/** What would be done to a file. */
const DONE: Record<ChangeKind, string> = { created: "comes back", modified: "is put back", deleted: "is deleted" };

function More({ all, shown }: { all: number; shown: number }): JSX.Element | null {
  return all > shown ? <li class="dim">and {all - shown} more</li> : null;
}
