// Finds what `@` and the editor's selection can attach: files, symbols, the selection, and problems.

import {
  CancellationTokenSource,
  commands,
  type Diagnostic,
  DiagnosticSeverity,
  type Range as EditorRange,
  languages,
  type SymbolInformation,
  TabInputText,
  type TextEditor,
  Uri,
  window,
  workspace,
} from "vscode";
import { buildExcludeGlob, buildSearchGlobs, listExcludePatterns, parseGitignore } from "./fileSearch";
import type { Range, Severity } from "./protocol";
import { resolvePath } from "./review";
import { type ActiveContext, type Attachment, formatLineRange } from "./webviewProtocol";

const MAX_SUGGESTIONS = 30;
/** A language server may take long to find symbols, and the user waits for the files. */
const SYMBOLS_TIMEOUT_MS = 1000;

/** Returns the best matches first. */
export async function suggestMentions(query: string): Promise<Attachment[]> {
  const pattern = query.toLowerCase();
  const editorMatches = [...readSelection(), ...listProblems()].filter((attachment) =>
    isSubsequence(`${attachment.kind} ${attachment.label}`, pattern),
  );
  const noSymbols = new Promise<Attachment[]>((resolve) => setTimeout(resolve, SYMBOLS_TIMEOUT_MS, []));
  const [files, symbols] = await Promise.all([
    findFiles(pattern),
    pattern.length < 2 ? [] : Promise.race([findSymbols(query), noSymbols]),
  ]);
  return [...editorMatches, ...files, ...symbols].slice(0, MAX_SUGGESTIONS);
}

/** Returns the selection or the file of the last used editor. */
export function readActiveContext(editor: TextEditor | undefined): ActiveContext | undefined {
  if (editor?.document.uri.scheme !== "file") return undefined;
  const [selected] = readSelection(editor);
  if (selected) return { label: selected.label, block: selected.block };
  const { label, block } = toFileAttachment(editor.document.uri);
  return { label, block };
}

/** Returns the active editor's folder in a multi-root workspace. */
export function getActiveFolder(): string | undefined {
  const folders = workspace.workspaceFolders ?? [];
  const file = (window.activeTextEditor ?? window.visibleTextEditors[0])?.document.uri;
  if (folders.length < 2 || file === undefined) return undefined;
  return workspace.getWorkspaceFolder(file)?.uri.toString();
}

export function readSelection(editor = window.activeTextEditor): Attachment[] {
  if (editor === undefined || editor.selection.isEmpty || editor.document.uri.scheme !== "file") return [];
  const { document } = editor;
  const range = toRange(editor.selection);
  const uri = document.uri.toString();
  return [
    {
      kind: "selection",
      label: getRelativeName(document.uri) + formatLineRange(range),
      detail: "selection",
      block: { type: "selection", uri, range, text: document.getText(editor.selection) },
    },
  ];
}

export function toDiagnosticAttachment(uri: Uri, diagnostic: Diagnostic): Attachment {
  const range = toRange(diagnostic.range);
  const { message, source } = diagnostic;
  return {
    kind: "diagnostic",
    label: `${getRelativeName(uri)}${formatLineRange(range)} ${message.split("\n", 1)[0]?.slice(0, 60)}`,
    detail: source ?? "problem",
    block: {
      type: "diagnostic",
      uri: uri.toString(),
      range,
      message,
      severity: toSeverity(diagnostic.severity),
      ...(source === undefined ? {} : { source }),
    },
  };
}

export function toSeverity(severity: DiagnosticSeverity): Severity {
  switch (severity) {
    case DiagnosticSeverity.Error:
      return "error";
    case DiagnosticSeverity.Warning:
      return "warning";
    case DiagnosticSeverity.Information:
      return "information";
    case DiagnosticSeverity.Hint:
      return "hint";
  }
}

export function toRange({ start, end }: EditorRange): Range {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}

export function attachFiles(uris: readonly string[]): Attachment[] {
  return uris.map((uri) => toFileAttachment(Uri.file(Uri.parse(uri).fsPath)));
}

/** Attaches a reference from an earlier prompt, such as `src/a.ts:3-9`. */
export function attachReference(reference: string, cwd: string): Attachment {
  const [, path = reference, first, last] = /^(.*?)(?::(\d+)(?:-(\d+))?)?$/.exec(reference) ?? [];
  const uri = resolvePath(path, cwd).toString();
  if (first === undefined) return { kind: "file", label: reference, block: { type: "reference", uri } };
  const range = {
    start: { line: Number(first) - 1, character: 0 },
    end: { line: Number(last ?? first), character: 0 },
  };
  return { kind: "file", label: reference, block: { type: "reference", uri, range } };
}

