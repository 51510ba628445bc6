//! The parts of the screen that are not flowing text: framed blocks, diffs, questions, plans, errors.
//!
//! Pure: values of the protocol in, painted lines out. Everything from outside is made safe here.

use super::client::in_our_words;
use super::highlight::diff_ink;
use super::style::{Ink, Painter, duration, fit, pieces, width, wrap};
use crate::base::text;
use crate::protocol::{
    ApprovalRequestedNotification, ErrorData, InstructionKind, InstructionsNotification, PlanItem,
    PlanStatus, Risk, ToolCallNotification, ToolCallStatus,
};

/// Files of instructions that are named in a line.
const INSTRUCTIONS_NAMED: usize = 6;
/// Lines of a result that are shown.
const RESULT_LINES: usize = 6;
/// Lines of a diff that are shown before a person asks for all.
const DIFF_LINES: usize = 24;

/// A framed block: a head, lines, a foot. All painted already and short enough, but for the head.
pub(super) fn frame(painter: Painter, width: usize, head: &str, lines: &[String], foot: &str) -> String {
    let head = painter.paint(Ink::Bold, &fit(head, width.saturating_sub(2)));
    let mut out = format!("{} {head}\n", painter.dim("╭"));
    for line in lines {
        out += format!("{} {line}", painter.dim("│")).trim_end();
        out.push('\n');
    }
    out + &format!("{} {foot}\n", painter.dim("╰"))
}

/// The first lines of a result, and how many more there are.
pub(super) fn result_lines(painter: Painter, width: usize, output: &str) -> Vec<String> {
    let clean = text::neutralise(output);
    let all: Vec<&str> = clean.trim_end().lines().collect();
    // One line too many is shown rather than told about.
    let shown = if all.len() <= RESULT_LINES + 1 {
        all.len()
    } else {
        RESULT_LINES
    };
    let mut lines: Vec<String> = all[..shown]
        .iter()
        .map(|line| painter.dim(&fit(line, width.saturating_sub(2))))
        .collect();
    if all.len() > shown {
        lines.push(painter.dim(&format!("… {} more lines", all.len() - shown)));
    }
    lines
}

/// A unified diff in colours: `whole`, or the beginnings of its first lines and how much is left out.
pub(super) fn diff_lines(painter: Painter, width: usize, diff: &str, whole: bool) -> Vec<String> {
    // What is approved is what is read: nothing is taken out of it.
    let clean = text::reveal(diff);
    let files = clean.lines().filter(|line| line.starts_with("+++ ")).count();
    // The head of the block names the file; several files name themselves.
    let of_file = |line: &str| line.starts_with("--- ") || line.starts_with("+++ ");
    let all: Vec<&str> = clean
        .lines()
        .enumerate()
        .filter(|(number, line)| files > 1 || *number > 1 || !of_file(line))
        .map(|(_, line)| line)
        .collect();
    let shown = if whole || all.len() <= DIFF_LINES + 1 {
        all.len()
    } else {
        DIFF_LINES
    };
    let room = width.saturating_sub(2);
    let mut lines = Vec::new();
    for line in &all[..shown] {
        let paint =
            |text: &str| diff_ink(line).map_or_else(|| text.to_owned(), |ink| painter.paint(ink, text));
        match whole {
            // Who is asked can see all of it, also what stands far to the right.
            true => lines.extend(pieces(line, room).iter().map(|piece| paint(piece))),
            false => lines.push(paint(&fit(line, room))),
        }
    }
    if all.len() > shown {
        lines.push(painter.dim(&format!("… {} more lines", all.len() - shown)));
    }
    lines
}

/// How a tool call ended.
pub(super) fn tool_call(
    painter: Painter,
    width: usize,
    call: &ToolCallNotification,
    diff_was_shown: bool,
) -> String {
    let took = call.duration_ms.map(duration).unwrap_or_default();
    let title = fit(&call.title, width.saturating_sub(20));
    let output = call.output.as_deref().unwrap_or_default();
    let first = fit(output.lines().next().unwrap_or_default(), width.saturating_sub(4));
    let dim = |text: &str| painter.dim(text);
    match call.status {
        ToolCallStatus::Completed if diff_was_shown => {
            format!("{} {first} {}\n", painter.paint(Ink::Green, "✓"), dim(&took))
        }
        ToolCallStatus::Completed => {
            let lines = match &call.diff {
                Some(diff) => diff_lines(painter, width, diff, false),
                None => result_lines(painter, width, output),
            };
            let foot = format!("{} {}", painter.paint(Ink::Green, "✓"), dim(&took));
            frame(painter, width, &call.title, &lines, &foot)
        }
        ToolCallStatus::Failed => {
            let lines = result_lines(painter, width, output);
            let foot = format!("{} {}", painter.paint(Ink::Red, "✗ failed"), dim(&took));
            frame(painter, width, &call.title, &lines, &foot)
        }
        ToolCallStatus::Denied => {
            format!(
                "{} {title}\n  {}\n",
                painter.paint(Ink::Yellow, "⊘ denied:"),
                dim(&first)
            )
        }
        ToolCallStatus::Cancelled => format!("{} {title}\n", painter.paint(Ink::Yellow, "■ cancelled:")),
        ToolCallStatus::Pending | ToolCallStatus::AwaitingApproval | ToolCallStatus::Running => String::new(),
    }
}

