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
import { asked, type Event, empty, reduce, type State } from "./state";
import { load, prepend } from "./state/pages";
import type { Attachment, Choice, LockedSession, Near, Offers, ViewState } from "./webviewProtocol";

/** What the chat needs of a connection. A cancelled request is answered with an error. */
export interface Api {
  request<M extends keyof RequestTypes>(
    method: M,
    params: RequestTypes[M]["params"],
    signal?: AbortSignal,
  ): Promise<RequestTypes[M]["result"]>;
  /** Any request, by its name. */
  ask(method: string, params: unknown, signal?: AbortSignal): Promise<unknown>;
  notify(method: string, params: unknown): void;
}

/** What outlives the window. */
export interface Memory {
  get(key: string): string | undefined;
  set(key: string, value: string | undefined): void;
}

/** What the chat tells the rest of the extension. */
export interface Listener {
  /** The view's state is another one. */
  changed(): void;
  /** An event of the session that is shown or of another, after it was applied. */
  happened(event: Event, before: State, after: State): void;
  /** Text goes back to where it was typed, with what was attached to it. */
  giveBack(text: string, attach?: readonly Attachment[]): void;
  /** The mode that new sessions begin with, if the person set one. */
  mode(): Mode | undefined;
  /** The folder that a new session works in, as a URI; nothing where there is no choice. */
  folder(): string | undefined;
  /** The person has stopped a turn: a server that does not answer is ended. */
  stopped(): void;
}

/** What a person has sent, until a turn has taken it. */
interface Typed {
  text: string;
  attach: readonly Attachment[];
}

