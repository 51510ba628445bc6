//! The blocks of the screen that are not flowing text: frames, diffs, approvals, plans, errors.
//!
//! Pure: protocol values in, colored lines out. Text from outside becomes safe here: results lose their control
//! characters, while text that a user approves shows them as visible escapes.

use super::client::translate_method_names;
use super::style::{
    Color, Styler, clean_line, diff_color, fit_line, format_duration, hang_lines, measure_width, split_line,
    wrap_text,
};
use crate::base::text;
use crate::protocol::{
    APPROVAL_KEYS, ApprovalAction, ApprovalRequestedNotification, ApprovalResolvedNotification,
    ContinueReason, Decision, ErrorData, InstructionKind, InstructionsNotification, PlanItem, PlanStatus,
    Risk, SettledBy, ToolCallNotification, ToolCallStatus,
};

/// How many instruction files one line names.
const INSTRUCTIONS_NAMED: usize = 6;
/// How many lines of a result are shown.
const RESULT_LINES: usize = 6;
/// How many lines an open question has below the log, besides its reason and keys.
const HEAD_LINES: usize = 3;
/// How many lines of a diff are shown before a user asks for all.
const DIFF_LINES: usize = 24;

/// Renders a framed block. Except for the head, everything must already be colored and short enough.
pub(super) fn render_frame(styler: Styler, width: usize, head: &str, lines: &[String], foot: &str) -> String {
    let head = styler.paint_text(Color::Bold, &fit_line(head, width.saturating_sub(2)));
    let mut out = format!("{} {head}\n", styler.dim_text("╭"));
    for line in lines {
        out += format!("{} {line}", styler.dim_text("│")).trim_end();
        out.push('\n');
    }
    out + &format!("{} {foot}\n", styler.dim_text("╰"))
}

/// Returns the first lines of a result and how much more there is.
fn result_lines(styler: Styler, width: usize, call: &ToolCallNotification) -> Vec<String> {
    let output = call.output.as_deref().unwrap_or_default();
    let clean = text::strip_control_characters(output);
    let all: Vec<&str> = clean.trim_end().lines().collect();
    let visible_count = count_shown(all.len(), RESULT_LINES);
    let cut = |line: &&str| styler.dim_text(&fit_line(line, width.saturating_sub(2)));
    let lines = all[..visible_count].iter().map(cut);
    let hidden = match call.more.get("output") {
        // What was cut for the wire has lines that nobody counted.
        Some(more) => {
            let notice = format!("… more lines, {} in all", format_size(more.bytes));
            Some(styler.dim_text(&notice))
        }
        None => count_hidden(styler, all.len() - visible_count),
    };
    lines.chain(hidden).collect()
}

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Returns how many of `count` lines to show. A notice would take a line too, so one extra line is shown instead.
fn count_shown(count: usize, most: usize) -> usize {
    if count <= most + 1 { count } else { most }
}

/// Returns the notice about hidden lines, if there are any.
fn count_hidden(styler: Styler, hidden: usize) -> Option<String> {
    (hidden > 0).then(|| styler.dim_text(&format!("… {hidden} more lines")))
}

/// Returns the end of a failed call's output, where the reason usually is.
pub(super) fn last_lines(styler: Styler, width: usize, call: &ToolCallNotification) -> Vec<String> {
    let output = call.output.as_deref().unwrap_or_default();
    // For an output that was cut for the wire, the server sends the end separately.
    let tail = call.more.get("output").and_then(|more| more.tail.as_deref());
    let clean = text::strip_control_characters(tail.unwrap_or(output));
    let all: Vec<&str> = clean.trim_end().lines().collect();
    let from = all.len() - count_shown(all.len(), RESULT_LINES);
    let hidden = match (from, tail) {
        (0, None) => None,
        (_, Some(_)) => Some("… earlier lines".to_owned()),
        (from, None) => Some(format!("… {from} earlier lines")),
    };
    let visible = all[from..]
        .iter()
        .map(|line| fit_line(line, width.saturating_sub(2)));
    let lines = hidden.into_iter().chain(visible);
    lines.map(|line| styler.dim_text(&line)).collect()
}

