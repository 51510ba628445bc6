// Answers to approvals: what is sent is what the review shows, or nothing is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Decisions } from "../decisions";
import type { ReviewOutcome } from "../review";
import { Fake } from "./fakeServer";

const ASKED = {
  approvalId: "a1",
  toolCallId: "c1",
  name: "edit_file",
  input: { path: "a.ts", edits: [] },
  title: "Edit a.ts",
  cwd: "/w",
  risk: "medium",
  why: "x",
  rule: "edit(src/**)",
};

async function decisions(outcome: ReviewOutcome) {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  fake.event("approvalRequested", { seq: 2, ...ASKED });
  const refusals: string[] = [];
  const closed: string[] = [];
  const reopened: string[] = [];
  const reviews = {
    outcome: () => Promise.resolve(outcome),
    close: (id: string) => Promise.resolve(void closed.push(id)),
  };
  const made = new Decisions(fake.chat, reviews, {
    refused: (message) => void refusals.push(message),
    stillOpen: (id) => void reopened.push(id),
  });
  const sent = () => fake.asked.filter(({ method }) => method === "agent/approvalRespond").map(({ params }) => params);
  return { fake, made, refusals, closed, reopened, sent };
}

const EDITED = { path: "a.ts", edits: [{ old_text: "a", new_text: "b" }] };

for (const decision of ["allow", "allowSession", "allowAlways"] as const) {
  test(`${decision} sends what the review shows`, async () => {
    const { made, sent, closed, fake } = await decisions({ kind: "edited", input: EDITED });
    const rule = decision === "allow" ? {} : { rule: ASKED.rule };
    await made.decide("a1", decision, rule);
    assert.deepEqual(sent(), [{ approvalId: "a1", decision, input: EDITED, ...rule }]);
    assert.deepEqual(closed, ["a1"]);
    assert.match(fake.chat.view.answered ?? "", /^Allowed.*as edited by you$/);
  });

  test(`${decision} sends nothing where the review cannot be sent`, async () => {
    const { made, sent, refusals, closed, reopened } = await decisions({
      kind: "refused",
      message: "a.ts has changed.",
    });
    await made.decide("a1", decision);
    assert.deepEqual([sent(), refusals, closed], [[], ["a.ts has changed."], []]);
    assert.deepEqual(reopened, ["a1"], "the question can be answered again");
  });
}

test("a review that shows the proposal sends the call as it is", async () => {
  const { made, sent, fake } = await decisions({ kind: "unchanged" });
  await made.decide("a1", "allow");
  assert.deepEqual(sent(), [{ approvalId: "a1", decision: "allow" }]);
  assert.equal(fake.chat.view.answered, "Allowed once: Edit a.ts");
});

test("arguments that were edited beside a review are not sent", async () => {
  for (const outcome of [{ kind: "unchanged" }, { kind: "edited", input: EDITED }] as const) {
    const { made, sent, refusals } = await decisions(outcome);
    await made.decide("a1", "allow", { input: { path: "other.ts" } });
    assert.deepEqual(sent(), []);
    assert.match(refusals[0] ?? "", /Discard the review/);
  }
});

test("a denial needs no review", async () => {
  const { made, sent } = await decisions({ kind: "refused", message: "no" });
  await made.decide("a1", "deny", { feedback: "why" });
  assert.deepEqual(sent(), [{ approvalId: "a1", decision: "deny", feedback: "why" }]);
});

test("an answer is sent once, and only to an open question", async () => {
  const { made, sent, refusals } = await decisions({ kind: "none" });
  await Promise.all([made.decide("a1", "allow"), made.decide("a1", "allow")]);
  assert.equal(sent().length, 1);
  await made.decide("a9", "allow");
  assert.deepEqual(refusals, ["This question is no longer open."]);
});

test("the server refuses: the review stays", async () => {
  const { fake, made, closed } = await decisions({ kind: "edited", input: EDITED });
  delete fake.answers["agent/approvalRespond"];
  const decided = made.decide("a1", "allow");
  await new Promise(setImmediate);
  fake.last("agent/approvalRespond").refuse({ data: { message: "bad input" } });
  await decided;
  assert.deepEqual(closed, []);
  assert.equal(fake.chat.view.trouble, "bad input");
});