const OFFERS: Offers = {
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
const KEPT = 8;
const PAGE = 40;

export class Chat {
  view: ViewState = {
    connection: { state: "starting" },
    offers: OFFERS,
    loading: false,
    next: {},
    last: {},
    elsewhere: 0,
    reviews: {},
    warnings: [],
    sending: false,
    stopping: false,
  };
  /** What the server said of itself as a whole. */
  status: StatusNotification | undefined;

  #api: Api | undefined;
  #known = new Map<string, State>();
  /** The prompt or resume that is running, by session. */
  #pending = new Map<string, AbortController>();
  readonly #sent = new SentPrompts();
  /** What each session was sent last, to be sent again. */
  readonly #typed = new Map<string, Typed>();
  /** The session of the first prompt is being made. */
  #making: AbortController | undefined;
  #cursor: string | undefined;
  #search = 0;

  constructor(
    readonly memory: Memory,
    readonly listener: Listener,
  ) {}

  get shown(): State | undefined {
    return this.view.chat;
  }

  /** The session that is shown, or the one that was before the window was loaded again. */
  get sessionId(): string | undefined {
    return this.view.chat?.sessionId ?? this.memory.get("session");
  }

  /** What the editor shows, to be attached by a click. */
  near(near: Near | undefined): void {
    const place = ({ label, block }: Near) => JSON.stringify([label, block.type, "range" in block ? block.range : ""]);
    const old = this.view.near;
    if ((near && place(near)) !== (old && place(old))) this.set({ near });
  }

  set(change: Partial<ViewState>): void {
    this.view = { ...this.view, ...change };
    if (!this.#mayAskElsewhere && this.view.elsewhere > 0) this.view = { ...this.view, elsewhere: 0 };
    const waiting = this.#sent.of(this.view.chat?.sessionId);
    if (waiting !== this.view.waiting) this.view = { ...this.view, waiting };
    this.listener.changed();
  }

  /** The server is there: what was shown before is shown again. */
  async connected(api: Api, capability: ServerCapability): Promise<void> {
    this.#api = api;
    const methods = new Set(capability.methods);
    const features = new Set<string>(capability.features);
    this.set({
      connection: { state: "ready" },
      last: kept(this.memory, CHOSEN),
      warnings: [],
      offers: {
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
    const others = [...this.#known.values()].filter((state) => state.sessionId !== sessionId);
    for (const state of others) this.#known.delete(state.sessionId);
    if (sessionId !== undefined) await this.open(sessionId);
    else this.set({ next: given({ mode: this.listener.mode(), ...kept(this.memory, NEXT), ...this.view.next }) });
    await this.refreshModels();
    if (sessionId === undefined) await this.refreshAgent();
  }

  /** The server is gone, `message`. What was shown stays, and no answer comes any more. */
  disconnected(connection: ViewState["connection"]): void {
    this.#api = undefined;
    this.status = undefined;
    this.#pending.clear();
    for (const [id, state] of this.#known) {
      this.#known.set(id, { ...state, running: undefined, activity: undefined, notices: [] });
    }
    const chat = this.view.chat && this.#known.get(this.view.chat.sessionId);
    this.set({ connection, chat, sending: false, stopping: false, loading: false });
  }

  /** Whether the server that is connected answers. */
  silent(message: string | undefined): void {
    if (this.#api) this.set({ connection: { state: "ready", silent: message !== undefined, message } });
  }

  /** A notification of the server. */
  received(event: Event): void {
    if (event.method === "agent/status") {
      this.status = event.params as StatusNotification;
      this.set({ warnings: (this.status.warnings ?? []).map((warning) => warning.message) });
      void this.#lookElsewhere();
      return;
    }
    const { sessionId } = event.params as { sessionId?: string };
    const before = sessionId === undefined ? undefined : this.#known.get(sessionId);
    if (before === undefined) return;
    const after = reduce(before, event);
    if (after !== before) this.#keep(after);
    this.listener.happened(event, before, after);
    if (after.missed !== undefined && before.missed === undefined) void this.#mend(after);
    if (event.method !== "agent/turnEnded") return;
    this.#sent.ended(after.sessionId);
    if (after.unused !== undefined && after === this.view.chat) this.listener.giveBack(after.unused);
    this.set({});
  }

  /** Says something to the agent: a prompt, or a steer while a turn runs. */
  async send(text: string, attach: readonly Attachment[]): Promise<void> {
    const api = this.#ready();
    if (api === undefined) return this.listener.giveBack(text, attach);
    const prompt = promptOf(text, attach);
    const running = this.view.chat?.running;
    if (running !== undefined && this.view.chat) {
      const { sessionId } = this.view.chat;
      const id = this.#sent.add(sessionId, text, attach, true);
      this.set({ trouble: undefined });
      try {
        await api.request("agent/steer", { sessionId, prompt, expectedTurnId: running });
        return;
      } catch (error) {
        this.#sent.drop(id);
        // The turn ended meanwhile: then it is a prompt.
        if (!["noTurn", "staleTurn"].includes(refusal(error))) return this.#refused(error, { text, attach });
      }
    }
    const id = this.#sent.add(this.view.chat?.sessionId, text, attach, false);
    this.set({ sending: true, trouble: undefined, answered: undefined, key: undefined });
    const typed = { text, attach };
    try {
      const sessionId = this.view.chat?.sessionId ?? (await this.#create(api)).sessionId;
      this.#typed.set(sessionId, typed);
      this.#run(api, "agent/prompt", { sessionId, prompt }, typed, id);
    } catch (error) {
      this.#sent.drop(id);
      if (isStopped(error)) {
        this.set({ sending: false, stopping: false });
        this.listener.giveBack(text, attach);
      } else this.#refused(error, typed);
    }
  }

  /** What the shown session was sent last in this window, with what was attached. */
  get lastTyped(): Typed | undefined {
    const sessionId = this.view.chat?.sessionId;
    return sessionId === undefined ? undefined : this.#typed.get(sessionId);
  }

  /** Goes on with the turn that was cut. */
  resume(): void {
    const api = this.#ready();
    const sessionId = this.view.chat?.sessionId;
    if (api && sessionId !== undefined) this.#run(api, "agent/resumeTurn", { sessionId }, undefined);
  }

  /** Makes what the model is sent smaller. */
  compact(): void {
    const api = this.#ready();
    const sessionId = this.view.chat?.sessionId;
    if (api && sessionId !== undefined) this.#run(api, requests.compact, { sessionId }, undefined);
  }

  /**
   * Stops the turn: by `$/cancelRequest` where a request of ours is pending, else, and at the second press, which
   * waits for no command any more, by `agent/cancel`.
   */
  cancel(): void {
    const chat = this.view.chat;
    if (!this.#api) return;
    if (this.#making) this.#making.abort();
    else if (chat === undefined) return;
    else {
      const pending = this.#pending.get(chat.sessionId);
      if (chat.running === undefined && pending === undefined) return;
      if (pending && !pending.signal.aborted) pending.abort();
      else this.#api.notify("agent/cancel", { sessionId: chat.sessionId });
    }
    this.set({ stopping: true });
    this.listener.stopped();
  }

  /** Shows a session. */
  async open(sessionId: string): Promise<void> {
    const api = this.#ready();
    if (api === undefined) return;
    this.memory.set("session", sessionId);
    const known = this.#known.get(sessionId);
    // Until it is known better, a session that was locked is.
    const locked = this.view.locked?.sessionId === sessionId ? this.view.locked : undefined;
    const asked = { trouble: undefined, answered: undefined, revert: undefined, editing: undefined, locked };
    this.set({ list: undefined, chat: known, loading: known === undefined, stopping: false, ...asked });
    try {
      const state = await this.#load(api, known ?? empty(sessionId));
      if (this.memory.get("session") === sessionId) {
        this.#show(state);
        this.set({ locked: undefined });
      }
    } catch (error) {
      if (refusal(error) === "unknownSession") {
        this.#known.delete(sessionId);
        this.begin();
      } else {
        this.#refused(error, undefined);
        // Another window has it: it can be read here.
        if (refusal(error) === "sessionLocked") await this.#look(api, sessionId, holderOf(error));
      }
    } finally {
      this.set({ loading: false });
    }
    void this.#lookElsewhere();
    await this.refreshAgent();
  }

  /** Leaves the session; the next prompt makes a new one, with the agent of this name. */
  begin(agent?: string): void {
    this.memory.set("session", undefined);
    const next = given({ mode: this.listener.mode(), agent });
    this.memory.set(NEXT, undefined);
    const asked = { trouble: undefined, answered: undefined, revert: undefined, editing: undefined, locked: undefined };
    this.set({ chat: undefined, list: undefined, next, sending: false, stopping: false, ...asked });
    void this.refreshModels();
    void this.refreshAgent();
    void this.#lookElsewhere();
  }

  /** Loads what happened before what is shown. */
  async earlier(): Promise<void> {
    const chat = this.view.chat;
    const api = this.#ready();
    if (!api || chat?.firstSeq === undefined || !chat.hasEarlier) return;
    const { sessionId, firstSeq: beforeSeq } = chat;
    try {
      const page = await api.request("agent/loadSession", { sessionId, beforeSeq, tail: 200 });
      const now = this.#known.get(sessionId);
      if (now?.firstSeq === beforeSeq) this.#keep(prepend(now, page));
    } catch (error) {
      this.#refused(error, undefined);
    }
  }

  /** An open approval of any session that this window has opened. */
  approval(approvalId: string): ApprovalRequestedNotification | undefined {
    return this.#asking(approvalId)?.approvals.find((open) => open.approvalId === approvalId);
  }

  #asking(approvalId: string): State | undefined {
    return [...this.#known.values()].find((one) => one.approvals.some((open) => open.approvalId === approvalId));
  }

  /** Sends an answer; only `Decisions` calls this. Returns whether the server took it. */
  async approve(
    approvalId: string,
    decision: Decision,
    more: { feedback?: string; input?: unknown; rule?: string },
  ): Promise<boolean> {
    const api = this.#ready();
    if (api === undefined) return false;
    const state = this.#asking(approvalId);
    const asked = this.approval(approvalId);
    try {
      await api.request("agent/approvalRespond", { approvalId, decision, ...more });
    } catch (error) {
      this.#refused(error, undefined);
      return false;
    }
    if (asked) this.set({ answered: answerLine(asked, decision, more), trouble: undefined });
    // The turn that asked is gone: the decision is kept until the turn goes on, and that is what it was made for.
    const idle = state && this.#known.get(state.sessionId);
    if (!idle || idle.running !== undefined || idle.resumable === undefined) return true;
    const approvals = idle.approvals.filter((open) => open.approvalId !== approvalId);
    this.#keep({ ...idle, approvals });
    if (approvals.length === 0 && idle.sessionId === this.view.chat?.sessionId) this.resume();
    return true;
  }

  /** A turn that was cut does not run, but its open questions count. */
  get #mayAskElsewhere(): boolean {
    return (this.status?.openApprovals ?? 0) > (this.view.chat === undefined ? 0 : asked(this.view.chat));
  }

  /** The server's count and what is shown are of different moments, so only the server's list says who asks. */
  async #lookElsewhere(): Promise<void> {
    if (!this.#mayAskElsewhere) return;
    const others = await this.#askingElsewhere();
    if (others.length !== this.view.elsewhere) this.set({ elsewhere: others.length });
  }

  async #askingElsewhere(): Promise<readonly { sessionId: string }[]> {
    const open = await this.#api?.request("agent/listApprovals", {}).catch(() => undefined);
    const all = [...(open?.approvals ?? []), ...(open?.limits ?? []), ...(open?.questions ?? [])];
    // The session that is being loaded is no other one.
    return all.filter(({ sessionId }) => sessionId !== this.sessionId);
  }

  /** Shows the session that asks while another is shown. */
  async showElsewhere(): Promise<void> {
    const others = await this.#askingElsewhere();
    // One that this window has opened is likelier to be meant than one that was left long ago.
    const meant = others.find(({ sessionId }) => this.#known.has(sessionId)) ?? others.at(-1);
    if (meant) await this.open(meant.sessionId);
    else this.set({ elsewhere: 0 });
  }

  async setMode(mode: Mode): Promise<void> {
    const sessionId = this.view.chat?.sessionId;
    if (sessionId === undefined) this.#chooseNext({ mode });
    else if (!(await this.#try((api) => api.request("agent/setMode", { sessionId, mode })))) return;
    // As the server: that all is free is chosen each time.
    if (mode !== "full") this.#remember({ mode });
  }

  /** The effort of the session, or of the next one; nothing where the provider's own is taken. */
  get effort(): Effort | undefined {
    return (this.view.chat ? this.view.chat.effort : this.view.next.effort) ?? undefined;
  }

  /** Without a model, of the one that is taken. */
  async setModel(model: string | undefined, effort: Effort | undefined): Promise<void> {
    const sessionId = this.view.chat?.sessionId;
    const meant = model ?? this.view.chat?.model;
    const choice = model === undefined ? { effort: effort ?? null } : given({ model, effort });
    if (sessionId === undefined) this.#chooseNext(choice);
    else if (meant === undefined) return;
    else if (
      !(await this.#try((api) => api.request("agent/setModel", { sessionId, model: meant, ...given({ effort }) })))
    )
      return;
    this.#remember(choice);
  }

  /** What the next session begins with outlives the window, as a text that was typed does. */
  #chooseNext(choice: Choice): void {
    const next = given({ ...this.view.next, ...choice });
    this.memory.set(NEXT, JSON.stringify(next));
    this.set({ next, trouble: undefined });
  }

  #remember(choice: Choice): void {
    const last = given({ ...this.view.last, ...choice });
    this.memory.set(CHOSEN, JSON.stringify(last));
    this.set({ last });
  }

  async refreshModels(): Promise<void> {
    const models = await this.#api?.request("agent/listModels", {}).catch(() => undefined);
    if (models) this.set({ defaultModel: models.models.find((one) => one.current)?.model });
  }

  /** Which agent the session has, or the next one will have. */
  async refreshAgent(): Promise<void> {
    if (!this.view.offers.agents) return;
    const sessionId = this.view.chat?.sessionId;
    const answer = await this.#api?.request("agent/listAgents", given({ sessionId })).catch(() => undefined);
    if (answer === undefined || sessionId !== this.view.chat?.sessionId) return;
    const wanted = this.view.next.agent ?? "default";
    const now = answer.agents.find(({ name, current }) => (sessionId === undefined ? name === wanted : current));
    const several = answer.agents.length > 1;
    this.set({ agent: now && { name: now.name, mode: now.mode, model: now.model, several } });
  }

  /** Shows or hides the list of sessions, those that fit `query`. */
  async sessions(show: boolean, query = ""): Promise<void> {
    if (!show) return this.set({ list: undefined });
    const search = ++this.#search;
    const old = this.view.list;
    this.set({ list: { query, sessions: old?.sessions ?? [], more: false, loading: true } });
    const page = await this.#page(query, undefined);
    if (search !== this.#search || this.view.list === undefined || page === undefined) return;
    this.#cursor = page.nextCursor;
    this.set({ list: { query, sessions: page.sessions, more: page.nextCursor !== undefined, loading: false } });
  }

  async moreSessions(): Promise<void> {
    const { list } = this.view;
    if (list === undefined || this.#cursor === undefined) return;
    const search = this.#search;
    const page = await this.#page(list.query, this.#cursor);
    if (search !== this.#search || this.view.list === undefined || page === undefined) return;
    this.#cursor = page.nextCursor;
    const sessions = [...this.view.list.sessions, ...page.sessions];
    this.set({ list: { ...this.view.list, sessions, more: page.nextCursor !== undefined } });
  }

  async rename(sessionId: string, title: string): Promise<void> {
    await this.#try((api) => api.request("agent/renameSession", { sessionId, title }));
    if (this.view.list) await this.sessions(true, this.view.list.query);
  }

  async remove(sessionId: string): Promise<void> {
    const gone = await this.#try((api) => api.request("agent/deleteSession", { sessionId }));
    if (gone === undefined) return;
    this.#known.delete(sessionId);
    const { list } = this.view;
    if (this.view.chat?.sessionId === sessionId) this.begin();
    if (list) await this.sessions(true, list.query);
  }

  /** The whole of a field that was cut. */
  async content(sessionId: string, ref: string): Promise<string | undefined> {
    let text = "";
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const from: number = offset;
      const limit = 1_048_576;
      const piece = await this.#try((api) => api.request("agent/readContent", { sessionId, ref, offset: from, limit }));
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
    return this.#try((api) => api.request(method, params));
  }

  async #page(query: string, cursor: string | undefined): Promise<ListSessionsResult | undefined> {
    const words = query.trim();
    const params = { limit: PAGE, ...given({ query: words === "" ? undefined : words, cursor }) };
    try {
      return await this.#api?.request("agent/listSessions", params);
    } catch (error) {
      if (this.view.list) this.set({ list: { ...this.view.list, loading: false, error: told(error) } });
      return undefined;
    }
  }

  async #try<T>(what: (api: Api) => Promise<T>): Promise<T | undefined> {
    const api = this.#ready();
    try {
      return api && (await what(api));
    } catch (error) {
      this.#refused(error, undefined);
      return undefined;
    }
  }

  #ready(): Api | undefined {
    if (this.#api === undefined) this.set({ trouble: this.view.connection.message ?? "The server is not there yet." });
    return this.#api;
  }

  async #create(api: Api): Promise<State> {
    const { mode, model, agent } = this.view.next;
    const effort = this.view.next.effort ?? undefined;
    const cwd = this.listener.folder();
    // What the person did not choose now, the server takes from what they chose last.
    const params: NewSessionParams = { remembered: true, ...given({ mode, model, effort, agent, cwd }) };
    const making = new AbortController();
    this.#making = making;
    const made = await this.#untilStopped(api.request("agent/newSession", params), making.signal).finally(() => {
      this.#making = undefined;
    });
    const state: State = {
      ...empty(made.sessionId),
      seq: made.seq,
      firstSeq: made.seq + 1,
      mode: made.mode,
      model: made.model ?? model,
      effort: made.effort ?? effort,
      cwd: cwd === undefined ? undefined : fileURLToPath(cwd),
    };
    if (this.view.next.effort === null && state.effort !== undefined && state.model !== undefined) {
      await api.request("agent/setModel", { sessionId: made.sessionId, model: state.model });
      state.effort = undefined;
    }
    this.memory.set("session", made.sessionId);
    this.memory.set(NEXT, undefined);
    this.#sent.made(made.sessionId);
    // Its first events may have come already; they are in a page then.
    const now = made.seq === 0 ? state : await this.#load(api, empty(made.sessionId));
    this.#show({ ...now, model: now.model ?? state.model });
    return now;
  }

  /** What `asked` gives, unless the person stops it first or the connection goes. */
  async #untilStopped<T>(asked: Promise<T>, stop: AbortSignal): Promise<T> {
    const stopped = new Promise<never>((_given, refuse) => {
      stop.addEventListener("abort", () => refuse(STOPPED), { once: true });
    });
    return Promise.race([asked, stopped]);
  }

  /** Starts a turn. Its answer tells nothing that `agent/turnEnded` has not told. */
  #run(
    api: Api,
    method: string,
    params: { sessionId: string; prompt?: PromptContent },
    typed: Typed | undefined,
    id?: number,
  ): void {
    const abort = new AbortController();
    this.#pending.set(params.sessionId, abort);
    this.set({ sending: true, stopping: false, trouble: undefined });
    const over = () => {
      if (id !== undefined) this.#sent.drop(id);
      if (this.#pending.get(params.sessionId) === abort) {
        this.#pending.delete(params.sessionId);
        if (this.view.chat?.sessionId === params.sessionId) return this.set({ sending: false, stopping: false });
      }
      this.set({});
    };
    api.ask(method, params, abort.signal).then(over, (error: unknown) => {
      over();
      const known = this.#known.get(params.sessionId);
      // What was typed is never lost: a prompt that no turn took goes back.
      if (code(error) === CANCELLED || lost(error) || this.#api !== api) {
        if (typed !== undefined && !took(known, typed.text)) this.listener.giveBack(typed.text, typed.attach);
      } else this.#refused(error, typed);
    });
  }

  async #load(api: Api, from: State): Promise<State> {
    const params: LoadSessionParams = { sessionId: from.sessionId };
    if (from.seq > 0) params.afterSeq = from.seq;
    const result: LoadSessionResult = await api.request("agent/loadSession", params);
    // Events that came meanwhile are known already; the page leaves them out or repeats them.
    const now = this.#known.get(from.sessionId);
    const loaded = load(now !== undefined && now.seq >= from.seq ? now : from, result);
    this.#sent.taken(now, loaded);
    // The turn is over, and nothing has told that it left these unused.
    const left = loaded.running === undefined ? this.#sent.ended(loaded.sessionId) : [];
    if (left.length > 0) this.listener.giveBack(left.join("\n\n"));
    return loaded;
  }

  async #look(api: Api, sessionId: string, holder: Holder): Promise<void> {
    try {
      const page = await api.request("agent/loadSession", { sessionId, readOnly: true });
      if (this.memory.get("session") !== sessionId) return;
      this.#show(load(empty(sessionId), page));
      this.set({ locked: { sessionId, ...holder } });
    } catch (error) {
      this.#refused(error, undefined);
    }
  }

  async #mend(state: State): Promise<void> {
    const api = this.#api;
    if (!api) return;
    try {
      this.#keep(await this.#load(api, state));
    } catch (error) {
      this.#refused(error, undefined);
    }
  }

  #show(state: State): void {
    this.#known.set(state.sessionId, state);
    this.set({ chat: state, loading: false });
    this.#forget();
  }

  #keep(state: State): void {
    this.#sent.taken(this.#known.get(state.sessionId), state);
    this.#known.set(state.sessionId, state);
    if (this.view.chat?.sessionId !== state.sessionId) return;
    const begun = state.running !== undefined && this.view.chat.running === undefined;
    const ended = state.running === undefined && this.view.chat.running !== undefined;
    // The turn's end counts, not the answer that comes after it: the next prompt may be sent at once.
    if (ended) this.#pending.delete(state.sessionId);
    if (begun && this.view.revert !== undefined) this.set({ revert: undefined });
    this.set({ chat: state, ...(begun || ended ? { sending: false } : {}), ...(ended ? { stopping: false } : {}) });
  }

  #forget(): void {
    for (const [id, state] of this.#known) {
      if (this.#known.size <= KEPT) return;
      if (id !== this.view.chat?.sessionId && state.running === undefined) this.#known.delete(id);
    }
  }

  #refused(error: unknown, typed: Typed | undefined): void {
    this.set({ sending: false, ...(lost(error) ? {} : { trouble: told(error) }) });
    if (typed !== undefined) this.listener.giveBack(typed.text, typed.attach);
  }
}

