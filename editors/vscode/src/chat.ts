// Owns the view state: sessions, prompts, cancellation, and decisions. It knows the protocol, but neither VS Code nor
// the webview, so unit tests run it against a fake server.
//
// Sessions that this window opened stay in memory and keep receiving events while another session is shown.

import { fileURLToPath } from "node:url";
import { describeAnswer } from "./answerText";
import { NO_CAPABILITIES, readCapabilities } from "./capabilities";
import { OpenRequests } from "./openRequests";
import { parseWarnings, toProblem } from "./problemText";
import {
  type ApprovalRequestedNotification,
  type ConfigProblem,
  type Decision,
  type Effort,
  type ListSessionsResult,
  type LoadSessionParams,
  type LoadSessionResult,
  type Mode,
  type NewSessionParams,
  type PromptBlock,
  type PromptContent,
  type RequestTypes,
  requests,
  type ServerCapability,
  type StatusNotification,
} from "./protocol";
import { type Draft, findLastUserId, hasTakenPrompt, joinDrafts, SentPrompts } from "./sentPrompts";
import {
  CANCELLED,
  describeError,
  getErrorCode,
  getRefusal,
  isConnectionLost,
  parseHolder,
  type SessionHolder,
} from "./serverErrors";
import {
  type AgentEvent,
  type ChatState,
  createChatState,
  listOpenInquiries,
  reduceEvent,
  type ToolItem,
  updateItem,
} from "./state";
import { loadPage, prependPage } from "./state/pages";
import {
  type ActiveContext,
  type Attachment,
  NO_PROBLEMS,
  type ProblemList,
  type SessionChoice,
  type ViewState,
} from "./webviewProtocol";

/** The part of a connection that the chat uses. A canceled request rejects. */
export interface ServerApi {
  /** Process id of the server. */
  readonly serverPid: number | undefined;
  request<M extends keyof RequestTypes>(
    method: M,
    params: RequestTypes[M]["params"],
    signal?: AbortSignal,
  ): Promise<RequestTypes[M]["result"]>;
  /** Sends a request that `RequestTypes` does not list. */
  sendRequest(method: string, params: unknown, signal?: AbortSignal): Promise<unknown>;
  sendNotification(method: string, params: unknown): void;
}

/** Storage that survives a window reload. */
export interface KeyValueStore {
  get(key: string): string | undefined;
  set(key: string, value: string | undefined): void;
}

export interface ChatListener {
  onViewChanged(): void;
  /** Runs after an event is applied to its session, shown or not. */
  onEvent(event: AgentEvent, before: ChatState, after: ChatState): void;
  /** Puts a draft back into the input of its session; without an id, of the session that the next prompt creates. */
  restoreDraft(sessionId: string | undefined, draft: Draft): void;
  /** Returns the configured mode for new sessions, if there is one. */
  getDefaultMode(): Mode | undefined;
  /** Returns the folder URI for a new session, or nothing if the workspace offers no choice. */
  getSessionFolder(): string | undefined;
  /** The user stopped a turn. A server that does not respond must be killed. */
  onTurnStopped(): void;
}

/** Maximum number of sessions in memory that are neither shown nor running. */
const MAX_CACHED_SESSIONS = 8;
const PAGE_SIZE = 40;

export class Chat {
  view: ViewState = {
    connection: { state: "starting" },
    capabilities: NO_CAPABILITIES,
    isLoading: false,
    nextSession: {},
    lastChoice: {},
    pendingElsewhere: 0,
    openRequestCount: 0,
    waitingSessions: [],
    reviews: {},
    warnings: NO_PROBLEMS,
    areWarningsDismissed: false,
    isSending: false,
    isStopping: false,
  };
  serverStatus: StatusNotification | undefined;

  #api: ServerApi | undefined;
  #sessions = new Map<string, ChatState>();
  /** The pending prompt or resume request of each session. */
  #runningRequests = new Map<string, AbortController>();
  readonly #sentPrompts: SentPrompts;
  /** The last prompt of each session, for a retry. */
  readonly #lastDrafts = new Map<string, Draft>();
  /** Set while the first prompt creates its session. */
  #sessionCreation: AbortController | undefined;
  readonly #openRequests: OpenRequests;
  /** Called after the next change of the view. */
  #changeWaiters: (() => void)[] = [];
  #listCursor: string | undefined;
  #listQueryId = 0;

