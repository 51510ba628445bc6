// Computes which rows of a long list to render, and the heights of the others. Pure.

/** A range of entries; `to` is exclusive. */
export interface VisibleRange {
  from: number;
  to: number;
}

/** An entry that stays in place, with its top `offset` below the top of the view. */
export interface ScrollAnchor {
  at: number;
  offset: number;
}

/** A rendered row: an entry, or a gap for omitted entries. */
export type ListRow = { kind: "entry"; at: number } | { kind: "gap"; from: number; to: number; height: number };

/** Used until an entry of the kind is measured. */
const DEFAULT_HEIGHTS: Readonly<Record<string, number>> = { assistant: 240, tool: 40, turnEnd: 30, user: 50 };
const DEFAULT_HEIGHT = 60;
/** Caps heights in the mean, so that one huge answer does not distort it. */
const MAX_MEAN_HEIGHT = 1_000;

/** Measured entry heights, and a mean per kind for the others. The kind is the first word of the key. */
export class HeightCache {
  readonly #measured = new Map<string, number>();
  readonly #kinds = new Map<string, { sum: number; count: number }>();

  getHeight(key: string): number {
    const measured = this.#measured.get(key);
    if (measured !== undefined) return measured;
    const kind = this.#kinds.get(getKind(key));
    return kind === undefined || kind.count === 0
      ? (DEFAULT_HEIGHTS[getKind(key)] ?? DEFAULT_HEIGHT)
      : kind.sum / kind.count;
  }

  /** Returns whether the height changed. */
  setHeight(key: string, height: number): boolean {
    const oldHeight = this.#measured.get(key);
    if (oldHeight === height) return false;
    this.#measured.set(key, height);
    const name = getKind(key);
    const kind = this.#kinds.get(name) ?? { sum: 0, count: 0 };
    const sum = kind.sum + Math.min(height, MAX_MEAN_HEIGHT) - Math.min(oldHeight ?? 0, MAX_MEAN_HEIGHT);
    this.#kinds.set(name, { sum, count: kind.count + (oldHeight === undefined ? 1 : 0) });
    return true;
  }
}

function getKind(key: string): string {
  return key.slice(0, key.indexOf(" "));
}

/**
 * Returns the entries that fill the view plus `overscan` on both sides. Without an anchor, the view is at the end of
 * the list.
 */
export function computeVisibleRange(
  count: number,
  getHeight: (at: number) => number,
  anchor: ScrollAnchor | undefined,
  viewHeight: number,
  overscan: number,
): VisibleRange {
  let from = anchor?.at ?? count;
  for (let top = anchor?.offset ?? viewHeight; from > 0 && top > -overscan; ) top -= getHeight(--from);
  if (anchor === undefined) return { from, to: count };
  let to = anchor.at;
  for (let bottom = anchor.offset; to < count && bottom < viewHeight + overscan; to++) bottom += getHeight(to);
  return { from, to };
}

/** Returns the rows of the list. Entries outside the range become gaps, unless they must be rendered. */
export function buildRows(
  count: number,
  range: VisibleRange,
  mustRender: (at: number) => boolean,
  getHeight: (at: number) => number,
): ListRow[] {
  const parts: ListRow[] = [];
  let gap: Extract<ListRow, { kind: "gap" }> | undefined;
  for (let at = 0; at < count; at++) {
    if ((at >= range.from && at < range.to) || mustRender(at)) {
      parts.push({ kind: "entry", at });
      gap = undefined;
    } else if (gap === undefined) {
      gap = { kind: "gap", from: at, to: at + 1, height: getHeight(at) };
      parts.push(gap);
    } else {
      gap.to = at + 1;
      gap.height += getHeight(at);
    }
  }
  return parts;
}

/** Finds the entry at `y` below the top of a gap, and the entry's top. */
export function findEntryInGap(
  gap: { from: number; to: number },
  getHeight: (at: number) => number,
  y: number,
): { at: number; top: number } {
  let top = 0;
  let at = gap.from;
  while (at < gap.to - 1 && top + getHeight(at) <= y) top += getHeight(at++);
  return { at, top };
}

export interface ScrollState {
  top: number;
  /** Height of the content. */
  height: number;
  view: number;
}

/** Distance from the end that still counts as the end. */
const NEAR_END_PX = 40;

/**
 * Whether the list follows its end after a scroll. Only a user scrolls up while the heights stay the same. With changed
 * heights, the layout caused the scroll, unless `isUserScroll` is set.
 */
export function shouldFollowEnd(
  wasFollowing: boolean,
  before: ScrollState,
  now: ScrollState,
  isUserScroll: boolean,
): boolean {
  if (now.height - now.top - now.view < NEAR_END_PX) return true;
  const isLayoutUnchanged = now.height === before.height && now.view === before.view;
  return wasFollowing && !((isLayoutUnchanged || isUserScroll) && now.top < before.top);
}
