// Small components that several parts of the webview share.

import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatDuration, isFileHeader, revealHidden, selectDiffLines } from "../format";
import { highlightCode, type MarkdownBlocks, renderBlock, splitBlocks } from "./markdown";
import { isTextField } from "./questionFocus";
import { postMessage } from "./store";

/** Renders again only if a property or its own state changes. */
export abstract class PureComponent<P extends object> extends Component<P> {
  override shouldComponentUpdate(next: P, state: object): boolean {
    if (state !== this.state) return true;
    const currentFields = this.props as Record<string, unknown>;
    const nextFields = next as Record<string, unknown>;
    return Object.keys(nextFields).some((key) => currentFields[key] !== nextFields[key]);
  }
}

interface MarkdownProps {
  text: string;
  isOpen: boolean;
}

/** A message's text. While it grows, only its last blocks are parsed again. */
export class Markdown extends PureComponent<MarkdownProps> {
  #blocks: MarkdownBlocks | undefined;

  render({ text, isOpen: open }: MarkdownProps): JSX.Element {
    // A link definition can follow its use, so parse a complete text with definitions as one block.
    this.#blocks = splitBlocks(text, this.#blocks, !open && /^ {0,3}\[[^\]]+\]:/m.test(text));
    return (
      <div class="markdown" onClick={onMarkdownClick}>
        {this.#blocks.list.map((block, at) => (
          <MarkdownBlock key={at} text={block} />
        ))}
      </div>
    );
  }
}

class MarkdownBlock extends PureComponent<{ text: string }> {
  #element: HTMLDivElement | null = null;

  override componentDidMount(): void {
    this.#renderContent();
  }

  override componentDidUpdate(): void {
    this.#renderContent();
  }

  render(): JSX.Element {
    return (
      <div
        ref={(element) => {
          this.#element = element;
        }}
      />
    );
  }

  #renderContent(): void {
    this.#element?.replaceChildren(renderBlock(this.props.text));
  }
}

/** Handles links and the buttons of code blocks. */
function onMarkdownClick(event: MouseEvent): void {
  const target = event.target as Element;
  const button = target.closest<HTMLElement>("[data-action]");
  if (button) {
    const code = button.closest(".code")?.querySelector("code")?.textContent ?? "";
    if (button.dataset["action"] === "copy") {
      postMessage({ type: "copy", text: code });
      button.textContent = "Copied";
      setTimeout(() => {
        button.textContent = "Copy";
      }, 1500);
    } else postMessage({ type: "insert", text: code });
    return;
  }
  const link = target.closest("a");
  if (!link) return;
  event.preventDefault();
  const href = link.getAttribute("href") ?? "";
  if (/^[a-z][a-z0-9+.-]+:/i.test(href) && !href.startsWith("file:")) postMessage({ type: "openLink", href });
  else {
    const [path = "", line] = href.replace(/^file:\/\//, "").split(/#L|:(?=\d)/, 2);
    if (path !== "")
      postMessage({
        type: "openPath",
        path: decodeURIComponent(path),
        line: line ? Number.parseInt(line, 10) : undefined,
      });
  }
}

export class CodeBlock extends PureComponent<{ text: string; language: string; wrap?: boolean }> {
  #element: HTMLElement | null = null;

  override componentDidMount(): void {
    this.#renderContent();
  }

  override componentDidUpdate(): void {
    this.#renderContent();
  }

  render(): JSX.Element {
    return (
      <pre tabIndex={0} class={this.props.wrap ? "wrap" : ""}>
        <code
          ref={(element) => {
            this.#element = element;
          }}
        />
      </pre>
    );
  }

  #renderContent(): void {
    this.#element?.replaceChildren(highlightCode(this.props.text, this.props.language));
  }
}

/** A longer diff is truncated, and the diff editor shows the rest. */
const MAX_DIFF_LINES = 40;
/** Do not truncate a diff to hide fewer lines than this. */
const MIN_HIDDEN_LINES = 10;

/** The start of a unified diff, with a button that opens all of it. */
export class DiffPreview extends PureComponent<{ text: string; toolCallId: string }> {
  render({ text, toolCallId }: { text: string; toolCallId: string }): JSX.Element {
    const body = selectDiffLines(text);
    const hiddenCount = body.length > MAX_DIFF_LINES + MIN_HIDDEN_LINES ? body.length - MAX_DIFF_LINES : 0;
    return (
      <div>
        <pre class="diff" tabIndex={0} role="region" aria-label="Changes">
          {body.slice(0, body.length - hiddenCount).map((line, at) => (
            <span class={isFileHeader(body, at) ? "hunk" : classifyLine(line)}>
              {line === "" ? " " : revealHidden(line)}
            </span>
          ))}
        </pre>
        {hiddenCount > 0 && (
          <p class="row" data-testid="diff-truncated">
            <span class="dim">
              The first {body.length - hiddenCount} of {body.length} lines.
            </span>
            <Button
              label={`Show all ${body.length} lines in the diff editor`}
              kind="quiet"
              onPress={() => postMessage({ type: "openDiff", toolCallId })}
            />
          </p>
        )}
      </div>
    );
  }
}

function classifyLine(line: string): string {
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return line.startsWith("@@") ? "hunk" : "same";
}

/** Shows the time since `startedAt` or until `endsAt`, updated every second. */
export function Clock({
  startedAt,
  endsAt,
}: {
  startedAt?: number | undefined;
  endsAt?: number | undefined;
}): JSX.Element | null {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  if (endsAt !== undefined) {
    const remaining = endsAt - now;
    return remaining > 0 ? <span class="clock">{formatWhole(Math.ceil(remaining / 1000))}</span> : null;
  }
  if (startedAt === undefined) return null;
  const elapsed = Math.max(0, now - startedAt);
  return elapsed < 1000 ? null : <span class="clock">{formatWhole(Math.floor(elapsed / 1000))}</span>;
}

/** A running clock shows no fractions of a second. */
function formatWhole(count: number): string {
  return count < 120 ? `${count} s` : formatDuration(count * 1000);
}

interface ButtonProps {
  label: string;
  onPress: (event: MouseEvent) => void;
  kind?: "main" | "plain" | "quiet" | "danger";
  title?: string;
  disabled?: boolean;
  children?: ComponentChildren;
  /** Ignores Enter, so that a stray Enter cannot allow anything. */
  ignoresEnter?: boolean;
  testId?: string;
}

export function Button({
  label,
  onPress,
  kind = "plain",
  title,
  disabled,
  children,
  ignoresEnter,
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
        if (ignoresEnter && event.key === "Enter" && !event.ctrlKey && !event.metaKey) event.preventDefault();
      }}
      onClick={onPress}
    >
      {children ?? label}
    </button>
  );
}

/** Whether a click came from a mouse or a touch, and not from a key. Whoever points at a button sees it. */
export function isPointer(event: MouseEvent): boolean {
  return event.detail > 0;
}

/** Focuses a field when it appears, unless the user is in another one. */
export function useAutoFocus<E extends HTMLElement>(isWanted = true): { current: E | null } {
  const elementRef = useRef<E>(null);
  useEffect(() => {
    if (isWanted && !isTextField(document.activeElement)) elementRef.current?.focus();
  }, []);
  return elementRef;
}
