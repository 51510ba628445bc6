// What a command would delete or overwrite for good, as text for the approval card. Pure: it knows neither the editor nor
// the webview.

import { formatBytes, revealHidden } from "./format";
import type { ApprovalRequestedNotification, Loss } from "./protocol";

/** The most rows of a list. One more row is shown instead of "and 1 more". */
const MAX_ROWS = 5;
/** The longest path of a row, in characters. A longer one is shortened in its middle. */
const MAX_PATH = 80;
/** The most losses that the server lists. There may be more. */
const MAX_LISTED = 20;
/** How many losses the reason names. */
const NAMED_IN_REASON = 3;
const REASON_START = "deletes or overwrites for good: ";

export interface LossRow {
  what: string;
  /** Empty if it is unknown. */
  size: string;
}

export interface LossSummary {
  rows: LossRow[];
  /** How many more there are, such as "and 12 more". Undefined if the rows are all. */
  more: string | undefined;
  /** The list in full, if the rows leave out or shorten something that is known. */
  fullText: string | undefined;
  /** The reason of the question without what the rows say; may be empty. */
  reason: string;
}

/** Summarizes what the call would delete or overwrite for good. Returns undefined if it lists nothing. */
export function summarizeLosses({
  loses = [],
  why,
}: Pick<ApprovalRequestedNotification, "loses" | "why">): LossSummary | undefined {
  if (loses.length === 0) return undefined;
  const parsed = parseReason(why, loses);
  const count = Math.max(parsed?.count ?? 0, loses.length);
  const isOpenEnded = parsed ? parsed.isPartial : loses.length >= MAX_LISTED;
  const all = loses.map(({ what, bytes }) => ({
    what: revealName(what),
    size: bytes === undefined ? "" : formatBytes(bytes),
  }));
  const rows = all
    .slice(0, count > MAX_ROWS + 1 ? MAX_ROWS : MAX_ROWS + 1)
    .map(({ what, size }) => ({ what: shortenPath(what), size }));
  const isWhole = rows.length === all.length && rows.every(({ what }, at) => what === all[at]?.what);
  const fullLines = all.map(({ what, size }) => (size === "" ? what : `${what} (${size})`));
  const unlisted = describeRest(count - all.length, isOpenEnded);
  if (unlisted !== undefined) fullLines.push(unlisted);
  return {
    rows,
    more: describeRest(count - rows.length, isOpenEnded),
    fullText: isWhole ? undefined : `${fullLines.join("\n")}\n`,
    reason: parsed?.rest ?? why,
  };
}

function describeRest(count: number, isOpenEnded: boolean): string | undefined {
  if (count > 0) return isOpenEnded ? `and at least ${count} more` : `and ${count} more`;
  return isOpenEnded ? "and perhaps more" : undefined;
}

interface ParsedReason {
  /** How many losses there are. */
  count: number;
  /** Whether there may be more. */
  isPartial: boolean;
  /** What the reason says about other things. */
  rest: string;
}

/**
 * Splits a reason into what it says about losses and the rest. Returns undefined if it does not name the first losses in
 * the server's words; then all of it is shown.
 */
function parseReason(why: string, loses: readonly Loss[]): ParsedReason | undefined {
  if (!why.startsWith(REASON_START)) return undefined;
  const named = loses.slice(0, NAMED_IN_REASON);
  let at = REASON_START.length;
  for (const [index, { what, bytes }] of named.entries()) {
    if (index > 0 && !why.startsWith(", ", at)) return undefined;
    const from = index > 0 ? at + 2 : at;
    const end = findNameEnd(why, from, toLine(what));
    if (end === undefined) return undefined;
    const size = bytes === undefined ? undefined : /^ \([\d.]+ \w+\)/.exec(why.slice(end));
    at = end + (size?.[0].length ?? 0);
  }
  const match = /^(?:, (?:and (at least )?(\d+) more|(perhaps more)))?(?: · (.*))?$/s.exec(why.slice(at));
  if (!match) return undefined;
  const [, atLeast, more, perhaps, rest = ""] = match;
  return { count: named.length + Number(more ?? 0), isPartial: (atLeast ?? perhaps) !== undefined, rest };
}

/** Returns where a name at `from` ends. The reason may contain its start and an ellipsis instead. */
function findNameEnd(why: string, from: number, name: string): number | undefined {
  if (why.startsWith(name, from)) return from + name.length;
  let length = 0;
  while (length < name.length && why[from + length] === name[length]) length += 1;
  return length > 0 && why[from + length] === "…" ? from + length + 1 : undefined;
}

/** Returns a name with nothing hidden, also no line end. */
function revealName(name: string): string {
  return revealHidden(name).replaceAll("\n", "␊").replaceAll("\t", "␉");
}

/** Returns a name as the reason contains it. */
function toLine(text: string): string {
  return revealHidden(text.trim().replaceAll(/\s+/g, " "));
}

/** Shortens a path in its middle, so that its start and its file name stay. */
function shortenPath(path: string): string {
  const characters = [...path];
  if (characters.length <= MAX_PATH) return path;
  const head = Math.floor(MAX_PATH / 3);
  const tail = MAX_PATH - head - 1;
  return `${characters.slice(0, head).join("")}…${characters.slice(-tail).join("")}`;
}
