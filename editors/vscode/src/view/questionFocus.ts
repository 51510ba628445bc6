// Decides which open question a key answers, and where the focus goes.
//
// Typing is never consent: no question takes the focus by itself. Letters decide only on a card that the user focused
// (Tab, click, or an arrow key from the empty input). From elsewhere, only chords decide, and one card at a time shows
// them. What is not visible cannot be allowed: the key shows it, and the next press decides.

/** A key pressed before a question appeared must not answer it. */
export const SETTLE_DELAY_MS = 400;
/** Whoever deletes words with Ctrl+Backspace must not deny with one press too many. */
const DELETE_SETTLE_MS = 1000;

const QUESTION_SELECTOR = "[data-question]";
/** What the user must have seen before they can allow the call. */
const MUST_READ_SELECTOR = "[data-must-be-read]";
const INPUT_SELECTOR = '[data-testid="input"]';
/** Fired when a question scrolls into view or becomes the one that chords answer, so that it settles again. */
export const APPEARED_EVENT = "agentls-question-appeared";
/** Fired when a chord or an editor key applies to a question. */
export const ANSWER_EVENT = "agentls-answer";

/** Fired when an answer was not accepted. */
export const REOPENED_EVENT = "agentls-question-reopened";

export type KeyAction = "allow" | "deny" | "diff";

/** The detail of an `ANSWER_EVENT`. */
export interface KeyAnswer {
  action: KeyAction;
  /** The user sees the edit in its review, so the card itself may be out of sight. */
  isReviewed: boolean;
}

/** Show the first question when it is drawn. */
let showsNextQuestion = false;
/** The approval that a chord answers. */
let target: HTMLElement | undefined;
/** Parts that were visible. */
const readParts = new WeakSet<HTMLElement>();
/** Time of the last change of the input, in page time. */
let editedAt = Number.NEGATIVE_INFINITY;
/** Approvals whose review was opened from their card, not from the input. */
const reviewedFromCard = new Set<string>();

export function listOpenQuestions(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(QUESTION_SELECTOR)];
}

function listApprovals(): HTMLElement[] {
  return listOpenQuestions().filter(({ dataset }) => dataset["approval"] !== undefined);
}

export function isTextField(element: EventTarget | null): boolean {
  if (element instanceof HTMLTextAreaElement) return true;
  return element instanceof HTMLInputElement && !["checkbox", "radio"].includes(element.type);
}

export function focusInput(): void {
  document.querySelector<HTMLElement>(INPUT_SELECTOR)?.focus();
}

/** The part of the view that shows a question. */
function findFrame(question: HTMLElement): { top: number; bottom: number } {
  const frame = question.closest(".log, .dock")?.getBoundingClientRect();
  const top = Math.max(0, frame?.top ?? 0);
  return { top, bottom: Math.min(window.innerHeight, frame?.bottom ?? window.innerHeight) };
}

/** Whether the question and its buttons are visible, and what must be read was. */
export function isInSight(question: HTMLElement): boolean {
  if (document.visibilityState !== "visible") return false;
  const { top, bottom } = findFrame(question);
  const box = question.getBoundingClientRect();
  const actions = question.querySelector(".actions")?.getBoundingClientRect() ?? box;
  const fitsInView = ({ top: from, bottom: to }: DOMRect) => from >= top - 1 && to <= bottom + 1;
  // A question higher than the viewport counts as visible if its buttons are.
  return fitsInView(box) || (box.height > bottom - top && fitsInView(actions) && hasBeenRead(question));
}

/** Whether all parts that must be read before the question is allowed are or were visible. */
export function hasBeenRead(question: HTMLElement): boolean {
  return listUnreadParts(question).length === 0;
}

function listUnreadParts(question: HTMLElement): HTMLElement[] {
  noteReadParts(question);
  return [...question.querySelectorAll<HTMLElement>(MUST_READ_SELECTOR)].filter((part) => !readParts.has(part));
}