/// Colors a unified diff: all of it if `show_all`, else the start of its first lines and a count of the rest.
pub(super) fn diff_lines(styler: Styler, width: usize, diff: &str, show_all: bool) -> Vec<String> {
    // A user approves what they read, so hidden characters become visible instead of disappearing.
    let clean = text::reveal_hidden_characters(diff);
    let files = clean.lines().filter(|line| line.starts_with("+++ ")).count();
    // For one file the head of the block names it; for several, the diff does.
    let of_file = |line: &str| line.starts_with("--- ") || line.starts_with("+++ ");
    let all: Vec<&str> = clean
        .lines()
        .enumerate()
        .filter(|(number, line)| files > 1 || *number > 1 || !of_file(line))
        .map(|(_, line)| line)
        .collect();
    let visible_count = count_shown(all.len(), if show_all { all.len() } else { DIFF_LINES });
    let available = width.saturating_sub(2);
    let mut lines = Vec::new();
    for line in &all[..visible_count] {
        let paint =
            |text: &str| diff_color(line).map_or_else(|| text.to_owned(), |ink| styler.paint_text(ink, text));
        if show_all {
            // Wrap instead of truncate: the user who decides must see even the far right of a line.
            lines.extend(split_line(line, available).iter().map(|piece| paint(piece)))
        } else {
            lines.push(paint(&fit_line(line, available)))
        }
    }
    lines.extend(count_hidden(styler, all.len() - visible_count));
    lines
}

/// Returns the head of a result. A command's title does not name its tool, unlike other titles (R-TOOL-6).
fn result_head(call: &ToolCallNotification) -> String {
    match call.name.as_str() {
        "bash" => format!("bash {}", call.title),
        _ => call.title.clone(),
    }
}

/// Returns the colored mark of an ended call; `None` for a call that has not ended.
fn status_mark(styler: Styler, call: &ToolCallNotification) -> Option<String> {
    let (color, mark) = match call.status {
        ToolCallStatus::Completed => (Color::Green, "✓".to_owned()),
        ToolCallStatus::Failed => match call.exit_code {
            Some(code) => (Color::Red, format!("✗ exit {code}")),
            None => (Color::Red, "✗ failed".to_owned()),
        },
        ToolCallStatus::Denied => (Color::Yellow, "⊘".to_owned()),
        ToolCallStatus::Cancelled => (Color::Yellow, "■".to_owned()),
        ToolCallStatus::Pending | ToolCallStatus::AwaitingApproval | ToolCallStatus::Running => return None,
    };
    Some(styler.paint_text(color, &mark))
}

/// Renders an ended tool call as a block; empty for a call that has not ended.
pub(super) fn tool_call(
    styler: Styler,
    width: usize,
    call: &ToolCallNotification,
    diff_was_shown: bool,
    hint: Option<&str>,
) -> String {
    let Some(mark) = status_mark(styler, call) else {
        return String::new();
    };
    let took = styler.dim_text(&call.duration_ms.map(format_duration).unwrap_or_default());
    let title = fit_line(&call.title, width.saturating_sub(20));
    let output = call.output.as_deref().unwrap_or_default();
    let first = fit_line(output.lines().next().unwrap_or_default(), width.saturating_sub(4));
    let yellow = |text: &str| styler.paint_text(Color::Yellow, text);
    match call.status {
        ToolCallStatus::Completed if diff_was_shown => {
            let errors = new_error_lines(styler, width.saturating_sub(2), output);
            let errors: String = errors.map(|line| format!("  {line}\n")).collect();
            format!("{mark} {first} {took}\n{errors}")
        }
        ToolCallStatus::Denied => {
            let first = styler.dim_text(&first);
            format!("{} {title}\n  {first}\n", yellow("⊘ denied:"))
        }
        ToolCallStatus::Cancelled => format!("{} {title}\n", yellow("■ canceled:")),
        ToolCallStatus::Failed => {
            let hint = hint.filter(|_| has_hidden_lines(call));
            let hint = hint.map_or_else(String::new, |hint| styler.dim_text(&format!(" · {hint}")));
            let lines = last_lines(styler, width, call);
            let foot = format!("{mark} {took}{hint}");
            render_frame(styler, width, &result_head(call), &lines, &foot)
        }
        _ => {
            let lines = match &call.diff {
                Some(diff) => diff_lines(styler, width, diff, false),
                None => result_lines(styler, width, call),
            };
            let hint = hint.filter(|_| call.diff.is_none() && has_hidden_lines(call));
            let hint = hint.map_or_else(String::new, |hint| styler.dim_text(&format!(" · {hint}")));
            let errors = new_error_lines(styler, width, output);
            let lines: Vec<String> = lines.into_iter().chain(errors).collect();
            let foot = format!("{mark} {took}{hint}");
            render_frame(styler, width, &result_head(call), &lines, &foot)
        }
    }
}

