// The model list.

import assert from "node:assert/strict";
import { test } from "node:test";
import { addTypedModel, buildModelChoices, buildModelQueries, describeBrokenProviders } from "../models";
import type { ListModelsResult } from "../protocol";

const LIST: ListModelsResult = {
  models: [
    { model: "tape/one", provider: "tape", current: true, contextWindow: 200_000, listed: true },
    { model: "tape/old", provider: "tape", current: false, listed: false, price: { input: 1, output: 2 } },
  ] as ListModelsResult["models"],
  providers: [
    { provider: "tape", kind: "script", health: "ok" },
    { provider: "far", kind: "openai", health: "failing", message: "HTTP 500" },
  ] as ListModelsResult["providers"],
};

test("the cached model list is requested before the live one", () => {
  assert.deepEqual(buildModelQueries("s1"), [{ sessionId: "s1" }, { sessionId: "s1", live: true }]);
  assert.deepEqual(buildModelQueries(undefined), [{}, { live: true }]);
});

test("each model shows its details, and the current one is marked", () => {
  const [current, old] = buildModelChoices(LIST, undefined);
  assert.deepEqual([current?.description, current?.detail], ["current", "200k tokens"]);
  assert.equal(old?.detail, "$1 in, $2 out per million tokens · not listed by the provider");
  assert.equal(buildModelChoices(LIST, "tape/old")[1]?.description, "current");
  assert.equal(buildModelChoices(LIST, "tape/old")[0]?.description, "");
  assert.equal(describeBrokenProviders(LIST), "far: HTTP 500");
});

test("a typed model name can be selected", () => {
  const choices = buildModelChoices(LIST, undefined);
  assert.equal(addTypedModel(choices, " ").length, 2);
  assert.equal(addTypedModel(choices, "tape/one").length, 2);
  const typedChoice = addTypedModel(choices, " tape/$(new) ").at(-1);
  assert.deepEqual(
    [typedChoice?.model, typedChoice?.label, typedChoice?.alwaysShow],
    ["tape/$(new)", "tape/\\$(new)", true],
  );
});
