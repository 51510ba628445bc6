// Limits that were reached, and questions from the agent.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { formatDollars, revealHidden } from "../format";
import type { QuestionField } from "../protocol";
import type { LimitItem, QuestionItem } from "../state";
import { Button, isPointer } from "./components";
import { useFormDraft } from "./formDraft";
import { SubmitKeys } from "./keyHints";
import {
  acceptsLetters,
  focusInput,
  isInSight,
  isTextField,
  moveQuestionFocus,
  onQuestionAdded,
  onQuestionRemoved,
  revealQuestion,
} from "./questionFocus";
import { postMessage } from "./store";
import { useIsArmed } from "./useIsArmed";

export function LimitEntry({ item }: { item: LimitItem }): JSX.Element {
  const { request, resolved } = item;
  if (resolved === undefined) return <OpenLimit request={request} />;
  const isCost = request.limit.endsWith("cost");
  const amount = isCost && resolved.raisedBy !== undefined ? formatDollars(resolved.raisedBy) : resolved.raisedBy;
  const outcome = resolved.outcome === "raised" ? `raised by ${amount}` : resolved.outcome;
  return (
    <p class="note">
      {request.message}: {outcome}
    </p>
  );
}

/** Makes an open question reachable for keys, and passes the focus on when it disappears. */
function useQuestionFocus(): { current: HTMLElement | null } {
  const questionRef = useRef<HTMLElement>(null);
  useEffect(() => {
    const question = questionRef.current;
    if (!question) return undefined;
    onQuestionAdded(question);
    return () => onQuestionRemoved(question);
  }, []);
  return questionRef;
}

/** Runs an answer that lets the agent go on, unless the question is not visible: then the first press shows it. */
function answerIfSeen(question: HTMLElement | null, isSeen: boolean, answer: () => void): void {
  if (question === null) return;
  if (!isSeen && !isInSight(question)) {
    revealQuestion(question);
    return;
  }
  // What the user types next is text.
  if (question.contains(document.activeElement)) focusInput();
  answer();
}

function OpenLimit({ request }: { request: LimitItem["request"] }): JSX.Element {
  const questionRef = useQuestionFocus();
  const isPriceUnknown = request.limit === "unknown_price";
  const isCost = request.limit.endsWith("cost");
  // Doubling the limit is the most common choice.
  const [raiseBy, setRaiseBy] = useFormDraft(`limit ${request.limitId}`, String(request.max > 0 ? request.max : 1));
  const amount = Number.parseFloat(raiseBy);
  return (
    <section
      ref={questionRef}
      class="approval medium"
      role="group"
      aria-label={`A limit: ${request.message}`}
      data-testid="limit"
      data-question
      tabIndex={0}
      onKeyDown={(event) => void moveQuestionFocus(event)}
    >
      <p class="reason">{request.message}</p>
      <div class="actions">
        {!isPriceUnknown && (
          <label class="inline">
            Raise by{isCost ? " $" : " "}
            <input
              type="number"
              min="0"
              step="any"
              value={raiseBy}
              onInput={(event) => setRaiseBy(event.currentTarget.value)}
            />
          </label>
        )}
        <Button
          label={isPriceUnknown ? "Continue anyway" : "Raise and continue"}
          kind="main"
          ignoresEnter
          disabled={!isPriceUnknown && !(amount > 0)}
          onPress={(event) =>
            answerIfSeen(questionRef.current, isPointer(event), () =>
              postMessage({
                type: "limit",
                limitId: request.limitId,
                raiseBy: isPriceUnknown ? undefined : amount,
                stop: false,
              }),
            )
          }
        />
        <Button label="Stop" onPress={() => postMessage({ type: "limit", limitId: request.limitId, stop: true })} />
      </div>
    </section>
  );
}

export function QuestionEntry({ item }: { item: QuestionItem }): JSX.Element {
  const { request, resolved } = item;
  if (resolved === undefined) return <OpenQuestion id={item.id} request={request} />;
  // In the order of the form.
  const answerText = request.fields.flatMap(({ name }) => resolved.answers?.[name] ?? []).join(", ");
  return (
    <p class="note">
      {request.text} {answerText === "" ? "(not answered)" : `→ ${answerText}`}
    </p>
  );
}