  constructor(
    readonly memory: KeyValueStore,
    readonly listener: ChatListener,
  ) {
    this.#openRequests = new OpenRequests(memory);
    this.#sentPrompts = new SentPrompts(memory);
    this.view.openingSession = memory.get("session");
  }

  get activeSession(): ChatState | undefined {
    return this.view.chat;
  }

  /** Falls back to the session from before the window reload. */
  get sessionId(): string | undefined {
    return this.view.chat?.sessionId ?? this.memory.get("session");
  }

  setActiveContext(activeContext: ActiveContext | undefined): void {
    const toKey = ({ label, block }: ActiveContext) =>
      JSON.stringify([label, block.type, "range" in block ? block.range : ""]);
    const previous = this.view.activeContext;
    if ((activeContext && toKey(activeContext)) !== (previous && toKey(previous))) this.updateView({ activeContext });
  }

  updateView(change: Partial<ViewState>): void {
    this.view = { ...this.view, ...change };
    this.#countOpenRequests();
    const pendingPrompts = this.#sentPrompts.getPending(this.view.chat?.sessionId);
    if (pendingPrompts !== this.view.pendingPrompts) this.view = { ...this.view, pendingPrompts };
    this.listener.onViewChanged();
    for (const resume of this.#changeWaiters.splice(0)) resume();
  }

  /** Restores the session that was shown before the connection was lost. */
  async onConnected(api: ServerApi, capability: ServerCapability): Promise<void> {
    this.#api = api;
    this.#openRequests.restoreWindowSessions();
    this.updateView({
      connection: { state: "ready", serverPid: api.serverPid },
      lastChoice: readChoice(this.memory, LAST_CHOICE_KEY),
      warnings: NO_PROBLEMS,
      capabilities: readCapabilities(capability),
    });
    const { sessionId } = this;
    const otherSessions = [...this.#sessions.values()].filter((state) => state.sessionId !== sessionId);
    for (const state of otherSessions) this.#sessions.delete(state.sessionId);
    this.#restoreDrafts(undefined, this.#sentPrompts.takeRemembered(undefined));
    if (sessionId !== undefined) await this.openSession(sessionId);
    else
      this.updateView({
        nextSession: omitUndefined({
          mode: this.listener.getDefaultMode(),
          ...readChoice(this.memory, NEXT_CHOICE_KEY),
          ...this.view.nextSession,
        }),
      });
    await this.refreshModels();
    if (sessionId === undefined) await this.refreshAgent();
  }

  /** Keeps the shown content, because no pending request gets an answer. */
  onDisconnected(connection: ViewState["connection"]): void {
    this.#api = undefined;
    this.serverStatus = undefined;
    this.#runningRequests.clear();
    for (const [id, state] of this.#sessions) {
      this.#sessions.set(id, { ...state, running: undefined, activity: undefined, notices: [] });
    }
    const chat = this.view.chat && this.#sessions.get(this.view.chat.sessionId);
    this.updateView({ connection, chat, isSending: false, isStopping: false, isLoading: false });
  }

  onSilenceChanged(message: string | undefined): void {
    if (this.#api === undefined) return;
    const { serverPid } = this.#api;
    this.updateView({ connection: { state: "ready", serverPid, isSilent: message !== undefined, message } });
  }

  onNotification(event: AgentEvent): void {
    if (event.method === "agent/status") {
      this.serverStatus = event.params as StatusNotification;
      this.#setWarnings(parseWarnings(this.serverStatus.warnings ?? []));
      if (this.#api) void this.#openRequests.refresh(this.#api).then(() => this.updateView({}));
      return;
    }
    const { sessionId } = event.params as { sessionId?: string };
    const before = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
    if (before === undefined) return;
    const after = reduceEvent(before, event);
    if (after !== before) this.#storeSession(after);
    this.listener.onEvent(event, before, after);
    if (after.missed !== undefined && before.missed === undefined) void this.#resync(after);
    if (event.method !== "agent/turnEnded") return;
    const { attach } = joinDrafts(this.#sentPrompts.takeUnusedSteers(after.sessionId));
    if (after.unusedSteerText !== undefined)
      this.listener.restoreDraft(after.sessionId, { text: after.unusedSteerText, attach });
    this.updateView({});
  }

  #restoreDrafts(sessionId: string | undefined, drafts: readonly Draft[]): void {
    if (drafts.length > 0) this.listener.restoreDraft(sessionId, joinDrafts(drafts));
  }

  /** Shows the full list, of which a status contains only the beginning. */
  setConfigProblems(problems: readonly ConfigProblem[]): void {
    const others = this.view.warnings.problems.filter(({ place }) => place === undefined);
    this.#setWarnings({ problems: [...others, ...problems.map(toProblem)], unlisted: 0 });
  }

  /** Other warnings show their line again. */
  #setWarnings(warnings: ProblemList): void {
    const old = this.view.warnings;
    const isShorter = warnings.unlisted > 0 && warnings.problems.length + warnings.unlisted === old.problems.length;
    if (isShorter || JSON.stringify(old) === JSON.stringify(warnings)) this.updateView({});
    else this.updateView({ warnings, areWarningsDismissed: false });
  }

  /** Sends a prompt, or a steer while a turn runs. */
  async sendPrompt(text: string, attach: readonly Attachment[]): Promise<void> {
    const draft = { text, attach };
    if (this.#isStartingTurn) await this.#waitForEarlierPrompt(draft);
    const api = this.#requireApi();
    if (api === undefined) return this.listener.restoreDraft(this.sessionId, draft);
    if (this.view.chat?.running !== undefined && (await this.#steerTurn(api, this.view.chat, draft))) return;
    const { chat } = this.view;
    const id = this.#sentPrompts.addPrompt(chat, draft, false);
    this.updateView({ isSending: true, error: undefined, lastAnswer: undefined, keyCheck: undefined });
    let sessionId = chat?.sessionId;
    try {
      sessionId ??= (await this.#createSession(api)).sessionId;
      this.#lastDrafts.set(sessionId, draft);
      this.#startTurn(api, "agent/prompt", { sessionId, prompt: buildPrompt(text, attach) }, draft, id);
    } catch (error) {
      this.#sentPrompts.dropPrompt(id);
      if (isCreationStopped(error)) {
        this.updateView({ isSending: false, isStopping: false });
        this.listener.restoreDraft(sessionId, draft);
      } else this.#reportRefusal(error, sessionId, draft);
    }
  }

  /** An earlier prompt has no turn yet, or the session is being loaded. */
  get #isStartingTurn(): boolean {
    const { isSending, isLoading, chat } = this.view;
    return this.#api !== undefined && (isLoading || (isSending && chat?.running === undefined));
  }

  /** Waits until an earlier prompt has its session and its turn, which this one steers then. */
  async #waitForEarlierPrompt(draft: Draft): Promise<void> {
    const id = this.#sentPrompts.addPrompt(this.view.chat, draft, true);
    this.updateView({});
    while (this.#isStartingTurn) await new Promise<void>((resume) => this.#changeWaiters.push(resume));
    this.#sentPrompts.dropPrompt(id);
  }

  /** Returns whether the steer is settled. If the turn has ended in the meantime, its text becomes a prompt. */
  async #steerTurn(api: ServerApi, chat: ChatState, draft: Draft): Promise<boolean> {
    const { sessionId, running } = chat;
    const id = this.#sentPrompts.addPrompt(chat, draft, true);
    this.updateView({ error: undefined });
    try {
      const prompt = buildPrompt(draft.text, draft.attach);
      await api.request("agent/steer", { sessionId, prompt, ...omitUndefined({ expectedTurnId: running }) });
      return true;
    } catch (error) {
      this.#sentPrompts.dropPrompt(id);
      if (["noTurn", "staleTurn"].includes(getRefusal(error))) return false;
      this.#reportRefusal(error, sessionId, draft);
      return true;
    }
  }

  get lastDraft(): Draft | undefined {
    const sessionId = this.view.chat?.sessionId;
    return sessionId === undefined ? undefined : this.#lastDrafts.get(sessionId);
  }

  resumeTurn(): void {
    const api = this.#requireApi();
    const sessionId = this.view.chat?.sessionId;
    if (api && sessionId !== undefined) this.#startTurn(api, "agent/resumeTurn", { sessionId }, undefined);
  }

  compactSession(): void {
    const api = this.#requireApi();
    const sessionId = this.view.chat?.sessionId;
    if (api && sessionId !== undefined) this.#startTurn(api, requests.compact, { sessionId }, undefined);
  }

  /**
   * Stops the turn. The first press cancels our pending request with `$/cancelRequest`. A second press, or a turn that
   * another client started, uses `agent/cancel`, which does not wait for commands.
   */
  cancelTurn(): void {
    const chat = this.view.chat;
    if (!this.#api) return;
    if (this.#sessionCreation) this.#sessionCreation.abort();
    else if (chat === undefined) return;
    else {
      const pending = this.#runningRequests.get(chat.sessionId);
      if (chat.running === undefined && pending === undefined) return;
      if (pending && !pending.signal.aborted) pending.abort();
      else this.#api.sendNotification("agent/cancel", { sessionId: chat.sessionId });
    }
    this.updateView({ isStopping: true });
    this.listener.onTurnStopped();
  }

  async openSession(sessionId: string): Promise<void> {
    const api = this.#requireApi();
    if (api === undefined) return;
    this.memory.set("session", sessionId);
    const cached = this.#sessions.get(sessionId);
    // A locked session stays locked until loading proves otherwise.
    const locked = this.view.locked?.sessionId === sessionId ? this.view.locked : undefined;
    const reset = { error: undefined, lastAnswer: undefined, pendingRevert: undefined, queueEdit: undefined, locked };
    this.updateView({
      sessionList: undefined,
      chat: cached,
      isLoading: cached === undefined,
      openingSession: sessionId,
      isSending: cached?.running === undefined && this.#runningRequests.has(sessionId),
      isStopping: false,
      ...reset,
    });
    try {
      const state = await this.#loadSession(api, cached ?? createChatState(sessionId));
      if (this.memory.get("session") === sessionId) {
        this.#showSession(state);
        this.updateView({ locked: undefined });
      }
    } catch (error) {
      if (getRefusal(error) === "unknownSession") {
        this.#sessions.delete(sessionId);
        this.startNewSession();
      } else {
        this.#reportRefusal(error);
        // Another window holds the session, so this one opens it read-only.
        if (getRefusal(error) === "sessionLocked") await this.#openReadOnly(api, sessionId, parseHolder(error));
      }
    } finally {
      this.updateView({ isLoading: false });
    }
    await this.refreshAgent();
  }

  /** Leaves the session. The next prompt creates one with the given agent. */
  startNewSession(agent?: string): void {
    this.memory.set("session", undefined);
    const next = omitUndefined({ mode: this.listener.getDefaultMode(), agent });
    this.memory.set(NEXT_CHOICE_KEY, undefined);
    const reset = {
      error: undefined,
      lastAnswer: undefined,
      pendingRevert: undefined,
      queueEdit: undefined,
      locked: undefined,
    };
    this.updateView({
      chat: undefined,
      sessionList: undefined,
      openingSession: undefined,
      isLoading: false,
      nextSession: next,
      isSending: false,
      isStopping: false,
      ...reset,
    });
    void this.refreshModels();
    void this.refreshAgent();
  }

  async loadEarlierEvents(): Promise<void> {
    const chat = this.view.chat;
    const api = this.#requireApi();
    if (!api || chat?.firstSeq === undefined || !chat.hasEarlier) return;
    const { sessionId, firstSeq: beforeSeq } = chat;
    try {
      const page = await api.request("agent/loadSession", { sessionId, beforeSeq, tail: 200 });
      const latest = this.#sessions.get(sessionId);
      if (latest?.firstSeq === beforeSeq) this.#storeSession(prependPage(latest, page));
    } catch (error) {
      this.#reportRefusal(error);
    }
  }

  /** Searches all sessions that this window opened. */
  findApproval(approvalId: string): ApprovalRequestedNotification | undefined {
    return this.#findSessionByApproval(approvalId)?.approvals.find((open) => open.approvalId === approvalId);
  }

  #findSessionByApproval(approvalId: string): ChatState | undefined {
    return [...this.#sessions.values()].find((state) => state.approvals.some((open) => open.approvalId === approvalId));
  }

  /** Sends an answer and returns whether the server accepted it. Call it only from `Decisions`. */
  async respondToApproval(
    approvalId: string,
    decision: Decision,
    details: { feedback?: string; input?: unknown; rule?: string },
    reviewedDiff?: string,
  ): Promise<boolean> {
    const api = this.#requireApi();
    if (api === undefined) return false;
    const state = this.#findSessionByApproval(approvalId);
    const approval = this.findApproval(approvalId);
    // Before the answer, because its event may arrive before the response.
    if (state && approval)
      this.#storeSession(updateItem<ToolItem>(state, "tool", approval.toolCallId, { reviewedDiff }));
    try {
      await api.request("agent/approvalRespond", { approvalId, decision, ...details });
    } catch (error) {
      this.#reportRefusal(error);
      return false;
    }
    if (approval) this.updateView({ lastAnswer: describeAnswer(approval, decision, details), error: undefined });
    // The turn that asked no longer runs. The server keeps the decision, so resume the turn to apply it.
    const cached = state && this.#sessions.get(state.sessionId);
    if (!cached || cached.running !== undefined || cached.resumable === undefined) return true;
    const approvals = cached.approvals.filter((open) => open.approvalId !== approvalId);
    this.#storeSession({ ...cached, approvals });
    if (approvals.length === 0 && cached.sessionId === this.view.chat?.sessionId) this.resumeTurn();
    return true;
  }

  #countOpenRequests(): void {
    const counts = this.#openRequests.count(this.#sessions, this.sessionId, this.view.locked?.sessionId);
    const { pendingElsewhere, openRequestCount, waitingSessions } = this.view;
    if (JSON.stringify(counts) !== JSON.stringify({ pendingElsewhere, openRequestCount, waitingSessions }))
      this.view = { ...this.view, ...counts };
  }

  /** Shows another session that waits for an answer. */
  async showPendingSession(): Promise<void> {
    const target = this.#openRequests.findElsewhere(this.sessionId);
    if (target !== undefined) await this.openSession(target);
  }

  async setMode(mode: Mode): Promise<void> {
    const sessionId = this.view.chat?.sessionId;
    if (sessionId === undefined) this.#updateNextChoice({ mode });
    else if (!(await this.#tryRequest((api) => api.request("agent/setMode", { sessionId, mode })))) return;
    // The server does not remember this mode either: the user must select it each time.
    if (mode !== "full") this.#rememberChoice({ mode });
  }

  /** Returns nothing if the provider's default applies. */
  get selectedEffort(): Effort | undefined {
    return (this.view.chat ? this.view.chat.effort : this.view.nextSession.effort) ?? undefined;
  }

  /** Without a model, changes only the effort of the current model. */
  async setModel(model: string | undefined, effort: Effort | undefined): Promise<void> {
    const sessionId = this.view.chat?.sessionId;
    const targetModel = model ?? this.view.chat?.model;
    const choice = model === undefined ? { effort: effort ?? null } : omitUndefined({ model, effort });
    if (sessionId === undefined) this.#updateNextChoice(choice);
    else if (targetModel === undefined) return;
    else if (
      !(await this.#tryRequest((api) =>
        api.request("agent/setModel", { sessionId, model: targetModel, ...omitUndefined({ effort }) }),
      ))
    )
      return;
    this.#rememberChoice(choice);
  }

  /** Persists the choices for the next session, as drafts are persisted. */
  #updateNextChoice(choice: SessionChoice): void {
    const nextSession = omitUndefined({ ...this.view.nextSession, ...choice });
    this.memory.set(NEXT_CHOICE_KEY, JSON.stringify(nextSession));
    this.updateView({ nextSession, error: undefined });
  }

  #rememberChoice(choice: SessionChoice): void {
    const lastChoice = omitUndefined({ ...this.view.lastChoice, ...choice });
    this.memory.set(LAST_CHOICE_KEY, JSON.stringify(lastChoice));
    this.updateView({ lastChoice });
  }

  async refreshModels(): Promise<void> {
    const models = await this.#api?.request("agent/listModels", {}).catch(() => undefined);
    if (models) this.updateView({ defaultModel: models.models.find((info) => info.current)?.model });
  }

  async refreshAgent(): Promise<void> {
    if (!this.view.capabilities.agents) return;
    const sessionId = this.view.chat?.sessionId;
    const answer = await this.#api?.request("agent/listAgents", omitUndefined({ sessionId })).catch(() => undefined);
    if (answer === undefined || sessionId !== this.view.chat?.sessionId) return;
    const agentName = this.view.nextSession.agent ?? "default";
    const currentAgent = answer.agents.find(({ name, current }) =>
      sessionId === undefined ? name === agentName : current,
    );
    const hasAlternatives = answer.agents.length > 1;
    this.updateView({
      agent: currentAgent && {
        name: currentAgent.name,
        mode: currentAgent.mode,
        model: currentAgent.model,
        hasAlternatives,
      },
    });
  }

  async setSessionListVisible(show: boolean, query = ""): Promise<void> {
    if (!show) return this.updateView({ sessionList: undefined });
    const search = ++this.#listQueryId;
    const old = this.view.sessionList;
    this.updateView({ sessionList: { query, sessions: old?.sessions ?? [], hasMore: false, isLoading: true } });
    const page = await this.#fetchSessionPage(query, undefined);
    if (search !== this.#listQueryId || this.view.sessionList === undefined || page === undefined) return;
    this.#listCursor = page.nextCursor;
    this.updateView({
      sessionList: { query, sessions: page.sessions, hasMore: page.nextCursor !== undefined, isLoading: false },
    });
  }

  async loadMoreSessions(): Promise<void> {
    const { sessionList: list } = this.view;
    if (list === undefined || this.#listCursor === undefined) return;
    const search = this.#listQueryId;
    const page = await this.#fetchSessionPage(list.query, this.#listCursor);
    if (search !== this.#listQueryId || this.view.sessionList === undefined || page === undefined) return;
    this.#listCursor = page.nextCursor;
    const sessions = [...this.view.sessionList.sessions, ...page.sessions];
    this.updateView({ sessionList: { ...this.view.sessionList, sessions, hasMore: page.nextCursor !== undefined } });
  }

  async renameSession(sessionId: string, title: string): Promise<void> {
    await this.#tryRequest((api) => api.request("agent/renameSession", { sessionId, title }));
    if (this.view.sessionList) await this.setSessionListVisible(true, this.view.sessionList.query);
  }

  async deleteSession(sessionId: string): Promise<void> {
    const deleted = await this.#tryRequest((api) => api.request("agent/deleteSession", { sessionId }));
    if (deleted === undefined) return;
    this.#sessions.delete(sessionId);
    const { sessionList: list } = this.view;
    if (this.view.chat?.sessionId === sessionId) this.startNewSession();
    if (list) await this.setSessionListVisible(true, list.query);
  }

  /** Reads a field in full that the server truncated. */
  async readContent(sessionId: string, ref: string): Promise<string | undefined> {
    let text = "";
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const from: number = offset;
      const limit = 1_048_576;
      const page = await this.#tryRequest((api) =>
        api.request("agent/readContent", { sessionId, ref, offset: from, limit }),
      );
      if (page === undefined) return undefined;
      text += page.text;
      offset = page.nextOffset;
    }
    return text;
  }

  /** Sends a request for the rest of the extension. Failures appear in the view. */
  async request<M extends keyof RequestTypes>(
    method: M,
    params: RequestTypes[M]["params"],
  ): Promise<RequestTypes[M]["result"] | undefined> {
    return this.#tryRequest((api) => api.request(method, params));
  }

  async #fetchSessionPage(query: string, cursor: string | undefined): Promise<ListSessionsResult | undefined> {
    const trimmed = query.trim();
    const params = { limit: PAGE_SIZE, ...omitUndefined({ query: trimmed === "" ? undefined : trimmed, cursor }) };
    try {
      return await this.#api?.request("agent/listSessions", params);
    } catch (error) {
      if (this.view.sessionList)
        this.updateView({ sessionList: { ...this.view.sessionList, isLoading: false, error: describeError(error) } });
      return undefined;
    }
  }

  async #tryRequest<T>(send: (api: ServerApi) => Promise<T>): Promise<T | undefined> {
    const api = this.#requireApi();
    try {
      return api && (await send(api));
    } catch (error) {
      this.#reportRefusal(error);
      return undefined;
    }
  }

  #requireApi(): ServerApi | undefined {
    if (this.#api === undefined)
      this.updateView({ error: this.view.connection.message ?? "The server is not ready yet." });
    return this.#api;
  }

  async #createSession(api: ServerApi): Promise<ChatState> {
    const { mode, model, agent } = this.view.nextSession;
    const effort = this.view.nextSession.effort ?? undefined;
    const cwd = this.listener.getSessionFolder();
    // For choices that are not set, the server uses the last ones.
    const params: NewSessionParams = { remembered: true, ...omitUndefined({ mode, model, effort, agent, cwd }) };
    const creation = new AbortController();
    this.#sessionCreation = creation;
    const created = await this.#raceWithStop(api.request("agent/newSession", params), creation.signal).finally(() => {
      this.#sessionCreation = undefined;
    });
    const state: ChatState = {
      ...createChatState(created.sessionId),
      seq: created.seq,
      firstSeq: created.seq + 1,
      mode: created.mode,
      model: created.model ?? model,
      effort: created.effort ?? effort,
      cwd: cwd === undefined ? undefined : fileURLToPath(cwd),
    };
    if (this.view.nextSession.effort === null && state.effort !== undefined && state.model !== undefined) {
      await api.request("agent/setModel", { sessionId: created.sessionId, model: state.model });
      state.effort = undefined;
    }
    this.memory.set("session", created.sessionId);
    this.memory.set(NEXT_CHOICE_KEY, undefined);
    this.#sentPrompts.onSessionCreated(created.sessionId);
    // Early events may have arrived before this point. Loading a page returns them.
    const loaded = created.seq === 0 ? state : await this.#loadSession(api, createChatState(created.sessionId));
    this.#showSession({ ...loaded, model: loaded.model ?? state.model });
    return loaded;
  }

  /** Rejects when the user stops the creation or the connection is lost. */
  async #raceWithStop<T>(request: Promise<T>, stop: AbortSignal): Promise<T> {
    const stopped = new Promise<never>((_given, reject) => {
      stop.addEventListener("abort", () => reject(SESSION_CREATION_STOPPED), { once: true });
    });
    return Promise.race([request, stopped]);
  }

