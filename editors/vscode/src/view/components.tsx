// Small elements that several parts of the page use.

import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { reveal, seconds } from "../format";
import { type Blocks, blocks, colored, elements } from "./markdown";
import { post } from "./store";

/** Drawn again only when one of its properties, or its own state, is another. */
export abstract class Still<P extends object> extends Component<P> {
  override shouldComponentUpdate(next: P, state: object): boolean {
    if (state !== this.state) return true;
    const now = this.props as Record<string, unknown>;
    const then = next as Record<string, unknown>;
    return Object.keys(then).some((key) => now[key] !== then[key]);
  }
}

interface MarkdownProps {
  text: string;
  open: boolean;
}

/** A message's text; while it grows, only its last blocks are made anew. */
export class Markdown extends Still<MarkdownProps> {
  #blocks: Blocks | undefined;

  render({ text, open }: MarkdownProps): JSX.Element {
    // Links may be defined below their use, so a completed text with definitions is read once as a whole.
    this.#blocks = blocks(text, this.#blocks, !open && /^ {0,3}\[[^\]]+\]:/m.test(text));
    return (
      <div class="markdown" onClick={pressed}>
        {this.#blocks.list.map((block, at) => (
          <Block key={at} text={block} />
        ))}
      </div>
    );
  }
}

class Block extends Still<{ text: string }> {
  #place: HTMLDivElement | null = null;

  override componentDidMount(): void {
    this.#fill();
  }

  override componentDidUpdate(): void {
    this.#fill();
  }

  render(): JSX.Element {
    return (
      <div
        ref={(place) => {
          this.#place = place;
        }}
      />
    );
  }

  #fill(): void {
    this.#place?.replaceChildren(elements(this.props.text));
  }
}

/** Links and the buttons of code blocks. */
function pressed(event: MouseEvent): void {
  const target = event.target as Element;
  const button = target.closest<HTMLElement>("[data-do]");
  if (button) {
    const code = button.closest(".code")?.querySelector("code")?.textContent ?? "";
    if (button.dataset["do"] === "copy") {
      post({ type: "copy", text: code });
      button.textContent = "Copied";
      setTimeout(() => {
        button.textContent = "Copy";
      }, 1500);
    } else post({ type: "insert", text: code });
    return;
  }
  const link = target.closest("a");
  if (!link) return;
  event.preventDefault();
  const href = link.getAttribute("href") ?? "";
  if (/^[a-z][a-z0-9+.-]+:/i.test(href) && !href.startsWith("file:")) post({ type: "openLink", href });
  else {
    const [path = "", line] = href.replace(/^file:\/\//, "").split(/#L|:(?=\d)/, 2);
    if (path !== "")
      post({ type: "openPath", path: decodeURIComponent(path), line: line ? Number.parseInt(line, 10) : undefined });
  }
}

/** Code with its colors. */
export class Code extends Still<{ text: string; language: string; wrap?: boolean }> {
  #place: HTMLElement | null = null;

  override componentDidMount(): void {
    this.#fill();
  }

  override componentDidUpdate(): void {
    this.#fill();
  }

  render(): JSX.Element {
    return (
      <pre tabIndex={0} class={this.props.wrap ? "wrap" : ""}>
        <code
          ref={(place) => {
            this.#place = place;
          }}
        />
      </pre>
    );
  }

  #fill(): void {
    this.#place?.replaceChildren(colored(this.props.text, this.props.language));
  }
}

/** So many lines of a diff are read at a glance; all of it is for the diff editor. */
const DIFF_LINES = 40;
/** A cut that hides less than this is not made. */
const FEW_MORE = 10;

/** The beginning of a unified diff, and the way to all of it. */
export class Diff extends Still<{ text: string; toolCallId: string }> {
  render({ text, toolCallId }: { text: string; toolCallId: string }): JSX.Element {
    const lines = text.split("\n").filter((line, at, all) => at < all.length - 1 || line !== "");
    const body = lines.filter((line) => !/^(---|\+\+\+|diff |index )/.test(line));
    const left = body.length > DIFF_LINES + FEW_MORE ? body.length - DIFF_LINES : 0;
    return (
      <div>
        <pre class="diff" tabIndex={0} role="region" aria-label="Changes">
          {body.slice(0, body.length - left).map((line) => (
            <span class={kindOf(line)}>{line === "" ? " " : reveal(line)}</span>
          ))}
        </pre>
        {left > 0 && (
          <p class="row" data-testid="diff-left">
            <span class="dim">
              The first {body.length - left} of {body.length} lines.
            </span>
            <Button
              label={`Read all ${body.length} lines in the diff editor`}
              kind="quiet"
              onPress={() => post({ type: "openDiff", toolCallId })}
            />
          </p>
        )}
      </div>
    );
  }
}

function kindOf(line: string): string {
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return line.startsWith("@@") ? "at" : "same";
}

/** How many lines a diff adds and takes out. */
export function counts(diff: string): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of diff.split("\n")) {
    if (line.startsWith("+") && !line.startsWith("+++")) added += 1;
    if (line.startsWith("-") && !line.startsWith("---")) removed += 1;
  }
  return { added, removed };
}

/** The time since `from` or until `till`, each second anew. */
export function Clock({ from, till }: { from?: number | undefined; till?: number | undefined }): JSX.Element | null {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  if (till !== undefined) {
    const left = till - now;
    return left > 0 ? <span class="clock">{whole(Math.ceil(left / 1000))}</span> : null;
  }
  if (from === undefined) return null;
  const past = Math.max(0, now - from);
  return past < 1000 ? null : <span class="clock">{whole(Math.floor(past / 1000))}</span>;
}

/** Whole seconds or minutes: a clock that runs needs no parts of a second. */
function whole(count: number): string {
  return count < 120 ? `${count} s` : seconds(count * 1000);
}

interface ButtonProps {
  label: string;
  onPress: () => void;
  kind?: "main" | "plain" | "quiet" | "danger";
  title?: string;
  disabled?: boolean;
  children?: ComponentChildren;
  /** Enter does nothing: for what must not be allowed by a stray Enter. */
  notByEnter?: boolean;
  testId?: string;
}

export function Button({
  label,
  onPress,
  kind = "plain",
  title,
  disabled,
  children,
  notByEnter,
  testId,
}: ButtonProps): JSX.Element {
  return (
    <button
      type="button"
      class={kind}
      title={title}
      disabled={disabled ?? false}
      data-testid={testId}
      onKeyDown={(event) => {
        if (notByEnter && event.key === "Enter" && !event.ctrlKey && !event.metaKey) event.preventDefault();
      }}
      onClick={onPress}
    >
      {children ?? label}
    </button>
  );
}

/** Puts the focus on an element when it appears. */
export function useFocus<E extends HTMLElement>(): { current: E | null } {
  const place = useRef<E>(null);
  useEffect(() => place.current?.focus(), []);
  return place;
}
