// Formats text, numbers, and lengths. Pure: it knows neither the editor nor the webview.

import type { Mode, SandboxStatus } from "./protocol";

/** Returns the UTF-8 byte length, which delta offsets use. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (unit >= 0xd800 && unit < 0xdc00) {
      // A surrogate pair is two code units and four bytes.
      bytes += 2;
      at += 1;
    } else bytes += 2;
  }
  return bytes;
}

/** Returns `text` without its first `bytes` UTF-8 bytes, which must end at a character boundary. */
export function utf8Tail(text: string, bytes: number): string {
  let at = 0;
  for (let remaining = bytes; remaining > 0 && at < text.length; ) {
    const unit = text.charCodeAt(at);
    const pair = unit >= 0xd800 && unit < 0xdc00;
    remaining -= pair ? 4 : unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    at += pair ? 2 : 1;
  }
  return text.slice(at);
}

/** Returns at most the last `max` characters of `text`, starting at a line if possible. */
export function trimHead(text: string, max: number): string {
  if (text.length <= max) return text;
  // Leave room so that the next delta does not trim again.
  const from = text.length - Math.floor(max * 0.75);
  const line = text.indexOf("\n", from);
  return text.slice(line < 0 || line > text.length - 1 ? from : line + 1);
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

export function formatTokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 100_000) return `${(count / 1000).toFixed(1)}k`;
  if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export function formatDollars(usd: number): string {
  if (usd === 0) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function formatCost(usd: number | undefined): string {
  if (usd === undefined) return "price unknown";
  return usd === 0 ? "free" : formatDollars(usd);
}

/** Describes how the commands of a session in this mode are confined; empty before the server has said it. */
export function formatSandbox(sandbox: SandboxStatus | undefined, mode: Mode | undefined): string {
  if (sandbox === undefined) return "";
  if (sandbox.method === "off") return "sandbox off";
  const policy = sandbox.policies.find((each) => each.mode === mode)?.policy;
  if (policy === "off") return `no sandbox in the mode ${mode}`;
  if (sandbox.level === "none") return "no sandbox works here";
  const network =
    sandbox.network === "open" ? ", network open" : sandbox.network === "proxy" ? ", network by proxy" : "";
  const readOnly = policy === "readOnly" ? ", read-only" : "";
  return `sandbox: ${sandbox.level} (${revealHidden(sandbox.method)})${readOnly}${network}`;
}

export function formatBytes(count: number): string {
  if (count < 10_000) return count === 1 ? "1 byte" : `${count} bytes`;
  if (count < 10_000_000) return `${Math.round(count / 1000)} KB`;
  return count < 10_000_000_000 ? `${Math.round(count / 1_000_000)} MB` : `${Math.round(count / 1_000_000_000)} GB`;
}

/** Returns the time since `at`. Both arguments are in ms since the Unix epoch. */
export function formatAge(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h`;
  return `${Math.floor(minutes / 1440)} d`;
}

/** Counts lines. A trailing line feed does not start a new line. */
export function countLines(text: string): number {
  if (text === "") return 0;
  let count = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/**
 * Finds what the editor reported after an edit, at the end of the call's output: `1 new error`, and the list. The model
 * reads the same.
 */
export function findNewErrors(output: string): { summary: string; list: string } | undefined {
  const [, summary, list] = /^The editor reports (\d+ (?:new )?errors?[^\n]*):\n(.+)$/ms.exec(output) ?? [];
  return summary === undefined || list === undefined ? undefined : { summary, list };
}

/** Returns the last `max` lines and the number of omitted lines. */
export function takeLastLines(text: string, max: number): { text: string; omitted: number } {
  const total = countLines(text);
  if (total <= max) return { text, omitted: 0 };
  let at = text.endsWith("\n") ? text.length - 1 : text.length;
  for (let line = 0; line < max; line++) at = text.lastIndexOf("\n", at - 1);
  return { text: text.slice(at + 1), omitted: total - max };
}

/** Characters that are invisible or that change the order or width of text, including all spaces except U+0020. */
const HIDDEN_CHARACTERS = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u2800]|(?! )\p{Zs}/gu;

/** Joiners and variation selectors that scripts and emoji need, and spaces that prose uses. */
const NEEDED_IN_PROSE =
  /(?<=\p{Extended_Pictographic})[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)|(?<=\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?)\u200d(?=\p{Extended_Pictographic})|(?<=[\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}])[\u200c\u200d](?=\p{L})|[\u00a0\u202f\u3000]/gu;

/**
 * Replaces hidden characters with codes such as `<U+202E>`. Use it for text that a user decides about: commands,
 * arguments, rules, and code. Keeps line feeds and tabs, and drops a carriage return before a line feed.
 */
export function revealHidden(text: string): string {
  return revealWhere(text, () => true);
}

/** Like `revealHidden`, but keeps emoji, joiners that scripts need, and prose spaces. */
export function revealInProse(text: string): string {
  let neededIndexes: Set<number> | undefined;
  return revealWhere(text, (at) => {
    neededIndexes ??= new Set([...text.matchAll(NEEDED_IN_PROSE)].map(({ index }) => index));
    return !neededIndexes.has(at);
  });
}

function revealWhere(text: string, isHidden: (at: number) => boolean): string {
  return text.replace(HIDDEN_CHARACTERS, (character, at: number) => {
    if (character === "\n" || character === "\t") return character;
    if (character === "\r" && text[at + 1] === "\n") return "";
    if (!isHidden(at)) return character;
    const code = character.codePointAt(0) ?? 0;
    // Unicode has a control picture for each C0 control.
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

/** Escapes `text` for VS Code notifications and dialogs, which turn `[label](command:…)` into a live link. */
export function escapeNotification(text: string): string {
  return revealHidden(text).replaceAll("](", "] (");
}

/** Escapes `text` for VS Code lists, which draw `$(name)` as an icon. */
export function escapeLabel(text: string): string {
  return revealHidden(text).replaceAll("\n", "␊").replaceAll("\t", " ").replaceAll("$(", "\\$(");
}

/** Splits `text` into pieces of at most `width` characters, for lists that truncate long lines. */
export function wrapText(text: string, width: number): string[] {
  const characters = [...text];
  const chunks: string[] = [];
  for (let at = 0; at < characters.length; at += width) chunks.push(characters.slice(at, at + width).join(""));
  return chunks.length === 0 ? [""] : chunks;
}

export function countDiffLines(diff: string): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  const lines = diff.split("\n");
  for (const [at, line] of lines.entries()) {
    if (isFileHeader(lines, at)) continue;
    if (line.startsWith("+")) added += 1;
    if (line.startsWith("-")) removed += 1;
  }
  return { added, removed };
}

/**
 * Returns the lines of a unified diff that are shown: all but the names of a single file, because the title has them. No
 * other line may be omitted, because a user approves what they see.
 */
export function selectDiffLines(diff: string): string[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  const hasSeveralFiles = lines.some((_, at) => at > 1 && isFileHeader(lines, at));
  return lines.filter((_, at) => hasSeveralFiles || at > 1 || !isFileHeader(lines, at));
}

/** Whether a line of a unified diff is one of the two that name a file. Changed lines can look like one of them. */
export function isFileHeader(lines: readonly string[], at: number): boolean {
  const first = lines[at]?.startsWith("+++ ") ? at - 1 : at;
  const [old, current, hunk] = lines.slice(Math.max(0, first), first + 3);
  return Boolean(old?.startsWith("--- ") && current?.startsWith("+++ ") && (hunk ?? "@@").startsWith("@@"));
}
