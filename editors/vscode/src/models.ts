// The list of models as a person chooses from it: what the server offers, and any other name that is typed. Pure.

import { omitUndefined } from "./chat";
import { escapeLabel, formatTokens } from "./format";
import type { ListModelsResult, ModelInfo } from "./protocol";

export interface ModelChoice {
  label: string;
  description: string;
  detail: string;
  /** As `agent/setModel` takes it. */
  model: string;
  alwaysShow?: boolean;
}

/** Those that the server offers; the one of the session is marked. */
export function buildModelChoices({ models }: ListModelsResult, chosen: string | undefined): ModelChoice[] {
  return models.map((info) => ({
    label: escapeLabel(info.model),
    description: (chosen === undefined ? info.current : info.model === chosen) ? "current" : "",
    detail: describeModel(info),
    model: info.model,
  }));
}

function describeModel({ contextWindow, price, listed }: ModelInfo): string {
  return [
    contextWindow === undefined ? "" : `${formatTokens(contextWindow)} tokens`,
    price === undefined ? "" : `$${price.input} in, $${price.output} out per million tokens`,
    listed === false ? "not listed by the provider" : "",
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

/** A name that is typed and not offered can be taken as it is. */
export function addTypedModel(choices: readonly ModelChoice[], typed: string): ModelChoice[] {
  const name = typed.trim();
  if (name === "" || choices.some(({ model }) => model === name)) return [...choices];
  const own = { label: escapeLabel(name), description: "use this name", detail: "", model: name, alwaysShow: true };
  return [...choices, own];
}

/** Providers of which no model answers, and why. */
export function describeBrokenProviders({ providers }: ListModelsResult): string {
  return providers
    .filter(({ health }) => health === "failing" || health === "notConfigured")
    .map(({ provider, message }) => `${provider}: ${message ?? "not working"}`)
    .join("; ");
}

/** What to ask the server: its known list at once, and then with the providers' own. */
export function buildModelQueries(sessionId: string | undefined): { sessionId?: string; live?: boolean }[] {
  return [omitUndefined({ sessionId }), omitUndefined({ sessionId, live: true })];
}