/** Remembers which parts that must be read are visible. One higher than the viewport counts if its end is visible. */
function noteReadParts(question: HTMLElement): void {
  const parts = question.querySelectorAll<HTMLElement>(MUST_READ_SELECTOR);
  if (parts.length === 0 || document.visibilityState !== "visible") return;
  const { top, bottom } = findFrame(question);
  for (const part of parts) {
    const box = part.getBoundingClientRect();
    const isTopVisible = box.top >= top - 1 || box.height > bottom - top;
    if (isTopVisible && box.bottom <= bottom + 1 && box.bottom > top) readParts.add(part);
  }
}

/** Scrolls a question into view. It settles again if it was not visible. Does not move the focus. */
export function revealQuestion(question: HTMLElement): void {
  if (isInSight(question)) return;
  question.scrollIntoView({ block: "nearest" });
  // If the question is too high, show its buttons with what must be read above them; if that is too high, first the latter.
  if (!isInSight(question)) {
    question.querySelector(".actions")?.scrollIntoView({ block: "end" });
    listUnreadParts(question)[0]?.scrollIntoView({ block: "end" });
    noteReadParts(question);
  }
  question.dispatchEvent(new CustomEvent(APPEARED_EVENT));
}

/** Focuses a question that the user went to. Its keys count only after it has settled. */
export function focusQuestion(question: HTMLElement): void {
  revealQuestion(question);
  question.dispatchEvent(new CustomEvent(APPEARED_EVENT));
  question.focus({ preventScroll: true });
}

/** Moves the focus from the empty input to the first question. Returns whether there is one. */
export function focusFirstQuestion(): boolean {
  const [first] = listOpenQuestions();
  if (first) focusQuestion(first);
  return first !== undefined;
}

/** Moves the focus with the arrow keys: to another question, or after the last one to the input. */
export function moveQuestionFocus(event: KeyboardEvent): boolean {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
  const { currentTarget: question } = event;
  if (step === 0 || !isPlain || !(question instanceof HTMLElement) || event.target !== question) return false;
  const questions = listOpenQuestions();
  const next = questions[questions.indexOf(question) + step];
  if (next) focusQuestion(next);
  else if (step > 0) focusInput();
  event.preventDefault();
  return true;
}

/** Shows the first question, now or when it appears. The focus goes to `fallback`, where only chords decide. */
export function showFirstQuestion(fallback: HTMLElement | null, expected: boolean): void {
  const [first] = listOpenQuestions();
  if (first) revealQuestion(first);
  else showsNextQuestion = expected;
  // A field of the editor may have the focus.
  if (document.hasFocus() && !isTextField(document.activeElement)) fallback?.focus();
}

export function onQuestionAdded(question: HTMLElement): void {
  if (showsNextQuestion) {
    showsNextQuestion = false;
    revealQuestion(question);
  }
  updateKeyHints();
}

/** An answered question gives the focus to the input, so that what the user types next decides nothing. */
export function onQuestionRemoved(question: HTMLElement): void {
  const hadFocus = question.contains(document.activeElement);
  // The question is still in the page at this point.
  requestAnimationFrame(() => {
    const isUnfocused = document.activeElement === null || document.activeElement === document.body;
    if (hadFocus && document.hasFocus() && isUnfocused) focusInput();
    updateKeyHints();
  });
}

export function reopenQuestion(approvalId: string): void {
  findApproval(approvalId)?.dispatchEvent(new CustomEvent(REOPENED_EVENT));
}

function findApproval(approvalId: string | undefined): HTMLElement | undefined {
  return listApprovals().find(({ dataset }) => dataset["approval"] === approvalId);
}

/**
 * Applies a chord or an editor key to the focused approval, the one under review, or the first one. If it is not
 * visible or has not settled, only shows it, and the next press answers it. Returns whether there is an approval.
 */
export function answerQuestion(action: KeyAction, reviewedId?: string): boolean {
  const underReview = document.hasFocus() ? undefined : findApproval(reviewedId);
  const question = underReview ?? chooseTarget();
  if (question === undefined) return false;
  const isReviewed = question === underReview;
  if (!isReviewed && !isInSight(question)) revealQuestion(question);
  else if (question.dataset["armed"] === "true")
    question.dispatchEvent(new CustomEvent<KeyAnswer>(ANSWER_EVENT, { detail: { action, isReviewed } }));
  return true;
}

