// Decisions send exactly what the review shows, or nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Decisions } from "../decisions";
import type { ReviewOutcome } from "../review";
import { FakeServer } from "./fakeServer";

const APPROVAL = {
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

async function setUpDecisions(outcome: ReviewOutcome) {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.emitEvent("approvalRequested", { seq: 2, ...APPROVAL });
  const refusals: string[] = [];
  const closedReviews: string[] = [];
  const decidedStates: boolean[] = [];
  const reopened: string[] = [];
  const reviews = {
    getOutcome: () => Promise.resolve(outcome),
    setDecided: (_id: string, isDecided: boolean) => void decidedStates.push(isDecided),
    closeReview: (id: string) => Promise.resolve(void closedReviews.push(id)),
  };
  const decisions = new Decisions(fake.chat, reviews, {
    onRefused: (message) => void refusals.push(message),
    onReopened: (id) => void reopened.push(id),
  });
  const listSentDecisions = () =>
    fake.requests.filter(({ method }) => method === "agent/approvalRespond").map(({ params }) => params);
  return { fake, decisions, refusals, closedReviews, decidedStates, reopened, listSentDecisions };
}

const DIFF = "--- a.ts\n+++ a.ts\n@@ -1 +1 @@\n-a\n+b\n";
const EDITED = { path: "a.ts", edits: [{ old_text: "a", new_text: "b" }] };

for (const decision of ["allow", "allowSession", "allowAlways"] as const) {
  test(`${decision} sends what the review shows`, async () => {
    const { decisions, listSentDecisions, closedReviews, fake } = await setUpDecisions({
      kind: "edited",
      input: EDITED,
      diff: DIFF,
    });
    const rule = decision === "allow" ? {} : { rule: APPROVAL.rule };
    await decisions.decideApproval("a1", decision, rule);
    assert.deepEqual(listSentDecisions(), [{ approvalId: "a1", decision, input: EDITED, ...rule }]);
    assert.deepEqual(closedReviews, ["a1"]);
    assert.match(fake.chat.view.lastAnswer ?? "", /^Allowed.*as edited by you$/);
  });

  test(`${decision} sends nothing if the review cannot be sent`, async () => {
    const { decisions, listSentDecisions, refusals, closedReviews, reopened } = await setUpDecisions({
      kind: "refused",
      message: "a.ts has changed.",
    });
    await decisions.decideApproval("a1", decision);
    assert.deepEqual([listSentDecisions(), refusals, closedReviews], [[], ["a.ts has changed."], []]);
    assert.deepEqual(reopened, ["a1"], "the question can be answered again");
  });
}

test("an unchanged review sends the original call", async () => {
  const { decisions, listSentDecisions, fake } = await setUpDecisions({ kind: "unchanged" });
  await decisions.decideApproval("a1", "allow");
  assert.deepEqual(listSentDecisions(), [{ approvalId: "a1", decision: "allow" }]);
  assert.equal(fake.chat.view.lastAnswer, "Allowed once: Edit a.ts");
});

test("edited arguments are refused if there is a review", async () => {
  for (const outcome of [{ kind: "unchanged" }, { kind: "edited", input: EDITED, diff: DIFF }] as const) {
    const { decisions, listSentDecisions, refusals } = await setUpDecisions(outcome);
    await decisions.decideApproval("a1", "allow", { input: { path: "other.ts" } });
    assert.deepEqual(listSentDecisions(), []);
    assert.match(refusals[0] ?? "", /Discard the review/);
  }
});

test("a denial ignores the review", async () => {
  const { decisions, listSentDecisions } = await setUpDecisions({ kind: "refused", message: "no" });
  await decisions.decideApproval("a1", "deny", { feedback: "why" });
  assert.deepEqual(listSentDecisions(), [{ approvalId: "a1", decision: "deny", feedback: "why" }]);
});

test("an answer is sent once, and only to an open request", async () => {
  const { decisions, listSentDecisions, refusals } = await setUpDecisions({ kind: "none" });
  await Promise.all([decisions.decideApproval("a1", "allow"), decisions.decideApproval("a1", "allow")]);
  assert.equal(listSentDecisions().length, 1);
  await decisions.decideApproval("a9", "allow");
  assert.deepEqual(refusals, ["This request is no longer open."]);
});

test("a rejected answer keeps the review", async () => {
  const { fake, decisions, closedReviews } = await setUpDecisions({ kind: "edited", input: EDITED, diff: DIFF });
  delete fake.answers["agent/approvalRespond"];
  const deciding = decisions.decideApproval("a1", "allow");
  await new Promise(setImmediate);
  fake.lastRequest("agent/approvalRespond").reject({ data: { message: "bad input" } });
  await deciding;
  assert.deepEqual(closedReviews, []);
  assert.equal(fake.chat.view.error, "bad input");
});

test("a call whose edit was reviewed shows what was allowed, not the proposal", async () => {
  const { fake, decisions } = await setUpDecisions({ kind: "edited", input: EDITED, diff: DIFF });
  const resolved = { approvalId: "a1", toolCallId: "c1", decision: "allow", by: "person", input: EDITED };
  const findCall = () => fake.chat.activeSession?.items.find((item) => item.kind === "tool");
  fake.emitEvent("toolCall", { seq: 3, toolCallId: "c1", name: "edit_file", title: "Edit a.ts", diff: "proposal" });
  const deciding = decisions.decideApproval("a1", "allow");
  await new Promise(setImmediate);
  fake.emitEvent("approvalResolved", { seq: 4, ...resolved });
  await deciding;
  assert.equal(findCall()?.diff, DIFF);
  // Edited elsewhere, the version is not known here.
  fake.emitEvent("toolCall", { seq: 5, toolCallId: "c1", name: "edit_file", title: "Edit a.ts", diff: "proposal" });
  fake.emitEvent("approvalResolved", { seq: 6, ...resolved });
  assert.equal(findCall()?.diff, undefined);
  assert.deepEqual(findCall()?.input, EDITED);
});
