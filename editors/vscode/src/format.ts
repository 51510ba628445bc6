// Words, numbers and lengths. Pure: no editor, no page.

/** The length of `text` in UTF-8 bytes, as offsets of deltas count. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (unit >= 0xd800 && unit < 0xdc00) {
      // A pair is two units and four bytes.
      bytes += 2;
      at += 1;
    } else bytes += 2;
  }
  return bytes;
}

/** `text` without its first `bytes` bytes; they end on a whole character. */
export function utf8Tail(text: string, bytes: number): string {
  let at = 0;
  for (let left = bytes; left > 0 && at < text.length; ) {
    const unit = text.charCodeAt(at);
    const pair = unit >= 0xd800 && unit < 0xdc00;
    left -= pair ? 4 : unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    at += pair ? 2 : 1;
  }
  return text.slice(at);
}

/** The end of `text`, at most `max` characters, from the beginning of a line. */
export function trimHead(text: string, max: number): string {
  if (text.length <= max) return text;
  // Room is left, so that the next piece does not cut again at once.
  const from = text.length - Math.floor(max * 0.75);
  const line = text.indexOf("\n", from);
  return text.slice(line < 0 || line > text.length - 1 ? from : line + 1);
}

/** A duration for people. */
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

/** What tokens cost that were used. */
export function formatCost(usd: number | undefined): string {
  if (usd === undefined) return "price unknown";
  return usd === 0 ? "free" : formatDollars(usd);
}

export function formatBytes(count: number): string {
  if (count < 10_000) return `${count} bytes`;
  return count < 10_000_000 ? `${Math.round(count / 1000)} KB` : `${Math.round(count / 1_000_000)} MB`;
}

/** How long ago `at` was; both in ms since the Unix epoch. */
export function formatAge(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h`;
  return `${Math.floor(minutes / 1440)} d`;
}

/** The lines of a text; a line feed at its end begins no line. */
export function countLines(text: string): number {
  if (text === "") return 0;
  let count = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** The last `max` lines of a text, and how many were left out. */
export function takeLastLines(text: string, max: number): { text: string; left: number } {
  const total = countLines(text);
  if (total <= max) return { text, left: 0 };
  let at = text.endsWith("\n") ? text.length - 1 : text.length;
  for (let line = 0; line < max; line++) at = text.lastIndexOf("\n", at - 1);
  return { text: text.slice(at + 1), left: total - max };
}

/** What a person cannot see, or what changes the order or the width of what they see. Spaces other than U+0020 count. */
const HIDDEN_CHARACTERS = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cs}\p{Co}\u2800]|(?! )\p{Zs}/gu;

/** Joiners and variation selectors where scripts and emoji need them, and the spaces of prose. */
const NEEDED_IN_PROSE =
  /(?<=\p{Extended_Pictographic})[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)|(?<=\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?)\u200d(?=\p{Extended_Pictographic})|(?<=[\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}])[\u200c\u200d](?=\p{L})|[\u00a0\u202f\u3000]/gu;

/**
 * `text` with everything that hides written out: `<U+202E>`. For what a person decides about: commands, arguments,
 * rules, code. Line feeds and tabs remain; a carriage return before a line feed is dropped.
 */
export function revealHidden(text: string): string {
  return revealWhere(text, () => true);
}

/** As `reveal`, but emoji, the scripts that need joiners, and spaces of prose remain as they are. */
export function revealInProse(text: string): string {
  let needed: Set<number> | undefined;
  return revealWhere(text, (at) => {
    needed ??= new Set([...text.matchAll(NEEDED_IN_PROSE)].map(({ index }) => index));
    return !needed.has(at);
  });
}

function revealWhere(text: string, hides: (at: number) => boolean): string {
  return text.replace(HIDDEN_CHARACTERS, (character, at: number) => {
    if (character === "\n" || character === "\t") return character;
    if (character === "\r" && text[at + 1] === "\n") return "";
    if (!hides(at)) return character;
    const code = character.codePointAt(0) ?? 0;
    // Unicode has a picture for each of the old controls.
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

/** `text` inside a notification or a dialog of VS Code, where `[label](command:…)` would be a live link. */
export function escapeNotification(text: string): string {
  return revealHidden(text).replaceAll("](", "] (");
}

/** `text` as a label in VS Code's lists, where `$(name)` would be drawn as an icon. */
export function escapeLabel(text: string): string {
  return revealHidden(text).replaceAll("\n", "␊").replaceAll("\t", " ").replaceAll("$(", "\\$(");
}

/** `text` in pieces of at most `width` characters, for lists that cut long lines. */
export function wrapText(text: string, width: number): string[] {
  const characters = [...text];
  const pieces: string[] = [];
  for (let at = 0; at < characters.length; at += width) pieces.push(characters.slice(at, at + width).join(""));
  return pieces.length === 0 ? [""] : pieces;
}
