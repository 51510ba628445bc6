// Computes hunks of proposed edits, the arguments of `edit_file` that produce a text, and file contents before and
// after a turn. Pure. The `diff` library does the comparison.

import { applyPatch, createTwoFilesPatch, diffLines, FILE_HEADERS_ONLY, parsePatch, reversePatch } from "diff";
import type { FileDiff } from "./protocol";
import type { ChangesItem, ChatState } from "./state";

/** Lines that replace other lines. Line numbers start at 0. */
export interface Hunk {
  oldStart: number;
  old: string[];
  newStart: number;
  new: string[];
}

export function computeHunks(before: string, after: string): Hunk[] {
  const hunks: Hunk[] = [];
  let open: Hunk | undefined;
  let oldLine = 0;
  let newLine = 0;
  for (const part of diffLines(before, after)) {
    const lines = splitLines(part.value);
    if (!part.added && !part.removed) {
      open = undefined;
      oldLine += lines.length;
      newLine += lines.length;
      continue;
    }
    if (open === undefined) {
      open = { oldStart: oldLine, old: [], newStart: newLine, new: [] };
      hunks.push(open);
    }
    if (part.removed) {
      open.old.push(...lines);
      oldLine += lines.length;
    } else {
      open.new.push(...lines);
      newLine += lines.length;
    }
  }
  return hunks;
}

/** Finds the hunk at a line of the new text. A pure deletion covers the lines around its gap. */
export function findHunkAtLine(list: readonly Hunk[], line: number): Hunk | undefined {
  return list.find((hunk) =>
    hunk.new.length === 0
      ? line === hunk.newStart || line === hunk.newStart - 1
      : line >= hunk.newStart && line < hunk.newStart + hunk.new.length,
  );
}

export interface ReviewDifference {
  /** Number of hunks that the agent proposes. */
  proposed: number;
  /** Number of hunks that are missing from the reviewed text. */
  rejected: number;
  /** Number of hunks that the user added or changed. */
  edited: number;
}

export function compareReview(before: string, proposal: string, reviewed: string): ReviewDifference {
  const proposedHunks = computeHunks(before, proposal);
  const remaining = computeHunks(before, reviewed);
  const toKey = (hunk: Hunk) => JSON.stringify([hunk.oldStart, hunk.old, hunk.new]);
  const proposedKeys = new Set(proposedHunks.map(toKey));
  // Adjacent changes form one hunk, so touching ranges overlap.
  const hunksOverlap = (a: Hunk, b: Hunk) =>
    a.oldStart <= b.oldStart + b.old.length && b.oldStart <= a.oldStart + a.old.length;
  const rejectedHunks = proposedHunks.filter((hunk) => !remaining.some((other) => hunksOverlap(hunk, other)));
  const editedHunks = remaining.filter((hunk) => !proposedKeys.has(toKey(hunk)));
  return { proposed: proposedHunks.length, rejected: rejectedHunks.length, edited: editedHunks.length };
}

/** Returns an empty string if there is no difference. */
export function describeDifference({ proposed, rejected, edited }: ReviewDifference): string {
  const parts: string[] = [];
  if (rejected > 0) parts.push(`${rejected} of ${proposed} ${proposed === 1 ? "hunk" : "hunks"} rejected`);
  if (edited > 0) parts.push(edited === 1 ? "1 hunk edited by you" : `${edited} hunks edited by you`);
  return parts.join(", ");
}

export interface Edit {
  old_text: string;
  new_text: string;
}

/** Applies the edits of a call. Returns nothing if an old text is missing or ambiguous. */
export function applyEdits(text: string, edits: readonly (Edit & { replace_all?: boolean })[]): string | undefined {
  let current = text;
  for (const { old_text, new_text, replace_all } of edits) {
    const count = old_text === "" ? 0 : countOccurrences(current, old_text);
    if (count === 0 || (count > 1 && !replace_all)) return undefined;
    current = current.split(old_text).join(new_text);
  }
  return current;
}

/**
 * Returns edits that turn `before` into `after`. Each old text occurs exactly once when it is applied. Edits go from
 * the end to the start, so that earlier lines stay unchanged.
 */
export function buildEdits(before: string, after: string): Edit[] {
  let current = splitLines(before);
  const edits: Edit[] = [];
  for (const hunk of computeHunks(before, after).reverse()) {
    let from = hunk.oldStart;
    let to = hunk.oldStart + hunk.old.length;
    const text = current.join("");
    while (countOccurrences(text, current.slice(from, to).join("")) !== 1) {
      if (from === 0 && to === current.length) break;
      from = Math.max(0, from - 1);
      to = Math.min(current.length, to + 1);
    }
    const head = current.slice(from, hunk.oldStart).join("");
    const tail = current.slice(hunk.oldStart + hunk.old.length, to).join("");
    edits.push({ old_text: current.slice(from, to).join(""), new_text: head + hunk.new.join("") + tail });
    current = [...current.slice(0, hunk.oldStart), ...hunk.new, ...current.slice(hunk.oldStart + hunk.old.length)];
  }
  return edits;
}

/**
 * Returns a patch of the same file as `patch`, the argument of `apply_patch`, that turns `before` into `after`. Returns
 * nothing if `patch` moves or deletes a file or has several, or if a patch cannot express the change.
 */
