// The conversation: a virtual list that renders only entries near the viewport. It follows its end until the user
// scrolls up. Then the entry at the top stays in place while other entries change.

import type { ComponentChild, JSX } from "preact";
import { Component } from "preact";
import { type ChatItem, getItemKey, type Notice } from "../state";
import type { Capabilities, KeyCheck, PendingPrompt, ViewState } from "../webviewProtocol";
import { Button, PureComponent } from "./components";
import { Entry } from "./entry";
import { PendingPrompts } from "./pendingPrompts";
import { postMessage, type ReadingPosition, readPosition, savePosition } from "./store";
import { groupSubagents, type SubagentTree } from "./subagents";
import {
  buildRows,
  computeVisibleRange,
  findEntryInGap,
  HeightCache,
  type ListRow,
  type ScrollAnchor,
  type ScrollState,
  shouldFollowEnd,
} from "./virtualList";

/** Overscan above and below, as a multiple of the view height. */
const OVERSCAN_VIEWS = 2;
const MIN_OVERSCAN_PX = 400;

/** A scroll within this time after a wheel, touch, or key event comes from the user. */
const USER_SCROLL_MS = 1_000;
/** Keys that can scroll up. Space does so with Shift. */
const SCROLL_UP_KEYS: ReadonlySet<string> = new Set(["ArrowUp", "PageUp", "Home", " "]);

interface Props {
  session: string;
  /** For tests only, like `data-ends`. */
  firstSeq: number | undefined;
  items: readonly ChatItem[];
  notices: readonly Notice[];
  hasEarlier: boolean;
  resumable: string | undefined;
  isRunning: boolean;
  capabilities: Capabilities;
  reviews: ViewState["reviews"];
  keyCheck: KeyCheck | undefined;
  pendingPrompts: readonly PendingPrompt[] | undefined;
}

let mounted: Conversation | undefined;

/** Scrolls the conversation to its end and follows it. */
export function scrollToEnd(): void {
  mounted?.scrollToEnd();
}

export class Conversation extends PureComponent<Props> {
  override state = { away: false };
  readonly #heights = new HeightCache();
  readonly #cells = new Map<string, HTMLElement>();
  readonly #observer = new ResizeObserver((entries) => this.#onResize(entries));
  #scroller: HTMLDivElement | null = null;
  #entryKeys: readonly string[] = [];
  #rows: readonly ListRow[] = [];
  #followsEnd = true;
  /** The entry that stays in place while the list does not follow its end. */
  #anchorEntry: { key: string; offset: number } | undefined;
  /** The position to restore when its entry is loaded. The end of a long session loads first. */
  #savedPosition: ReadingPosition | undefined;
  #lastScroll: ScrollState = { top: 0, height: 0, view: 0 };
  /** Time of the last user input that can scroll up, in page time. The scroll event follows later. */
  #scrolledUpAt = Number.NEGATIVE_INFINITY;
  #saveTimer: ReturnType<typeof setTimeout> | undefined;

