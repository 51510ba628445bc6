// Takes a session over from another window: the server that has it is ended, after a question. The protocol has no other
// way to make a server let go of a session.

import { setTimeout as sleep } from "node:timers/promises";
import { window } from "vscode";
import type { Chat } from "./chat";
import { escapeNotification } from "./format";

/** A server that does not end within this time hangs, and is killed. */
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
  // Meanwhile it may have been closed there, and the process may be another one.
  await chat.openSession(sessionId);
  if (chat.view.locked?.pid !== pid) return;
  await endProcess(pid);
  await chat.openSession(sessionId);
}

async function endProcess(pid: number): Promise<void> {
  if (!signalProcess(pid, "SIGTERM")) return;
  for (let waited = 0; waited < EXIT_TIMEOUT_MS; waited += POLL_INTERVAL_MS) {
    await sleep(POLL_INTERVAL_MS);
    if (!signalProcess(pid, 0)) return;
  }
  signalProcess(pid, "SIGKILL");
}

/** Whether there is such a process that may be told. */
function signalProcess(pid: number, which: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, which);
  } catch {
    return false;
  }
}