export function buildPatch(patch: string, before: string, after: string): string | undefined {
  const [mark, ...others] = patch.match(/^\*\*\* (Add File|Update File|Delete File|Move to):.*$/gm) ?? [];
  if (mark === undefined || others.length > 0 || mark.startsWith("*** Delete")) return undefined;
  const body = mark.startsWith("*** Add") ? mapLines(splitLines(after), "+") : buildPatchHunks(before, after);
  return body && ["*** Begin Patch", mark.trimEnd(), ...body, "*** End Patch", ""].join("\n");
}

/** Each hunk has as many lines around it as it needs to fit at one place. */
function buildPatchHunks(before: string, after: string): string[] | undefined {
  // The line feed at the end of a file stays as it is.
  if (before !== "" && after !== "" && before.endsWith("\n") !== after.endsWith("\n")) return undefined;
  const text = splitLines(before).map(withoutLineFeed);
  const patch: string[] = [];
  for (const hunk of computeHunks(before, after)) {
    const [old, added] = [hunk.old.map(withoutLineFeed), hunk.new.map(withoutLineFeed)];
    let [from, to] = [hunk.oldStart, hunk.oldStart + old.length];
    while (countWindows(text, text.slice(from, to)) !== 1 && (from > 0 || to < text.length)) {
      [from, to] = [Math.max(0, from - 1), Math.min(text.length, to + 1)];
    }
    patch.push(
      "@@",
      ...mapLines(text.slice(from, hunk.oldStart), " "),
      ...mapLines(old, "-"),
      ...mapLines(added, "+"),
      ...mapLines(text.slice(hunk.oldStart + old.length, to), " "),
    );
  }
  return patch;
}

function mapLines(lines: readonly string[], mark: string): string[] {
  return lines.map((line) => mark + withoutLineFeed(line));
}

function withoutLineFeed(line: string): string {
  return line.endsWith("\n") ? line.slice(0, -1) : line;
}

/** Counts the places at which the lines stand in the text. */
function countWindows(text: readonly string[], lines: readonly string[]): number {
  return text.filter((_, at) => lines.length > 0 && lines.every((line, offset) => text[at + offset] === line)).length;
}

/** Returns a unified diff of one file. */
export function createDiff(path: string, before: string, after: string): string {
  return createTwoFilesPatch(path, path, before, after, undefined, undefined, { headerOptions: FILE_HEADERS_ONLY });
}

export interface FilePatch {
  /** The path before and after. The same one for a file that is created or deleted. */
  from: string;
  to: string;
  /** Returns nothing if the patch does not apply. */
  apply: (text: string) => string | undefined;
}

/** Splits a unified diff with the prefixes `a/` and `b/` by file. */
export function splitDiff(diff: string): FilePatch[] {
  return parsePatch(diff).map((patch) => {
    const [old, current] = [patch.oldFileName ?? "", patch.newFileName ?? ""];
    const [from, to] = [old === "/dev/null" ? current : old, current === "/dev/null" ? old : current];
    const apply = (text: string) => {
      const after = applyPatch(text, patch);
      return after === false ? undefined : after;
    };
    return { from: from.slice(2), to: to.slice(2), apply };
  });
}

/** Returns nothing if the unified diff does not apply, or changes several files. */
export function applyDiff(text: string, diff: string): string | undefined {
  const [patch, ...others] = parsePatch(diff);
  return patch === undefined || others.length > 0 ? undefined : applyPatch(text, patch) || undefined;
}

/** Returns nothing if the unified diff does not apply in reverse, or changes several files. */
export function reverseDiff(text: string, diff: string): string | undefined {
  const [patch, ...others] = parsePatch(diff);
  if (patch === undefined || others.length > 0) return undefined;
  const before = applyPatch(text, reversePatch(patch));
  return before === false ? undefined : before;
}

export interface FileSides {
  before: string | undefined;
  after: string | undefined;
  /** The side that equals the current file. */
  file?: "before" | "after";
}

/**
 * Computes a file before and after a turn from its current text. Undoes later turns first. A side is missing if the
 * diffs do not apply.
 */
export function computeSides(
  file: FileDiff,
  standing: ChangesItem["standing"],
  laterDiffs: readonly FileDiff[],
  currentText: string,
): FileSides {
  if (file.diff === undefined) return { before: undefined, after: undefined };
  if (standing === "reverted")
    return { before: currentText, after: applyFileDiff(currentText, file, applyDiff), file: "before" };
  let after: string | undefined = currentText;
  for (const diff of laterDiffs.toReversed())
    after = after === undefined ? undefined : applyFileDiff(after, diff, reverseDiff);
  const before = after === undefined ? undefined : applyFileDiff(after, file, reverseDiff);
  return laterDiffs.length === 0 ? { before, after, file: "after" } : { before, after };
}

function applyFileDiff(text: string, file: FileDiff, apply: typeof applyDiff): string | undefined {
  return file.diff === undefined ? undefined : apply(text, file.diff);
}

/** Lists the changes by later turns that are not reverted. */
export function listLaterDiffs(state: ChatState, changes: ChangesItem, path: string): FileDiff[] {
  const at = state.items.indexOf(changes);
  return state.items
    .slice(at + 1)
    .filter((item): item is ChangesItem => item.kind === "changes" && item.standing !== "reverted")
    .flatMap(({ files }) => files.filter((file) => file.path === path));
}

/** Keeps the line feeds. */
function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function countOccurrences(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at >= 0 && count < 2; at = text.indexOf(part, at + 1)) count += 1;
  return count;
}