  override componentDidMount(): void {
    mounted = this;
    this.#savedPosition = readPosition(this.props.session);
    this.#restorePosition();
    if (this.#scroller) this.#observer.observe(this.#scroller);
    this.#restoreScroll();
  }

  override componentDidUpdate(): void {
    this.#restorePosition();
    this.#restoreScroll();
  }

  #restorePosition(): void {
    const saved = this.#savedPosition;
    if (saved === undefined || !this.#entryKeys.includes(saved.key)) return;
    this.#savedPosition = undefined;
    this.#followsEnd = false;
    this.#anchorEntry = saved;
    this.setState({ away: true });
  }

  override componentWillUnmount(): void {
    if (mounted === this) mounted = undefined;
    this.#observer.disconnect();
    this.#savePosition();
  }

  scrollToEnd(): void {
    this.#savedPosition = undefined;
    this.#followsEnd = true;
    this.#anchorEntry = undefined;
    this.setState({ away: false });
    this.forceUpdate();
  }

  render(props: Props): JSX.Element {
    const { top, subagents } = groupSubagents(props.items, props.notices);
    this.#entryKeys = top.map(getItemKey);
    this.#rows = this.#buildVisibleRows(top, subagents);
    return (
      <div class="log-frame">
        <div
          ref={(box) => {
            this.#scroller = box;
          }}
          class="log"
          role="log"
          aria-live="off"
          aria-label="Conversation"
          tabIndex={0}
          data-testid="log"
          data-first={props.firstSeq}
          data-ends={props.items.filter(({ kind }) => kind === "turnEnd").length}
          onScroll={() => this.#onScroll()}
          onWheel={(event) => event.deltaY < 0 && this.#onScrollUp()}
          onTouchMove={() => this.#onScrollUp()}
          onPointerDown={(event) => event.target === event.currentTarget && this.#onScrollUp()}
          onKeyDown={(event) => SCROLL_UP_KEYS.has(event.key) && this.#onScrollUp()}
        >
          <div class="entries">
            {props.hasEarlier && (
              <div class="load-earlier">
                <Button label="Show earlier" kind="quiet" onPress={() => postMessage({ type: "loadEarlier" })} />
              </div>
            )}
            {this.#rows.map((row) =>
              row.kind === "gap" ? (
                <div
                  key={`gap before ${this.#entryKeys[row.to] ?? "the end"}`}
                  class="gap"
                  aria-hidden="true"
                  style={{ height: `${row.height}px` }}
                />
              ) : (
                this.#renderEntry(top, row.at, subagents)
              ),
            )}
            {props.pendingPrompts && <PendingPrompts prompts={props.pendingPrompts} />}
          </div>
        </div>
        {this.state.away && (
          <button type="button" class="scroll-to-end" onClick={() => this.scrollToEnd()}>
            ↓ Newest
          </button>
        )}
      </div>
    );
  }

  #renderEntry(top: readonly ChatItem[], at: number, subagents: SubagentTree | undefined): ComponentChild {
    const { capabilities, reviews, isRunning, keyCheck, resumable } = this.props;
    const item = top[at];
    if (item === undefined) return null;
    const isLast = at === top.length - 1;
    const key = getItemKey(item);
    return (
      <EntryCell key={key} name={key} isLast={isLast} register={this.#registerCell}>
        <Entry
          item={item}
          isLast={isLast}
          capabilities={capabilities}
          reviews={subagents?.hasEntries(item) || (item.kind === "tool" && item.approval) ? reviews : undefined}
          isRunning={isRunning && item.kind === "changes"}
          subagents={subagents?.hasEntries(item) ? subagents : undefined}
          keyCheck={isLast ? keyCheck : undefined}
          isResumable={resumable !== undefined && item.kind === "turnEnd" && item.id === resumable}
        />
      </EntryCell>
    );
  }

  readonly #registerCell = (name: string, cell: HTMLElement | null): void => {
    const old = this.#cells.get(name);
    if (old === cell) return;
    if (old) this.#observer.unobserve(old);
    if (cell === null) this.#cells.delete(name);
    else {
      this.#cells.set(name, cell);
      this.#observer.observe(cell);
    }
  };

  #heightAt = (at: number): number => this.#heights.getHeight(this.#entryKeys[at] ?? "");

  get #viewHeight(): number {
    return this.#scroller?.clientHeight || window.innerHeight;
  }

  /** Returns the rows to render: those near the viewport, and those that must stay mounted. */
  #buildVisibleRows(top: readonly ChatItem[], subagents: SubagentTree | undefined): ListRow[] {
    const count = top.length;
    // A screen reader needs all entries.
    if (document.body.classList.contains("vscode-using-screen-reader")) {
      return top.map((_item, at) => ({ kind: "entry", at }));
    }
    const view = this.#viewHeight;
    // Render only visible rows first, to appear sooner.
    const overscan = this.#scroller === null ? 0 : Math.max(MIN_OVERSCAN_PX, view * OVERSCAN_VIEWS);
    const range = computeVisibleRange(count, this.#heightAt, this.#getAnchor(), view, overscan);
    const [first, last] = this.#getSelectedRange();
    const focused = this.#findCell(document.activeElement)?.dataset["entry"];
    const mustRender = (at: number): boolean => {
      const item = top[at];
      if (item === undefined || at === count - 1 || (at >= first && at <= last)) return true;
      return this.#entryKeys[at] === focused || isOpenInquiry(item) || (subagents?.hasOpenQuestion(item) ?? false);
    };
    return buildRows(count, range, mustRender, this.#heightAt);
  }

  #getAnchor(): ScrollAnchor | undefined {
    const { key, offset } = this.#anchorEntry ?? {};
    if (this.#followsEnd || key === undefined || offset === undefined) return undefined;
    const at = this.#entryKeys.lastIndexOf(key);
    return at < 0 ? undefined : { at, offset };
  }

  /** Returns the range of entries that contain the text selection. */
  #getSelectedRange(): [number, number] {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed) return [0, -1];
    const endIndexes = [selection.anchorNode, selection.focusNode].map((node) =>
      this.#entryKeys.indexOf(this.#findCell(node)?.dataset["entry"] ?? ""),
    );
    return endIndexes.includes(-1) ? [0, -1] : [Math.min(...endIndexes), Math.max(...endIndexes)];
  }

  #findCell(node: Node | null): HTMLElement | undefined {
    const element = node instanceof Element ? node : node?.parentElement;
    return element?.closest<HTMLElement>("[data-entry]") ?? undefined;
  }

  /** Scrolls back to the end or to the anchor after a change. */
  #restoreScroll(): void {
    const box = this.#scroller;
    if (!box) return;
    if (this.#followsEnd) box.scrollTop = box.scrollHeight;
    else if (this.#anchorEntry) {
      const cell = this.#cells.get(this.#anchorEntry.key);
      if (cell) box.scrollTop += cell.offsetTop - box.scrollTop - this.#anchorEntry.offset;
      else if (!this.#entryKeys.includes(this.#anchorEntry.key)) this.#updateAnchor();
    }
    this.#lastScroll = this.#readScroll(box);
  }

  #readScroll(box: HTMLElement): ScrollState {
    return { top: box.scrollTop, height: box.scrollHeight, view: box.clientHeight };
  }

  #onScrollUp(): void {
    this.#scrolledUpAt = performance.now();
  }

  #onScroll(): void {
    const box = this.#scroller;
    if (!box) return;
    const now = this.#readScroll(box);
    const isUserScroll = performance.now() - this.#scrolledUpAt < USER_SCROLL_MS;
    this.#followsEnd = shouldFollowEnd(this.#followsEnd, this.#lastScroll, now, isUserScroll);
    this.#lastScroll = now;
    if (this.#followsEnd) this.#anchorEntry = undefined;
    else {
      // The user scrolled, so forget the saved position.
      this.#savedPosition = undefined;
      this.#updateAnchor();
    }
    if (this.#followsEnd === this.state.away) {
      this.setState({ away: !this.#followsEnd });
      this.#savePosition();
    }
    // Do not reset the timer: during a turn, scroll events never stop.
    this.#saveTimer ??= setTimeout(() => this.#savePosition(), 100);
    if (this.#isGapVisible(box)) this.forceUpdate();
  }

  /** Makes the entry at the top of the viewport the anchor. */
  #updateAnchor(): void {
    const box = this.#scroller;
    const list = box?.firstElementChild;
    if (!box || !list) return;
    let rowIndex = 0;
    for (const child of list.children as Iterable<HTMLElement> & HTMLCollection) {
      const counts = child.dataset["entry"] !== undefined || child.classList.contains("gap");
      const row = counts ? this.#rows[rowIndex++] : undefined;
      if (row === undefined || child.offsetTop + child.offsetHeight <= box.scrollTop) continue;
      const target =
        row.kind === "entry"
          ? { at: row.at, top: 0 }
          : findEntryInGap(row, this.#heightAt, box.scrollTop - child.offsetTop);
      const key = this.#entryKeys[target.at];
      if (key !== undefined) this.#anchorEntry = { key, offset: child.offsetTop + target.top - box.scrollTop };
      return;
    }
  }

  /** Whether a gap is in or near the viewport. */
  #isGapVisible(box: HTMLElement): boolean {
    const margin = box.clientHeight / 2;
    for (const gap of box.querySelectorAll<HTMLElement>(".entries > .gap")) {
      const isAbove = gap.offsetTop + gap.offsetHeight < box.scrollTop - margin;
      if (!isAbove && gap.offsetTop < box.scrollTop + box.clientHeight + margin) return true;
    }
    return false;
  }

  /** Runs when an entry or the view changes its size. */
  #onResize(entries: readonly ResizeObserverEntry[]): void {
    for (const { target, borderBoxSize } of entries) {
      const name = (target as HTMLElement).dataset["entry"];
      const height = borderBoxSize[0]?.blockSize;
      // A removed element has no height.
      if (name !== undefined && height !== undefined && target.isConnected) this.#heights.setHeight(name, height);
    }
    this.#restoreScroll();
    if (this.#scroller && this.#isGapVisible(this.#scroller)) this.forceUpdate();
  }

  /** Saves the reading position for the next visit to the session. */
  #savePosition(): void {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = undefined;
    if (this.#savedPosition !== undefined) return;
    savePosition(this.props.session, this.#followsEnd ? undefined : this.#anchorEntry);
  }
}

function isOpenInquiry(item: ChatItem): boolean {
  if (item.kind === "tool") return item.approval !== undefined;
  return (item.kind === "limit" || item.kind === "question") && item.resolved === undefined;
}

interface EntryCellProps {
  name: string;
  isLast: boolean;
  register: (name: string, cell: HTMLElement | null) => void;
  children?: ComponentChild;
}

/** Measures the height of an entry. */
class EntryCell extends Component<EntryCellProps> {
  #element: HTMLElement | null = null;

  override componentDidMount(): void {
    this.props.register(this.props.name, this.#element);
  }

  override componentWillUnmount(): void {
    this.props.register(this.props.name, null);
  }

  render({ name, isLast, children }: EntryCellProps): JSX.Element {
    return (
      <div
        ref={(element) => {
          this.#element = element;
        }}
        class={isLast ? "entry last" : "entry"}
        data-entry={name}
      >
        {children}
      </div>
    );
  }
}
