// A chat and a server of a few lines: what was asked of it, and what it answers.

import assert from "node:assert/strict";
import { type Api, Chat } from "../chat";
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

export interface Asked {
  method: string;
  params: Record<string, unknown>;
  signal: AbortSignal | undefined;
  answer: (result: unknown) => void;
  refuse: (error: unknown) => void;
}

export class Fake {
  readonly asked: Asked[] = [];
  readonly notified: { method: string; params: unknown }[] = [];
  readonly given: string[] = [];
  readonly kept = new Map<string, string>();
  stops = 0;
  answers: Record<string, unknown> = {
    "agent/newSession": { sessionId: "s1", mode: "ask", seq: 0 },
    "agent/listModels": { models: [], providers: [] },
    "agent/loadSession": { events: [], hasEarlier: false, openApprovals: [], seq: 0, state: STATE },
    "agent/approvalRespond": {},
    "agent/setMode": {},
  };

  readonly api: Api = {
    ask: (method, params, signal) =>
      new Promise((answer, refuse) => {
        this.asked.push({ method, params: params as Record<string, unknown>, signal, answer, refuse });
        if (method in this.answers) answer(this.answers[method]);
      }),
    request: (method, params, signal) => this.api.ask(method, params, signal) as never,
    notify: (method, params) => void this.notified.push({ method, params }),
  };

  readonly chat = new Chat(
    {
      get: (key) => this.kept.get(key),
      set: (key, value) => void (value === undefined ? this.kept.delete(key) : this.kept.set(key, value)),
    },
    {
      changed() {},
      happened() {},
      giveBack: (text, attach = []) => void this.given.push([text, ...attach.map(({ label }) => label)].join(" + ")),
      mode: () => undefined,
      folder: () => undefined,
      stopped: () => void this.stops++,
    },
  );

  async connect(...more: string[]): Promise<this> {
    await this.chat.connected(this.api, { ...CAPABILITY, methods: [...CAPABILITY.methods, ...more] });
    return this;
  }

  event(method: string, params: object): void {
    this.chat.received({ method: `agent/${method}`, params: { sessionId: "s1", at: 1, turnId: "t1", ...params } });
  }

  last(method: string): Asked {
    const found = this.asked.findLast((one) => one.method === method);
    assert.ok(found, `${method} was asked`);
    return found;
  }
}
