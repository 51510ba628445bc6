// What the view shows and what a person does with it: sessions, prompts, cancels, decisions. It knows the protocol, and
// neither VS Code nor the page; so it is tested with a server of a few lines.
//
// The sessions that this window has opened are kept by their ids and go on being reduced when another is shown.

import { fileURLToPath } from "node:url";
import {
  type ApprovalRequestedNotification,
  type Decision,
  type Effort,
  type ErrorData,
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
import { SentPrompts } from "./sentPrompts";
import { type AgentEvent, type ChatState, countOpenInquiries, createChatState, reduceEvent } from "./state";
import { loadPage, prependPage } from "./state/pages";
import type {
  ActiveContext,
  Attachment,
  Capabilities,
  LockedSession,
  SessionChoice,
  ViewState,
} from "./webviewProtocol";

/** What the chat needs of a connection. A cancelled request is answered with an error. */
export interface ServerApi {
  request<M extends keyof RequestTypes>(
    method: M,
    params: RequestTypes[M]["params"],
    signal?: AbortSignal,
  ): Promise<RequestTypes[M]["result"]>;
  /** Any request, by its name. */
  sendRequest(method: string, params: unknown, signal?: AbortSignal): Promise<unknown>;
  sendNotification(method: string, params: unknown): void;
}

/** What outlives the window. */
export interface KeyValueStore {
  get(key: string): string | undefined;
  set(key: string, value: string | undefined): void;
}

/** What the chat tells the rest of the extension. */
export interface ChatListener {
  /** The view's state is another one. */
  onViewChanged(): void;
  /** An event of the session that is shown or of another, after it was applied. */
  onEvent(event: AgentEvent, before: ChatState, after: ChatState): void;
  /** Text goes back to where it was typed, with what was attached to it. */
  restoreDraft(text: string, attach?: readonly Attachment[]): void;
  /** The mode that new sessions begin with, if the person set one. */
  getDefaultMode(): Mode | undefined;
  /** The folder that a new session works in, as a URI; nothing where there is no choice. */
  getSessionFolder(): string | undefined;
  /** The person has stopped a turn: a server that does not answer is ended. */
  onTurnStopped(): void;
}

/** What a person has sent, until a turn has taken it. */
interface Draft {
  text: string;
  attach: readonly Attachment[];
}

const NO_CAPABILITIES: Capabilities = {
  images: false,
  steer: false,
  compact: false,
  circuits: false,
  credentials: false,
  limits: false,
  questions: false,
  queue: false,
  revert: false,
  fork: false,
  exports: false,
  agents: false,
  commands: false,
  trust: false,
};

/** How many sessions are kept that are not shown and do not work. */
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
    reviews: {},
    warnings: [],
    isSending: false,
    isStopping: false,
  };
  /** What the server said of itself as a whole. */
  serverStatus: StatusNotification | undefined;

  #api: ServerApi | undefined;
  #sessions = new Map<string, ChatState>();
  /** The prompt or resume that is running, by session. */
  #runningRequests = new Map<string, AbortController>();
  readonly #sentPrompts = new SentPrompts();
  /** What each session was sent last, to be sent again. */
  readonly #lastDrafts = new Map<string, Draft>();
  /** The session of the first prompt is being made. */
  #sessionCreation: AbortController | undefined;
  #listCursor: string | undefined;
  #listQueryId = 0;

  constructor(
    readonly memory: KeyValueStore,
    readonly listener: ChatListener,
  ) {}

  get activeSession(): ChatState | undefined {
    return this.view.chat;
  }

  /** The session that is shown, or the one that was before the window was loaded again. */
  get sessionId(): string | undefined {
    return this.view.chat?.sessionId ?? this.memory.get("session");
  }

  /** What the editor shows, to be attached by a click. */
  setActiveContext(near: ActiveContext | undefined): void {
    const toKey = ({ label, block }: ActiveContext) =>
      JSON.stringify([label, block.type, "range" in block ? block.range : ""]);
    const old = this.view.activeContext;
    if ((near && toKey(near)) !== (old && toKey(old))) this.updateView({ activeContext: near });
  }

  updateView(change: Partial<ViewState>): void {
    this.view = { ...this.view, ...change };
    if (!this.#hasPendingElsewhere && this.view.pendingElsewhere > 0) this.view = { ...this.view, pendingElsewhere: 0 };
    const waiting = this.#sentPrompts.getPending(this.view.chat?.sessionId);
    if (waiting !== this.view.pendingPrompts) this.view = { ...this.view, pendingPrompts: waiting };
    this.listener.onViewChanged();
  }

  /** The server is there: what was shown before is shown again. */
  async onConnected(api: ServerApi, capability: ServerCapability): Promise<void> {
    this.#api = api;
    const methods = new Set(capability.methods);
    const features = new Set<string>(capability.features);
    this.updateView({
      connection: { state: "ready" },
      lastChoice: readChoice(this.memory, LAST_CHOICE_KEY),
      warnings: [],
      capabilities: {
        images: features.has("images"),
        steer: methods.has("agent/steer"),
        compact: methods.has(requests.compact),
        circuits: methods.has(requests.resetCircuit),
        credentials: features.has("credentials"),
        limits: methods.has(requests.limitRespond),
        questions: methods.has(requests.questionRespond),
        queue: methods.has(requests.queue),
        revert: methods.has(requests.revert),
        fork: methods.has(requests.forkSession),
        exports: methods.has(requests.exportSession),
        agents: methods.has(requests.listAgents),
        commands: methods.has(requests.listCommands),
        trust: methods.has(requests.describeTrust),
      },
    });
    const { sessionId } = this;
    const others = [...this.#sessions.values()].filter((state) => state.sessionId !== sessionId);
    for (const state of others) this.#sessions.delete(state.sessionId);
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

  /** The server is gone, `message`. What was shown stays, and no answer comes any more. */
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

  /** Whether the server that is connected answers. */
  onSilenceChanged(message: string | undefined): void {
    if (this.#api) this.updateView({ connection: { state: "ready", isSilent: message !== undefined, message } });
  }

  /** A notification of the server. */
  onNotification(event: AgentEvent): void {
    if (event.method === "agent/status") {
      this.serverStatus = event.params as StatusNotification;
      this.updateView({ warnings: (this.serverStatus.warnings ?? []).map((warning) => warning.message) });
      void this.#refreshPendingElsewhere();
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
    this.#sentPrompts.takeUnusedSteers(after.sessionId);
    if (after.unusedSteerText !== undefined && after === this.view.chat)
      this.listener.restoreDraft(after.unusedSteerText);
    this.updateView({});
  }

  /** Says something to the agent: a prompt, or a steer while a turn runs. */
  async sendPrompt(text: string, attach: readonly Attachment[]): Promise<void> {
    const api = this.#requireApi();
    if (api === undefined) return this.listener.restoreDraft(text, attach);
    const prompt = buildPrompt(text, attach);
    const running = this.view.chat?.running;
    if (running !== undefined && this.view.chat) {
      const { sessionId } = this.view.chat;
      const id = this.#sentPrompts.addPrompt(sessionId, text, attach, true);
      this.updateView({ error: undefined });
      try {
        await api.request("agent/steer", { sessionId, prompt, expectedTurnId: running });
        return;
      } catch (error) {
        this.#sentPrompts.dropPrompt(id);
        // The turn ended meanwhile: then it is a prompt.
        if (!["noTurn", "staleTurn"].includes(getRefusal(error))) return this.#reportRefusal(error, { text, attach });
      }
    }
    const id = this.#sentPrompts.addPrompt(this.view.chat?.sessionId, text, attach, false);
    this.updateView({ isSending: true, error: undefined, lastAnswer: undefined, keyCheck: undefined });
    const typed = { text, attach };
    try {
      const sessionId = this.view.chat?.sessionId ?? (await this.#createSession(api)).sessionId;
      this.#lastDrafts.set(sessionId, typed);
      this.#startTurn(api, "agent/prompt", { sessionId, prompt }, typed, id);
    } catch (error) {
      this.#sentPrompts.dropPrompt(id);
      if (isCreationStopped(error)) {
        this.updateView({ isSending: false, isStopping: false });
        this.listener.restoreDraft(text, attach);
      } else this.#reportRefusal(error, typed);
    }
  }

  /** What the shown session was sent last in this window, with what was attached. */
  get lastDraft(): Draft | undefined {
    const sessionId = this.view.chat?.sessionId;
    return sessionId === undefined ? undefined : this.#lastDrafts.get(sessionId);
  }

  /** Goes on with the turn that was cut. */
  resumeTurn(): void {
    const api = this.#requireApi();
    const sessionId = this.view.chat?.sessionId;
    if (api && sessionId !== undefined) this.#startTurn(api, "agent/resumeTurn", { sessionId }, undefined);
  }

  /** Makes what the model is sent smaller. */
  compactSession(): void {
    const api = this.#requireApi();
    const sessionId = this.view.chat?.sessionId;
    if (api && sessionId !== undefined) this.#startTurn(api, requests.compact, { sessionId }, undefined);
  }

  /**
   * Stops the turn: by `$/cancelRequest` where a request of ours is pending, else, and at the second press, which
   * waits for no command any more, by `agent/cancel`.
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

  /** Shows a session. */
  async openSession(sessionId: string): Promise<void> {
    const api = this.#requireApi();
    if (api === undefined) return;
    this.memory.set("session", sessionId);
    const known = this.#sessions.get(sessionId);
    // Until it is known better, a session that was locked is.
    const locked = this.view.locked?.sessionId === sessionId ? this.view.locked : undefined;
    const asked = { trouble: undefined, answered: undefined, revert: undefined, editing: undefined, locked };
    this.updateView({
      sessionList: undefined,
      chat: known,
      isLoading: known === undefined,
      isStopping: false,
      ...asked,
    });
    try {
      const state = await this.#loadSession(api, known ?? createChatState(sessionId));
      if (this.memory.get("session") === sessionId) {
        this.#showSession(state);
        this.updateView({ locked: undefined });
      }
    } catch (error) {
      if (getRefusal(error) === "unknownSession") {
        this.#sessions.delete(sessionId);
        this.startNewSession();
      } else {
        this.#reportRefusal(error, undefined);
        // Another window has it: it can be read here.
        if (getRefusal(error) === "sessionLocked") await this.#openReadOnly(api, sessionId, parseHolder(error));
      }
    } finally {
      this.updateView({ isLoading: false });
    }
    void this.#refreshPendingElsewhere();
    await this.refreshAgent();
  }

  /** Leaves the session; the next prompt makes a new one, with the agent of this name. */
  startNewSession(agent?: string): void {
    this.memory.set("session", undefined);
    const next = omitUndefined({ mode: this.listener.getDefaultMode(), agent });
    this.memory.set(NEXT_CHOICE_KEY, undefined);
    const asked = { trouble: undefined, answered: undefined, revert: undefined, editing: undefined, locked: undefined };
    this.updateView({
      chat: undefined,
      sessionList: undefined,
      nextSession: next,
      isSending: false,
      isStopping: false,
      ...asked,
    });
    void this.refreshModels();
    void this.refreshAgent();
    void this.#refreshPendingElsewhere();
  }

  /** Loads what happened before what is shown. */
  async loadEarlierEvents(): Promise<void> {
    const chat = this.view.chat;
    const api = this.#requireApi();
    if (!api || chat?.firstSeq === undefined || !chat.hasEarlier) return;
    const { sessionId, firstSeq: beforeSeq } = chat;
    try {
      const page = await api.request("agent/loadSession", { sessionId, beforeSeq, tail: 200 });
      const now = this.#sessions.get(sessionId);
      if (now?.firstSeq === beforeSeq) this.#storeSession(prependPage(now, page));
    } catch (error) {
      this.#reportRefusal(error, undefined);
    }
  }

  /** An open approval of any session that this window has opened. */
  findApproval(approvalId: string): ApprovalRequestedNotification | undefined {
    return this.#findSessionByApproval(approvalId)?.approvals.find((open) => open.approvalId === approvalId);
  }

  #findSessionByApproval(approvalId: string): ChatState | undefined {
    return [...this.#sessions.values()].find((one) => one.approvals.some((open) => open.approvalId === approvalId));
  }

  /** Sends an answer; only `Decisions` calls this. Returns whether the server took it. */
  async respondToApproval(
    approvalId: string,
    decision: Decision,
    more: { feedback?: string; input?: unknown; rule?: string },
  ): Promise<boolean> {
    const api = this.#requireApi();
    if (api === undefined) return false;
    const state = this.#findSessionByApproval(approvalId);
    const asked = this.findApproval(approvalId);
    try {
      await api.request("agent/approvalRespond", { approvalId, decision, ...more });
    } catch (error) {
      this.#reportRefusal(error, undefined);
      return false;
    }
    if (asked) this.updateView({ lastAnswer: describeAnswer(asked, decision, more), error: undefined });
    // The turn that asked is gone: the decision is kept until the turn goes on, and that is what it was made for.
    const idle = state && this.#sessions.get(state.sessionId);
    if (!idle || idle.running !== undefined || idle.resumable === undefined) return true;
    const approvals = idle.approvals.filter((open) => open.approvalId !== approvalId);
    this.#storeSession({ ...idle, approvals });
    if (approvals.length === 0 && idle.sessionId === this.view.chat?.sessionId) this.resumeTurn();
    return true;
  }

  /** A turn that was cut does not run, but its open questions count. */
  get #hasPendingElsewhere(): boolean {
    return (
      (this.serverStatus?.openApprovals ?? 0) > (this.view.chat === undefined ? 0 : countOpenInquiries(this.view.chat))
    );
  }

  /** The server's count and what is shown are of different moments, so only the server's list says who asks. */
  async #refreshPendingElsewhere(): Promise<void> {
    if (!this.#hasPendingElsewhere) return;
    const others = await this.#listPendingElsewhere();
    if (others.length !== this.view.pendingElsewhere) this.updateView({ pendingElsewhere: others.length });
  }

  async #listPendingElsewhere(): Promise<readonly { sessionId: string }[]> {
    const open = await this.#api?.request("agent/listApprovals", {}).catch(() => undefined);
    const all = [...(open?.approvals ?? []), ...(open?.limits ?? []), ...(open?.questions ?? [])];
    // The session that is being loaded is no other one.
    return all.filter(({ sessionId }) => sessionId !== this.sessionId);
  }

  /** Shows the session that asks while another is shown. */
  async showPendingSession(): Promise<void> {
    const others = await this.#listPendingElsewhere();
    // One that this window has opened is likelier to be meant than one that was left long ago.
    const meant = others.find(({ sessionId }) => this.#sessions.has(sessionId)) ?? others.at(-1);
    if (meant) await this.openSession(meant.sessionId);
    else this.updateView({ pendingElsewhere: 0 });
  }

  async setMode(mode: Mode): Promise<void> {
    const sessionId = this.view.chat?.sessionId;
    if (sessionId === undefined) this.#updateNextChoice({ mode });
    else if (!(await this.#tryRequest((api) => api.request("agent/setMode", { sessionId, mode })))) return;
    // As the server: that all is free is chosen each time.
    if (mode !== "full") this.#rememberChoice({ mode });
  }

  /** The effort of the session, or of the next one; nothing where the provider's own is taken. */
  get selectedEffort(): Effort | undefined {
    return (this.view.chat ? this.view.chat.effort : this.view.nextSession.effort) ?? undefined;
  }

  /** Without a model, of the one that is taken. */
  async setModel(model: string | undefined, effort: Effort | undefined): Promise<void> {
    const sessionId = this.view.chat?.sessionId;
    const meant = model ?? this.view.chat?.model;
    const choice = model === undefined ? { effort: effort ?? null } : omitUndefined({ model, effort });
    if (sessionId === undefined) this.#updateNextChoice(choice);
    else if (meant === undefined) return;
    else if (
      !(await this.#tryRequest((api) =>
        api.request("agent/setModel", { sessionId, model: meant, ...omitUndefined({ effort }) }),
      ))
    )
      return;
    this.#rememberChoice(choice);
  }

  /** What the next session begins with outlives the window, as a text that was typed does. */
  #updateNextChoice(choice: SessionChoice): void {
    const next = omitUndefined({ ...this.view.nextSession, ...choice });
    this.memory.set(NEXT_CHOICE_KEY, JSON.stringify(next));
    this.updateView({ nextSession: next, error: undefined });
  }

  #rememberChoice(choice: SessionChoice): void {
    const last = omitUndefined({ ...this.view.lastChoice, ...choice });
    this.memory.set(LAST_CHOICE_KEY, JSON.stringify(last));
    this.updateView({ lastChoice: last });
  }

  async refreshModels(): Promise<void> {
    const models = await this.#api?.request("agent/listModels", {}).catch(() => undefined);
    if (models) this.updateView({ defaultModel: models.models.find((one) => one.current)?.model });
  }

  /** Which agent the session has, or the next one will have. */
  async refreshAgent(): Promise<void> {
    if (!this.view.capabilities.agents) return;
    const sessionId = this.view.chat?.sessionId;
    const answer = await this.#api?.request("agent/listAgents", omitUndefined({ sessionId })).catch(() => undefined);
    if (answer === undefined || sessionId !== this.view.chat?.sessionId) return;
    const wanted = this.view.nextSession.agent ?? "default";
    const now = answer.agents.find(({ name, current }) => (sessionId === undefined ? name === wanted : current));
    const several = answer.agents.length > 1;
    this.updateView({ agent: now && { name: now.name, mode: now.mode, model: now.model, hasAlternatives: several } });
  }

  /** Shows or hides the list of sessions, those that fit `query`. */
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
    const gone = await this.#tryRequest((api) => api.request("agent/deleteSession", { sessionId }));
    if (gone === undefined) return;
    this.#sessions.delete(sessionId);
    const { sessionList: list } = this.view;
    if (this.view.chat?.sessionId === sessionId) this.startNewSession();
    if (list) await this.setSessionListVisible(true, list.query);
  }

  /** The whole of a field that was cut. */
  async readContent(sessionId: string, ref: string): Promise<string | undefined> {
    let text = "";
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const from: number = offset;
      const limit = 1_048_576;
      const piece = await this.#tryRequest((api) =>
        api.request("agent/readContent", { sessionId, ref, offset: from, limit }),
      );
      if (piece === undefined) return undefined;
      text += piece.text;
      offset = piece.nextOffset;
    }
    return text;
  }

  /** A request for the rest of the extension; what is refused is shown. */
  async request<M extends keyof RequestTypes>(
    method: M,
    params: RequestTypes[M]["params"],
  ): Promise<RequestTypes[M]["result"] | undefined> {
    return this.#tryRequest((api) => api.request(method, params));
  }

  async #fetchSessionPage(query: string, cursor: string | undefined): Promise<ListSessionsResult | undefined> {
    const words = query.trim();
    const params = { limit: PAGE_SIZE, ...omitUndefined({ query: words === "" ? undefined : words, cursor }) };
    try {
      return await this.#api?.request("agent/listSessions", params);
    } catch (error) {
      if (this.view.sessionList)
        this.updateView({ sessionList: { ...this.view.sessionList, isLoading: false, error: describeError(error) } });
      return undefined;
    }
  }

  async #tryRequest<T>(what: (api: ServerApi) => Promise<T>): Promise<T | undefined> {
    const api = this.#requireApi();
    try {
      return api && (await what(api));
    } catch (error) {
      this.#reportRefusal(error, undefined);
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
    // What the person did not choose now, the server takes from what they chose last.
    const params: NewSessionParams = { remembered: true, ...omitUndefined({ mode, model, effort, agent, cwd }) };
    const making = new AbortController();
    this.#sessionCreation = making;
    const made = await this.#raceWithStop(api.request("agent/newSession", params), making.signal).finally(() => {
      this.#sessionCreation = undefined;
    });
    const state: ChatState = {
      ...createChatState(made.sessionId),
      seq: made.seq,
      firstSeq: made.seq + 1,
      mode: made.mode,
      model: made.model ?? model,
      effort: made.effort ?? effort,
      cwd: cwd === undefined ? undefined : fileURLToPath(cwd),
    };
    if (this.view.nextSession.effort === null && state.effort !== undefined && state.model !== undefined) {
      await api.request("agent/setModel", { sessionId: made.sessionId, model: state.model });
      state.effort = undefined;
    }
    this.memory.set("session", made.sessionId);
    this.memory.set(NEXT_CHOICE_KEY, undefined);
    this.#sentPrompts.onSessionCreated(made.sessionId);
    // Its first events may have come already; they are in a page then.
    const now = made.seq === 0 ? state : await this.#loadSession(api, createChatState(made.sessionId));
    this.#showSession({ ...now, model: now.model ?? state.model });
    return now;
  }

  /** What `asked` gives, unless the person stops it first or the connection goes. */
  async #raceWithStop<T>(asked: Promise<T>, stop: AbortSignal): Promise<T> {
    const stopped = new Promise<never>((_given, refuse) => {
      stop.addEventListener("abort", () => refuse(SESSION_CREATION_STOPPED), { once: true });
    });
    return Promise.race([asked, stopped]);
  }

  /** Starts a turn. Its answer tells nothing that `agent/turnEnded` has not told. */
  #startTurn(
    api: ServerApi,
    method: string,
    params: { sessionId: string; prompt?: PromptContent },
    typed: Draft | undefined,
    id?: number,
  ): void {
    const abort = new AbortController();
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
      const known = this.#sessions.get(params.sessionId);
      // What was typed is never lost: a prompt that no turn took goes back.
      if (getErrorCode(error) === CANCELLED || isConnectionLost(error) || this.#api !== api) {
        if (typed !== undefined && !hasTakenPrompt(known, typed.text))
          this.listener.restoreDraft(typed.text, typed.attach);
      } else this.#reportRefusal(error, typed);
    });
  }

  async #loadSession(api: ServerApi, from: ChatState): Promise<ChatState> {
    const params: LoadSessionParams = { sessionId: from.sessionId };
    if (from.seq > 0) params.afterSeq = from.seq;
    const result: LoadSessionResult = await api.request("agent/loadSession", params);
    // Events that came meanwhile are known already; the page leaves them out or repeats them.
    const now = this.#sessions.get(from.sessionId);
    const loaded = loadPage(now !== undefined && now.seq >= from.seq ? now : from, result);
    this.#sentPrompts.onItemsAdded(now, loaded);
    // The turn is over, and nothing has told that it left these unused.
    const left = loaded.running === undefined ? this.#sentPrompts.takeUnusedSteers(loaded.sessionId) : [];
    if (left.length > 0) this.listener.restoreDraft(left.join("\n\n"));
    return loaded;
  }

  async #openReadOnly(api: ServerApi, sessionId: string, holder: SessionHolder): Promise<void> {
    try {
      const page = await api.request("agent/loadSession", { sessionId, readOnly: true });
      if (this.memory.get("session") !== sessionId) return;
      this.#showSession(loadPage(createChatState(sessionId), page));
      this.updateView({ locked: { sessionId, ...holder } });
    } catch (error) {
      this.#reportRefusal(error, undefined);
    }
  }

  async #resync(state: ChatState): Promise<void> {
    const api = this.#api;
    if (!api) return;
    try {
      this.#storeSession(await this.#loadSession(api, state));
    } catch (error) {
      this.#reportRefusal(error, undefined);
    }
  }

  #showSession(state: ChatState): void {
    this.#sessions.set(state.sessionId, state);
    this.updateView({ chat: state, isLoading: false });
    this.#evictSessions();
  }

  #storeSession(state: ChatState): void {
    this.#sentPrompts.onItemsAdded(this.#sessions.get(state.sessionId), state);
    this.#sessions.set(state.sessionId, state);
    if (this.view.chat?.sessionId !== state.sessionId) return;
    const begun = state.running !== undefined && this.view.chat.running === undefined;
    const ended = state.running === undefined && this.view.chat.running !== undefined;
    // The turn's end counts, not the answer that comes after it: the next prompt may be sent at once.
    if (ended) this.#runningRequests.delete(state.sessionId);
    if (begun && this.view.pendingRevert !== undefined) this.updateView({ pendingRevert: undefined });
    this.updateView({
      chat: state,
      ...(begun || ended ? { isSending: false } : {}),
      ...(ended ? { isStopping: false } : {}),
    });
  }

  #evictSessions(): void {
    for (const [id, state] of this.#sessions) {
      if (this.#sessions.size <= MAX_CACHED_SESSIONS) return;
      if (id !== this.view.chat?.sessionId && state.running === undefined) this.#sessions.delete(id);
    }
  }

  #reportRefusal(error: unknown, typed: Draft | undefined): void {
    this.updateView({ isSending: false, ...(isConnectionLost(error) ? {} : { error: describeError(error) }) });
    if (typed !== undefined) this.listener.restoreDraft(typed.text, typed.attach);
  }
}

