//! Limits and questions at a terminal: how they look and what each key does.
//!
//! Pure: `turn` draws the lines, passes the keys and sends the answers. Enter alone never answers; it only ends a typed
//! line or confirms choices. Notifications and their order belong to the server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

use super::keys::{Draft, Key};
use super::style::{Color, Styler};
use crate::base::clock::Instant;
use crate::base::text;
use crate::protocol::table::method;
use crate::protocol::{
    LimitName, LimitOutcome, LimitRequestedNotification, LimitResolvedNotification, QuestionField,
    QuestionRequestedNotification, QuestionResolvedNotification, ServerNotification, SettledBy,
};

/// Open limits and questions, in the order of their arrival.
#[derive(Default)]
pub(super) struct Inquiries {
    open: VecDeque<ShownInquiryForm>,
    /// When the first was shown; `None` while it is not shown or already answered.
    pub(super) shown: Option<Instant>,
}

enum ShownInquiryForm {
    Limit {
        asked: LimitRequestedNotification,
        /// The amount to raise the limit by, while it is typed.
        amount: Option<Draft>,
    },
    Question {
        asked: QuestionRequestedNotification,
        /// Answers so far, by field name.
        given: BTreeMap<String, Vec<String>>,
        /// The index of the current field.
        at: usize,
        /// The selected choices of the current field.
        chosen: BTreeSet<usize>,
        /// The text for the current field, while it is typed.
        words: Option<Draft>,
    },
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
    /// The typed text is invalid; shows why.
    Wrong(&'static str),
    /// Send this answer: a method and its params.
    Answer(&'static str, Value),
}

impl Inquiries {
    /// Applies a notification. Returns whether a different inquiry is now first.
    pub(super) fn handle_notification(&mut self, told: &ServerNotification) -> bool {
        let first = self.open.front().map(|asking| asking.id().to_owned());
        match told {
            ServerNotification::LimitRequested(asked) => self.open.push_back(ShownInquiryForm::Limit {
                asked: asked.clone(),
                amount: None,
            }),
            ServerNotification::QuestionRequested(asked) => self.open.push_back(ShownInquiryForm::Question {
                asked: asked.clone(),
                given: BTreeMap::new(),
                at: 0,
                chosen: BTreeSet::new(),
                words: None,
            }),
            ServerNotification::LimitResolved(resolved) => self.remove_settled(&resolved.limit_id),
            ServerNotification::QuestionResolved(resolved) => self.remove_settled(&resolved.question_id),
            ServerNotification::TurnEnded(_) => self.open.clear(),
            _ => return false,
        }
        let now = self.open.front().map(|asking| asking.id().to_owned());
        let changed = now != first;
        // A key pressed at the previous inquiry must not answer this one; `turn` sets the time when it shows it.
        if changed {
            self.shown = None;
        }
        changed && now.is_some()
    }

    fn remove_settled(&mut self, id: &str) {
        self.open.retain(|asking| asking.id() != id);
    }

    /// Returns the text typed into the first inquiry; `None` while nothing is typed.
    pub(super) fn draft_text(&self) -> Option<&str> {
        match self.open.front()? {
            ShownInquiryForm::Limit { amount, .. } => amount.as_ref(),
            ShownInquiryForm::Question { words, .. } => words.as_ref(),
        }
        .map(|draft| draft.text.as_str())
    }

    /// Renders the first inquiry.
    pub(super) fn render_first(&self, styler: Styler) -> Option<String> {
        Some(match self.open.front()? {
            ShownInquiryForm::Limit { asked, .. } => limit_lines(styler, asked),
            ShownInquiryForm::Question {
                asked, at, chosen, ..
            } => question_lines(styler, asked, *at, chosen),
        })
    }

    /// Returns the id of the first inquiry.
    pub(super) fn first_id(&self) -> Option<String> {
        self.open.front().map(|asking| asking.id().to_owned())
    }

    /// Returns whether a letter is one of the first inquiry's keys.
    pub(super) fn may_answer(&self, letter: char) -> bool {
        let letter = letter.to_ascii_lowercase();
        match self.open.front() {
            Some(ShownInquiryForm::Limit { asked, .. }) if asked.limit == LimitName::UnknownPrice => {
                "gs".contains(letter)
            }
            Some(ShownInquiryForm::Limit { .. }) => "mrs".contains(letter),
            Some(ShownInquiryForm::Question { asked, at, .. }) => {
                asked.fields.get(*at).is_some_and(|field| {
                    let digit = letter
                        .to_digit(10)
                        .is_some_and(|digit| (1..=field.choices.len().min(9)).contains(&(digit as usize)));
                    digit
                        || letter == 'x'
                        || letter == 't' && takes_words(field)
                        || letter == 'n' && !field.required
                })
            }
            None => false,
        }
    }

    /// Returns whether a key acts without the wait of a held letter: it toggles or confirms choices, which alone
    /// sends no
    /// accidental answer.
    pub(super) fn acts_immediately(&self, key: &Key) -> bool {
        let Some(ShownInquiryForm::Question {
            asked, at, chosen, ..
        }) = self.open.front()
        else {
            return false;
        };
        let several = asked.fields.get(*at).is_some_and(|field| field.several);
        several
            && match key {
                Key::Char('1'..='9') => true,
                Key::Enter => !chosen.is_empty(),
                _ => false,
            }
    }

    /// Applies a key to the first inquiry.
    pub(super) fn handle_key(&mut self, key: &Key, now: Instant) -> InquiryStep {
        match self.open.front_mut() {
            None => InquiryStep::Nothing,
            Some(ShownInquiryForm::Limit { asked, amount }) => limit_key(asked, amount, key, now),
            Some(ShownInquiryForm::Question {
                asked,
                given,
                at,
                chosen,
                words,
            }) => question_key(asked, given, at, chosen, words, key, now),
        }
    }
}

impl ShownInquiryForm {
    fn id(&self) -> &str {
        match self {
            Self::Limit { asked, .. } => &asked.limit_id,
            Self::Question { asked, .. } => &asked.question_id,
        }
    }
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

/// Returns the amount that `m` raises a limit by: the limit again, or the overrun if that is larger.
fn suggest_raise(asked: &LimitRequestedNotification) -> f64 {
    let missing = (asked.used - asked.max).max(0.0);
    let by = asked.max.max(missing);
    // A limit of zero would suggest a raise by nothing.
    if by > 0.0 { by } else { 1.0 }
}

fn limit_lines(styler: Styler, asked: &LimitRequestedNotification) -> String {
    let head = styler.paint_text(
        Color::BoldYellow,
        &format!("? {}", text::strip_control_characters(&asked.message)),
    );
    let key = |key: &str, says: &str| format!("  {} {says} ", styler.paint_text(Color::BoldCyan, key));
    let keys = match asked.limit {
        LimitName::UnknownPrice => key("g", "continue with an unknown price") + &key("s", "stop"),
        limit => {
            let more = format!("{} more", format_amount(limit, suggest_raise(asked)));
            key("m", &more) + &key("r", "raise by …") + &key("s", "stop")
        }
    };
    format!("{head}\n{}", keys.trim_end())
}

fn limit_key(
    asked: &LimitRequestedNotification,
    typed: &mut Option<Draft>,
    key: &Key,
    now: Instant,
) -> InquiryStep {
    let answer = |answer: Value| {
        let mut params = json!({"limitId": asked.limit_id});
        if let (Some(all), Value::Object(more)) = (params.as_object_mut(), answer) {
            all.extend(more);
        }
        InquiryStep::Answer(method::LIMIT_RESPOND, params)
    };
    if let Some(draft) = typed {
        if *key == Key::Esc {
            *typed = None;
            return InquiryStep::Show;
        }
        let Some(line) = draft.take(key, now) else {
            return InquiryStep::Typing(format!("raise by {}", draft.text));
        };
        *typed = None;
        let number = line.trim().trim_start_matches('$').parse::<f64>().ok();
        // `inf` and `nan` parse as numbers too.
        return match number.filter(|by| by.is_finite() && *by > 0.0) {
            Some(by) => answer(json!({"raiseBy": by})),
            None => InquiryStep::Wrong("not an amount"),
        };
    }
    let unknown = asked.limit == LimitName::UnknownPrice;
    match key {
        // Esc gives the safe answer, as at an approval.
        Key::Char('s' | 'S') | Key::Esc => answer(json!({"stop": true})),
        Key::Char('g' | 'G') if unknown => answer(json!({})),
        Key::Char('m' | 'M') if !unknown => answer(json!({"raiseBy": suggest_raise(asked)})),
        Key::Char('r' | 'R') if !unknown => {
            *typed = Some(Draft::default());
            InquiryStep::Typing("raise by ".to_owned())
        }
        Key::Char(_)
        | Key::Alt(_)
        | Key::Paste(_)
        | Key::Enter
        | Key::Backspace
        | Key::CtrlC
        | Key::CtrlD
        | Key::CtrlU
        | Key::CtrlW
        | Key::Other => InquiryStep::Nothing,
    }
}

fn question_lines(
    styler: Styler,
    asked: &QuestionRequestedNotification,
    at: usize,
    chosen: &BTreeSet<usize>,
) -> String {
    let mut lines = Vec::new();
    if at == 0 && chosen.is_empty() {
        let head = format!("? {}", text::strip_control_characters(&asked.text));
        lines.push(styler.paint_text(Color::BoldYellow, &head));
        if let Some(detail) = &asked.detail {
            let detail = text::strip_control_characters(detail);
            lines.extend(detail.lines().map(|line| format!("  {}", styler.dim_text(line))));
        }
    }
    let Some(field) = asked.fields.get(at) else {
        return lines.join("\n");
    };
    if !field.label.is_empty() {
        lines.push(format!("  {}", text::strip_control_characters(&field.label)));
    }
    for (number, choice) in field.choices.iter().enumerate().take(9) {
        let mark = if chosen.contains(&number) { "●" } else { " " };
        let key = styler.paint_text(Color::BoldCyan, &(number + 1).to_string());
        lines.push(format!(
            "  {key} {mark} {}",
            text::strip_control_characters(&choice.label)
        ));
    }
    let key = |key: &str, says: &str| format!("  {} {says} ", styler.paint_text(Color::BoldCyan, key));
    let mut keys = String::new();
    if takes_words(field) {
        keys += &key("t", "type an answer");
    }
    if field.several && !chosen.is_empty() {
        keys += &key("Enter", "these");
    }
    if !field.required {
        keys += &key("n", "skip it");
    }
    keys += &key("x", "do not answer");
    lines.push(keys.trim_end().to_owned());
    lines.join("\n")
}

fn takes_words(field: &QuestionField) -> bool {
    // Keys 1 to 9 cover only nine choices; typing reaches the others.
    field.free || field.choices.is_empty() || field.choices.len() > 9
}

fn question_key(
    asked: &QuestionRequestedNotification,
    given: &mut BTreeMap<String, Vec<String>>,
    at: &mut usize,
    chosen: &mut BTreeSet<usize>,
    words: &mut Option<Draft>,
    key: &Key,
    now: Instant,
) -> InquiryStep {
    let Some(field) = asked.fields.get(*at) else {
        return InquiryStep::Nothing;
    };
    let answered = if let Some(draft) = words {
        if *key == Key::Esc {
            *words = None;
            return InquiryStep::Show;
        }
        let Some(line) = draft.take(key, now) else {
            return InquiryStep::Typing(draft.text.clone());
        };
        *words = None;
        match line.trim() {
            "" => return InquiryStep::Wrong("nothing was typed"),
            line => Some(vec![line.to_owned()]),
        }
    } else {
        match key {
            Key::Char('x' | 'X') | Key::Esc => {
                let params = json!({"questionId": asked.question_id, "dismissed": true});
                return InquiryStep::Answer(method::QUESTION_RESPOND, params);
            }
            Key::Char('t' | 'T') if takes_words(field) => {
                *words = Some(Draft::default());
                return InquiryStep::Typing(String::new());
            }
            Key::Char('n' | 'N') if !field.required => None,
            Key::Char(digit @ '1'..='9') => {
                let number = usize::from(*digit as u8 - b'1');
                let Some(choice) = field.choices.get(number) else {
                    return InquiryStep::Nothing;
                };
                if field.several {
                    if !chosen.remove(&number) {
                        chosen.insert(number);
                    }
                    return InquiryStep::Show;
                }
                Some(vec![choice.value.clone()])
            }
            Key::Enter if field.several && !chosen.is_empty() => {
                let values = chosen.iter().filter_map(|number| field.choices.get(*number));
                Some(values.map(|choice| choice.value.clone()).collect())
            }
            Key::Char(_)
            | Key::Alt(_)
            | Key::Paste(_)
            | Key::Enter
            | Key::Backspace
            | Key::CtrlC
            | Key::CtrlD
            | Key::CtrlU
            | Key::CtrlW
            | Key::Other => return InquiryStep::Nothing,
        }
    };
    if let Some(values) = answered {
        given.insert(field.name.clone(), values);
    }
    chosen.clear();
    *at += 1;
    if *at < asked.fields.len() {
        return InquiryStep::Show;
    }
    // If the server refuses the answers, the form starts over.
    *at = 0;
    let params = json!({"questionId": asked.question_id, "answers": std::mem::take(given)});
    InquiryStep::Answer(method::QUESTION_RESPOND, params)
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
        (LimitOutcome::Raised, None) | (LimitOutcome::Accepted, _) => (Color::Green, "✓ goes on".to_owned()),
        (LimitOutcome::Stopped, _) => (Color::Yellow, format!("⊘ stopped{by}")),
    }
}

/// Describes how a question was settled, in one line.
pub(super) fn question_settled(resolved: &QuestionResolvedNotification) -> (Color, String) {
    let by = describe_settled_by(resolved.by);
    match &resolved.answers {
        Some(answers) => {
            let values: Vec<_> = answers.values().flatten().map(String::as_str).collect();
            let said = text::one_line(&text::strip_control_characters(&values.join(", ")), 200);
            (Color::Green, format!("✓ answered: {said}"))
        }
        None => (Color::Yellow, format!("⊘ not answered{by}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    fn told(method: &str, more: Value) -> ServerNotification {
        let mut params = json!({"sessionId": "s", "seq": 1, "turnId": "t", "at": 1});
        let all = params.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        ServerNotification::parse(method, params).unwrap().unwrap()
    }

    fn limit(name: &str) -> Inquiries {
        let mut inquiries = Inquiries::default();
        let asked = json!({"limitId": "ask_1", "limit": name, "used": 5.12, "max": 5.0, "message": "m"});
        assert!(inquiries.handle_notification(&told("agent/limitRequested", asked)));
        inquiries
    }

    fn question(fields: Value) -> Inquiries {
        let mut inquiries = Inquiries::default();
        let asked = json!({"questionId": "ask_1", "text": "Which?", "fields": fields});
        assert!(inquiries.handle_notification(&told("agent/questionRequested", asked)));
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
            last = inquiries.handle_key(&key, clock::now());
        }
        last
    }

    fn says(step: InquiryStep) -> Value {
        match step {
            InquiryStep::Answer(_, params) => params,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn limit_keys_raise_accept_or_stop() {
        assert_eq!(
            says(press(&mut limit("max_session_cost"), "m")),
            json!({"limitId": "ask_1", "raiseBy": 5.0})
        );
        assert_eq!(
            says(press(&mut limit("max_session_cost"), "r$2.5\n")),
            json!({"limitId": "ask_1", "raiseBy": 2.5})
        );
        assert_eq!(
            press(&mut limit("max_session_cost"), "rx\n"),
            InquiryStep::Wrong("not an amount")
        );
        assert_eq!(
            says(press(&mut limit("max_steps"), "s")),
            json!({"limitId": "ask_1", "stop": true})
        );
        assert_eq!(
            says(press(&mut limit("unknown_price"), "g")),
            json!({"limitId": "ask_1"})
        );
        assert_eq!(press(&mut limit("unknown_price"), "m"), InquiryStep::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn enter_alone_and_pasted_text_answer_nothing() {
        let fields = json!([{"name": "a", "choices": [{"value": "x", "label": "X"}], "several": true}]);
        for mut asked in [limit("max_steps"), limit("unknown_price"), question(fields)] {
            for key in [
                Key::Enter,
                Key::Paste("1\n".into()),
                Key::Paste("s".into()),
                Key::CtrlD,
            ] {
                assert_eq!(
                    asked.handle_key(&key, clock::now()),
                    InquiryStep::Nothing,
                    "{key:?}"
                );
            }
        }
        // An empty line does not answer either.
        let mut words = question(json!([{"name": "a"}]));
        assert_eq!(press(&mut words, "t\n"), InquiryStep::Wrong("nothing was typed"));
        assert_eq!(
            press(&mut limit("max_steps"), "r\n"),
            InquiryStep::Wrong("not an amount")
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
        assert!(form.render_first(plain()).unwrap().contains("Why?"));
        assert_eq!(press(&mut form, "tso\n"), InquiryStep::Show);
        assert_eq!(
            says(press(&mut form, "n")),
            json!({"questionId": "ask_1", "answers": {"one": ["y"], "some": ["x", "y"], "words": ["so"]}})
        );
        assert_eq!(
            says(press(&mut question(json!([{"name": "a"}])), "x")),
            json!({"questionId": "ask_1", "dismissed": true})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn settled_inquiry_is_removed() {
        let mut asked = limit("max_steps");
        let resolved =
            json!({"limitId": "ask_1", "limit": "max_steps", "outcome": "stopped", "by": "cancel"});
        assert!(!asked.handle_notification(&told("agent/limitResolved", resolved)));
        assert!(asked.render_first(plain()).is_none());
        assert_eq!(press(&mut asked, "s"), InquiryStep::Nothing);
    }
}
