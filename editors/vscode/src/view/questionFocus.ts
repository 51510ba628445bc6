// Decides which open question an editor key answers, and where the focus goes after an answer. Only a visible question
// can be answered. Others are shown first.

/** A key pressed before a question appeared must not answer it. */
export const SETTLE_DELAY_MS = 400;

const QUESTION_SELECTOR = "[data-question]";
/** Fired when a question scrolls into view, so that it settles again. */
export const APPEARED_EVENT = "agentls-appeared";
/** Fired when an editor key applies to a question. */
export const ANSWER_EVENT = "agentls-answer";

/** Fired when an answer was not accepted. */
export const STILL_OPEN_EVENT = "agentls-still-open";

/** Show the first question when it is drawn. */
let showsNextQuestion = false;

export function listOpenQuestions(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(QUESTION_SELECTOR)];
}

/** Whether the question and its buttons are visible. */
export function isInSight(question: HTMLElement): boolean {
  if (document.visibilityState !== "visible") return false;
  const frame = question.closest(".log")?.getBoundingClientRect();
  const top = Math.max(0, frame?.top ?? 0);
  const bottom = Math.min(window.innerHeight, frame?.bottom ?? window.innerHeight);
  const box = question.getBoundingClientRect();
  const actions = question.querySelector(".ways")?.getBoundingClientRect() ?? box;
  const fitsInView = ({ top: from, bottom: to }: DOMRect) => from >= top - 1 && to <= bottom + 1;
  // A question higher than the viewport counts as visible if its buttons are.
  return fitsInView(box) || (box.height > bottom - top && fitsInView(actions));
}

/** Scrolls a question into view and focuses it. */
export function showQuestion(question: HTMLElement): void {
  if (!isInSight(question)) {
    question.scrollIntoView({ block: "nearest" });
    // If the question is too high, show its buttons.
    if (!isInSight(question)) question.querySelector(".ways")?.scrollIntoView({ block: "end" });
    question.dispatchEvent(new CustomEvent(APPEARED_EVENT));
  }
  question.focus({ preventScroll: true });
}

/** Shows the first question, now or when it appears. Without one, focuses `otherwise`. */
export function showFirstQuestion(otherwise: HTMLElement | null, expected: boolean): void {
  const [first] = listOpenQuestions();
  if (first) showQuestion(first);
  else {
    showsNextQuestion = expected;
    otherwise?.focus();
  }
}

export function onQuestionAdded(question: HTMLElement): void {
  if (showsNextQuestion) {
    showsNextQuestion = false;
    showQuestion(question);
    return;
  }
  // Do not interrupt a user who types.
  const active = document.activeElement;
  const types = active instanceof HTMLTextAreaElement && active.value !== "";
  if (!types && document.hasFocus() && !active?.closest(QUESTION_SELECTOR))
    question.focus({ preventScroll: isInSight(question) });
}

/** Moves the focus to the next open question or to the input. */
export function onQuestionRemoved(question: HTMLElement): void {
  if (!question.contains(document.activeElement)) return;
  const all = listOpenQuestions();
  const at = all.indexOf(question);
  const others = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at))];
  // The question is still in the page at this point.
  requestAnimationFrame(() => {
    if (!document.hasFocus() || (document.activeElement && document.activeElement !== document.body)) return;
    const next = others.find((other) => other.isConnected);
    if (next) showQuestion(next);
    else document.querySelector<HTMLElement>('[data-testid="input"]')?.focus();
  });
}

export function reopenQuestion(approvalId: string): void {
  const question = listOpenQuestions().find(({ dataset }) => dataset["approval"] === approvalId);
  question?.dispatchEvent(new CustomEvent(STILL_OPEN_EVENT));
}

/**
 * Applies an editor key to the focused question, the one under review, or the only visible one. If none is certain,
 * shows a question, and the next press answers it. Returns whether there is a question.
 */
export function answerVisibleQuestion(action: "allow" | "deny" | "diff", reviewed: string | undefined): boolean {
  const all = listOpenQuestions().filter(({ dataset }) => dataset["approval"] !== undefined);
  const [first] = all;
  if (first === undefined) return false;
  const focused = document.hasFocus() ? all.find((one) => one.contains(document.activeElement)) : undefined;
  const ofReview = document.hasFocus() ? undefined : all.find((one) => one.dataset["approval"] === reviewed);
  const inSight = all.filter(isInSight);
  const meant = focused ?? ofReview ?? (inSight.length === 1 ? inSight[0] : undefined);
  // An unsettled question is only shown, because the key was pressed before it appeared.
  if (meant?.dataset["armed"] === "true" && (meant === ofReview || isInSight(meant))) {
    meant.dispatchEvent(new CustomEvent(ANSWER_EVENT, { detail: action }));
  } else showQuestion(meant ?? inSight[0] ?? first);
  return true;
}
