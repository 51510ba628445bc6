// Reads the errors of requests: why the server refused, who holds a session, and what the user can do.

import type { ErrorData } from "./protocol";
import type { LockedSession } from "./webviewProtocol";

/** LSP's error code for a canceled request. */
export const CANCELLED = -32800;

/** Whether the connection was lost before the response. vscode-jsonrpc uses the codes -32099 to -32096. */
export function isConnectionLost(error: unknown): boolean {
  const number = getErrorCode(error) ?? 0;
  return number >= -32099 && number <= -32096;
}

export function getErrorCode(error: unknown): number | undefined {
  return (error as { code?: number } | undefined)?.code;
}

function getErrorData(error: unknown): Partial<ErrorData> {
  return (error as { data?: Partial<ErrorData> } | undefined)?.data ?? {};
}

/** The holder as the server names it. `pid` is set only if the name contains it. */
export type SessionHolder = Pick<LockedSession, "holder" | "pid">;

export function parseHolder(error: unknown): SessionHolder {
  const holder = getErrorData(error).holder ?? "another window";
  const pid = /\(process (\d+)\)$/.exec(holder)?.[1];
  return { holder, pid: pid === undefined ? undefined : Number(pid) };
}

export function getRefusal(error: unknown): string {
  return getErrorData(error).refusal ?? "";
}

/** Combines the message, the cause, and the suggested action. */
export function describeError(error: unknown): string {
  const { message, cause, userAction } = getErrorData(error);
  const text = message ?? (error instanceof Error ? error.message : String(error));
  return [cause === undefined ? text : `${text}: ${cause}`, userAction].filter((part) => part !== undefined).join("\n");
}