/** What an answer did, for people. */
export function describeAnswer(
  { shown, title }: ApprovalRequestedNotification,
  decision: Decision,
  { input, rule }: { input?: unknown; rule?: string },
): string {
  const what = input === undefined ? (shown ?? title) : `${title}, as edited by you`;
  switch (decision) {
    case "allow":
      return `Allowed once: ${what}`;
    case "allowSession":
      return `Allowed for this session (${rule ?? "by rule"}): ${what}`;
    case "allowAlways":
      return `Allowed always (${rule ?? "by rule"}): ${what}`;
    case "deny":
      return `Denied: ${what}`;
  }
}

/** Where the choices for the next session are kept. */
const NEXT_CHOICE_KEY = "next";
/** The person's last choices, as the server remembers them too. */
const LAST_CHOICE_KEY = "chosen";

function readChoice(memory: KeyValueStore, key: string): SessionChoice {
  try {
    return JSON.parse(memory.get(key) ?? "{}") as SessionChoice;
  } catch {
    return {};
  }
}

/** Why a session was not made: the person stopped it. */
const SESSION_CREATION_STOPPED = new Error("stopped");

function isCreationStopped(error: unknown): boolean {
  return error === SESSION_CREATION_STOPPED;
}

/** LSP's code of a request that was cancelled. */
const CANCELLED = -32800;

