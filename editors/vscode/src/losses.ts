// What a command would delete or overwrite for good, as text for the approval card. Pure: it knows neither the editor nor
// the webview.

import { formatBytes, revealHidden } from "./format";
import type { ApprovalRequestedNotification } from "./protocol";

/** The most rows of a list. One more row is shown instead of "and 1 more". */
const MAX_ROWS = 5;
/** The longest path of a row, in characters. A longer one is shortened in its middle. */
const MAX_PATH = 80;

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
  losesMore,
  otherWhy,
}: Pick<ApprovalRequestedNotification, "loses" | "losesMore" | "otherWhy">): LossSummary | undefined {
  if (loses.length === 0) return undefined;
  const count = loses.length + (losesMore?.count ?? 0);
  const isOpenEnded = losesMore?.isPartial ?? false;
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
    reason: otherWhy ?? "",
  };
}

function describeRest(count: number, isOpenEnded: boolean): string | undefined {
  if (count > 0) return isOpenEnded ? `and at least ${count} more` : `and ${count} more`;
  return isOpenEnded ? "and perhaps more" : undefined;
}

/** Returns a name with nothing hidden, also no line end. */
function revealName(name: string): string {
  return revealHidden(name).replaceAll("\n", "␊").replaceAll("\t", "␉");
}

/** Shortens a path in its middle, so that its start and its file name stay. */
function shortenPath(path: string): string {
  const characters = [...path];
  if (characters.length <= MAX_PATH) return path;
  const head = Math.floor(MAX_PATH / 3);
  const tail = MAX_PATH - head - 1;
  return `${characters.slice(0, head).join("")}…${characters.slice(-tail).join("")}`;
}
