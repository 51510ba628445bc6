// Answers `agent/languageQuery` with the editor's language providers. They load documents that are not open.

import {
  type CallHierarchyIncomingCall,
  type CallHierarchyItem,
  type CallHierarchyOutgoingCall,
  type CodeAction,
  CodeActionKind,
  commands,
  type DocumentSymbol,
  type Hover,
  type Location,
  type LocationLink,
  Position,
  type SymbolInformation,
  type TextEdit,
  Uri,
  type WorkspaceEdit,
  workspace,
} from "vscode";
import { type FreshDiagnostics, isInTab } from "./freshDiagnostics";
import { toRange } from "./mentions";
import type {
  DocumentEdits,
  DocumentLocation,
  LanguageQueryParams,
  LanguageQueryResult,
  LanguageSymbol,
  QuickFix,
} from "./protocol";
import { isTypeScript, withTypeScriptErrors } from "./typeScriptErrors";

const COMMANDS: Readonly<Record<string, string>> = {
  definition: "vscode.executeDefinitionProvider",
  implementation: "vscode.executeImplementationProvider",
  typeDefinition: "vscode.executeTypeDefinitionProvider",
  references: "vscode.executeReferenceProvider",
  hover: "vscode.executeHoverProvider",
};

/** How long an extension has to start when the first document of its language opens. The agent waits for 5 s. */
const START_MS = 3000;
/** How long compilers have to report the problems that quick fixes are for. */
const REPORT_MS = 1000;

export async function answerLanguageQuery(
  params: LanguageQueryParams,
  freshDiagnostics: FreshDiagnostics,
): Promise<LanguageQueryResult> {
  const { kind, position, limit } = params;
  if (kind === "workspaceSymbols") {
    const found = await commands.executeCommand<SymbolInformation[]>(
      "vscode.executeWorkspaceSymbolProvider",
      params.query ?? "",
    );
    return { symbols: (found ?? []).slice(0, limit).map(fromSymbolInformation) };
  }
  const uri = Uri.parse(params.uri ?? "", true);
  if (kind === "format" || kind === "quickFixes") {
    const document = await workspace.openTextDocument(uri);
    // Formatters and linters need not know symbols.
    await openWithLanguageSupport(uri).catch(() => undefined);
    const { version } = document;
    const result =
      kind === "format"
        ? { edits: await findFormatEdits(uri) }
        : { fixes: await findQuickFixes(uri, position?.line ?? 0, limit, freshDiagnostics) };
    if (document.version !== version) throw new Error("the document changed meanwhile; try again");
    return result;
  }
  const found = await openWithLanguageSupport(uri);
  if (kind === "documentSymbols") {
    return { symbols: found.flatMap((symbol) => flattenSymbol(symbol, uri)).slice(0, limit) };
  }
  if (kind === "rename" && position !== undefined) {
    const at = new Position(position.line, position.character);
    const edit = await commands.executeCommand<WorkspaceEdit | undefined>(
      "vscode.executeDocumentRenameProvider",
      uri,
      at,
      params.query ?? "",
    );
    const edits = edit === undefined ? [] : readTextEdits(edit);
    if (edits === undefined) throw new Error("the rename would also create, rename, or delete files");
    return { edits };
  }
  if ((kind === "incomingCalls" || kind === "outgoingCalls") && position !== undefined) {
    return { locations: (await findCalls(kind, uri, position)).slice(0, limit) };
  }
  const command = COMMANDS[kind];
  if (command === undefined || position === undefined) throw new Error(`the editor does not answer \`${kind}\``);
  const at = new Position(position.line, position.character);
  if (kind === "hover") {
    const hovers = await commands.executeCommand<Hover[] | undefined>(command, uri, at);
    const parts = (hovers ?? []).flatMap(({ contents }) => contents);
    return { text: parts.map((part) => (typeof part === "string" ? part : part.value)).join("\n\n") };
  }
  const locations = await commands.executeCommand<(Location | LocationLink)[]>(command, uri, at);
  return { locations: (locations ?? []).slice(0, limit).map(fromLocation) };
}

async function findFormatEdits(uri: Uri): Promise<DocumentEdits[]> {
  const edits = await commands.executeCommand<TextEdit[] | undefined>("vscode.executeFormatDocumentProvider", uri);
  return edits === undefined ? [] : [fromTextEdits(uri, edits)];
}

