// The conversation: a long list of which only what is near the view is in the page. It follows its end until the person
// scrolls away from it; then what they read stays where it is, whatever comes or changes above and below.

import type { ComponentChild, JSX } from "preact";
import { Component } from "preact";
import { type Item, keyOf, type Notice } from "../state";
import type { KeyCheck, Offers, ViewState, WaitingPrompt } from "../webviewProtocol";
import { Button, Still } from "./components";
import { Entry } from "./entry";
import { WaitingPrompts } from "./pendingPrompts";
import { keepPlace, type Place, place, post } from "./store";
import { type Inner, nest } from "./subagents";
import {
  type Anchor,
  entryInGap,
  followsAfter,
  Heights,
  type Part,
  partsOf,
  type Scrolled,
  spanAt,
} from "./virtualList";

/** So many heights of the view are in the page above and below it. */
const OVER = 2;
const LEAST_OVER = 400;

/** A scroll within this time after a wheel, a finger, or a key went up is a person's. */
const BY_HAND_MS = 1_000;
/** The keys that may scroll up; Space does so with Shift. */
const UP: ReadonlySet<string> = new Set(["ArrowUp", "PageUp", "Home", " "]);

interface Props {
  session: string;
  /** The number of the first event that is shown; for tests, as is how many turns have ended. */
  first: number | undefined;
  items: readonly Item[];
  notices: readonly Notice[];
  hasEarlier: boolean;
  resumable: string | undefined;
  running: boolean;
  offers: Offers;
  reviews: ViewState["reviews"];
  checked: KeyCheck | undefined;
  waiting: readonly WaitingPrompt[] | undefined;
}

let shown: Log | undefined;

/** Shows the end of the conversation, and follows it. */
export function showEnd(): void {
  shown?.toEnd();
}

export class Log extends Still<Props> {
  override state = { away: false };
  readonly #heights = new Heights();
  readonly #cells = new Map<string, HTMLElement>();
  readonly #observer = new ResizeObserver((entries) => this.#resized(entries));
  #box: HTMLDivElement | null = null;
  #keys: readonly string[] = [];
  #parts: readonly Part[] = [];
  #follows = true;
  /** What stays where it is while the end is not followed. */
  #reading: { key: string; offset: number } | undefined;
  /** Where the session was left, until that entry is there: the end of a long session comes first. */
  #left: Place | undefined;
  #last: Scrolled = { top: 0, height: 0, view: 0 };
  /** When a person did last what may scroll up, in milliseconds of the page; the scroll itself comes a moment later. */
  #scrolledUpAt = Number.NEGATIVE_INFINITY;
  #keeping: ReturnType<typeof setTimeout> | undefined;

