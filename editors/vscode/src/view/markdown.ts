// Renders the model's Markdown. `marked` parses it, DOMPurify keeps an allowlist of elements and attributes, and
// highlight.js colors code. HTML is shown as text, so neither the model nor the repository can fake controls or hide
// text. Our buttons are added after sanitizing. While a message grows, only its last blocks are parsed and drawn again.

import DOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diffLanguage from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import markdownLanguage from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { Marked, type Token, type Tokens } from "marked";
import { revealHidden, revealInProse, takeLastLines } from "../format";

const LANGUAGES = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff: diffLanguage,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  lua,
  markdown: markdownLanguage,
  php,
  python,
  ruby,
  rust,
  sql,
  swift,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** Coloring longer code would take more than a frame. */
const MAX_COLORED_CHARS = 30_000;
/** Maximum number of code lines in the page. */
const MAX_CODE_LINES = 2000;

const marked = new Marked({
  gfm: true,
  renderer: {
    html({ text, block }: Tokens.HTML | Tokens.Tag): string {
      return block ? `<p>${escapeHtml(text)}</p>` : escapeHtml(text);
    },
    // Returns only the text. The language and the buttons are added after sanitizing.
    code({ text }: Tokens.Code): string {
      return `<pre><code>${escapeHtml(text)}</code></pre>`;
    },
    // Nothing is fetched: an image becomes a link.
    image({ href, text }: Tokens.Image): string {
      return `<a href="${escapeHtml(href)}">${escapeHtml(text === "" ? href : text)}</a>`;
    },
    checkbox({ checked }: Tokens.Checkbox): string {
      return checked ? "☑ " : "☐ ";
    },
  },
});

/** Returns unsanitized HTML. Exported for tests. */
export function renderHtml(block: string): string {
  return marked.parse(block, { async: false });
}

export function renderBlock(block: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(renderHtml(block), {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS,
    ALLOWED_ATTR: ["href", "align", "start"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|file:|#|[^:]*$)/i,
  });
  const codes = [...fragment.querySelectorAll("pre")];
  const languages = codes.length === 0 ? [] : listInfoStrings(marked.lexer(block));
  const isAligned = languages.length === codes.length;
  codes.forEach((pre, at) => {
    pre.replaceWith(buildCodeBlock(pre.textContent, isAligned ? (languages[at] ?? "") : ""));
  });
  // Each block has the direction of its text. Code is always from left to right.
  for (const child of [...fragment.children] as HTMLElement[]) child.dir = "auto";
  for (const code of fragment.querySelectorAll<HTMLElement>("code")) code.dir = "ltr";
  revealTexts(fragment);
  for (const link of fragment.querySelectorAll("a")) {
    // The tooltip shows the real target. A link without a target becomes text.
    const href = link.getAttribute("href");
    if (href === null) link.replaceWith(...link.childNodes);
    else link.title = revealHidden(href);
  }
  return fragment;
}

const ALLOWED_TAGS = [
  ...["a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"],
  ...["strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
];

/** Returns the info strings of code blocks in order. */
function listInfoStrings(tokens: readonly Token[]): string[] {
  const infoStrings: string[] = [];
  marked.walkTokens([...tokens], (token) => {
    if (token.type === "code") infoStrings.push((token as Tokens.Code).lang?.trim() ?? "");
  });
  return infoStrings;
}

/** Builds a code block with its language, colors, and buttons. The buttons copy only visible text. */
function buildCodeBlock(text: string, info: string): HTMLElement {
  const { text: visibleText, omitted } = takeLastLines(text, MAX_CODE_LINES);
  const bar = createElement("div", "bar");
  if (info !== "") bar.append(createElement("span", "lang", revealHidden(info)));
  for (const [name, label] of [
    ["copy", "Copy"],
    ["insert", "Insert"],
  ] as const) {
    const button = createElement("button", "quiet", label);
    button.type = "button";
    button.dataset["action"] = name;
    bar.append(button);
  }
  const pre = createElement("pre", "");
  pre.tabIndex = 0;
  const code = createElement("code", "");
  code.append(highlightCode(visibleText, info.split(/[\s,{]/, 1)[0] ?? ""));
  pre.append(code);
  const box = createElement("div", "code");
  box.append(bar);
  if (omitted > 0) box.append(createElement("p", "omitted", `${omitted} lines above are hidden`));
  box.append(pre);
  return box;
}

function createElement<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className: string,
  text = "",
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className !== "") element.className = className;
  element.textContent = text;
  return element;
}

/** Reveals hidden characters: all of them in code, and in prose those that no script or emoji needs. */
function revealTexts(fragment: DocumentFragment): void {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const text = node.nodeValue ?? "";
    const revealed = node.parentElement?.closest("code") ? revealHidden(text) : revealInProse(text);
    if (revealed !== text) node.nodeValue = revealed;
  }
}

/** Colors code and reveals hidden characters. */
export function highlightCode(code: string, language: string): DocumentFragment {
  const revealed = revealHidden(code);
  const isKnownLanguage = language !== "" && hljs.getLanguage(language) !== undefined;
  if (!isKnownLanguage || revealed.length > MAX_COLORED_CHARS) {
    const fragment = document.createDocumentFragment();
    fragment.append(revealed);
    return fragment;
  }
  return DOMPurify.sanitize(hljs.highlight(revealed, { language, ignoreIllegals: true }).value, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  });
}

export interface MarkdownBlocks {
  text: string;
  list: string[];
}

/**
 * Splits a text into top-level blocks. If the text grew, reuses all but the last two. New text affects only the last
 * block, or joins the one before it, such as a list after an empty line.
 */
export function splitBlocks(text: string, before: MarkdownBlocks | undefined, isComplete: boolean): MarkdownBlocks {
  const isAppended = before !== undefined && !isComplete && text.startsWith(before.text);
  const keptBlocks = isAppended ? before.list.slice(0, -2) : [];
  const from = keptBlocks.reduce((sum, block) => sum + block.length, 0);
  const tokens: Token[] = marked.lexer(text.slice(from));
  const list = [...keptBlocks];
  for (const token of tokens) {
    // Empty lines belong to the block above them.
    if (token.type === "space" && list.length > keptBlocks.length) list[list.length - 1] += token.raw;
    else list.push(token.raw);
  }
  return { text, list };
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
