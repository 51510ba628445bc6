// The list of models as a person chooses from it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { brokenLine, modelChoices, modelQuestions, withTyped } from "../models";
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

test("the known list is asked for first, then the providers' own", () => {
  assert.deepEqual(modelQuestions("s1"), [{ sessionId: "s1" }, { sessionId: "s1", live: true }]);
  assert.deepEqual(modelQuestions(undefined), [{}, { live: true }]);
});

test("each model says what is known of it, and which one is taken", () => {
  const [one, old] = modelChoices(LIST, undefined);
  assert.deepEqual([one?.description, one?.detail], ["now", "200k tokens"]);
  assert.equal(old?.detail, "$1 in, $2 out per million · not in the provider's own list");
  assert.equal(modelChoices(LIST, "tape/old")[1]?.description, "now");
  assert.equal(modelChoices(LIST, "tape/old")[0]?.description, "");
  assert.equal(brokenLine(LIST), "far: HTTP 500");
});

test("any other name that is typed can be taken", () => {
  const choices = modelChoices(LIST, undefined);
  assert.equal(withTyped(choices, " ").length, 2);
  assert.equal(withTyped(choices, "tape/one").length, 2);
  const own = withTyped(choices, " tape/$(new) ").at(-1);
  assert.deepEqual([own?.model, own?.label, own?.alwaysShow], ["tape/$(new)", "tape/\\$(new)", true]);
});
