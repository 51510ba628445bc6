// Takes a session over from another window: the server that has it is ended, after a question. The protocol has no other
// way to make a server let go of a session.

import { setTimeout as sleep } from "node:timers/promises";
import { window } from "vscode";
import type { Chat } from "./chat";
import { notificationText } from "./format";

/** A server that does not end within this time hangs, and is killed. */
const END_MS = 3000;
const LOOK_MS = 50;

export async function takeOver(chat: Chat): Promise<void> {
  const { locked } = chat.view;
  if (locked?.pid === undefined) return;
  const { pid, holder, sessionId } = locked;
  const question = `Take the session over from ${notificationText(holder)}?`;
  const detail =
    "Its server is ended, which interrupts the turns that run there. That window starts another server, and can only read this session as long as it is open here.";
  const action = "Take Over";
  if ((await window.showWarningMessage(question, { modal: true, detail }, action)) !== action) return;
  // Meanwhile it may have been closed there, and the process may be another one.
  await chat.open(sessionId);
  if (chat.view.locked?.pid !== pid) return;
  await end(pid);
  await chat.open(sessionId);
}

async function end(pid: number): Promise<void> {
  if (!signal(pid, "SIGTERM")) return;
  for (let waited = 0; waited < END_MS; waited += LOOK_MS) {
    await sleep(LOOK_MS);
    if (!signal(pid, 0)) return;
  }
  signal(pid, "SIGKILL");
}

/** Whether there is such a process that may be told. */
function signal(pid: number, which: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, which);
  } catch {
    return false;
  }
}
