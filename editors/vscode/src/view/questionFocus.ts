// Decides which open question an editor key answers, and where the focus goes after an answer. Only a visible question
// can be answered. Others are shown first.

/** A key pressed before a question appeared must not answer it. */
export const SETTLE_DELAY_MS = 400;

const QUESTION_SELECTOR = "[data-question]";
/** Fired when a question scrolls into view, so that it settles again. */
export const APPEARED_EVENT = "agentls-question-appeared";
/** Fired when an editor key applies to a question. */
export const ANSWER_EVENT = "agentls-answer";

/** Fired when an answer was not accepted. */
export const REOPENED_EVENT = "agentls-question-reopened";

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
  const actions = question.querySelector(".actions")?.getBoundingClientRect() ?? box;
  const fitsInView = ({ top: from, bottom: to }: DOMRect) => from >= top - 1 && to <= bottom + 1;
  // A question higher than the viewport counts as visible if its buttons are.
  return fitsInView(box) || (box.height > bottom - top && fitsInView(actions));
}

/** Scrolls a question into view and focuses it. */
export function showQuestion(question: HTMLElement): void {
  if (!isInSight(question)) {
    question.scrollIntoView({ block: "nearest" });
    // If the question is too high, show its buttons.
    if (!isInSight(question)) question.querySelector(".actions")?.scrollIntoView({ block: "end" });
    question.dispatchEvent(new CustomEvent(APPEARED_EVENT));
  }
  question.focus({ preventScroll: true });
}

/** Shows the first question, now or when it appears. Without one, focuses `fallback`. */
export function showFirstQuestion(fallback: HTMLElement | null, expected: boolean): void {
  const [first] = listOpenQuestions();
  if (first) showQuestion(first);
  else {
    showsNextQuestion = expected;
    fallback?.focus();
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
  const questions = listOpenQuestions();
  const at = questions.indexOf(question);
  const candidates = [...questions.slice(at + 1), ...questions.slice(0, Math.max(0, at))];
  // The question is still in the page at this point.
  requestAnimationFrame(() => {
    if (!document.hasFocus() || (document.activeElement && document.activeElement !== document.body)) return;
    const next = candidates.find((other) => other.isConnected);
    if (next) showQuestion(next);
    else document.querySelector<HTMLElement>('[data-testid="input"]')?.focus();
  });
}

export function reopenQuestion(approvalId: string): void {
  const question = listOpenQuestions().find(({ dataset }) => dataset["approval"] === approvalId);
  question?.dispatchEvent(new CustomEvent(REOPENED_EVENT));
}

/**
 * Applies an editor key to the focused question, the one under review, or the only visible one. If none is certain,
 * shows a question, and the next press answers it. Returns whether there is a question.
 */
export function answerVisibleQuestion(action: "allow" | "deny" | "diff", reviewedId: string | undefined): boolean {
  const approvals = listOpenQuestions().filter(({ dataset }) => dataset["approval"] !== undefined);
  const [first] = approvals;
  if (first === undefined) return false;
  const focused = document.hasFocus()
    ? approvals.find((question) => question.contains(document.activeElement))
    : undefined;
  const underReview = document.hasFocus()
    ? undefined
    : approvals.find((question) => question.dataset["approval"] === reviewedId);
  const visible = approvals.filter(isInSight);
  const target = focused ?? underReview ?? (visible.length === 1 ? visible[0] : undefined);
  // An unsettled question is only shown, because the key was pressed before it appeared.
  if (target?.dataset["armed"] === "true" && (target === underReview || isInSight(target))) {
    target.dispatchEvent(new CustomEvent(ANSWER_EVENT, { detail: action }));
  } else showQuestion(target ?? visible[0] ?? first);
  return true;
}