/// How a tool call ended, in a line.
pub(super) fn tool_line(painter: Painter, width: usize, call: &ToolCallNotification) -> String {
    let title = fit(&call.title, width.saturating_sub(20));
    let took = painter.dim(&call.duration_ms.map(duration).unwrap_or_default());
    let (ink, mark) = match call.status {
        ToolCallStatus::Completed => (Ink::Green, "✓"),
        ToolCallStatus::Failed => (Ink::Red, "✗"),
        ToolCallStatus::Denied => (Ink::Yellow, "⊘"),
        ToolCallStatus::Cancelled => (Ink::Yellow, "■"),
        ToolCallStatus::Pending | ToolCallStatus::AwaitingApproval | ToolCallStatus::Running => {
            return String::new();
        }
    };
    format!("{} {title} {took}\n", painter.paint(ink, mark))
}

/// A question about an effect, without its keys; and whether it says less than all.
pub(super) fn question(
    painter: Painter,
    width: usize,
    asked: &ApprovalRequestedNotification,
    whole: bool,
) -> (String, bool) {
    let inner = width.saturating_sub(2);
    let lines_of = |whole| match &asked.diff {
        Some(diff) => diff_lines(painter, width, diff, whole),
        // A short command is its own head.
        None if is_told_by_title(asked, inner) => Vec::new(),
        None => input_lines(painter, inner, asked, whole),
    };
    let lines = lines_of(whole);
    let cut = !whole && lines_of(true) != lines;
    let (risk, ink) = match asked.risk {
        Risk::Low => ("low risk", Ink::Dim),
        Risk::Medium => ("medium risk", Ink::Dim),
        Risk::High => ("high risk", Ink::BoldYellow),
    };
    let why = fit(&asked.why, inner.saturating_sub(width_of(risk)));
    let foot = format!(
        "{} {} {}",
        painter.paint(ink, risk),
        painter.dim("·"),
        painter.dim(&why)
    );
    let head = format!("? {}", asked.title);
    (frame(painter, width, &head, &lines, &foot), cut)
}

fn width_of(text: &str) -> usize {
    width(text) + 5
}

/// Whether the head says all of the input: a command that fits.
fn is_told_by_title(asked: &ApprovalRequestedNotification, room: usize) -> bool {
    let command = asked.input.as_object().filter(|input| input.len() == 1);
    let command = command.and_then(|input| input.get("command")?.as_str());
    command == Some(asked.title.as_str()) && width(&asked.title) + 2 <= room
}

/// What a call without a diff would do: its command, or its arguments.
fn input_lines(
    painter: Painter,
    width: usize,
    asked: &ApprovalRequestedNotification,
    whole: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    let input = match asked.input.as_object() {
        Some(input) => input.clone(),
        None => return lines,
    };
    for (name, value) in &input {
        let value = match value {
            serde_json::Value::String(text) => text::reveal(text).into_owned(),
            other => text::reveal(&other.to_string()).into_owned(),
        };
        // A command stands for itself.
        if name == "command" {
            lines.extend(
                wrap(&value, width)
                    .iter()
                    .map(|line| painter.paint(Ink::Cyan, line)),
            );
        } else {
            let label = format!("{name}: {value}");
            lines.extend(wrap(&label, width).iter().map(|line| painter.dim(line)));
        }
    }
    let most = if whole { usize::MAX } else { DIFF_LINES };
    if lines.len() > most {
        let more = lines.len() - most;
        lines.truncate(most);
        lines.push(painter.dim(&format!("… {more} more lines")));
    }
    lines
}

/// Keys that are not always there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys {
    /// `e`.
    pub(super) edit: bool,
    /// `d`.
    pub(super) show: bool,
}

