// Parses the server's warnings: where a problem is, and what it says in the words of this editor. Pure.

import type { ConfigProblem, ServerWarning } from "./protocol";
import type { ProblemList, ServerProblem } from "./webviewProtocol";

/** `FILE[:LINE:COLUMN]: SEVERITY: TEXT`, as the server formats a problem of the configuration on one line. */
const CONFIG_PROBLEM = /^(.+?)(?::(\d+):(\d+))?: (error|warning): (.*)$/s;
/** The server lists at most 20 problems, and counts the others. */
const MORE_PROBLEMS = /^and (\d+) more\b/;
/** How to trust a folder in all clients. */
const TRUST_HINT = /`\/trust` in `agentls chat`, `:AgentTrust` in Neovim, or `Agent: Trust Folder…` in VS Code/g;
/** The suggestion for a misspelled setting. */
const SUGGESTION = /([^\s.:]+): [^:]*\(did you mean `([\w.-]+)`\?\)$/;

export function parseWarnings(warnings: readonly ServerWarning[]): ProblemList {
  let unlisted = 0;
  const problems: ServerProblem[] = [];
  for (const { code, message } of warnings) {
    const more = code === "config" ? MORE_PROBLEMS.exec(message)?.[1] : undefined;
    if (more === undefined) problems.push(parseProblem(message));
    else unlisted += Number(more);
  }
  return { problems, unlisted };
}

/** Converts the full list, which a reload of the configuration returns. */
export function toProblem({ file, line, severity, message }: ConfigProblem): ServerProblem {
  return {
    message: adaptText(message),
    place: { file, line: line ?? 0, column: 0 },
    severity: severity === "error" ? "error" : "warning",
  };
}

function parseProblem(message: string): ServerProblem {
  const [, file, line = "0", column = "0", severity, text] = CONFIG_PROBLEM.exec(message) ?? [];
  if (file === undefined || text === undefined) return { message: adaptText(message), severity: "warning" };
  return {
    message: adaptText(text),
    place: { file, line: Number(line), column: Number(column) },
    severity: severity === "error" ? "error" : "warning",
  };
}

/** Replaces what only another client has. */
export function adaptText(text: string): string {
  return text.replace(TRUST_HINT, "“Agent: Trust Folder…”");
}

/** Whether the problem ends when the user trusts the folder. */
export function isFixedByTrust(message: string): boolean {
  return message.includes("Agent: Trust Folder…");
}

/** Returns the misspelled word and the right one. */
export function parseSuggestion(message: string): { wrong: string; right: string } | undefined {
  const [, wrong, right] = SUGGESTION.exec(message) ?? [];
  return wrong === undefined || right === undefined ? undefined : { wrong, right };
}

/** Describes the list in one line. */
export function describeProblems({ problems, unlisted }: ProblemList): string {
  const count = problems.length + unlisted;
  const [only] = problems;
  if (count === 1 && only && only.place === undefined) return only.message;
  const isConfiguration = unlisted > 0 || problems.every(({ place }) => place !== undefined);
  const noun = isConfiguration ? "problem" : "warning";
  return `${count} ${noun}${count === 1 ? "" : "s"}${isConfiguration ? " in the configuration" : ""}`;
}
