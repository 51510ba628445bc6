// Takes a session over from another window by ending its server, after confirmation. The protocol has no other way to
// release a session.

import { setTimeout as sleep } from "node:timers/promises";
import { window } from "vscode";
import type { Chat } from "./chat";
import { escapeNotification } from "./format";

/** A server that does not exit within this time is killed. */
const EXIT_TIMEOUT_MS = 3000;
const POLL_INTERVAL_MS = 50;

export async function takeOverSession(chat: Chat): Promise<void> {
  const { locked } = chat.view;
  if (locked?.pid === undefined) return;
  const { pid, holder, sessionId } = locked;
  const question = `Take over the session from ${escapeNotification(holder)}?`;
  const detail =
    "This stops the other window's server and interrupts its running turns. That window starts a new server and can only read this session while it is open here.";
  const action = "Take Over";
  if ((await window.showWarningMessage(question, { modal: true, detail }, action)) !== action) return;
  // The session may have been closed in the meantime, and the pid may have been reused.
  await chat.openSession(sessionId);
  if (chat.view.locked?.pid !== pid) return;
  await endProcess(pid);
  await chat.openSession(sessionId);
}

async function endProcess(pid: number): Promise<void> {
  if (!signalProcess(pid, "SIGTERM")) return;
  for (let waitedMs = 0; waitedMs < EXIT_TIMEOUT_MS; waitedMs += POLL_INTERVAL_MS) {
    await sleep(POLL_INTERVAL_MS);
    if (!signalProcess(pid, 0)) return;
  }
  signalProcess(pid, "SIGKILL");
}

/** Returns whether the process exists and can be signaled. */
function signalProcess(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
