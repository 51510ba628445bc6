// What a search for files leaves out: what the editor's search leaves out, and what `.gitignore` files name. Pure.

/** Left out without being named anywhere: what tools fetch and build, by the folders' usual names. */
const ALWAYS_EXCLUDED = ["**/.git", "**/node_modules", "**/bower_components", "**/__pycache__", "**/.venv"];

/** More lines of one file are not read. */
const MAX_IGNORE_LINES = 500;

/** A setting such as `search.exclude`: its patterns that are on. */
export function listExcludePatterns(setting: Readonly<Record<string, unknown>> | undefined): string[] {
  return Object.entries(setting ?? {}).flatMap(([pattern, on]) => (on === true ? [pattern] : []));
}

/**
 * The patterns of a `.gitignore`, as the editor's globs. `folder`: where it is, below the workspace folder, with a slash
 * at its end. What a later line takes in again (`!`) cannot be said in such a list: the line it narrows is passed over.
 */
export function parseGitignore(text: string, folder: string): string[] {
  const lines = text.split("\n", MAX_IGNORE_LINES).map((line) => line.trimEnd());
  const rules = lines.filter((line) => line !== "" && !line.startsWith("#") && !line.startsWith("!"));
  const again = lines.filter((line) => line.startsWith("!")).map((line) => line.slice(1).replace(/^\/|\/$/g, ""));
  return rules
    .filter((rule) => !again.some((one) => mayBeReincluded(rule.replace(/^\/|\/$/g, ""), one)))
    .map((rule) => {
      const plain = escapeBraces(rule.replace(/\/$/, ""));
      const anchored = plain.includes("/");
      return `${escapeBraces(folder)}${anchored ? plain.replace(/^\//, "") : `**/${plain}`}`;
    });
}

/** Whether a line that takes in again may be about what a rule names: rather once too often. */
function mayBeReincluded(rule: string, again: string): boolean {
  const whole = rule.replace(/\/\*+$/, "");
  if (again === rule || again.startsWith(`${whole}/`)) return true;
  const [head, tail] = [rule.slice(0, rule.search(/[*?]/)), rule.slice(rule.lastIndexOf("*") + 1)];
  if (!/[*?]/.test(rule)) return false;
  const name = again.slice(again.lastIndexOf("/") + 1);
  return [again, name].some((one) => one.startsWith(head) && one.endsWith(tail));
}

/** Braces and commas are of the editor's globs and not of git's. */
function escapeBraces(pattern: string): string {
  return pattern.replaceAll(/[{},]/g, (sign) => `[${sign}]`);
}

/** One glob of all that is left out, folders with what is in them. */
export function buildExcludeGlob(patterns: readonly string[]): string {
  const all = new Set([...ALWAYS_EXCLUDED, ...patterns].flatMap((pattern) => [pattern, `${pattern}/**`]));
  return `{${[...all].join(",")}}`;
}

/** Globs that lead to what fits `query`, the likeliest first; what the first find is enough. */
export function buildSearchGlobs(query: string): string[] {
  const letters = query.replace(/[^\p{L}\p{N}._/ -]/gu, "");
  if (letters === "") return ["{*,*/*}", "**/*"];
  const [folders, name] = [letters.slice(0, letters.lastIndexOf("/") + 1), letters.slice(letters.lastIndexOf("/") + 1)];
  const matchAnyCase = (text: string) => [...text].map(toCaseInsensitiveGlob).join("");
  const loose = `*${[...name].map(toCaseInsensitiveGlob).join("*")}*`;
  if (folders !== "")
    return [
      `**/*${matchAnyCase(folders)}*${matchAnyCase(name)}*`,
      `**/*${matchAnyCase(folders)}**/*${matchAnyCase(name)}*`,
    ];
  // A project's own files stand near its top.
  return [
    `{${matchAnyCase(name)}*,*/${matchAnyCase(name)}*,*/*/${matchAnyCase(name)}*}`,
    `**/${matchAnyCase(name)}*`,
    `**/*${matchAnyCase(name)}*`,
    `**/${loose}`,
  ];
}

function toCaseInsensitiveGlob(letter: string): string {
  const [lower, upper] = [letter.toLowerCase(), letter.toUpperCase()];
  return lower === upper ? letter : `[${lower}${upper}]`;
}
