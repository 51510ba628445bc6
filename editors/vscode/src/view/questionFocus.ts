// The open questions of the page: which one a key of the editor answers, and where the focus goes after an answer.
// Answered is only what is in sight; what is not is shown first.

/** A key that was on its way when a question appeared is not its answer. */
export const SETTLE_DELAY_MS = 400;

const QUESTION_SELECTOR = "[data-question]";
/** Tells a question that it was brought into sight, so that it settles again. */
export const APPEARED_EVENT = "agentls-appeared";
/** Tells a question about a key of the editor. */
export const ANSWER_EVENT = "agentls-answer";

/** Tells a question that its answer was not taken. */
export const STILL_OPEN_EVENT = "agentls-still-open";

/** The first question is to be shown once it is drawn. */
let showsNextQuestion = false;

export function listOpenQuestions(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(QUESTION_SELECTOR)];
}

/** Whether a person sees the question with its buttons. */
export function isInSight(question: HTMLElement): boolean {
  if (document.visibilityState !== "visible") return false;
  const frame = question.closest(".log")?.getBoundingClientRect();
  const top = Math.max(0, frame?.top ?? 0);
  const bottom = Math.min(window.innerHeight, frame?.bottom ?? window.innerHeight);
  const box = question.getBoundingClientRect();
  const actions = question.querySelector(".ways")?.getBoundingClientRect() ?? box;
  const fitsInView = ({ top: from, bottom: to }: DOMRect) => from >= top - 1 && to <= bottom + 1;
  // Of a question that is higher than the view, the part above the buttons fills it.
  return fitsInView(box) || (box.height > bottom - top && fitsInView(actions));
}

/** Brings a question into sight, with the focus. */
export function showQuestion(question: HTMLElement): void {
  if (!isInSight(question)) {
    question.scrollIntoView({ block: "nearest" });
    // Of one that is too high, the buttons.
    if (!isInSight(question)) question.querySelector(".ways")?.scrollIntoView({ block: "end" });
    question.dispatchEvent(new CustomEvent(APPEARED_EVENT));
  }
  question.focus({ preventScroll: true });
}

/** Shows the first question, now or as soon as there is one; else `otherwise` gets the focus. */
export function showFirstQuestion(otherwise: HTMLElement | null, expected: boolean): void {
  const [first] = listOpenQuestions();
  if (first) showQuestion(first);
  else {
    showsNextQuestion = expected;
    otherwise?.focus();
  }
}

/** A question was drawn. */
export function onQuestionAdded(question: HTMLElement): void {
  if (showsNextQuestion) {
    showsNextQuestion = false;
    showQuestion(question);
    return;
  }
  // Nobody who types is interrupted.
  const active = document.activeElement;
  const types = active instanceof HTMLTextAreaElement && active.value !== "";
  if (!types && document.hasFocus() && !active?.closest(QUESTION_SELECTOR))
    question.focus({ preventScroll: isInSight(question) });
}

/** A question goes: if it has the focus, the next open one gets it, or the input. */
export function onQuestionRemoved(question: HTMLElement): void {
  if (!question.contains(document.activeElement)) return;
  const all = listOpenQuestions();
  const at = all.indexOf(question);
  const others = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at))];
  // It is still in the page.
  requestAnimationFrame(() => {
    if (!document.hasFocus() || (document.activeElement && document.activeElement !== document.body)) return;
    const next = others.find((other) => other.isConnected);
    if (next) showQuestion(next);
    else document.querySelector<HTMLElement>('[data-testid="input"]')?.focus();
  });
}

/** The answer to an approval was not taken. */
export function reopenQuestion(approvalId: string): void {
  const question = listOpenQuestions().find(({ dataset }) => dataset["approval"] === approvalId);
  question?.dispatchEvent(new CustomEvent(STILL_OPEN_EVENT));
}

/**
 * A key of the editor: answers the question that has the focus or whose review is in the active editor, else the only
 * one in sight. Where that is none, or not certain, the question is shown and the next press answers. Returns whether
 * there is such a question.
 */
export function answerVisibleQuestion(action: "allow" | "deny" | "diff", reviewed: string | undefined): boolean {
  const all = listOpenQuestions().filter(({ dataset }) => dataset["approval"] !== undefined);
  const [first] = all;
  if (first === undefined) return false;
  const focused = document.hasFocus() ? all.find((one) => one.contains(document.activeElement)) : undefined;
  const ofReview = document.hasFocus() ? undefined : all.find((one) => one.dataset["approval"] === reviewed);
  const inSight = all.filter(isInSight);
  const meant = focused ?? ofReview ?? (inSight.length === 1 ? inSight[0] : undefined);
  // What has not settled is shown: the key was on its way when it appeared.
  if (meant?.dataset["armed"] === "true" && (meant === ofReview || isInSight(meant))) {
    meant.dispatchEvent(new CustomEvent(ANSWER_EVENT, { detail: action }));
  } else showQuestion(meant ?? inSight[0] ?? first);
  return true;
}
