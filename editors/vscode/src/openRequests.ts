// Owns the list of open questions of all sessions. The note about other sessions, the badge, the status bar, and the
// session list count from this list, so that they cannot disagree.

import type { KeyValueStore, ServerApi } from "./chat";
import type { ListApprovalsResult } from "./protocol";
import { type ChatState, listOpenInquiries } from "./state";
import type { ViewState } from "./webviewProtocol";

/** Sessions of this window that wait for an answer, for after a reload. */
const WAITING_SESSIONS_KEY = "waiting";

type RequestCounts = Pick<ViewState, "pendingElsewhere" | "openRequestCount" | "waitingSessions">;

export class OpenRequests {
  /** The session of each open question, as the server listed them. */
  #listed: readonly string[] = [];
  #lastRefresh = 0;
  /** The session of each open question. */
  #open: readonly string[] = [];
  /** Sessions of this window, and those that waited for an answer before it was reloaded. */
  readonly #windowSessions = new Set<string>();

  constructor(readonly memory: KeyValueStore) {}

  /** Reads which sessions waited before the window was reloaded. */
  restoreWindowSessions(): void {
    const ids = JSON.parse(this.memory.get(WAITING_SESSIONS_KEY) ?? "[]") as string[];
    for (const id of ids) this.#windowSessions.add(id);
  }

  addWindowSession(sessionId: string): void {
    this.#windowSessions.add(sessionId);
  }

  /** Asks the server for the questions of sessions that are not in memory. */
  async refresh(api: ServerApi): Promise<void> {
    const refresh = ++this.#lastRefresh;
    const answer = await api.request("agent/listApprovals", {}).catch(() => undefined);
    if (answer && refresh === this.#lastRefresh) this.#listed = listSessions(answer);
  }

  /**
   * Counts what the view shows. Sessions in memory receive events, so what the server listed about them may be older.
   * Sessions of earlier windows wait in the session list, without a note. A locked session is answered elsewhere.
   */
  count(
    sessions: ReadonlyMap<string, ChatState>,
    shownId: string | undefined,
    lockedId: string | undefined,
  ): RequestCounts {
    const inMemory = [...sessions.values()].flatMap((state) => listOpenInquiries(state).map(() => state.sessionId));
    const open = [...inMemory, ...this.#listed.filter((id) => !sessions.has(id))].filter((id) => id !== lockedId);
    if (open.join() !== this.#open.join()) this.#remember(open);
    this.#open = open;
    const counted = open.filter((id) => id === shownId || this.#windowSessions.has(id));
    return {
      pendingElsewhere: counted.filter((id) => id !== shownId).length,
      openRequestCount: counted.length,
      waitingSessions: [...new Set(open)],
    };
  }

  /** Returns the first session of this window that waits for an answer and is not shown. */
  findElsewhere(shownId: string | undefined): string | undefined {
    return this.#open.find((id) => id !== shownId && this.#windowSessions.has(id));
  }

  #remember(open: readonly string[]): void {
    const waiting = [...new Set(open)].filter((id) => this.#windowSessions.has(id));
    this.memory.set(WAITING_SESSIONS_KEY, waiting.length === 0 ? undefined : JSON.stringify(waiting));
  }
}

function listSessions({ approvals, limits = [], questions = [] }: ListApprovalsResult): string[] {
  return [...approvals, ...limits, ...questions].map(({ sessionId }) => sessionId);
}