/// Returns the lines of an edit's result that name the errors which it has caused.
fn new_error_lines(styler: Styler, width: usize, output: &str) -> impl Iterator<Item = String> {
    let clean = text::strip_control_characters(output);
    let at = clean.find("The editor reports ").unwrap_or(clean.len());
    let lines: Vec<String> = clean[at..]
        .lines()
        .map(|line| fit_line(line, width.saturating_sub(2)))
        .collect();
    let paint = move |line: String| styler.paint_text(Color::Yellow, &line);
    lines.into_iter().take(RESULT_LINES).map(paint)
}

/// Returns whether a call's block shows less than its output.
fn has_hidden_lines(call: &ToolCallNotification) -> bool {
    let output = call.output.as_deref().unwrap_or_default();
    call.more.contains_key("output") || output.trim_end().lines().count() > RESULT_LINES + 1
}

/// Renders an ended tool call as one line, and the reason of a denied one as another; empty for a call that has not
/// ended.
pub(super) fn tool_line(styler: Styler, width: usize, call: &ToolCallNotification) -> String {
    let Some(mark) = status_mark(styler, call) else {
        return String::new();
    };
    let title = fit_line(&call.title, width.saturating_sub(20));
    if call.status == ToolCallStatus::Denied {
        let reason = call.output.as_deref().and_then(|output| output.lines().next());
        let reason = fit_line(reason.unwrap_or_default(), width.saturating_sub(4));
        return format!("{mark} {title}\n  {}\n", styler.dim_text(&reason));
    }
    let took = styler.dim_text(&call.duration_ms.map(format_duration).unwrap_or_default());
    format!("{mark} {title} {took}\n")
}

/// Renders an approval without its keys. The flag tells whether the block shows less than everything.
pub(super) fn render_approval(
    styler: Styler,
    width: usize,
    approval: &ApprovalRequestedNotification,
    show_all: bool,
) -> (String, bool) {
    let inner = width.saturating_sub(2);
    let lines_of = |show_all| match &approval.diff {
        Some(diff) => diff_lines(styler, width, diff, show_all),
        // A short command is already complete in the head.
        None if is_complete_in_title(approval, inner) => Vec::new(),
        None => match &approval.shown {
            // A user must see all of what they approve.
            Some(display_text) => subject_lines(styler, inner, display_text),
            None => input_lines(styler, inner, approval, show_all),
        },
    };
    let mut lines = lines_of(show_all);
    let cut = !show_all && lines_of(true) != lines;
    lines.extend(option_lines(styler, inner, approval));
    let (risk, ink) = match approval.risk {
        Risk::Low => ("low risk", Color::Dim),
        Risk::Medium => ("medium risk", Color::Dim),
        Risk::High => ("high risk", Color::BoldYellow),
    };
    let room = inner.saturating_sub(width_of(risk));
    if measure_width(&approval.why) > room {
        // A user must see all of why they are asked.
        let reason = wrap_text(&text::reveal_hidden_characters(&approval.why), inner);
        lines.extend(reason.iter().map(|line| styler.paint_text(Color::Yellow, line)));
    }
    let reason = fit_line(&approval.why, room);
    let foot = format!(
        "{} {} {}",
        styler.paint_text(ink, risk),
        styler.dim_text("·"),
        styler.dim_text(&reason)
    );
    let head = format!("? {}", approval.title);
    // What is complete below may be short here. Everything else wraps.
    if approval.shown.is_none() && measure_width(&head) > inner {
        let head = wrap_text(&text::reveal_hidden_characters(&head), inner);
        let rest = head
            .iter()
            .skip(1)
            .map(|line| styler.paint_text(Color::Bold, line));
        lines.splice(0..0, rest);
        let first = head.first().map_or("?", String::as_str);
        return (render_frame(styler, width, first, &lines, &foot), cut);
    }
    (render_frame(styler, width, &head, &lines, &foot), cut)
}

