// A chat with a fake server that records requests and returns canned results.

import assert from "node:assert/strict";
import { Chat, type ServerApi } from "../chat";
import type { ServerCapability } from "../protocol";

export const CAPABILITY: ServerCapability = {
  protocolVersion: { major: 1, minor: 0 },
  methods: ["agent/steer", "agent/resumeTurn"],
  notifications: [],
  features: [],
};
export const STATE = {
  cwd: "/w",
  mode: "ask",
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
};

export interface RecordedRequest {
  method: string;
  params: Record<string, unknown>;
  signal: AbortSignal | undefined;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

export class FakeServer {
  readonly requests: RecordedRequest[] = [];
  readonly notifications: { method: string; params: unknown }[] = [];
  readonly restoredDrafts: string[] = [];
  readonly restoredSessions: (string | undefined)[] = [];
  readonly storage = new Map<string, string>();
  stopCount = 0;
  answers: Record<string, unknown> = {
    "agent/newSession": { sessionId: "s1", mode: "ask", seq: 0 },
    "agent/listModels": { models: [], providers: [] },
    "agent/loadSession": { events: [], hasEarlier: false, openApprovals: [], seq: 0, state: STATE },
    "agent/approvalRespond": {},
    "agent/setMode": {},
  };

  readonly api: ServerApi = {
    serverPid: 1234,
    sendRequest: (method, params, signal) =>
      new Promise((resolve, reject) => {
        this.requests.push({ method, params: params as Record<string, unknown>, signal, resolve, reject });
        if (method in this.answers) resolve(this.answers[method]);
      }),
    request: (method, params, signal) => this.api.sendRequest(method, params, signal) as never,
    sendNotification: (method, params) => void this.notifications.push({ method, params }),
  };

  readonly chat = new Chat(
    {
      get: (key) => this.storage.get(key),
      set: (key, value) => void (value === undefined ? this.storage.delete(key) : this.storage.set(key, value)),
    },
    {
      onViewChanged() {},
      onEvent() {},
      restoreDraft: (sessionId, { text, attach }) => {
        this.restoredDrafts.push([text, ...attach.map(({ label }) => label)].join(" + "));
        this.restoredSessions.push(sessionId);
      },
      getDefaultMode: () => undefined,
      getSessionFolder: () => undefined,
      onTurnStopped: () => void this.stopCount++,
    },
  );

  async connectChat(...extraMethods: string[]): Promise<this> {
    await this.chat.onConnected(this.api, { ...CAPABILITY, methods: [...CAPABILITY.methods, ...extraMethods] });
    return this;
  }

  emitEvent(method: string, params: object): void {
    this.chat.onNotification({
      method: `agent/${method}`,
      params: { sessionId: "s1", at: 1, turnId: "t1", ...params },
    });
  }

  lastRequest(method: string): RecordedRequest {
    const request = this.requests.findLast((candidate) => candidate.method === method);
    assert.ok(request, `${method} was requested`);
    return request;
  }
}
