// Groups the entries of sub-agents under the call that delegated to them.

import type { ChatItem, Notice } from "../state";

/** Items and notices of sub-agents by call id. */
export class SubagentTree {
  readonly #itemsByCall = new Map<string, ChatItem[]>();
  readonly #noticesByCall = new Map<string, Notice[]>();

  addItem(parent: string, item: ChatItem): void {
    this.#itemsByCall.set(parent, [...(this.#itemsByCall.get(parent) ?? []), item]);
  }

  addNotice(parent: string, notice: Notice): void {
    this.#noticesByCall.set(parent, [...(this.#noticesByCall.get(parent) ?? []), notice]);
  }

  getItems({ id }: ChatItem): readonly ChatItem[] {
    return this.#itemsByCall.get(id) ?? [];
  }

  getNotices({ id }: ChatItem): readonly Notice[] {
    return this.#noticesByCall.get(id) ?? [];
  }

  hasEntries(item: ChatItem): boolean {
    return item.kind === "tool" && (this.#itemsByCall.has(item.id) || this.#noticesByCall.has(item.id));
  }

  /** Whether a sub-agent at any depth has an open question. */
  hasOpenQuestion(item: ChatItem): boolean {
    return this.getItems(item).some((child) => isOpenQuestion(child) || this.hasOpenQuestion(child));
  }

  /** Counts calls at all depths. */
  countCalls(item: ChatItem): number {
    return this.getItems(item).reduce(
      (sum, child) => sum + (child.kind === "tool" ? 1 + this.countCalls(child) : 0),
      0,
    );
  }
}

function isOpenQuestion(item: ChatItem): boolean {
  if (item.kind === "tool") return item.approval !== undefined;
  return (item.kind === "limit" || item.kind === "question") && item.resolved === undefined;
}

/** Separates top-level items from those of sub-agents. An item of an unknown call stays at the top level. */
export function groupSubagents(
  items: readonly ChatItem[],
  notices: readonly Notice[],
): { top: readonly ChatItem[]; subagents: SubagentTree | undefined } {
  const isNested = (candidate: ChatItem) => candidate.parentToolCallId !== undefined;
  if (!items.some(isNested) && !notices.some(({ parent }) => parent !== undefined))
    return { top: items, subagents: undefined };
  const calls = new Set(items.flatMap((item) => (item.kind === "tool" ? [item.id] : [])));
  const subagents = new SubagentTree();
  for (const notice of notices) if (notice.parent !== undefined) subagents.addNotice(notice.parent, notice);
  const top = items.filter((item) => {
    const parent = item.parentToolCallId;
    if (parent === undefined || parent === item.id || !calls.has(parent)) return true;
    subagents.addItem(parent, item);
    return false;
  });
  return { top, subagents };
}