fn width_of(text: &str) -> usize {
    measure_width(text) + 5
}

/// Returns whether the head shows the complete request: a command that fits on one line and hides nothing.
fn is_complete_in_title(approval: &ApprovalRequestedNotification, available: usize) -> bool {
    approval.shown.as_ref() == Some(&approval.title)
        && text::reveal_hidden_characters(&approval.title) == approval.title
        && !approval.title.contains(['\n', '\t'])
        && measure_width(&approval.title) + 2 <= available
}

/// Returns the complete command line or address.
fn subject_lines(styler: Styler, columns: usize, display_text: &str) -> Vec<String> {
    let display_text = text::reveal_hidden_characters(display_text).replace('\t', "    ");
    let lines = wrap_text(&display_text, columns);
    lines
        .iter()
        .map(|line| styler.paint_text(Color::Cyan, line))
        .collect()
}

/// Returns the options that change how the call runs.
fn option_lines(styler: Styler, columns: usize, approval: &ApprovalRequestedNotification) -> Vec<String> {
    let options = approval
        .options
        .iter()
        .map(|option| format!("· {}", text::reveal_hidden_characters(option)));
    let lines = options.flat_map(|option| wrap_text(&option, columns));
    lines
        .map(|line| styler.paint_text(Color::Yellow, &line))
        .collect()
}

/// Returns the subject of an approval on one line: the command or address, else the title.
pub(super) fn question_subject(approval: &ApprovalRequestedNotification) -> String {
    let subject = approval.shown.as_deref().unwrap_or(&approval.title);
    text::one_line(&text::reveal_hidden_characters(subject), 200)
}

/// Returns the open question in a few lines for below the log: who asks, if not the agent, what, and why.
pub(super) fn question_head(
    styler: Styler,
    width: usize,
    approval: &ApprovalRequestedNotification,
    asker: Option<&str>,
    waiting: usize,
) -> Vec<String> {
    let count = match waiting {
        0 => "?".to_owned(),
        waiting => format!("? 1 of {}", waiting + 1),
    };
    let asker = asker.map_or_else(String::new, |asker| format!(" {asker}:"));
    let subject = format!("{count}{asker} {}", question_subject(approval));
    let mut lines = wrap_text(&subject, width);
    if lines.len() > HEAD_LINES {
        lines.truncate(HEAD_LINES);
        if let Some(last) = lines.last_mut() {
            *last = fit_line(&format!("{last} …"), width);
        }
    }
    let mut lines: Vec<String> = lines
        .iter()
        .map(|line| styler.paint_text(Color::BoldYellow, line))
        .collect();
    let why = text::reveal_hidden_characters(&approval.why);
    lines.push(styler.dim_text(&fit_line(&format!("  {why}"), width)));
    lines
}