/// The keys that answer a question; folded between keys where they have no room.
pub(super) fn question_keys(painter: Painter, columns: usize, rule: Option<&str>, more: Keys) -> String {
    let mut keys = vec![("y", "yes"), ("n", "no")];
    keys.extend(more.edit.then_some(("e", "edit")));
    keys.extend(more.show.then_some(("d", "show all")));
    if rule.is_some() {
        keys.extend([("s", "yes, this session"), ("a", "always")]);
    }
    let mut out = String::new();
    let mut column = 0;
    for (key, says) in keys {
        let needed = 2 + width(key) + width(says);
        if column > 0 && column + 1 + needed > columns {
            out.push('\n');
            column = 0;
        }
        out += &format!("  {} {says} ", painter.paint(Ink::BoldCyan, key));
        column += needed + 2;
    }
    let mut line: String = out
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    if let Some(rule) = rule {
        // Never cut: what is remembered must be read whole.
        for piece in wrap(
            &format!("s and a remember: {}", text::neutralise(rule)),
            columns.saturating_sub(2),
        ) {
            line += &format!("  {}\n", painter.dim(&piece));
        }
    }
    line.truncate(line.trim_end_matches('\n').len());
    line
}

/// The plan.
pub(super) fn plan(painter: Painter, width: usize, items: &[PlanItem]) -> String {
    let mut out = format!("{}\n", painter.paint(Ink::Bold, "Plan"));
    for item in items {
        let (mark, ink) = match item.status {
            PlanStatus::Pending => (painter.dim("○"), None),
            PlanStatus::InProgress => (painter.paint(Ink::Yellow, "◐"), Some(Ink::Bold)),
            PlanStatus::Completed => (painter.paint(Ink::Green, "●"), Some(Ink::Dim)),
        };
        let text = text::neutralise(&item.text);
        for (number, line) in wrap(&text, width.saturating_sub(4)).iter().enumerate() {
            let line = ink.map_or_else(|| line.clone(), |ink| painter.paint(ink, line));
            out += &format!("  {} {line}\n", if number == 0 { &mark } else { " " });
        }
    }
    out
}

/// An error and what can be done about it.
pub(super) fn error_card(painter: Painter, width: usize, error: &ErrorData) -> String {
    let code = serde_json::to_value(error.code).unwrap_or_default();
    let cause = error
        .cause
        .as_deref()
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    let line = format!(
        "[{}] {}{cause}",
        code.as_str().unwrap_or("internal"),
        error.message
    );
    let line = in_our_words(&text::neutralise(&line));
    let action = in_our_words(error.user_action.as_deref().unwrap_or_default());
    let mut out = String::new();
    for (number, line) in wrap(&line, width.saturating_sub(2)).iter().enumerate() {
        let mark = if number == 0 { "✗ " } else { "  " };
        out += &format!("{}\n", painter.paint(Ink::Red, &format!("{mark}{line}")));
    }
    for action in text::neutralise(&action).lines() {
        for (number, line) in wrap(action, width.saturating_sub(4)).iter().enumerate() {
            out += &format!("  {} {line}\n", if number == 0 { "→" } else { " " });
        }
    }
    out
}

/// Plain lines, folded; all of them as far in as the first.
pub(super) fn note(painter: Painter, width: usize, ink: Ink, text: &str) -> String {
    let clean = text::neutralise(text);
    let words = clean.trim_start_matches(' ');
    let indent = " ".repeat((clean.len() - words.len()).min(width / 2));
    let lines = wrap(words, width.saturating_sub(indent.len()));
    let painted = |line: &String| format!("{indent}{}\n", painter.paint(ink, line));
    lines.iter().map(painted).collect()
}

/// A line that says which files the agent was instructed by. What is wrong with them is told by warnings.
pub(super) fn instructions(told: &InstructionsNotification) -> String {
    let taken = || told.files.iter().filter(|file| file.bytes > 0);
    let files = taken().filter(|file| file.kind != InstructionKind::Skill);
    let mut named: Vec<String> = files.map(|file| in_our_words(&file.path)).collect();
    if named.len() > INSTRUCTIONS_NAMED {
        let more = named.len() - INSTRUCTIONS_NAMED;
        named.truncate(INSTRUCTIONS_NAMED);
        named.push(format!("{more} more"));
    }
    let skills: Vec<&str> = taken().filter_map(|file| file.name.as_deref()).collect();
    if !skills.is_empty() {
        named.push(format!("skills: {}", skills.join(", ")));
    }
    match named.is_empty() {
        true => "instructions: none".to_owned(),
        false => format!(
            "instructions: {}",
            text::one_line(&text::neutralise(&named.join(", ")), 400)
        ),
    }
}