  /** Starts a turn. The response is ignored, because `agent/turnEnded` reports the same. */
  #startTurn(
    api: ServerApi,
    method: string,
    params: { sessionId: string; prompt?: PromptContent },
    draft: Draft | undefined,
    id?: number,
  ): void {
    const abort = new AbortController();
    const lastUserId = findLastUserId(this.#sessions.get(params.sessionId));
    this.#runningRequests.set(params.sessionId, abort);
    this.updateView({ isSending: true, isStopping: false, error: undefined });
    const finishTurn = () => {
      if (id !== undefined) this.#sentPrompts.dropPrompt(id);
      if (this.#runningRequests.get(params.sessionId) === abort) {
        this.#runningRequests.delete(params.sessionId);
        if (this.view.chat?.sessionId === params.sessionId)
          return this.updateView({ isSending: false, isStopping: false });
      }
      this.updateView({});
    };
    api.sendRequest(method, params, abort.signal).then(finishTurn, (error: unknown) => {
      finishTurn();
      const state = this.#sessions.get(params.sessionId);
      // Never lose user input: restore a prompt that no turn took.
      if (getErrorCode(error) === CANCELLED || isConnectionLost(error) || this.#api !== api) {
        if (draft !== undefined && !hasTakenPrompt(state, draft.text, lastUserId))
          this.listener.restoreDraft(params.sessionId, draft);
      } else this.#reportRefusal(error, params.sessionId, draft);
    });
  }

  async #loadSession(api: ServerApi, from: ChatState): Promise<ChatState> {
    const params: LoadSessionParams = { sessionId: from.sessionId };
    if (from.seq > 0) params.afterSeq = from.seq;
    const result: LoadSessionResult = await api.request("agent/loadSession", params);
    // Events that arrived in the meantime are already applied. The page either omits or repeats them.
    const latest = this.#sessions.get(from.sessionId);
    const loaded = loadPage(latest !== undefined && latest.seq >= from.seq ? latest : from, result);
    this.#sentPrompts.onItemsAdded(latest, loaded);
    // The turn has ended, and no event reported these steers as unused.
    const unusedSteers = loaded.running === undefined ? this.#sentPrompts.takeUnusedSteers(loaded.sessionId) : [];
    this.#restoreDrafts(loaded.sessionId, [...this.#sentPrompts.takeRemembered(loaded), ...unusedSteers]);
    return loaded;
  }

  async #openReadOnly(api: ServerApi, sessionId: string, holder: SessionHolder): Promise<void> {
    try {
      const page = await api.request("agent/loadSession", { sessionId, readOnly: true });
      if (this.memory.get("session") !== sessionId) return;
      this.#showSession(loadPage(createChatState(sessionId), page));
      this.updateView({ locked: { sessionId, ...holder } });
    } catch (error) {
      this.#reportRefusal(error);
    }
  }

  async #resync(state: ChatState): Promise<void> {
    const api = this.#api;
    if (!api) return;
    try {
      this.#storeSession(await this.#loadSession(api, state));
    } catch (error) {
      this.#reportRefusal(error);
    }
  }

  #showSession(state: ChatState): void {
    this.#sessions.set(state.sessionId, state);
    this.#openRequests.addWindowSession(state.sessionId);
    this.updateView({ chat: state, isLoading: false });
    this.#evictSessions();
  }

  #storeSession(state: ChatState): void {
    this.#sentPrompts.onItemsAdded(this.#sessions.get(state.sessionId), state);
    this.#sessions.set(state.sessionId, state);
    if (this.view.chat?.sessionId !== state.sessionId) return;
    const hasStarted = state.running !== undefined && this.view.chat.running === undefined;
    const hasEnded = state.running === undefined && this.view.chat.running !== undefined;
    // The turn ends with its event, not with the later response. The next prompt may start at once.
    if (hasEnded) this.#runningRequests.delete(state.sessionId);
    if (hasStarted && this.view.pendingRevert !== undefined) this.updateView({ pendingRevert: undefined });
    this.updateView({
      chat: state,
      ...(hasStarted || hasEnded ? { isSending: false } : {}),
      ...(hasEnded ? { isStopping: false } : {}),
    });
  }

  #evictSessions(): void {
    for (const [id, state] of this.#sessions) {
      if (this.#sessions.size <= MAX_CACHED_SESSIONS) return;
      const isNeeded = state.running !== undefined || listOpenInquiries(state).length > 0;
      if (id !== this.view.chat?.sessionId && !isNeeded) this.#sessions.delete(id);
    }
  }

  /** Puts the draft of a refused prompt back into the input of its session. */
  #reportRefusal(error: unknown, sessionId?: string, draft?: Draft): void {
    this.updateView({ isSending: false, ...(isConnectionLost(error) ? {} : { error: describeError(error) }) });
    if (draft !== undefined) this.listener.restoreDraft(sessionId, draft);
  }
}

const NEXT_CHOICE_KEY = "next";
/** The last choices, which the server also remembers. */
const LAST_CHOICE_KEY = "chosen";

function readChoice(memory: KeyValueStore, key: string): SessionChoice {
  try {
    return JSON.parse(memory.get(key) ?? "{}") as SessionChoice;
  } catch {
    return {};
  }
}

/** Rejects a session creation that the user stopped. */
const SESSION_CREATION_STOPPED = new Error("stopped");

function isCreationStopped(error: unknown): boolean {
  return error === SESSION_CREATION_STOPPED;
}

export function buildPrompt(text: string, attach: readonly Attachment[]): PromptContent {
  if (attach.length === 0) return text;
  const blocks: PromptBlock[] = attach.map((attachment) => attachment.block);
  return text.trim() === "" ? blocks : [{ type: "text", text }, ...blocks];
}

export function omitUndefined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