/// Returns the effect of a call without a diff: its command, or its arguments.
fn input_lines(
    styler: Styler,
    width: usize,
    approval: &ApprovalRequestedNotification,
    show_all: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in approval.input.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::String(text) => text::reveal_hidden_characters(text).into_owned(),
            other => text::reveal_hidden_characters(&other.to_string()).into_owned(),
        };
        // A command needs no label.
        let (color, text) = match name.as_str() {
            "command" => (Color::Cyan, value),
            _ => (Color::Dim, format!("{name}: {value}")),
        };
        lines.extend(
            wrap_text(&text, width)
                .iter()
                .map(|line| styler.paint_text(color, line)),
        );
    }
    let hidden = lines
        .len()
        .saturating_sub(if show_all { usize::MAX } else { DIFF_LINES });
    lines.truncate(lines.len() - hidden);
    lines.extend(count_hidden(styler, hidden));
    lines
}

/// Keys that not every question offers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OptionalKeys {
    /// `e` edits the input.
    pub(super) edit: bool,
    /// `d` shows the complete diff.
    pub(super) show: bool,
}

/// Renders the keys that answer an approval, wrapped to the width, and the complete rule that "always" remembers.
pub(super) fn question_keys(
    styler: Styler,
    columns: usize,
    rule: Option<&str>,
    more: OptionalKeys,
) -> String {
    let is_there = |action: ApprovalAction| match action {
        ApprovalAction::Decide(Decision::Allow | Decision::Deny) => true,
        ApprovalAction::Decide(Decision::AllowSession | Decision::AllowAlways) => rule.is_some(),
        ApprovalAction::Edit => more.edit,
        ApprovalAction::ShowDiff => more.show,
    };
    let mut lines = vec![String::new()];
    let mut column = 0;
    for entry in APPROVAL_KEYS.iter().filter(|entry| is_there(entry.action)) {
        let label = entry.label.to_lowercase();
        let needed = 4 + measure_width(&label);
        if column > 0 && column + needed > columns {
            lines.push(String::new());
            column = 0;
        }
        if let Some(line) = lines.last_mut() {
            let gap = if column > 0 { "   " } else { "  " };
            *line += &format!(
                "{gap}{} {label}",
                styler.paint_text(Color::BoldCyan, &entry.key.to_string())
            );
        }
        column += needed + 1;
    }
    if let Some(rule) = rule {
        let rule = format!(
            "will remember: {}",
            text::reveal_hidden_characters(rule).replace(['\n', '\t'], " ")
        );
        let folded = wrap_text(&rule, columns.saturating_sub(2));
        lines.extend(folded.iter().map(|line| format!("  {}", styler.dim_text(line))));
    }
    lines.join("\n")
}

/// Describes how an approval was settled, in one line.
pub(super) fn approval_settled(
    resolved: &ApprovalResolvedNotification,
    subject: Option<&str>,
) -> (Color, String) {
    let subject = subject.map_or_else(String::new, |subject| format!(": {subject}"));
    let by = match resolved.by {
        SettledBy::Person => "",
        SettledBy::Rule => " by a rule",
        SettledBy::Cancel => " by the cancel",
        SettledBy::Timeout => ": its time ran out",
        SettledBy::NewPrompt => " by a new prompt",
    };
    let rule = resolved.rule.as_deref().unwrap_or_default();
    match resolved.decision {
        Decision::Allow => (Color::Green, format!("✓ allowed once{by}{subject}")),
        Decision::AllowSession => (Color::Green, format!("✓ allowed for this session: {rule}")),
        Decision::AllowAlways => (Color::Green, format!("✓ allowed from now on: {rule}")),
        Decision::Deny => (Color::Yellow, format!("⊘ denied{by}{subject}")),
    }
}

/// Describes why a turn continues; `None` if the reason is not worth a line.
pub(super) fn continue_reason(reason: ContinueReason) -> Option<&'static str> {
    Some(match reason {
        ContinueReason::NextTurn => return None,
        ContinueReason::StopHookBlocking => "a hook objected to stopping: the agent continues",
        ContinueReason::MaxOutputTokensEscalate => "the answer was cut off: retrying with a larger limit",
        ContinueReason::MaxOutputTokensRecovery => "the answer was cut off: continuing it",
        ContinueReason::CollapseDrainRetry => "the prompt was too long: left out parts of tool results",
        ContinueReason::ReactiveCompactRetry => "the prompt was too long: summarized the history",
        ContinueReason::ImageRetry => "the picture or PDF was rejected: retrying without it",
        ContinueReason::EmptyResponseRetry => "the answer was empty: retrying",
        ContinueReason::PauseTurn => "the provider paused: continuing",
        ContinueReason::ModelFallback => "the model was switched",
        ContinueReason::Planning => "asked for a plan first",
        ContinueReason::Reflection => "asked for a progress check",
        ContinueReason::TokenBudgetContinuation => "the token target is not reached: the agent continues",
    })
}