function chooseTarget(): HTMLElement | undefined {
  const approvals = listApprovals();
  const focused = document.hasFocus()
    ? approvals.find((question) => question.contains(document.activeElement))
    : undefined;
  return focused ?? approvals[0];
}

/** Handles Ctrl+Enter and Ctrl+Backspace. Returns whether the event is one of them and a question is open. */
export function handleChord(event: KeyboardEvent): boolean {
  const isChord = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (event.defaultPrevented || event.isComposing || !isChord) return false;
  const action = event.key === "Enter" ? "allow" : event.key === "Backspace" ? "deny" : undefined;
  if (action === undefined || listApprovals().length === 0) return false;
  const { target: element } = event;
  const input = document.querySelector<HTMLTextAreaElement>(INPUT_SELECTOR);
  // Other fields have their own use of these keys, and other questions are not approvals.
  if (isTextField(element) && element !== input) return false;
  const question = element instanceof Element ? element.closest<HTMLElement>(QUESTION_SELECTOR) : null;
  if (question !== null && question.dataset["approval"] === undefined) return false;
  if (action === "deny" && element === input) {
    // In a text, Ctrl+Backspace deletes a word.
    if (input?.value !== "") return false;
    if (event.timeStamp - editedAt < DELETE_SETTLE_MS) return true;
  }
  event.preventDefault();
  // A held key answers only one question.
  if (!event.repeat) answerQuestion(action);
  return true;
}

/** Remembers where a review is opened from. Returns whether that is this view. */
export function rememberReviewOrigin(approvalId: string): boolean {
  const isFromCard = findApproval(approvalId)?.contains(document.activeElement) ?? false;
  if (isFromCard) reviewedFromCard.add(approvalId);
  else reviewedFromCard.delete(approvalId);
  return document.hasFocus();
}

/** Takes the focus back from a review that closed: to the card that opened it if it is still open, else to the input. */
export function returnFocusFromReview(approvalId: string, isDecided: boolean): void {
  const card = findApproval(approvalId);
  const opensCard = !isDecided && card !== undefined && reviewedFromCard.has(approvalId);
  reviewedFromCard.delete(approvalId);
  if (isTextField(document.activeElement)) return;
  if (opensCard) focusQuestion(card);
  else focusInput();
}

/**
 * Shows the keys that work now: letters on the focused card, and chords on the card that they answer. `data-keys` holds
 * what applies, and the style sheet shows it.
 */
export function updateKeyHints(): void {
  const next = chooseTarget();
  // A press that was meant for the previous one must not answer this one.
  if (next !== target && target !== undefined) next?.dispatchEvent(new CustomEvent(APPEARED_EVENT));
  target = next;
  const hasDraft = (document.querySelector<HTMLTextAreaElement>(INPUT_SELECTOR)?.value ?? "") !== "";
  const chords = !document.hasFocus() ? "away" : hasDraft ? "draft" : "near";
  for (const question of listOpenQuestions()) {
    const keys = [acceptsLetters(question) ? "letters" : "", question === next ? chords : ""];
    question.dataset["keys"] = keys.filter((name) => name !== "").join(" ");
  }
}

/** Whether letters decide on this card. A click on one of its buttons does not count, so that no button moves. */
export function acceptsLetters(question: HTMLElement): boolean {
  const { activeElement } = document;
  if (!document.hasFocus() || !activeElement || !question.contains(activeElement) || isTextField(activeElement))
    return false;
  return activeElement === question || activeElement.matches(":focus-visible");
}

/** Starts to follow the focus, the input, and chords. */
export function startQuestionKeys(): void {
  const updateLater = () => requestAnimationFrame(updateKeyHints);
  for (const name of ["focusin", "focusout"]) document.addEventListener(name, updateLater);
  for (const name of ["focus", "blur"]) window.addEventListener(name, updateLater);
  document.addEventListener("input", (event) => {
    if (event.target instanceof Element && event.target.matches(INPUT_SELECTOR)) editedAt = event.timeStamp;
    updateLater();
  });
  window.addEventListener("keydown", (event) => void handleChord(event));
  // Scroll events do not bubble.
  const onScroll = () => listApprovals().forEach(noteReadParts);
  document.addEventListener("scroll", onScroll, { capture: true, passive: true });
}
