// Computes globs for file searches: what to exclude, from settings and `.gitignore` files, and what to find. Pure.

/** Folders that tools create. They are excluded even if no ignore file lists them. */
const ALWAYS_EXCLUDED = ["**/.git", "**/node_modules", "**/bower_components", "**/__pycache__", "**/.venv"];

/** Limits the lines read from one file. */
const MAX_IGNORE_LINES = 500;

/** Returns the enabled patterns of a setting such as `search.exclude`. */
export function listExcludePatterns(setting: Readonly<Record<string, unknown>> | undefined): string[] {
  return Object.entries(setting ?? {}).flatMap(([pattern, isEnabled]) => (isEnabled === true ? [pattern] : []));
}

/**
 * Converts a `.gitignore` to VS Code globs. `folder` is relative to the workspace folder and ends with a slash. Globs
 * cannot express `!` lines, so rules that such a line narrows are dropped.
 */
export function parseGitignore(text: string, folder: string): string[] {
  const lines = text.split("\n", MAX_IGNORE_LINES).map((line) => line.trimEnd());
  const rules = lines.filter((line) => line !== "" && !line.startsWith("#") && !line.startsWith("!"));
  const reincluded = lines.filter((line) => line.startsWith("!")).map((line) => line.slice(1).replace(/^\/|\/$/g, ""));
  return rules
    .filter((rule) => !reincluded.some((pattern) => mayBeReincluded(rule.replace(/^\/|\/$/g, ""), pattern)))
    .map((rule) => {
      const escaped = escapeBraces(rule.replace(/\/$/, ""));
      const anchored = escaped.includes("/");
      return `${escapeBraces(folder)}${anchored ? escaped.replace(/^\//, "") : `**/${escaped}`}`;
    });
}

/** Whether a `!` line may affect a rule. False positives are harmless. */
function mayBeReincluded(rule: string, reincluded: string): boolean {
  const trimmed = rule.replace(/\/\*+$/, "");
  if (reincluded === rule || reincluded.startsWith(`${trimmed}/`)) return true;
  const [head, tail] = [rule.slice(0, rule.search(/[*?]/)), rule.slice(rule.lastIndexOf("*") + 1)];
  if (!/[*?]/.test(rule)) return false;
  const name = reincluded.slice(reincluded.lastIndexOf("/") + 1);
  return [reincluded, name].some((prefix) => prefix.startsWith(head) && prefix.endsWith(tail));
}

/** Braces and commas are special in VS Code globs, but not in git. */
function escapeBraces(pattern: string): string {
  return pattern.replaceAll(/[{},]/g, (sign) => `[${sign}]`);
}

/** Combines all exclusions, including folder contents, into one glob. */
export function buildExcludeGlob(patterns: readonly string[]): string {
  const all = new Set([...ALWAYS_EXCLUDED, ...patterns].flatMap((pattern) => [pattern, `${pattern}/**`]));
  return `{${[...all].join(",")}}`;
}

/** Returns globs that find `query`, most likely matches first. Callers stop when they have enough results. */
export function buildSearchGlobs(query: string): string[] {
  const letters = query.replace(/[^\p{L}\p{N}._/ -]/gu, "");
  if (letters === "") return ["{*,*/*}", "**/*"];
  const [folders, name] = [letters.slice(0, letters.lastIndexOf("/") + 1), letters.slice(letters.lastIndexOf("/") + 1)];
  const matchAnyCase = (text: string) => [...text].map(toCaseInsensitiveGlob).join("");
  const pattern = `*${[...name].map(toCaseInsensitiveGlob).join("*")}*`;
  if (folders !== "")
    return [
      `**/*${matchAnyCase(folders)}*${matchAnyCase(name)}*`,
      `**/*${matchAnyCase(folders)}**/*${matchAnyCase(name)}*`,
    ];
  // A project's own files are usually near the root.
  return [
    `{${matchAnyCase(name)}*,*/${matchAnyCase(name)}*,*/*/${matchAnyCase(name)}*}`,
    `**/${matchAnyCase(name)}*`,
    `**/*${matchAnyCase(name)}*`,
    `**/${pattern}`,
    // The files of a folder with that name.
    `**/*${matchAnyCase(name)}*/**`,
  ];
}

function toCaseInsensitiveGlob(letter: string): string {
  const [lower, upper] = [letter.toLowerCase(), letter.toUpperCase()];
  return lower === upper ? letter : `[${lower}${upper}]`;
}
