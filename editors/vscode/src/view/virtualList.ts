// Which entries of a long list are in the page: those near the view, and how high the others are. Pure.

/** A run of entries, from `from` up to, but without, `to`. */
export interface VisibleRange {
  from: number;
  to: number;
}

/** An entry that stays where it is: its top is `offset` below the view's top. */
export interface ScrollAnchor {
  at: number;
  offset: number;
}

/** What of the list stands in the page: an entry, or the room of those that are left out. */
export type ListRow = { kind: "entry"; at: number } | { kind: "gap"; from: number; to: number; height: number };

/** Before anything of the kind is measured. */
const DEFAULT_HEIGHTS: Readonly<Record<string, number>> = { assistant: 240, tool: 40, turnEnd: 30, user: 50 };
const DEFAULT_HEIGHT = 60;
/** One entry counts at most this much in a mean: a single huge answer says nothing about the others. */
const MAX_MEAN_HEIGHT = 1_000;

/** The heights of entries as they were measured last; of the others a mean, by the first word of their keys. */
export class HeightCache {
  readonly #measured = new Map<string, number>();
  readonly #kinds = new Map<string, { sum: number; count: number }>();

  getHeight(key: string): number {
    const known = this.#measured.get(key);
    if (known !== undefined) return known;
    const kind = this.#kinds.get(getKind(key));
    return kind === undefined || kind.count === 0
      ? (DEFAULT_HEIGHTS[getKind(key)] ?? DEFAULT_HEIGHT)
      : kind.sum / kind.count;
  }

  /** Returns whether it is another height than before. */
  setHeight(key: string, height: number): boolean {
    const known = this.#measured.get(key);
    if (known === height) return false;
    this.#measured.set(key, height);
    const name = getKind(key);
    const kind = this.#kinds.get(name) ?? { sum: 0, count: 0 };
    const sum = kind.sum + Math.min(height, MAX_MEAN_HEIGHT) - Math.min(known ?? 0, MAX_MEAN_HEIGHT);
    this.#kinds.set(name, { sum, count: kind.count + (known === undefined ? 1 : 0) });
    return true;
  }
}

function getKind(key: string): string {
  return key.slice(0, key.indexOf(" "));
}

/**
 * The entries that fill a view of the height `view`, and `over` above and below it. Without an anchor it is at the
 * list's end.
 */
export function computeVisibleRange(
  count: number,
  heightOf: (at: number) => number,
  anchor: ScrollAnchor | undefined,
  viewHeight: number,
  overscan: number,
): VisibleRange {
  let from = anchor?.at ?? count;
  for (let top = anchor?.offset ?? viewHeight; from > 0 && top > -overscan; ) top -= heightOf(--from);
  if (anchor === undefined) return { from, to: count };
  let to = anchor.at;
  for (let bottom = anchor.offset; to < count && bottom < viewHeight + overscan; to++) bottom += heightOf(to);
  return { from, to };
}

/** The list with what is out of `span`, and is not kept in the page, taken together. */
export function buildRows(
  count: number,
  range: VisibleRange,
  mustRender: (at: number) => boolean,
  heightOf: (at: number) => number,
): ListRow[] {
  const parts: ListRow[] = [];
  let gap: Extract<ListRow, { kind: "gap" }> | undefined;
  for (let at = 0; at < count; at++) {
    if ((at >= range.from && at < range.to) || mustRender(at)) {
      parts.push({ kind: "entry", at });
      gap = undefined;
    } else if (gap === undefined) {
      gap = { kind: "gap", from: at, to: at + 1, height: heightOf(at) };
      parts.push(gap);
    } else {
      gap.to = at + 1;
      gap.height += heightOf(at);
    }
  }
  return parts;
}

/** The entry of a gap at `y` below the gap's top, and where that entry begins. */
export function findEntryInGap(
  gap: { from: number; to: number },
  heightOf: (at: number) => number,
  y: number,
): { at: number; top: number } {
  let top = 0;
  let at = gap.from;
  while (at < gap.to - 1 && top + heightOf(at) <= y) top += heightOf(at++);
  return { at, top };
}

/** How a box stands that scrolls. */
export interface ScrollState {
  top: number;
  /** Of all that it holds. */
  height: number;
  view: number;
}

/** So near to the end counts as the end. */
const NEAR_END_PX = 40;

/**
 * Whether the list follows its end after a scroll from `before` to `now`. Only a person scrolls up while the heights
 * stay as they are; what moves with a height is the layout's doing, unless `byHand`: a person has just scrolled up.
 */
export function shouldFollowEnd(
  followed: boolean,
  before: ScrollState,
  now: ScrollState,
  isUserScroll: boolean,
): boolean {
  if (now.height - now.top - now.view < NEAR_END_PX) return true;
  const still = now.height === before.height && now.view === before.view;
  return followed && !((still || isUserScroll) && now.top < before.top);
}
