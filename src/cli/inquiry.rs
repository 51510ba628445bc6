//! Limits and questions at a terminal: how they look and what each key does.
//!
//! Pure: `turn` draws the lines, passes the keys and sends the answers. Enter alone never answers; it only ends a typed
//! line or confirms choices. Notifications and their order belong to the server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

use super::keys::{Draft, Key};
use super::style::{Color, Styler, clean_line};
use crate::base::clock::Instant;
use crate::base::text;
use crate::protocol::table::method;
use crate::protocol::{
    LimitName, LimitOutcome, LimitRequestedNotification, LimitResolvedNotification, QuestionChoice,
    QuestionField, QuestionRequestedNotification, QuestionResolvedNotification, ServerNotification,
    SettledBy,
};

/// How many choices the keys 1 to 9 reach.
const KEYED_CHOICES: usize = 9;
/// The prompt for a typed answer.
const ANSWER: &str = "answer: ";
/// The prompt for a typed amount.
const AMOUNT: &str = "raise by ";

/// Open limits and questions, in the order of their arrival.
#[derive(Default)]
pub(super) struct Inquiries {
    open: VecDeque<InquiryForm>,
    /// When the first was shown; `None` while it is not shown or already answered.
    pub(super) shown_at: Option<Instant>,
    /// The id of the one whose text is in the log.
    announced: Option<String>,
}

/// How the first inquiry looks.
#[derive(Debug, PartialEq)]
pub(super) struct InquiryLines {
    /// What is asked; not wrapped, and without colors.
    pub(super) head: Vec<String>,
    /// The current field, its choices, and the keys.
    pub(super) body: String,
}

enum InquiryForm {
    Limit(LimitForm),
    Question(QuestionForm),
}

struct LimitForm {
    request: LimitRequestedNotification,
    /// The amount to raise the limit by, while it is typed.
    amount: Option<Draft>,
    /// The amount that was typed last.
    typed: String,
}

struct QuestionForm {
    request: QuestionRequestedNotification,
    /// Answers so far, by field name.
    answers: BTreeMap<String, Vec<String>>,
    /// The index of the current field.
    at: usize,
    /// The selected choices of the current field.
    chosen: BTreeSet<usize>,
    /// The text for the current field, while it is typed.
    words: Option<Draft>,
    /// What was typed last for each field, by its name.
    typed: BTreeMap<String, String>,
}

