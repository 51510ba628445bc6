// What `@` and the editor's selection can attach to a prompt: files, symbols, the selection, problems.

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
import type { Chat } from "./chat";
import { excludeGlob, excludePatterns, ignorePatterns, searchGlobs } from "./fileSearch";
import type { Range, Severity } from "./protocol";
import { fileOf } from "./review";
import { type Attachment, lineRange, type Near, type Suggestion } from "./webviewProtocol";

const MOST = 30;

/** What fits `query`, the best first. */
export async function suggest(query: string): Promise<Attachment[]> {
  const wanted = query.toLowerCase();
  const near = [...selection(), ...problems()].filter((one) => matches(`${one.kind} ${one.label}`, wanted));
  const [files, symbols] = await Promise.all([findFiles(wanted), wanted.length < 2 ? [] : findSymbols(query)]);
  return [...near, ...files, ...symbols].slice(0, MOST);
}

/** The slash commands whose names begin with `query`, and then those that hold it. */
export async function suggestCommands(chat: Chat, query: string): Promise<Suggestion[]> {
  if (!chat.view.offers.commands) return [];
  const sessionId = chat.shown?.sessionId;
  const answer = await chat.request("agent/listCommands", sessionId === undefined ? {} : { sessionId });
  const wanted = query.toLowerCase();
  const fit = (answer?.commands ?? []).filter(({ name }) => name.toLowerCase().includes(wanted));
  const first = (name: string) => (name.toLowerCase().startsWith(wanted) ? 0 : 1);
  return fit
    .sort((a, b) => first(a.name) - first(b.name))
    .slice(0, MOST)
    .map(({ name, description, argumentHint, problem, trusted }) => ({
      kind: "command",
      label: `/${name}`,
      detail:
        problem === undefined
          ? [argumentHint, description, trusted ? undefined : "of a folder that is not trusted"]
              .filter((part) => part !== undefined)
              .join(" · ")
          : `cannot be used: ${problem}`,
    }));
}

/** The selection, or the file, of the editor that was used last. */
export function nearby(editor: TextEditor | undefined): Near | undefined {
  if (editor?.document.uri.scheme !== "file") return undefined;
  const [selected] = selection(editor);
  if (selected) return { label: selected.label, block: selected.block };
  const { label, block } = file(editor.document.uri);
  return { label, block };
}

/** The folder of the file in the editor, where the workspace has several. */
export function currentFolder(): string | undefined {
  const folders = workspace.workspaceFolders ?? [];
  const file = (window.activeTextEditor ?? window.visibleTextEditors[0])?.document.uri;
  if (folders.length < 2 || file === undefined) return undefined;
  return workspace.getWorkspaceFolder(file)?.uri.toString();
}

/** The selected part of an editor. */
export function selection(editor = window.activeTextEditor): Attachment[] {
  if (editor === undefined || editor.selection.isEmpty || editor.document.uri.scheme !== "file") return [];
  const { document } = editor;
  const range = plain(editor.selection);
  const uri = document.uri.toString();
  return [
    {
      kind: "selection",
      label: nameOf(document.uri) + lineRange(range),
      detail: "selection",
      block: { type: "selection", uri, range, text: document.getText(editor.selection) },
    },
  ];
}

/** A diagnostic as a part of a prompt. */
export function problem(uri: Uri, diagnostic: Diagnostic): Attachment {
  const range = plain(diagnostic.range);
  const { message, source } = diagnostic;
  return {
    kind: "diagnostic",
    label: `${nameOf(uri)}${lineRange(range)} ${message.split("\n", 1)[0]?.slice(0, 60)}`,
    detail: source ?? "problem",
    block: {
      type: "diagnostic",
      uri: uri.toString(),
      range,
      message,
      severity: severity(diagnostic.severity),
      ...(source === undefined ? {} : { source }),
    },
  };
}