function OpenQuestion({ id, request }: { id: string; request: QuestionItem["request"] }): JSX.Element {
  const [draft, setDraft] = useFormDraft(`question ${request.questionId}`, JSON.stringify(listFirstAnswers(request)));
  const answers = JSON.parse(draft) as Record<string, string[]>;
  const questionRef = useQuestionFocus();
  const isArmed = useIsArmed(questionRef);
  const missing = request.fields.some(
    (field) => field.required && !(answers[field.name]?.some((value) => value !== "") ?? false),
  );
  const setValues = (name: string, values: string[]) => setDraft(JSON.stringify({ ...answers, [name]: values }));
  const postAnswers = (isSeen: boolean, given: Record<string, string[]>) =>
    answerIfSeen(questionRef.current, isSeen, () => {
      sentAnswers.set(request.text, given);
      postMessage({ type: "question", questionId: request.questionId, answers: given });
    });
  const sendAnswer = (isSeen: boolean) => {
    const inputs = [...(questionRef.current?.querySelectorAll("input") ?? [])];
    // The editor says what is wrong with the first one.
    if (!missing && inputs.every((input) => input.reportValidity())) postAnswers(isSeen, answers);
  };
  // Digit keys select choices of the first field that has any. If it is the only one, that is the answer.
  const numberedField = request.fields.find((field) => (field.choices?.length ?? 0) > 0);
  const isOneChoice = request.fields.length === 1 && numberedField?.several !== true;
  const onKeyDown = (event: KeyboardEvent) => {
    if (moveQuestionFocus(event) || event.isComposing || event.altKey) return;
    const isInTextField = isTextField(event.target);
    const hasModifier = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && (isInTextField || hasModifier)) {
      event.preventDefault();
      // In a form with several fields, Enter ends a field, not the form.
      if (!event.repeat && (hasModifier || request.fields.length === 1)) sendAnswer(false);
      return;
    }
    const choice = /^[1-9]$/.test(event.key) ? numberedField?.choices?.[Number(event.key) - 1] : undefined;
    if (isInTextField || hasModifier || !numberedField || !choice) return;
    if (!questionRef.current || !acceptsLetters(questionRef.current)) return;
    event.preventDefault();
    if (isOneChoice) {
      setValues(numberedField.name, [choice.value]);
      if (isArmed && !event.repeat) postAnswers(false, { [numberedField.name]: [choice.value] });
      return;
    }
    const values = answers[numberedField.name] ?? [];
    setValues(numberedField.name, toggleChoice(numberedField, values, choice.value, !values.includes(choice.value)));
  };
  return (
    <section
      ref={questionRef}
      class="approval low"
      role="group"
      aria-label={`The agent asks: ${request.text}`}
      data-testid="question"
      data-question
      data-armed={isArmed}
      tabIndex={0}
      onKeyDown={onKeyDown}
    >
      <p class="reason">{request.text}</p>
      {request.detail !== undefined && <QuestionDetail text={request.detail} />}
      {request.fields.map((field) => (
        <AnswerField
          key={field.name}
          id={`${id} ${field.name}`}
          field={field}
          values={answers[field.name] ?? []}
          isNumbered={field === numberedField}
          setValues={setValues}
        />
      ))}
      <div class="actions">
        <Button label="Answer" kind="main" disabled={missing} onPress={(event) => sendAnswer(isPointer(event))}>
          Answer <SubmitKeys />
        </Button>
        <Button
          label="Dismiss"
          kind="quiet"
          onPress={() => postMessage({ type: "question", questionId: request.questionId })}
        />
      </div>
    </section>
  );
}

/** The last answers to questions, by their text: a server asks again for what it does not accept. */
const sentAnswers = new Map<string, Record<string, string[]>>();

/** Fills a form with what was written before, or with its defaults, unless these have hidden characters. */
function listFirstAnswers({ text, fields }: QuestionItem["request"]): Record<string, string[]> {
  const sent = sentAnswers.get(text);
  return Object.fromEntries(
    fields.flatMap(({ name, choices, default: defaults = [] }) => {
      const values = (choices?.length ? undefined : sent?.[name]) ?? defaults;
      return values.length > 0 && values.every((value) => revealHidden(value) === value) ? [[name, values]] : [];
    }),
  );
}