function toFileAttachment(uri: Uri): Attachment {
  return {
    kind: "file",
    label: getRelativeName(uri),
    detail: "file",
    block: { type: "reference", uri: uri.toString() },
  };
}

function getRelativeName(uri: Uri): string {
  return workspace.asRelativePath(uri);
}

function listProblems(): Attachment[] {
  const uri = window.activeTextEditor?.document.uri;
  if (uri?.scheme !== "file") return [];
  return languages
    .getDiagnostics(uri)
    .filter((diagnostic) => diagnostic.severity <= DiagnosticSeverity.Warning)
    .slice(0, 10)
    .map((diagnostic) => toDiagnosticAttachment(uri, diagnostic));
}

const MAX_RANKED_FILES = 2000;
const EXCLUDES_TTL_MS = 30_000;

let cachedExcludes: { glob: Promise<string>; at: number } | undefined;
let activeSearch: CancellationTokenSource | undefined;

/** Combines the exclusions of VS Code's search and of git. */
async function buildExcludes(): Promise<string> {
  const settings = ["files", "search"].flatMap((section) =>
    listExcludePatterns(workspace.getConfiguration(section).get<Record<string, unknown>>("exclude")),
  );
  const ignoreFiles = await workspace.findFiles("**/.gitignore", buildExcludeGlob(settings), 200);
  const ignorePatterns = await Promise.all(
    ignoreFiles.map(async (uri) => {
      const folder = workspace.asRelativePath(uri, false).replace(/[^/]*$/, "");
      return parseGitignore(Buffer.from(await workspace.fs.readFile(uri)).toString(), folder);
    }),
  );
  return buildExcludeGlob([...settings, ...ignorePatterns.flat()]);
}

/**
 * Finds matching open files and workspace files, best matches first. Each glob is narrower than a search of all files.
 */
async function findFiles(query: string): Promise<Attachment[]> {
  activeSearch?.cancel();
  const cancellation = new CancellationTokenSource();
  activeSearch = cancellation;
  if (cachedExcludes === undefined || Date.now() - cachedExcludes.at > EXCLUDES_TTL_MS) {
    cachedExcludes = { glob: buildExcludes(), at: Date.now() };
  }
  const glob = await cachedExcludes.glob.catch(() => buildExcludeGlob([]));
  const tabs = window.tabGroups.all.flatMap((group) => group.tabs.map((tab) => tab.input));
  const open = tabs.filter((input) => input instanceof TabInputText).map((input) => input.uri);
  const all = new Map(open.map((uri) => [uri.toString(), uri]));
  for (const pattern of buildSearchGlobs(query)) {
    const matches = [...all.values()].filter(
      (uri) => uri.scheme === "file" && scorePath(getRelativeName(uri), query) > 0,
    );
    if (matches.length >= MAX_SUGGESTIONS || cancellation.token.isCancellationRequested) break;
    for (const uri of await workspace.findFiles(pattern, glob, MAX_RANKED_FILES, cancellation.token))
      all.set(uri.toString(), uri);
  }
  return [...all.values()]
    .filter((uri) => uri.scheme === "file")
    .map((uri) => ({ uri, points: scorePath(getRelativeName(uri), query) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, MAX_SUGGESTIONS)
    .map(({ uri }) => toFileAttachment(uri));
}

/** Returns 0 for no match. Name prefixes rank highest, and short paths rank above long ones. */
function scorePath(filePath: string, query: string): number {
  const path = filePath.toLowerCase();
  if (query === "") return 1 / (1 + path.split("/").length);
  const name = path.slice(path.lastIndexOf("/") + 1);
  // Prefer files near the root, then short paths.
  const length = 1 / (1 + path.split("/").length + path.length / 1000);
  if (name.startsWith(query)) return 4 + length;
  if (name.includes(query)) return 3 + length;
  if (path.includes(query)) return 2 + length;
  return isSubsequence(path, query) ? 1 + length : 0;
}

/** Whether `text` contains the letters of `pattern` in order. */
function isSubsequence(text: string, pattern: string): boolean {
  let at = 0;
  const lower = text.toLowerCase();
  for (const letter of pattern) {
    at = lower.indexOf(letter, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

async function findSymbols(query: string): Promise<Attachment[]> {
  const symbols = await commands.executeCommand<SymbolInformation[] | undefined>(
    "vscode.executeWorkspaceSymbolProvider",
    query,
  );
  return (symbols ?? [])
    .filter((symbol) => symbol.location.uri.scheme === "file")
    .slice(0, 12)
    .map(({ name, location }) => ({
      kind: "symbol" as const,
      label: name,
      detail: getRelativeName(location.uri) + formatLineRange(toRange(location.range)),
      block: { type: "reference" as const, uri: location.uri.toString(), range: toRange(location.range) },
    }));
}