  override componentDidMount(): void {
    shown = this;
    this.#left = place(this.props.session);
    this.#goBack();
    if (this.#box) this.#observer.observe(this.#box);
    this.#settle();
  }

  override componentDidUpdate(): void {
    this.#goBack();
    this.#settle();
  }

  #goBack(): void {
    const left = this.#left;
    if (left === undefined || !this.#keys.includes(left.key)) return;
    this.#left = undefined;
    this.#follows = false;
    this.#reading = left;
    this.setState({ away: true });
  }

  override componentWillUnmount(): void {
    if (shown === this) shown = undefined;
    this.#observer.disconnect();
    this.#keep();
  }

  toEnd(): void {
    this.#left = undefined;
    this.#follows = true;
    this.#reading = undefined;
    this.setState({ away: false });
    this.forceUpdate();
  }

  render(props: Props): JSX.Element {
    const { top, inner } = nest(props.items, props.notices);
    this.#keys = top.map(keyOf);
    this.#parts = this.#near(top, inner);
    return (
      <div class="log-frame">
        <div
          ref={(box) => {
            this.#box = box;
          }}
          class="log"
          role="log"
          aria-live="off"
          aria-label="Conversation"
          tabIndex={0}
          data-testid="log"
          data-first={props.first}
          data-ends={props.items.filter(({ kind }) => kind === "turnEnd").length}
          onScroll={() => this.#scrolled()}
          onWheel={(event) => event.deltaY < 0 && this.#scrollsUp()}
          onTouchMove={() => this.#scrollsUp()}
          onPointerDown={(event) => event.target === event.currentTarget && this.#scrollsUp()}
          onKeyDown={(event) => UP.has(event.key) && this.#scrollsUp()}
        >
          <div class="entries">
            {props.hasEarlier && (
              <div class="earlier">
                <Button label="Show earlier" kind="quiet" onPress={() => post({ type: "earlier" })} />
              </div>
            )}
            {this.#parts.map((part) =>
              part.kind === "gap" ? (
                <div
                  key={`gap before ${this.#keys[part.to] ?? "the end"}`}
                  class="gap"
                  aria-hidden="true"
                  style={{ height: `${part.height}px` }}
                />
              ) : (
                this.#entry(top, part.at, inner)
              ),
            )}
            {props.waiting && <WaitingPrompts prompts={props.waiting} />}
          </div>
        </div>
        {this.state.away && (
          <button type="button" class="to-end" onClick={() => this.toEnd()}>
            ↓ Newest
          </button>
        )}
      </div>
    );
  }

  #entry(top: readonly Item[], at: number, inner: Inner | undefined): ComponentChild {
    const { offers, reviews, running, checked, resumable } = this.props;
    const item = top[at];
    if (item === undefined) return null;
    const isLast = at === top.length - 1;
    const key = keyOf(item);
    return (
      <Cell key={key} name={key} last={isLast} hold={this.#hold}>
        <Entry
          item={item}
          offers={offers}
          reviews={inner?.has(item) || (item.kind === "tool" && item.approval) ? reviews : undefined}
          running={running && item.kind === "changes"}
          inner={inner?.has(item) ? inner : undefined}
          checked={isLast ? checked : undefined}
          resumable={resumable !== undefined && item.kind === "turnEnd" && item.id === resumable}
        />
      </Cell>
    );
  }

  readonly #hold = (name: string, cell: HTMLElement | null): void => {
    const old = this.#cells.get(name);
    if (old === cell) return;
    if (old) this.#observer.unobserve(old);
    if (cell === null) this.#cells.delete(name);
    else {
      this.#cells.set(name, cell);
      this.#observer.observe(cell);
    }
  };

  #heightAt = (at: number): number => this.#heights.of(this.#keys[at] ?? "");

  get #view(): number {
    return this.#box?.clientHeight || window.innerHeight;
  }

  /** What is in the page: what is near the view, and what must not leave it. */
  #near(top: readonly Item[], inner: Inner | undefined): Part[] {
    const count = top.length;
    // A screen reader reads what is in the page, all of it.
    if (document.body.classList.contains("vscode-using-screen-reader")) {
      return top.map((_item, at) => ({ kind: "entry", at }));
    }
    const view = this.#view;
    // At first only what is seen: it is there sooner.
    const over = this.#box === null ? 0 : Math.max(LEAST_OVER, view * OVER);
    const span = spanAt(count, this.#heightAt, this.#anchor(), view, over);
    const [first, last] = this.#selected();
    const focused = this.#cellOf(document.activeElement)?.dataset["entry"];
    const kept = (at: number): boolean => {
      const item = top[at];
      if (item === undefined || at === count - 1 || (at >= first && at <= last)) return true;
      return this.#keys[at] === focused || asks(item) || (inner?.asks(item) ?? false);
    };
    return partsOf(count, span, kept, this.#heightAt);
  }

  #anchor(): Anchor | undefined {
    const { key, offset } = this.#reading ?? {};
    if (this.#follows || key === undefined || offset === undefined) return undefined;
    const at = this.#keys.lastIndexOf(key);
    return at < 0 ? undefined : { at, offset };
  }

  /** The entries between which text is selected. */
  #selected(): [number, number] {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed) return [0, -1];
    const ends = [selection.anchorNode, selection.focusNode].map((node) =>
      this.#keys.indexOf(this.#cellOf(node)?.dataset["entry"] ?? ""),
    );
    return ends.includes(-1) ? [0, -1] : [Math.min(...ends), Math.max(...ends)];
  }

  #cellOf(node: Node | null): HTMLElement | undefined {
    const element = node instanceof Element ? node : node?.parentElement;
    return element?.closest<HTMLElement>("[data-entry]") ?? undefined;
  }

  /** After a change: the end, or what is read, is where it was. */
  #settle(): void {
    const box = this.#box;
    if (!box) return;
    if (this.#follows) box.scrollTop = box.scrollHeight;
    else if (this.#reading) {
      const cell = this.#cells.get(this.#reading.key);
      if (cell) box.scrollTop += cell.offsetTop - box.scrollTop - this.#reading.offset;
      else if (!this.#keys.includes(this.#reading.key)) this.#read();
    }
    this.#last = this.#now(box);
  }

  #now(box: HTMLElement): Scrolled {
    return { top: box.scrollTop, height: box.scrollHeight, view: box.clientHeight };
  }

  #scrollsUp(): void {
    this.#scrolledUpAt = performance.now();
  }

  #scrolled(): void {
    const box = this.#box;
    if (!box) return;
    const now = this.#now(box);
    const byHand = performance.now() - this.#scrolledUpAt < BY_HAND_MS;
    this.#follows = followsAfter(this.#follows, this.#last, now, byHand);
    this.#last = now;
    if (this.#follows) this.#reading = undefined;
    else {
      // A person looks elsewhere.
      this.#left = undefined;
      this.#read();
    }
    if (this.#follows === this.state.away) {
      this.setState({ away: !this.#follows });
      this.#keep();
    }
    // Not put off by the next scroll: while a turn goes on, they never end.
    this.#keeping ??= setTimeout(() => this.#keep(), 100);
    if (this.#isBare(box)) this.forceUpdate();
  }

  /** What is at the top of the view is what is read. */
  #read(): void {
    const box = this.#box;
    const list = box?.firstElementChild;
    if (!box || !list) return;
    let part = 0;
    for (const child of list.children as Iterable<HTMLElement> & HTMLCollection) {
      const counts = child.dataset["entry"] !== undefined || child.classList.contains("gap");
      const which = counts ? this.#parts[part++] : undefined;
      if (which === undefined || child.offsetTop + child.offsetHeight <= box.scrollTop) continue;
      const found =
        which.kind === "entry"
          ? { at: which.at, top: 0 }
          : entryInGap(which, this.#heightAt, box.scrollTop - child.offsetTop);
      const key = this.#keys[found.at];
      if (key !== undefined) this.#reading = { key, offset: child.offsetTop + found.top - box.scrollTop };
      return;
    }
  }

  /** Whether what is left out is in the view, or nearly. */
  #isBare(box: HTMLElement): boolean {
    const near = box.clientHeight / 2;
    for (const gap of box.querySelectorAll<HTMLElement>(".entries > .gap")) {
      const above = gap.offsetTop + gap.offsetHeight < box.scrollTop - near;
      if (!above && gap.offsetTop < box.scrollTop + box.clientHeight + near) return true;
    }
    return false;
  }

  /** A part is opened, a text grows, the view is resized. */
  #resized(entries: readonly ResizeObserverEntry[]): void {
    for (const { target, borderBoxSize } of entries) {
      const name = (target as HTMLElement).dataset["entry"];
      const height = borderBoxSize[0]?.blockSize;
      // An element that has left the page has no height.
      if (name !== undefined && height !== undefined && target.isConnected) this.#heights.set(name, height);
    }
    this.#settle();
    if (this.#box && this.#isBare(this.#box)) this.forceUpdate();
  }

  /** Coming back to the session finds the place that was read. */
  #keep(): void {
    clearTimeout(this.#keeping);
    this.#keeping = undefined;
    if (this.#left !== undefined) return;
    keepPlace(this.props.session, this.#follows ? undefined : this.#reading);
  }
}

function asks(item: Item): boolean {
  if (item.kind === "tool") return item.approval !== undefined;
  return (item.kind === "limit" || item.kind === "question") && item.resolved === undefined;
}

interface CellProps {
  name: string;
  last: boolean;
  hold: (name: string, cell: HTMLElement | null) => void;
  children?: ComponentChild;
}

/** The place of an entry, whose height is measured. */
class Cell extends Component<CellProps> {
  #place: HTMLElement | null = null;

  override componentDidMount(): void {
    this.props.hold(this.props.name, this.#place);
  }

  override componentWillUnmount(): void {
    this.props.hold(this.props.name, null);
  }

  render({ name, last, children }: CellProps): JSX.Element {
    return (
      <div
        ref={(place) => {
          this.#place = place;
        }}
        class={last ? "entry last" : "entry"}
        data-entry={name}
      >
        {children}
      </div>
    );
  }
}