/// Renders the plan as a list with a mark for each item's status.
pub(super) fn render_plan(styler: Styler, width: usize, items: &[PlanItem]) -> String {
    let mut out = format!("{}\n", styler.paint_text(Color::Bold, "Plan"));
    for item in items {
        let (mark, ink) = match item.status {
            PlanStatus::Pending => (styler.dim_text("○"), None),
            PlanStatus::InProgress => (styler.paint_text(Color::Yellow, "◐"), Some(Color::Bold)),
            PlanStatus::Completed => (styler.paint_text(Color::Green, "●"), Some(Color::Dim)),
        };
        let text = text::strip_control_characters(&item.text);
        for (mark, line) in hang_lines(&text, width.saturating_sub(4), &mark) {
            let line = ink.map_or_else(|| line.clone(), |ink| styler.paint_text(ink, &line));
            out += &format!("  {mark} {line}\n");
        }
    }
    out
}

/// Renders an error and the suggested action.
pub(super) fn error_card(styler: Styler, width: usize, error: &ErrorData) -> String {
    let code = serde_json::to_value(error.code).unwrap_or_default();
    let code = code.as_str().unwrap_or("internal");
    let cause = error.cause.as_deref();
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    let line = format!("[{code}] {}{cause}", error.message);
    let line = translate_method_names(&text::strip_control_characters(&line));
    let action = translate_method_names(error.user_action.as_deref().unwrap_or_default());
    let mut out = String::new();
    for (mark, line) in hang_lines(&line, width.saturating_sub(2), "✗") {
        out += &format!("{}\n", styler.paint_text(Color::Red, &format!("{mark} {line}")));
    }
    for action in text::strip_control_characters(&action).lines() {
        for (mark, line) in hang_lines(action, width.saturating_sub(4), "→") {
            out += &format!("  {mark} {line}\n");
        }
    }
    out
}

/// Renders plain lines, wrapped, each with the indentation of the first.
pub(super) fn render_note(styler: Styler, width: usize, ink: Color, text: &str) -> String {
    let clean = text::strip_control_characters(text);
    let words = clean.trim_start_matches(' ');
    let indent = " ".repeat((clean.len() - words.len()).min(width / 2));
    let lines = wrap_text(words, width.saturating_sub(indent.len()));
    let painted = |line: &String| format!("{indent}{}\n", styler.paint_text(ink, line));
    lines.iter().map(painted).collect()
}

/// Names the instruction files that the agent uses. Problems with them arrive as warnings.
pub(super) fn describe_instructions(instructions: &InstructionsNotification) -> String {
    let used_files = || instructions.files.iter().filter(|file| file.bytes > 0);
    let files = used_files().filter(|file| file.kind != InstructionKind::Skill);
    let mut named: Vec<String> = files.map(|file| translate_method_names(&file.path)).collect();
    if named.len() > INSTRUCTIONS_NAMED {
        let more = named.len() - INSTRUCTIONS_NAMED;
        named.truncate(INSTRUCTIONS_NAMED);
        named.push(format!("{more} more"));
    }
    let skills: Vec<&str> = used_files().filter_map(|file| file.name.as_deref()).collect();
    if !skills.is_empty() {
        named.push(format!("skills: {}", skills.join(", ")));
    }
    if named.is_empty() {
        "instructions: none".to_owned()
    } else {
        format!("instructions: {}", clean_line(&named.join(", "), 400))
    }
}