/** Returns the quick fixes for the problems in a line that consist of edits alone. */
async function findQuickFixes(
  uri: Uri,
  line: number,
  limit: number,
  freshDiagnostics: FreshDiagnostics,
): Promise<QuickFix[]> {
  const document = await workspace.openTextDocument(uri);
  const { range } = document.lineAt(line);
  await freshDiagnostics.waitForReports([uri.toString()], REPORT_MS);
  const find = async () =>
    await commands.executeCommand<CodeAction[]>(
      "vscode.executeCodeActionProvider",
      uri,
      range,
      CodeActionKind.QuickFix.value,
      limit,
    );
  const actions = isTypeScript(document) && !isInTab(uri) ? await withTypeScriptErrors(uri, find) : await find();
  return actions.flatMap(({ title, edit, isPreferred, disabled }) => {
    const edits = edit === undefined || disabled ? undefined : readTextEdits(edit);
    return edits?.length ? [{ title, isPreferred: isPreferred === true, edits }] : [];
  });
}

/** Returns the edits by document; `undefined` if there are others than of texts, such as a new file. */
function readTextEdits(edit: WorkspaceEdit): DocumentEdits[] | undefined {
  const documents = edit.entries().map(([uri, edits]) => fromTextEdits(uri, edits));
  // The public interface hides the others.
  const all = (edit as { _allEntries?: () => unknown[] })._allEntries?.();
  const count = documents.reduce((sum, { edits }) => sum + edits.length, 0);
  return all !== undefined && all.length > count ? undefined : documents;
}

function fromTextEdits(uri: Uri, edits: TextEdit[]): DocumentEdits {
  return { uri: uri.toString(), edits: edits.map(({ range, newText }) => ({ range: toRange(range), newText })) };
}

async function findCalls(
  kind: "incomingCalls" | "outgoingCalls",
  uri: Uri,
  position: { line: number; character: number },
): Promise<DocumentLocation[]> {
  const at = new Position(position.line, position.character);
  const items = await commands.executeCommand<CallHierarchyItem[] | undefined>("vscode.prepareCallHierarchy", uri, at);
  if (!items?.length) throw new Error("the language support of the editor knows no calls there");
  const found = items.map(async (item) => {
    if (kind === "incomingCalls") {
      const calls = await commands.executeCommand<CallHierarchyIncomingCall[]>("vscode.provideIncomingCalls", item);
      return calls.flatMap(({ from, fromRanges }) =>
        fromRanges.map((range) => ({ uri: from.uri.toString(), range: toRange(range) })),
      );
    }
    const calls = await commands.executeCommand<CallHierarchyOutgoingCall[]>("vscode.provideOutgoingCalls", item);
    return calls.map(({ to }) => ({ uri: to.uri.toString(), range: toRange(to.selectionRange) }));
  });
  return (await Promise.all(found)).flat();
}

type DocumentSymbols = (SymbolInformation & DocumentSymbol)[];

/** Opens a document in the background, and returns its symbols once its language support runs. */
async function openWithLanguageSupport(uri: Uri): Promise<DocumentSymbols> {
  const { languageId } = await workspace.openTextDocument(uri);
  const deadline = Date.now() + START_MS;
  for (;;) {
    // The editor gives each symbol as an object of both types. Without a provider it gives no list.
    const symbols = await commands.executeCommand<DocumentSymbols | undefined>(
      "vscode.executeDocumentSymbolProvider",
      uri,
    );
    if (symbols !== undefined) return symbols;
    if (Date.now() > deadline) {
      throw new Error(`no language support of the editor answers for ${languageId} files`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function fromLocation(location: Location | LocationLink): DocumentLocation {
  return "targetUri" in location
    ? {
        uri: location.targetUri.toString(),
        range: toRange(location.targetSelectionRange ?? location.targetRange),
      }
    : { uri: location.uri.toString(), range: toRange(location.range) };
}

function fromSymbolInformation(symbol: SymbolInformation): LanguageSymbol {
  return {
    name: symbol.name,
    // LSP's numbers begin with 1.
    kind: symbol.kind + 1,
    uri: symbol.location.uri.toString(),
    range: toRange(symbol.location.range),
    ...(symbol.containerName ? { containerName: symbol.containerName } : {}),
  };
}

function flattenSymbol(symbol: SymbolInformation & DocumentSymbol, uri: Uri, container?: string): LanguageSymbol[] {
  const containerName = container ?? (symbol.containerName || undefined);
  const flat: LanguageSymbol = {
    name: symbol.name,
    kind: symbol.kind + 1,
    uri: uri.toString(),
    range: toRange(symbol.range ?? symbol.location.range),
    ...(symbol.selectionRange === undefined ? {} : { selectionRange: toRange(symbol.selectionRange) }),
    ...(containerName === undefined ? {} : { containerName }),
  };
  const children = (symbol.children ?? []) as DocumentSymbols;
  return [flat, ...children.flatMap((child) => flattenSymbol(child, uri, symbol.name))];
}
