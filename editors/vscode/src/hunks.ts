// Hunks of a proposed edit: which there are, the text without one of them, and the arguments of `edit_file` that lead
// to a text; and a file before and after a turn. Pure. The comparing itself is the library `diff`'s.

import { applyPatch, diffLines, parsePatch, reversePatch } from "diff";
import type { FileDiff } from "./protocol";
import type { ChangesItem, ChatState } from "./state";

/** Lines of one text that stand in the place of lines of another; line numbers are from 0. */
export interface Hunk {
  oldStart: number;
  old: string[];
  newStart: number;
  new: string[];
}

export function computeHunks(before: string, after: string): Hunk[] {
  const found: Hunk[] = [];
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
      found.push(open);
    }
    if (part.removed) {
      open.old.push(...lines);
      oldLine += lines.length;
    } else {
      open.new.push(...lines);
      newLine += lines.length;
    }
  }
  return found;
}

/** The hunk at a line of the new text; where lines were only taken out, the lines round the gap count. */
export function findHunkAtLine(list: readonly Hunk[], line: number): Hunk | undefined {
  return list.find((hunk) =>
    hunk.new.length === 0
      ? line === hunk.newStart || line === hunk.newStart - 1
      : line >= hunk.newStart && line < hunk.newStart + hunk.new.length,
  );
}

/** How a reviewed text differs from the proposal. */
export interface ReviewDifference {
  /** The changes that the agent proposes. */
  proposed: number;
  /** Those that the reviewed text leaves out. */
  rejected: number;
  /** Changes that are the person's own, or that the person altered. */
  edited: number;
}

export function compareReview(before: string, proposal: string, reviewed: string): ReviewDifference {
  const proposed = computeHunks(before, proposal);
  const remaining = computeHunks(before, reviewed);
  const toKey = (hunk: Hunk) => JSON.stringify([hunk.oldStart, hunk.old, hunk.new]);
  const asProposed = new Set(proposed.map(toKey));
  // Two changes without an old line between them are one hunk, so ranges that touch overlap.
  const hunksOverlap = (a: Hunk, b: Hunk) =>
    a.oldStart <= b.oldStart + b.old.length && b.oldStart <= a.oldStart + a.old.length;
  const leftOut = proposed.filter((hunk) => !remaining.some((other) => hunksOverlap(hunk, other)));
  const own = remaining.filter((hunk) => !asProposed.has(toKey(hunk)));
  return { proposed: proposed.length, rejected: leftOut.length, edited: own.length };
}

/** The difference in words; empty if there is none. */
export function describeDifference({ proposed, rejected, edited }: ReviewDifference): string {
  const parts: string[] = [];
  if (rejected > 0) parts.push(`${rejected} of ${proposed} ${proposed === 1 ? "hunk" : "hunks"} rejected`);
  if (edited > 0) parts.push(edited === 1 ? "1 hunk edited by you" : `${edited} hunks edited by you`);
  return parts.join(", ");
}

/** One edit of `edit_file`. */
export interface Edit {
  old_text: string;
  new_text: string;
}

/** `text` after the edits of a call; nothing where an old text is missing or ambiguous. */
export function applyEdits(text: string, edits: readonly (Edit & { replace_all?: boolean })[]): string | undefined {
  let now = text;
  for (const { old_text, new_text, replace_all } of edits) {
    const count = old_text === "" ? 0 : countOccurrences(now, old_text);
    if (count === 0 || (count > 1 && !replace_all)) return undefined;
    now = now.split(old_text).join(new_text);
  }
  return now;
}

/**
 * Edits that lead from `before` to `after`, each of a text that occurs once when its turn comes. They go from the end
 * to the beginning, so that the lines before one are still the old ones.
 */
export function buildEdits(before: string, after: string): Edit[] {
  let now = splitLines(before);
  const edits: Edit[] = [];
  for (const hunk of computeHunks(before, after).reverse()) {
    let from = hunk.oldStart;
    let to = hunk.oldStart + hunk.old.length;
    const text = now.join("");
    while (countOccurrences(text, now.slice(from, to).join("")) !== 1) {
      if (from === 0 && to === now.length) break;
      from = Math.max(0, from - 1);
      to = Math.min(now.length, to + 1);
    }
    const head = now.slice(from, hunk.oldStart).join("");
    const tail = now.slice(hunk.oldStart + hunk.old.length, to).join("");
    edits.push({ old_text: now.slice(from, to).join(""), new_text: head + hunk.new.join("") + tail });
    now = [...now.slice(0, hunk.oldStart), ...hunk.new, ...now.slice(hunk.oldStart + hunk.old.length)];
  }
  return edits;
}

/** `text` as the unified diff leaves it; nothing if the diff does not fit it. */
export function applyDiff(text: string, diff: string): string | undefined {
  const [patch] = parsePatch(diff);
  return patch === undefined ? undefined : applyPatch(text, patch) || undefined;
}

/** `text` as it was before the unified diff; nothing if the diff does not fit it. */
export function reverseDiff(text: string, diff: string): string | undefined {
  const [patch] = parsePatch(diff);
  const before = patch && applyPatch(text, reversePatch(patch));
  return before === false ? undefined : before;
}

/** The two sides of a change; a side is a URI where the file itself shows it. */
export interface FileSides {
  before: string | undefined;
  after: string | undefined;
  /** Which side is the file as it is now. */
  file?: "before" | "after";
}

/**
 * A file before and after a turn, of its text `now`: what the later turns did to it that stands is taken off first. A side
 * that the diffs do not lead to is not there.
 */
export function computeSides(
  file: FileDiff,
  standing: ChangesItem["standing"],
  later: readonly FileDiff[],
  now: string,
): FileSides {
  if (file.diff === undefined) return { before: undefined, after: undefined };
  if (standing === "reverted") return { before: now, after: applyFileDiff(now, file, applyDiff), file: "before" };
  let after: string | undefined = now;
  for (const one of later.toReversed())
    after = after === undefined ? undefined : applyFileDiff(after, one, reverseDiff);
  const before = after === undefined ? undefined : applyFileDiff(after, file, reverseDiff);
  return later.length === 0 ? { before, after, file: "after" } : { before, after };
}

function applyFileDiff(text: string, file: FileDiff, by: typeof applyDiff): string | undefined {
  return file.diff === undefined ? undefined : by(text, file.diff);
}

/** What later turns did to a file and that stands. */
export function listLaterDiffs(state: ChatState, of: ChangesItem, path: string): FileDiff[] {
  const at = state.items.indexOf(of);
  return state.items
    .slice(at + 1)
    .filter((item): item is ChangesItem => item.kind === "changes" && item.standing !== "reverted")
    .flatMap(({ files }) => files.filter((file) => file.path === path));
}

/** The lines with their line feeds. */
function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function countOccurrences(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at >= 0 && count < 2; at = text.indexOf(part, at + 1)) count += 1;
  return count;
}