/** What an answer did, for people. */
export function answerLine(
  { shown, title }: ApprovalRequestedNotification,
  decision: Decision,
  { input, rule }: { input?: unknown; rule?: string },
): string {
  const what = input === undefined ? (shown ?? title) : `${title}, as edited by you`;
  switch (decision) {
    case "allow":
      return `Allowed once: ${what}`;
    case "allowSession":
      return `Allowed, and ${rule ?? "the rule"} for this session: ${what}`;
    case "allowAlways":
      return `Allowed, and ${rule ?? "the rule"} from now on: ${what}`;
    case "deny":
      return `Denied: ${what}`;
  }
}

/** Where the choices for the next session are kept. */
const NEXT = "next";
/** The person's last choices, as the server remembers them too. */
const CHOSEN = "chosen";

function kept(memory: Memory, key: string): Choice {
  try {
    return JSON.parse(memory.get(key) ?? "{}") as Choice;
  } catch {
    return {};
  }
}

/** Why a session was not made: the person stopped it. */
const STOPPED = new Error("stopped");

function isStopped(error: unknown): boolean {
  return error === STOPPED;
}

/** LSP's code of a request that was cancelled. */
const CANCELLED = -32800;

/** Whether the connection went before the answer came: vscode-jsonrpc's own codes from -32099 to -32096. */
function lost(error: unknown): boolean {
  const number = code(error) ?? 0;
  return number >= -32099 && number <= -32096;
}