export function severity(of: DiagnosticSeverity): Severity {
  switch (of) {
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

export function plain({ start, end }: EditorRange): Range {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}

/** Files that were dropped on the chat. */
export function attachFiles(uris: readonly string[]): Attachment[] {
  return uris.map((uri) => file(Uri.file(Uri.parse(uri).fsPath)));
}

/** What a prompt pointed at, as people write it (`src/a.ts:3-9`), to be attached again. */
export function attachReference(reference: string, cwd: string): Attachment {
  const [, path = reference, first, last] = /^(.*?)(?::(\d+)(?:-(\d+))?)?$/.exec(reference) ?? [];
  const uri = fileOf(path, cwd).toString();
  if (first === undefined) return { kind: "file", label: reference, block: { type: "reference", uri } };
  const range = {
    start: { line: Number(first) - 1, character: 0 },
    end: { line: Number(last ?? first), character: 0 },
  };
  return { kind: "file", label: reference, block: { type: "reference", uri, range } };
}

function file(uri: Uri): Attachment {
  return { kind: "file", label: nameOf(uri), detail: "file", block: { type: "reference", uri: uri.toString() } };
}

function nameOf(uri: Uri): string {
  return workspace.asRelativePath(uri);
}

function problems(): Attachment[] {
  const uri = window.activeTextEditor?.document.uri;
  if (uri?.scheme !== "file") return [];
  return languages
    .getDiagnostics(uri)
    .filter((one) => one.severity <= DiagnosticSeverity.Warning)
    .slice(0, 10)
    .map((one) => problem(uri, one));
}

/** So many files of one search are ranked. */
const RANKED = 2000;
/** What is left out is read anew after this time. */
const EXCLUDES_MS = 30_000;

let excluded: { glob: Promise<string>; at: number } | undefined;
let searching: CancellationTokenSource | undefined;

/** What the editor's search leaves out, and git. */
async function readExcluded(): Promise<string> {
  const settings = ["files", "search"].flatMap((section) =>
    excludePatterns(workspace.getConfiguration(section).get<Record<string, unknown>>("exclude")),
  );
  const found = await workspace.findFiles("**/.gitignore", excludeGlob(settings), 200);
  const ignored = await Promise.all(
    found.map(async (uri) => {
      const folder = workspace.asRelativePath(uri, false).replace(/[^/]*$/, "");
      return ignorePatterns(Buffer.from(await workspace.fs.readFile(uri)).toString(), folder);
    }),
  );
  return excludeGlob([...settings, ...ignored.flat()]);
}

/** Open files and those of the workspace that fit, the best first. Each look is narrower than all files. */
async function findFiles(wanted: string): Promise<Attachment[]> {
  searching?.cancel();
  const now = new CancellationTokenSource();
  searching = now;
  if (excluded === undefined || Date.now() - excluded.at > EXCLUDES_MS) {
    excluded = { glob: readExcluded(), at: Date.now() };
  }
  const glob = await excluded.glob.catch(() => excludeGlob([]));
  const tabs = window.tabGroups.all.flatMap((group) => group.tabs.map((tab) => tab.input));
  const open = tabs.filter((input) => input instanceof TabInputText).map((input) => input.uri);
  const all = new Map(open.map((uri) => [uri.toString(), uri]));
  for (const look of searchGlobs(wanted)) {
    const fitting = [...all.values()].filter((uri) => uri.scheme === "file" && score(nameOf(uri), wanted) > 0);
    if (fitting.length >= MOST || now.token.isCancellationRequested) break;
    for (const uri of await workspace.findFiles(look, glob, RANKED, now.token)) all.set(uri.toString(), uri);
  }
  return [...all.values()]
    .filter((uri) => uri.scheme === "file")
    .map((uri) => ({ uri, points: score(nameOf(uri), wanted) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, MOST)
    .map(({ uri }) => file(uri));
}

/** 0 does not fit; a name that begins so is best, a short path better than a long one. */
function score(where: string, wanted: string): number {
  const path = where.toLowerCase();
  if (wanted === "") return 1 / (1 + path.split("/").length);
  const name = path.slice(path.lastIndexOf("/") + 1);
  // A file near the top before one deep down, and then a short path before a long one.
  const length = 1 / (1 + path.split("/").length + path.length / 1000);
  if (name.startsWith(wanted)) return 4 + length;
  if (name.includes(wanted)) return 3 + length;
  if (path.includes(wanted)) return 2 + length;
  return matches(path, wanted) ? 1 + length : 0;
}

/** Whether `text` holds the letters of `wanted` in their order. */
function matches(text: string, wanted: string): boolean {
  let at = 0;
  const lower = text.toLowerCase();
  for (const letter of wanted) {
    at = lower.indexOf(letter, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

async function findSymbols(query: string): Promise<Attachment[]> {
  const found = await commands.executeCommand<SymbolInformation[] | undefined>(
    "vscode.executeWorkspaceSymbolProvider",
    query,
  );
  return (found ?? [])
    .filter((symbol) => symbol.location.uri.scheme === "file")
    .slice(0, 12)
    .map(({ name, location }) => ({
      kind: "symbol" as const,
      label: name,
      detail: nameOf(location.uri) + lineRange(plain(location.range)),
      block: { type: "reference" as const, uri: location.uri.toString(), range: plain(location.range) },
    }));
}
