// Builds the model list from the server's models and a typed name. Pure.

import { omitUndefined } from "./chat";
import { escapeLabel, formatTokens } from "./format";
import type { ListModelsResult, ModelInfo } from "./protocol";

export interface ModelChoice {
  label: string;
  description: string;
  detail: string;
  /** The name that `agent/setModel` expects. */
  model: string;
  alwaysShow?: boolean;
}

export function buildModelChoices({ models }: ListModelsResult, selected: string | undefined): ModelChoice[] {
  return models.map((info) => ({
    label: escapeLabel(info.model),
    description: (selected === undefined ? info.current : info.model === selected) ? "current" : "",
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

/** Adds a typed name that the server does not list. */
export function addTypedModel(choices: readonly ModelChoice[], input: string): ModelChoice[] {
  const name = input.trim();
  if (name === "" || choices.some(({ model }) => model === name)) return [...choices];
  const typedChoice = {
    label: escapeLabel(name),
    description: "use this name",
    detail: "",
    model: name,
    alwaysShow: true,
  };
  return [...choices, typedChoice];
}

/** Describes providers without a working model. */
export function describeBrokenProviders({ providers }: ListModelsResult): string {
  return providers
    .filter(({ health }) => health === "failing" || health === "notConfigured")
    .map(({ provider, message }) => `${provider}: ${message ?? "not working"}`)
    .join("; ");
}

/** Asks for the server's cached list first, then for the providers' live lists. */
export function buildModelQueries(sessionId: string | undefined): { sessionId?: string; live?: boolean }[] {
  return [omitUndefined({ sessionId }), omitUndefined({ sessionId, live: true })];
}