function took(state: State | undefined, text: string): boolean {
  const said = state?.items.findLast((item) => item.kind === "user" && !item.steer);
  return said?.kind === "user" && said.text.trim() === text.trim();
}

/** What was typed, as the protocol has it. */
export function promptOf(text: string, attach: readonly Attachment[]): PromptContent {
  if (attach.length === 0) return text;
  const blocks: PromptBlock[] = attach.map((one) => one.block);
  return text.trim() === "" ? blocks : [{ type: "text", text }, ...blocks];
}

function code(error: unknown): number | undefined {
  return (error as { code?: number } | undefined)?.code;
}

function data(error: unknown): Partial<ErrorData> {
  return (error as { data?: Partial<ErrorData> } | undefined)?.data ?? {};
}

/** Who has a session, as the server names it; the process only where it is known. */
type Holder = Pick<LockedSession, "holder" | "pid">;

function holderOf(error: unknown): Holder {
  const holder = data(error).holder ?? "another window";
  const pid = /\(process (\d+)\)$/.exec(holder)?.[1];
  return { holder, pid: pid === undefined ? undefined : Number(pid) };
}

function refusal(error: unknown): string {
  return data(error).refusal ?? "";
}

/** An error for people: what, why, and what to do. */
export function told(error: unknown): string {
  const { message, cause, userAction } = data(error);
  const what = message ?? (error instanceof Error ? error.message : String(error));
  return [cause === undefined ? what : `${what}: ${cause}`, userAction].filter((part) => part !== undefined).join("\n");
}

/** Without the fields that are not set. */
export function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
