// Sub-agents: what is of them stands under the call that delegated to them.

import type { Item, Notice } from "../state";

/** What stands under calls, by the ids of these. */
export class Inner {
  readonly #items = new Map<string, Item[]>();
  readonly #notices = new Map<string, Notice[]>();

  add(parent: string, item: Item): void {
    this.#items.set(parent, [...(this.#items.get(parent) ?? []), item]);
  }

  tell(parent: string, notice: Notice): void {
    this.#notices.set(parent, [...(this.#notices.get(parent) ?? []), notice]);
  }

  items({ id }: Item): readonly Item[] {
    return this.#items.get(id) ?? [];
  }

  notices({ id }: Item): readonly Notice[] {
    return this.#notices.get(id) ?? [];
  }

  has(item: Item): boolean {
    return item.kind === "tool" && (this.#items.has(item.id) || this.#notices.has(item.id));
  }

  /** Whether one of them, or of theirs, asks the person. */
  asks(item: Item): boolean {
    return this.items(item).some((one) => isOpen(one) || this.asks(one));
  }

  /** How many calls there are in all. */
  calls(item: Item): number {
    return this.items(item).reduce((sum, one) => sum + (one.kind === "tool" ? 1 + this.calls(one) : 0), 0);
  }
}

function isOpen(item: Item): boolean {
  if (item.kind === "tool") return item.approval !== undefined;
  return (item.kind === "limit" || item.kind === "question") && item.resolved === undefined;
}

/** What stands by itself, and what under calls; what is under a call that is not known stands by itself. */
export function nest(
  items: readonly Item[],
  notices: readonly Notice[],
): { top: readonly Item[]; inner: Inner | undefined } {
  const nested = (one: Item) => one.parentToolCallId !== undefined;
  if (!items.some(nested) && !notices.some(({ parent }) => parent !== undefined))
    return { top: items, inner: undefined };
  const calls = new Set(items.flatMap((item) => (item.kind === "tool" ? [item.id] : [])));
  const inner = new Inner();
  for (const notice of notices) if (notice.parent !== undefined) inner.tell(notice.parent, notice);
  const top = items.filter((item) => {
    const parent = item.parentToolCallId;
    if (parent === undefined || parent === item.id || !calls.has(parent)) return true;
    inner.add(parent, item);
    return false;
  });
  return { top, inner };
}