/** Whether the connection went before the answer came: vscode-jsonrpc's own codes from -32099 to -32096. */
function isConnectionLost(error: unknown): boolean {
  const number = getErrorCode(error) ?? 0;
  return number >= -32099 && number <= -32096;
}

function hasTakenPrompt(state: ChatState | undefined, text: string): boolean {
  const said = state?.items.findLast((item) => item.kind === "user" && !item.steer);
  return said?.kind === "user" && said.text.trim() === text.trim();
}

/** What was typed, as the protocol has it. */
export function buildPrompt(text: string, attach: readonly Attachment[]): PromptContent {
  if (attach.length === 0) return text;
  const blocks: PromptBlock[] = attach.map((one) => one.block);
  return text.trim() === "" ? blocks : [{ type: "text", text }, ...blocks];
}

function getErrorCode(error: unknown): number | undefined {
  return (error as { code?: number } | undefined)?.code;
}

function getErrorData(error: unknown): Partial<ErrorData> {
  return (error as { data?: Partial<ErrorData> } | undefined)?.data ?? {};
}

/** Who has a session, as the server names it; the process only where it is known. */
type SessionHolder = Pick<LockedSession, "holder" | "pid">;

function parseHolder(error: unknown): SessionHolder {
  const holder = getErrorData(error).holder ?? "another window";
  const pid = /\(process (\d+)\)$/.exec(holder)?.[1];
  return { holder, pid: pid === undefined ? undefined : Number(pid) };
}

function getRefusal(error: unknown): string {
  return getErrorData(error).refusal ?? "";
}

/** An error for people: what, why, and what to do. */
export function describeError(error: unknown): string {
  const { message, cause, userAction } = getErrorData(error);
  const what = message ?? (error instanceof Error ? error.message : String(error));
  return [cause === undefined ? what : `${what}: ${cause}`, userAction].filter((part) => part !== undefined).join("\n");
}

/** Without the fields that are not set. */
export function omitUndefined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
