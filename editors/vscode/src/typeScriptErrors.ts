// Asks the editor's TypeScript for the errors of documents.
//
// The editor's own reports do not suffice: TypeScript checks only documents in tabs unless it is asked, and reports
// nothing if a change brings no other errors, so that one would wait in vain.

import {
  commands,
  DiagnosticSeverity,
  Diagnostic as EditorDiagnostic,
  extensions,
  languages,
  Range,
  type TextDocument,
  type Uri,
  workspace,
} from "vscode";
import type { Diagnostic } from "./protocol";

/** The errors of each document, by its URI. */
export type TypeScriptErrors = ReadonlyMap<string, Diagnostic[]>;

const EXTENSION = "vscode.typescript-language-features";
const LANGUAGES = ["typescript", "typescriptreact", "javascript", "javascriptreact"];
/** Most other documents that are asked about. */
const MAX_OTHERS = 20;

/** The part of tsserver's answer that is used. Lines and offsets begin with 1. */
interface ServerAnswer {
  readonly body?: readonly ServerError[];
}

interface ServerError {
  readonly start: { readonly line: number; readonly offset: number };
  readonly end: { readonly line: number; readonly offset: number };
  readonly text: string;
  readonly code: number;
  readonly category: string;
}

export function isTypeScript({ languageId }: TextDocument): boolean {
  return LANGUAGES.includes(languageId);
}

export function isTypeScriptError({ severity, source }: EditorDiagnostic): boolean {
  return severity === DiagnosticSeverity.Error && (source === "ts" || source === "js");
}

/**
 * Adds the errors of the documents to `errors`, and those of other loaded documents, which the documents may break. Omits
 * what fails.
 */
export async function readTypeScriptErrors(
  documents: readonly TextDocument[],
  errors: Map<string, Diagnostic[]>,
): Promise<void> {
  const others = workspace.textDocuments.filter(
    (document) => isTypeScript(document) && document.uri.scheme === "file" && !documents.includes(document),
  );
  const all = [...documents, ...others.slice(0, MAX_OTHERS)].filter(isValidated);
  const extension = extensions.getExtension(EXTENSION);
  if (all.length === 0 || extension === undefined) return;
  await extension.activate();
  await Promise.all(
    all.map(async ({ uri }) => {
      const found = await readErrors(uri);
      if (found !== undefined) errors.set(uri.toString(), found);
    }),
  );
}

/** Whether the user's settings let TypeScript report errors. */
function isValidated({ languageId, uri }: TextDocument): boolean {
  const section = languageId.startsWith("java") ? "javascript" : "typescript";
  return workspace.getConfiguration(section, uri).get("validate.enable", true);
}

/** Runs `work` while the editor knows the errors of a document in no tab, which TypeScript does not report. */
export async function withTypeScriptErrors<T>(uri: Uri, work: () => Promise<T>): Promise<T> {
  const shown = languages.createDiagnosticCollection("agentls");
  const errors = (await askForErrors(uri)) ?? [];
  const toDiagnostic = ({ start, end, text, code }: ServerError) => {
    const range = new Range(start.line - 1, start.offset - 1, end.line - 1, end.offset - 1);
    return Object.assign(new EditorDiagnostic(range, text), { code, source: "ts" });
  };
  try {
    shown.set(uri, errors.map(toDiagnostic));
    return await work();
  } finally {
    shown.dispose();
  }
}

async function readErrors(uri: Uri): Promise<Diagnostic[] | undefined> {
  const toPosition = (at: { line: number; offset: number }) => ({ line: at.line - 1, character: at.offset - 1 });
  return (await askForErrors(uri))?.map(({ start, end, text }) => ({
    uri: uri.toString(),
    range: { start: toPosition(start), end: toPosition(end) },
    severity: "error",
    message: text,
    source: "ts",
  }));
}

async function askForErrors(uri: Uri): Promise<ServerError[] | undefined> {
  const ask = (command: string) =>
    commands.executeCommand<ServerAnswer>("typescript.tsserverRequest", command, { file: uri });
  try {
    const answers = await Promise.all([ask("syntacticDiagnosticsSync"), ask("semanticDiagnosticsSync")]);
    if (answers.some((answer) => answer?.body === undefined)) return undefined;
    return answers.flatMap(({ body }) => body ?? []).filter(({ category }) => category === "error");
  } catch {
    // This version does not answer, or TypeScript does not know the document.
    return undefined;
  }
}