/// The result of a key.
#[derive(Debug, PartialEq)]
pub(super) enum InquiryStep {
    /// No visible change.
    Nothing,
    /// Show this as the text being typed.
    Typing(String),
    /// Draw the inquiry again: the next field, or changed choices.
    Show,
    /// The typed text is invalid; shows why. It stays, as this, unless nothing was typed.
    Wrong(&'static str, String),
    /// Send this answer: a method and its params.
    Answer(&'static str, Value),
}

impl Inquiries {
    /// Applies a notification. Returns whether a different inquiry is now first.
    pub(super) fn handle_notification(&mut self, notification: &ServerNotification) -> bool {
        let first = self.first_id();
        match notification {
            ServerNotification::LimitRequested(request) => {
                self.open.push_back(InquiryForm::Limit(LimitForm {
                    request: request.clone(),
                    amount: None,
                    typed: String::new(),
                }))
            }
            ServerNotification::QuestionRequested(request) => {
                self.open.push_back(InquiryForm::Question(QuestionForm {
                    request: request.clone(),
                    answers: BTreeMap::new(),
                    at: 0,
                    chosen: BTreeSet::new(),
                    words: None,
                    typed: BTreeMap::new(),
                }));
            }
            ServerNotification::LimitResolved(resolved) => self.remove_settled(&resolved.limit_id),
            ServerNotification::QuestionResolved(resolved) => self.remove_settled(&resolved.question_id),
            ServerNotification::TurnEnded(_) => self.open.clear(),
            _ => return false,
        }
        let now = self.first_id();
        let changed = now != first;
        // A key pressed at the previous inquiry must not answer this one; `turn` sets the time when it shows it.
        if changed {
            self.shown_at = None;
        }
        changed && now.is_some()
    }

    fn remove_settled(&mut self, id: &str) {
        self.open.retain(|inquiry| inquiry.id() != id);
    }

    /// Returns the text typed into the first inquiry; `None` while nothing is typed.
    pub(super) fn draft_text(&self) -> Option<&str> {
        let typed = match self.open.front()? {
            InquiryForm::Limit(form) => &form.amount,
            InquiryForm::Question(form) => &form.words,
        };
        typed.as_ref().map(|draft| draft.text.as_str())
    }

    /// Returns the line that is being typed into the first inquiry, with its label.
    pub(super) fn typed_line(&self) -> Option<String> {
        let text = self.draft_text()?;
        let label = match self.open.front()? {
            InquiryForm::Limit(_) => AMOUNT,
            InquiryForm::Question(_) => ANSWER,
        };
        Some(format!("{label}{text}"))
    }

    /// Returns the texts that were typed last into the first inquiry.
    pub(super) fn list_typed(&self) -> Vec<String> {
        let typed: Vec<&String> = match self.open.front() {
            Some(InquiryForm::Limit(form)) => vec![&form.typed],
            Some(InquiryForm::Question(form)) => form.typed.values().collect(),
            None => Vec::new(),
        };
        let typed = typed.into_iter().filter(|text| !text.trim().is_empty());
        typed.cloned().collect()
    }

    /// Brings back what was typed last into the first inquiry, whose answer was refused.
    pub(super) fn restore_typed(&mut self) {
        match self.open.front_mut() {
            Some(InquiryForm::Limit(form)) => form.amount = restore_draft(&form.typed),
            Some(InquiryForm::Question(form)) => form.restore_words(),
            None => {}
        }
    }

    /// Renders the first inquiry.
    pub(super) fn render_first(&self, styler: Styler) -> Option<InquiryLines> {
        Some(match self.open.front()? {
            InquiryForm::Limit(form) => form.render(styler),
            InquiryForm::Question(form) => form.render(styler),
        })
    }

    /// Returns whether the text of the first inquiry is not in the log yet. From then on it is.
    pub(super) fn announce_first(&mut self) -> bool {
        let first = self.first_id();
        let is_new = first != self.announced;
        self.announced = first;
        is_new
    }

    /// Returns the id of the first inquiry.
    pub(super) fn first_id(&self) -> Option<String> {
        self.open.front().map(|inquiry| inquiry.id().to_owned())
    }

    /// Returns whether a letter is one of the first inquiry's keys.
    pub(super) fn may_answer(&self, letter: char) -> bool {
        let letter = letter.to_ascii_lowercase();
        match self.open.front() {
            Some(InquiryForm::Limit(form)) if form.request.limit == LimitName::UnknownPrice => {
                "gs".contains(letter)
            }
            Some(InquiryForm::Limit(_)) => "mrs".contains(letter),
            Some(InquiryForm::Question(form)) => form.field().is_some_and(|field| match letter {
                'x' => true,
                't' => takes_words(field),
                'n' => !field.required,
                _ => choice_index(letter).is_some_and(|number| number < field.choices.len()),
            }),
            None => false,
        }
    }

    /// Returns whether a key acts without the wait of a held letter: it toggles or confirms choices, which alone sends
    /// no accidental answer.
    pub(super) fn acts_immediately(&self, key: &Key) -> bool {
        let Some(InquiryForm::Question(form)) = self.open.front() else {
            return false;
        };
        let several = form.field().is_some_and(|field| field.several);
        several
            && match key {
                Key::Char('1'..='9') => true,
                Key::Enter => !form.chosen.is_empty(),
                _ => false,
            }
    }

    /// Begins to type the answer if the first inquiry is a question for a text. Returns whether it is one.
    pub(super) fn begin_text(&mut self) -> bool {
        let Some(InquiryForm::Question(form)) = self.open.front_mut() else {
            return false;
        };
        let takes_text = form.field().is_some_and(|field| field.choices.is_empty());
        if takes_text {
            form.words = Some(Draft::default());
        }
        takes_text
    }

    /// Applies a key to the first inquiry.
    pub(super) fn handle_key(&mut self, key: &Key) -> InquiryStep {
        match self.open.front_mut() {
            None => InquiryStep::Nothing,
            Some(InquiryForm::Limit(form)) => form.handle_key(key),
            Some(InquiryForm::Question(form)) => form.handle_key(key),
        }
    }
}

impl InquiryForm {
    fn id(&self) -> &str {
        match self {
            Self::Limit(form) => &form.request.limit_id,
            Self::Question(form) => &form.request.question_id,
        }
    }
}

/// Renders a key and what it does.
fn key_label(styler: Styler, key: &str, does: &str) -> String {
    format!("  {} {does} ", styler.paint_text(Color::BoldCyan, key))
}

/// Applies a key to a text that is being typed; `None` if none is. Returns the finished line, or the step to take. `last`
/// receives what the key ends.
fn take_line(
    typed: &mut Option<Draft>,
    last: &mut String,
    label: &str,
    key: &Key,
) -> Option<Result<String, InquiryStep>> {
    let draft = typed.as_mut()?;
    if *key == Key::Esc {
        *last = std::mem::take(&mut draft.text);
        *typed = None;
        return Some(Err(InquiryStep::Show));
    }
    let Some(line) = draft.take(key) else {
        return Some(Err(InquiryStep::Typing(format!("{label}{}", draft.text))));
    };
    *typed = None;
    last.clone_from(&line);
    Some(Ok(line.trim().to_owned()))
}

/// Returns a draft with a text, unless that is blank.
fn restore_draft(text: &str) -> Option<Draft> {
    (!text.trim().is_empty()).then(|| Draft {
        text: text.to_owned(),
        ..Draft::default()
    })
}

/// Refuses what was typed, and lets the user correct it.
fn refuse_line(typed: &mut Option<Draft>, last: &str, label: &str, why: &'static str) -> InquiryStep {
    *typed = restore_draft(last);
    let line = typed.as_ref().map(|draft| format!("{label}{}", draft.text));
    InquiryStep::Wrong(why, line.unwrap_or_default())
}

/// Formats what is asked, and whether a sub-agent asks it.
fn format_head(words: &str, parent: Option<&String>) -> String {
    let asker = parent.map_or("", |_| " a sub-agent asks:");
    format!("?{asker} {}", text::strip_control_characters(words))
}

/// Formats an amount in the unit of its limit.
fn format_amount(limit: LimitName, amount: f64) -> String {
    match limit {
        LimitName::MaxTurnCost
        | LimitName::MaxSessionCost
        | LimitName::MaxDayCost
        | LimitName::MaxProviderDayCost => format!("${amount:.2}"),
        LimitName::MaxWallTimeS => format!("{amount} s"),
        LimitName::MaxSteps => format!("{amount} steps"),
        LimitName::MaxToolCalls => format!("{amount} tool calls"),
        LimitName::UnknownPrice => String::new(),
    }
}

impl LimitForm {
    /// Returns the amount that `m` raises the limit by: the limit again, or the overrun if that is larger.
    fn suggest_raise(&self) -> f64 {
        let missing = (self.request.used - self.request.max).max(0.0);
        let by = self.request.max.max(missing);
        // A limit of zero would suggest a raise by nothing.
        if by > 0.0 { by } else { 1.0 }
    }

    fn render(&self, styler: Styler) -> InquiryLines {
        let head = format_head(&self.request.message, self.request.parent_tool_call_id.as_ref());
        let key = |key: &str, does: &str| key_label(styler, key, does);
        let keys = match self.request.limit {
            LimitName::UnknownPrice => key("g", "continue with an unknown price") + &key("s", "stop"),
            limit => {
                let more = format!("{} more", format_amount(limit, self.suggest_raise()));
                key("m", &more) + &key("r", "raise by …") + &key("s", "stop")
            }
        };
        InquiryLines {
            head: vec![head],
            body: keys.trim_end().to_owned(),
        }
    }

    fn handle_key(&mut self, key: &Key) -> InquiryStep {
        let answer = |mut answer: Value| {
            answer["limitId"] = json!(self.request.limit_id);
            InquiryStep::Answer(method::LIMIT_RESPOND, answer)
        };
        match take_line(&mut self.amount, &mut self.typed, AMOUNT, key) {
            None => {}
            Some(Err(step)) => return step,
            Some(Ok(line)) => {
                let number = line.trim_start_matches('$').parse::<f64>().ok();
                // `inf` and `nan` parse as numbers too.
                return match number.filter(|by| by.is_finite() && *by > 0.0) {
                    Some(by) => answer(json!({"raiseBy": by})),
                    None => refuse_line(&mut self.amount, &self.typed, AMOUNT, "not an amount"),
                };
            }
        }
        let unknown = self.request.limit == LimitName::UnknownPrice;
        match key {
            // Esc gives the safe answer, as at an approval.
            Key::Char('s' | 'S') | Key::Esc => answer(json!({"stop": true})),
            Key::Char('g' | 'G') if unknown => answer(json!({})),
            Key::Char('m' | 'M') if !unknown => answer(json!({"raiseBy": self.suggest_raise()})),
            Key::Char('r' | 'R') if !unknown => {
                let amount = self.amount.insert(restore_draft(&self.typed).unwrap_or_default());
                InquiryStep::Typing(format!("{AMOUNT}{}", amount.text))
            }
            _ => InquiryStep::Nothing,
        }
    }
}

fn takes_words(field: &QuestionField) -> bool {
    // Typing reaches the choices without a key.
    field.free || field.choices.is_empty() || field.choices.len() > KEYED_CHOICES
}

/// Returns the index of the choice that a digit selects.
fn choice_index(digit: char) -> Option<usize> {
    let number = digit.to_digit(10)? as usize;
    number.checked_sub(1)
}

impl QuestionForm {
    /// Returns the current field.
    fn field(&self) -> Option<&QuestionField> {
        self.request.fields.get(self.at)
    }

    fn render(&self, styler: Styler) -> InquiryLines {
        let mut head = vec![format_head(
            &self.request.text,
            self.request.parent_tool_call_id.as_ref(),
        )];
        let detail = self.request.detail.as_deref().unwrap_or_default();
        let detail = text::strip_control_characters(detail);
        head.extend(detail.lines().map(|line| format!("  {line}")));
        let mut lines = Vec::new();
        let Some(field) = self.field() else {
            let body = String::new();
            return InquiryLines { head, body };
        };
        if !field.label.is_empty() {
            lines.push(format!("  {}", text::strip_control_characters(&field.label)));
        }
        for (number, choice) in field.choices.iter().enumerate() {
            let mark = if self.chosen.contains(&number) { "●" } else { " " };
            let key = match number {
                0..KEYED_CHOICES => styler.paint_text(Color::BoldCyan, &(number + 1).to_string()),
                _ => " ".to_owned(),
            };
            let label = text::strip_control_characters(&choice.label);
            lines.push(format!("  {key} {mark} {label}"));
        }
        let confirms = field.several && !self.chosen.is_empty();
        let keys = [
            (takes_words(field), "t", "type an answer"),
            (confirms, "Enter", "these"),
            (!field.required, "n", "skip it"),
            (true, "x", "do not answer"),
        ];
        let keys = keys.into_iter().filter(|(works, ..)| *works);
        let keys: String = keys.map(|(_, key, does)| key_label(styler, key, does)).collect();
        lines.push(keys.trim_end().to_owned());
        InquiryLines {
            head,
            body: lines.join("\n"),
        }
    }

    fn handle_key(&mut self, key: &Key) -> InquiryStep {
        let field = self.field().map(|field| field.name.clone()).unwrap_or_default();
        let typed = self.typed.entry(field).or_default();
        let line = match take_line(&mut self.words, typed, ANSWER, key) {
            Some(Ok(line)) => line,
            Some(Err(step)) => return step,
            None => return self.handle_choice(key),
        };
        let typed = typed.clone();
        if line.is_empty() {
            return refuse_line(&mut self.words, &typed, ANSWER, "nothing was typed");
        }
        match self.read_typed(&line) {
            Some(values) => self.fill_field(Some(values)),
            None => refuse_line(&mut self.words, &typed, ANSWER, "not one of the choices"),
        }
    }

    /// Converts a typed line to the values of the current field; `None` if it names no choice and only choices count.
    fn read_typed(&self, line: &str) -> Option<Vec<String>> {
        let field = self.field()?;
        let find_value = |words: &str| {
            let words = words.trim();
            let is_meant = |choice: &&QuestionChoice| {
                choice.value == words || choice.label.to_lowercase() == words.to_lowercase()
            };
            let choice = field.choices.iter().find(is_meant);
            choice.map(|choice| choice.value.clone())
        };
        if let Some(value) = find_value(line).or_else(|| field.choices.is_empty().then(|| line.to_owned())) {
            return Some(self.chosen_values(field).chain([value]).collect());
        }
        if field.free {
            return Some(self.chosen_values(field).chain([line.to_owned()]).collect());
        }
        let typed: Option<Vec<String>> = line.split(',').map(find_value).collect();
        let typed = typed.filter(|_| field.several)?;
        Some(self.chosen_values(field).chain(typed).collect())
    }

    /// Returns the values that were chosen with keys.
    fn chosen_values(&self, field: &QuestionField) -> impl Iterator<Item = String> {
        let chosen = self.chosen.iter().map(|number| &field.choices[*number]);
        chosen.map(|choice| choice.value.clone())
    }

    /// Applies a key while nothing is typed.
    fn handle_choice(&mut self, key: &Key) -> InquiryStep {
        let Some(field) = self.request.fields.get(self.at) else {
            return InquiryStep::Nothing;
        };
        match key {
            Key::Char('x' | 'X') | Key::Esc => {
                let params = json!({"questionId": self.request.question_id, "dismissed": true});
                InquiryStep::Answer(method::QUESTION_RESPOND, params)
            }
            Key::Char('t' | 'T') if takes_words(field) => {
                let last = self.typed.get(&field.name).and_then(|last| restore_draft(last));
                let words = self.words.insert(last.unwrap_or_default());
                InquiryStep::Typing(format!("{ANSWER}{}", words.text))
            }
            Key::Char('n' | 'N') if !field.required => self.fill_field(None),
            Key::Char(digit @ '1'..='9') => match choice_index(*digit) {
                Some(number) if number >= field.choices.len() => InquiryStep::Nothing,
                None => InquiryStep::Nothing,
                Some(number) if field.several => {
                    if !self.chosen.remove(&number) {
                        self.chosen.insert(number);
                    }
                    InquiryStep::Show
                }
                Some(number) => {
                    let value = field.choices[number].value.clone();
                    self.fill_field(Some(vec![value]))
                }
            },
            Key::Enter if field.several && !self.chosen.is_empty() => {
                let values = self.chosen_values(field).collect();
                self.fill_field(Some(values))
            }
            _ => InquiryStep::Nothing,
        }
    }

    /// Brings back what was typed last for the current field.
    fn restore_words(&mut self) {
        let last = self.field().and_then(|field| self.typed.get(&field.name));
        self.words = last.and_then(|last| restore_draft(last));
    }

    /// Answers the current field, or skips it, and goes on. After the last field the form is sent.
    fn fill_field(&mut self, values: Option<Vec<String>>) -> InquiryStep {
        if let (Some(values), Some(field)) = (values, self.request.fields.get(self.at)) {
            self.answers.insert(field.name.clone(), values);
        }
        self.chosen.clear();
        self.at += 1;
        if self.at < self.request.fields.len() {
            // Of an answer that was refused.
            self.restore_words();
            return InquiryStep::Show;
        }
        // If the server refuses the answers, the form starts over.
        self.at = 0;
        let params =
            json!({"questionId": self.request.question_id, "answers": std::mem::take(&mut self.answers)});
        InquiryStep::Answer(method::QUESTION_RESPOND, params)
    }
}

/// Describes who or what settled an inquiry; empty for a user.
fn describe_settled_by(by: SettledBy) -> &'static str {
    match by {
        SettledBy::Person => "",
        SettledBy::Rule => ": no longer asked",
        SettledBy::Cancel => " by the cancel",
        SettledBy::Timeout => ": its time ran out",
        SettledBy::NewPrompt => " by a new prompt",
    }
}

/// Describes how a limit was settled, in one line.
pub(super) fn limit_settled(resolved: &LimitResolvedNotification) -> (Color, String) {
    let by = describe_settled_by(resolved.by);
    match (resolved.outcome, resolved.raised_by) {
        (LimitOutcome::Raised, Some(more)) => (
            Color::Green,
            format!("✓ raised by {}", format_amount(resolved.limit, more)),
        ),
        (LimitOutcome::Raised, None) | (LimitOutcome::Accepted, _) => {
            (Color::Green, "✓ continues".to_owned())
        }
        (LimitOutcome::Stopped, _) => (Color::Yellow, format!("⊘ stopped{by}")),
    }
}

/// Describes how a question was settled, in one line.
pub(super) fn question_settled(resolved: &QuestionResolvedNotification) -> (Color, String) {
    let by = describe_settled_by(resolved.by);
    match &resolved.answers {
        Some(answers) => {
            let fields = answers.iter().map(|(name, values)| match answers.len() {
                1 => values.join(", "),
                _ => format!("{name}: {}", values.join(", ")),
            });
            let summary = clean_line(&fields.collect::<Vec<_>>().join("; "), 200);
            // Whoever asked may still refuse it, and ask again.
            (Color::Green, format!("→ sent: {summary}"))
        }
        None => (Color::Yellow, format!("⊘ not answered{by}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_notification(method: &str, more: Value) -> ServerNotification {
        let mut params = json!({"sessionId": "s", "seq": 1, "turnId": "t", "at": 1});
        let all = params.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        ServerNotification::parse(method, params).unwrap().unwrap()
    }

    fn limit(name: &str) -> Inquiries {
        let mut inquiries = Inquiries::default();
        let params = json!({"limitId": "ask_1", "limit": name, "used": 5.12, "max": 5.0, "message": "m"});
        assert!(inquiries.handle_notification(&parse_notification("agent/limitRequested", params)));
        inquiries
    }

    fn question(fields: Value) -> Inquiries {
        let mut inquiries = Inquiries::default();
        let params = json!({"questionId": "ask_1", "text": "Which?", "fields": fields});
        assert!(inquiries.handle_notification(&parse_notification("agent/questionRequested", params)));
        inquiries
    }

    fn plain() -> Styler {
        Styler {
            use_color: false,
            dumb: false,
        }
    }

    fn press(inquiries: &mut Inquiries, keys: &str) -> InquiryStep {
        let mut last = InquiryStep::Nothing;
        for ch in keys.chars() {
            let key = if ch == '\n' { Key::Enter } else { Key::Char(ch) };
            last = inquiries.handle_key(&key);
        }
        last
    }

    fn expect_answer(step: InquiryStep) -> Value {
        match step {
            InquiryStep::Answer(_, params) => params,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn limit_keys_raise_accept_or_stop() {
        assert_eq!(
            expect_answer(press(&mut limit("max_session_cost"), "m")),
            json!({"limitId": "ask_1", "raiseBy": 5.0})
        );
        assert_eq!(
            expect_answer(press(&mut limit("max_session_cost"), "r$2.5\n")),
            json!({"limitId": "ask_1", "raiseBy": 2.5})
        );
        assert_eq!(
            press(&mut limit("max_session_cost"), "rx\n"),
            InquiryStep::Wrong("not an amount", "raise by x".to_owned())
        );
        assert_eq!(
            expect_answer(press(&mut limit("max_steps"), "s")),
            json!({"limitId": "ask_1", "stop": true})
        );
        assert_eq!(
            expect_answer(press(&mut limit("unknown_price"), "g")),
            json!({"limitId": "ask_1"})
        );
        assert_eq!(press(&mut limit("unknown_price"), "m"), InquiryStep::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn enter_alone_and_pasted_text_answer_nothing() {
        let fields = json!([{"name": "a", "choices": [{"value": "x", "label": "X"}], "several": true}]);
        for mut inquiries in [limit("max_steps"), limit("unknown_price"), question(fields)] {
            for key in [
                Key::Enter,
                Key::Paste("1\n".into()),
                Key::Paste("s".into()),
                Key::CtrlD,
            ] {
                assert_eq!(inquiries.handle_key(&key), InquiryStep::Nothing, "{key:?}");
            }
        }
        // An empty line does not answer either.
        let mut words = question(json!([{"name": "a"}]));
        assert_eq!(
            press(&mut words, "t\n"),
            InquiryStep::Wrong("nothing was typed", String::new())
        );
        assert_eq!(
            press(&mut limit("max_steps"), "r\n"),
            InquiryStep::Wrong("not an amount", String::new())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn form_is_answered_field_by_field() {
        let choices = json!([{"value": "x", "label": "X"}, {"value": "y", "label": "Y"}]);
        let mut form = question(json!([
            {"name": "one", "choices": choices, "required": true},
            {"name": "some", "choices": choices, "several": true},
            {"name": "words", "label": "Why?"},
            {"name": "out"},
        ]));
        assert_eq!(press(&mut form, "n"), InquiryStep::Nothing, "it is required");
        assert_eq!(press(&mut form, "3"), InquiryStep::Nothing);
        assert_eq!(press(&mut form, "2"), InquiryStep::Show);
        assert_eq!(press(&mut form, "12\n"), InquiryStep::Show);
        assert!(form.render_first(plain()).unwrap().body.contains("Why?"));
        assert_eq!(press(&mut form, "t"), InquiryStep::Typing("answer: ".to_owned()));
        assert_eq!(press(&mut form, "so\n"), InquiryStep::Show);
        assert_eq!(
            expect_answer(press(&mut form, "n")),
            json!({"questionId": "ask_1", "answers": {"one": ["y"], "some": ["x", "y"], "words": ["so"]}})
        );
        assert_eq!(
            expect_answer(press(&mut question(json!([{"name": "a"}])), "x")),
            json!({"questionId": "ask_1", "dismissed": true})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn choices_without_a_key_are_shown_and_typed() {
        let choices: Vec<Value> = (1..=12)
            .map(|n| json!({"value": format!("v{n}"), "label": format!("Label {n}")}))
            .collect();
        let one = || question(json!([{"name": "a", "choices": choices, "required": true}]));
        let shown = one().render_first(plain()).unwrap().body;
        assert!(shown.contains("  9   Label 9\n      Label 10\n"), "{shown}");
        assert_eq!(
            expect_answer(press(&mut one(), "tlabel 11\n"))["answers"],
            json!({"a": ["v11"]})
        );
        assert_eq!(
            expect_answer(press(&mut one(), "tv12\n"))["answers"],
            json!({"a": ["v12"]})
        );
        for words in ["Label 13", "v1, v2"] {
            assert_eq!(
                press(&mut one(), &format!("t{words}\n")),
                InquiryStep::Wrong("not one of the choices", format!("answer: {words}"))
            );
        }
        let mut several = question(json!([{"name": "a", "choices": choices, "several": true}]));
        assert_eq!(press(&mut several, "2"), InquiryStep::Show);
        assert_eq!(
            expect_answer(press(&mut several, "tv10, Label 12\n"))["answers"],
            json!({"a": ["v2", "v10", "v12"]})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn typed_text_stays_until_it_is_accepted() {
        let choices: Vec<Value> = ["red", "blue"]
            .map(|name| json!({"value": name, "label": name}))
            .into();
        let fields =
            json!([{"name": "color", "choices": choices, "free": false, "several": true}, {"name": "why"}]);
        let mut form = question(fields);
        let typing = |line: &str| InquiryStep::Typing(line.to_owned());
        // What is wrong can be corrected.
        let more: Vec<Value> = (0..10)
            .map(|n| json!({"value": format!("v{n}"), "label": "x"}))
            .collect();
        let mut long = question(json!([{"name": "a", "choices": more}]));
        press(&mut long, "tv99\n");
        assert_eq!(long.draft_text(), Some("v99"));
        long.handle_key(&Key::Backspace);
        assert_eq!(
            expect_answer(press(&mut long, "\n"))["answers"],
            json!({"a": ["v9"]})
        );
        // Esc leaves the field, and the next `t` brings the text back.
        assert_eq!(press(&mut form, "1\n"), InquiryStep::Show);
        press(&mut form, "tbecause");
        assert_eq!(form.handle_key(&Key::Esc), InquiryStep::Show);
        assert_eq!(form.draft_text(), None);
        assert_eq!(press(&mut form, "t"), typing("answer: because"));
        // So does a refusal of the answer, for each field with a text.
        expect_answer(press(&mut form, " I say so\n"));
        form.restore_typed();
        assert_eq!(form.draft_text(), None, "the first field has choices");
        assert_eq!(press(&mut form, "2\n"), InquiryStep::Show);
        assert_eq!(form.typed_line().as_deref(), Some("answer: because I say so"));
        assert_eq!(
            expect_answer(press(&mut form, "\n"))["answers"],
            json!({"color": ["blue"], "why": ["because I say so"]})
        );
        let mut amount = limit("max_session_cost");
        expect_answer(press(&mut amount, "r7\n"));
        amount.restore_typed();
        assert_eq!(amount.typed_line().as_deref(), Some("raise by 7"));
    }

    #[tokio::test(start_paused = true)]
    async fn settled_inquiry_is_removed() {
        let mut inquiries = limit("max_steps");
        let resolved =
            json!({"limitId": "ask_1", "limit": "max_steps", "outcome": "stopped", "by": "cancel"});
        assert!(!inquiries.handle_notification(&parse_notification("agent/limitResolved", resolved)));
        assert!(inquiries.render_first(plain()).is_none());
        assert_eq!(press(&mut inquiries, "s"), InquiryStep::Nothing);
    }
}