/** The parts of a JSON Schema that a form shows. */
interface FieldSchema {
  title?: string;
  description?: string;
  type?: string;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
}

const INPUT_TYPES: Record<string, string> = {
  number: "number",
  integer: "number",
  email: "email",
  uri: "url",
  date: "date",
};

/** Returns the attributes with which the browser checks an input. */
function describeInput({ type = "", format = "", ...schema }: FieldSchema): JSX.IntrinsicElements["input"] {
  const { minimum: min, maximum: max, minLength, maxLength } = schema;
  const isRange = min !== undefined && max !== undefined;
  return {
    type: INPUT_TYPES[type] ?? INPUT_TYPES[format] ?? "text",
    step: type === "number" ? "any" : undefined,
    placeholder: isRange ? `${min} to ${max}` : format === "date-time" ? "2030-12-31T23:59:00Z" : "",
    ...{ min, max, minLength, maxLength },
  };
}

function AddressLink({ address }: { address: string }): JSX.Element {
  const openLink = (event: MouseEvent) => {
    event.preventDefault();
    postMessage({ type: "openLink", href: address });
  };
  return (
    <a href={address} onClick={openLink}>
      {address}
    </a>
  );
}

/** A line that is a web address and nothing else is a link, which VS Code opens on a click. */
function QuestionDetail({ text }: { text: string }): JSX.Element {
  const isAddress = (line: string) => /^https?:\/\/\S+$/.test(line) && revealHidden(line) === line;
  return (
    <div class="dim detail">
      {text.split("\n").map((line) => (
        <p key={line}>{isAddress(line) ? <AddressLink address={line} /> : line}</p>
      ))}
    </div>
  );
}

const OWN_WORDS = "Or answer in your own words";

interface AnswerFieldProps {
  id: string;
  field: QuestionField;
  values: string[];
  /** Its choices have digit keys. */
  isNumbered: boolean;
  setValues: (name: string, values: string[]) => void;
}

/** Returns the field's values after a choice is selected or cleared. */
function toggleChoice(field: QuestionField, values: readonly string[], value: string, isSelected: boolean): string[] {
  if (!field.several) return isSelected ? [value] : [];
  const otherValues = values.filter((other) => other !== value);
  return isSelected ? [...otherValues, value] : otherValues;
}

function AnswerField({ id, field, values, isNumbered, setValues }: AnswerFieldProps): JSX.Element {
  const choices = field.choices ?? [];
  const choiceValues = new Set(choices.map((choice) => choice.value));
  const customValue = values.find((value) => !choiceValues.has(value)) ?? "";
  const schema = (field.schema ?? {}) as FieldSchema;
  const label = schema.title ?? field.label;
  const isOptional = field.schema !== undefined && !field.required && field.default === undefined;
  return (
    <fieldset>
      {label && (
        <legend>
          {label}
          {isOptional && <span class="dim"> optional</span>}
        </legend>
      )}
      {schema.description !== undefined && <p class="dim">{schema.description}</p>}
      {choices.map(({ value, label }, at) => (
        <label class="choice" key={value}>
          <input
            type={field.several ? "checkbox" : "radio"}
            name={id}
            checked={values.includes(value)}
            onChange={(event) => setValues(field.name, toggleChoice(field, values, value, event.currentTarget.checked))}
          />
          {isNumbered && at < 9 && <kbd class="letter">{at + 1}</kbd>} {label}
        </label>
      ))}
      {(choices.length === 0 || field.free) && (
        <input
          {...(choices.length === 0 ? describeInput(schema) : { type: "text", placeholder: OWN_WORDS })}
          aria-label={choices.length === 0 ? label || "Answer" : OWN_WORDS}
          value={customValue}
          onInput={(event) => {
            const text = event.currentTarget.value;
            const selected = field.several ? values.filter((value) => choiceValues.has(value)) : [];
            setValues(field.name, text === "" ? selected : [...selected, text]);
          }}
        />
      )}
    </fieldset>
  );
}
