//! `delegate`: runs sub-agents for parts of the work (R-SUB).
//!
//! Owns the checks of the arguments, how many sub-agents run at the same time, the join policy, and the report. Must
//! not know who the sub-agents are or how they run; [`Spawner`](super::Spawner) does.

use std::fmt::Write as _;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::format_title;
use super::{
    ChildState, DelegateResult, SubagentJob, SubagentReport, Tool, ToolContext, ToolError, ToolOutput,
};
use crate::base::{CancellationToken, text};
use crate::domain::{ContentRef, Effect, Usage};

/// Most sub-agents of a call that run at the same time; the other tasks wait.
const AT_ONCE: usize = 8;
/// Most tasks of one call.
const MAX_TASKS: usize = 32;
/// The characters of each task in the title of a call.
const TITLE_OF_TASK: usize = 40;
/// Longest prompt of a sub-agent, in characters.
const MAX_PROMPT: usize = 100_000;
/// Default time limit of a sub-agent (R-SUB); `[tool.delegate] timeout_s` overrides it.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Longest total of all answers, in characters (R-SUB); headings do not count.
const ANSWERS: usize = 30_000;

/// The `delegate` tool.
pub struct Delegate;

/// The arguments of `delegate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegateInput {
    /// What the sub-agent shall do, with all that it has to know. Needed without `tasks`. With `tasks`, it may be left
    /// out: it is what all of them have to know.
    prompt: Option<String>,
    /// The named agent that does it. Default: one like you.
    #[serde(default)]
    agent: Option<String>,
    /// Several tasks instead of one, each for a sub-agent of its own. Up to 32; 8 of them work at once.
    #[serde(default)]
    tasks: Option<Vec<Task>>,
    /// What several tasks must achieve: `all_required` (your turn ends if one fails), `allow_failures`,
    /// `first_success` (the others are canceled), or `quorum(n)` (n are enough). Without it, a failed task only
    /// fails this call.
    #[serde(default)]
    join: Option<String>,
}

/// One task of several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What this sub-agent shall do, beside what all have to know.
    prompt: String,
    /// The named agent that does it. Default: that of the call.
    #[serde(default)]
    agent: Option<String>,
}

/// The condition that the sub-agents of a call must meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    AllRequired,
    AllowFailures,
    FirstSuccess,
    Quorum(usize),
}

/// Whether the sub-agents met the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DelegateOutcome {
    Met,
    /// One failed although all are required.
    Failed,
    /// Too few succeeded.
    Violated,
}

impl Join {
    fn parse(text: &str) -> Option<Self> {
        Some(match text.trim() {
            "all_required" => Self::AllRequired,
            "allow_failures" => Self::AllowFailures,
            "first_success" => Self::FirstSuccess,
            other => {
                let number = other.strip_prefix("quorum(")?.strip_suffix(')')?;
                Self::Quorum(number.trim().parse().ok()?)
            }
        })
    }

    /// Decides from the ends of the sub-agents (`None` for those still running); `None` while undecided.
    fn decide_outcome(self, ends: &[Option<ChildState>]) -> Option<DelegateOutcome> {
        let successes = ends.iter().flatten().filter(|end| end.is_success()).count();
        let open = ends.iter().filter(|end| end.is_none()).count();
        match self {
            Self::AllRequired | Self::AllowFailures if open > 0 => None,
            Self::AllRequired if successes < ends.len() => Some(DelegateOutcome::Failed),
            Self::AllRequired | Self::AllowFailures => Some(DelegateOutcome::Met),
            Self::FirstSuccess => Self::Quorum(1).decide_outcome(ends),
            Self::Quorum(least) if successes >= least => Some(DelegateOutcome::Met),
            Self::Quorum(least) if successes + open < least => Some(DelegateOutcome::Violated),
            Self::Quorum(_) => None,
        }
    }
}

/// The checked arguments of a call.
#[derive(Debug)]
struct Plan {
    join: Join,
    /// The call named its join, so a violation ends the turn (R-ERR-2).
    is_join_named: bool,
    /// Agent and prompt of each task.
    tasks: Vec<(Option<String>, String)>,
}

impl Plan {
    /// Checks the arguments. The error is for the model.
    fn from_input(input: DelegateInput, agents: &[String]) -> Result<Self, String> {
        let DelegateInput {
            prompt,
            agent,
            tasks,
            join,
        } = input;
        let tasks = match tasks {
            None => match prompt {
                Some(prompt) => vec![(agent, prompt)],
                None => return Err("give `prompt`, or `tasks` with a prompt each".to_owned()),
            },
            Some(tasks) => {
                let about = prompt.as_deref().unwrap_or_default().trim();
                let task = |task: Task| {
                    let full_prompt = match about {
                        "" => task.prompt.clone(),
                        about => format!("{about}\n\n{}", task.prompt),
                    };
                    // Stays empty so that the check below finds it, whatever the common prompt says.
                    let full_prompt = if task.prompt.trim().is_empty() {
                        String::new()
                    } else {
                        full_prompt
                    };
                    (task.agent.or_else(|| agent.clone()), full_prompt)
                };
                tasks.into_iter().map(task).collect()
            }
        };
        let is_join_named = join.is_some();
        let join = join.as_deref().unwrap_or("all_required");
        let join = Join::parse(join).ok_or_else(|| {
            format!("there is no join {join:?}: say all_required, allow_failures, first_success or quorum(n)")
        })?;
        if tasks.is_empty() || tasks.len() > MAX_TASKS {
            return Err(format!(
                "there must be 1 to {MAX_TASKS} tasks, not {}: make larger ones, or delegate in several calls",
                tasks.len()
            ));
        }
        if let Join::Quorum(least) = join
            && !(1..=tasks.len()).contains(&least)
        {
            return Err(format!(
                "a quorum of {least} cannot be met by {} tasks",
                tasks.len()
            ));
        }
        for (agent, prompt) in &tasks {
            if prompt.trim().is_empty() {
                return Err("a prompt is empty: say what the sub-agent shall do".to_owned());
            }
            if prompt.chars().count() > MAX_PROMPT {
                return Err(format!("a prompt has at most {MAX_PROMPT} characters"));
            }
            if let Some(agent) = agent
                && !agents.contains(agent)
            {
                return Err(format!(
                    "there is no agent named {agent:?}; the agents are: {}",
                    agents.join(", ")
                ));
            }
        }
        Ok(Self {
            join,
            is_join_named,
            tasks,
        })
    }

    /// Builds the job for task number `at`.
    fn build_job(&self, at: usize, cx: &ToolContext, cancel: &CancellationToken) -> SubagentJob {
        let (agent, prompt) = &self.tasks[at];
        SubagentJob {
            call: cx.call.clone(),
            agent: agent.clone(),
            label: (self.tasks.len() > 1).then(|| self.name(at)),
            prompt: prompt.clone(),
            limit: cx.time_limit.unwrap_or(TIME_LIMIT),
            cancel: cancel.child_token(),
            progress: cx.progress.clone(),
        }
    }

    /// Returns the name of task number `at`, for people and the model.
    fn name(&self, at: usize) -> String {
        match &self.tasks[at].0 {
            Some(agent) => format!("{} {agent}", at + 1),
            None => (at + 1).to_string(),
        }
    }

    /// Runs all tasks, up to [`AT_ONCE`] at a time, until the outcome is decided.
    async fn run_tasks(&self, cx: &ToolContext) -> Vec<SubagentReport> {
        // A child token: a decided outcome cancels the other tasks, but not the turn.
        let cancel = cx.cancel.child_token();
        let mut reports: Vec<Option<SubagentReport>> = vec![None; self.tasks.len()];
        let mut waiting = 0..self.tasks.len();
        let mut running = FuturesUnordered::new();
        loop {
            // Once the outcome is decided, waiting tasks do not start.
            while running.len() < AT_ONCE
                && !cancel.is_cancelled()
                && let Some(at) = waiting.next()
            {
                let run = cx.spawner.run_job(self.build_job(at, cx, &cancel));
                running.push(run.map(move |report| (at, report)));
            }
            let Some((at, report)) = running.next().await else {
                break;
            };
            // Stored by position, so that the report is in call order, not in order of completion.
            reports[at] = Some(report);
            let ends: Vec<_> = reports
                .iter()
                .map(|report| report.as_ref().map(|report| report.state))
                .collect();
            // The loop goes on until the canceled ones have ended: none may outlive this call (I10).
            if self.join.decide_outcome(&ends).is_some() {
                cancel.cancel();
            }
        }
        let never = || SubagentReport::new_empty(ChildState::Cancelled, "it was not begun");
        reports
            .into_iter()
            .map(|report| report.unwrap_or_else(never))
            .collect()
    }
}

impl Tool for Delegate {
    type Input = DelegateInput;

    const NAME: &'static str = "delegate";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Gives a part of the work to a sub-agent, or several parts to several at once, and \
        waits for what they find. Each begins with nothing but its prompt, works with your tools, and its last message \
        is all that you get of it. Good for searches through much material and for parts that do not depend on each \
        other; not for what takes you a call or two. Parts that change the same files belong to one sub-agent.";

    /// None: each sub-agent has its own limit.
    const TIMEOUT: Option<Duration> = None;

    fn call_title(&self, input: &DelegateInput) -> String {
        match &input.tasks {
            Some(tasks) => {
                let prompts = tasks
                    .iter()
                    .map(|task| text::one_line(&task.prompt, TITLE_OF_TASK));
                let prompts = prompts.collect::<Vec<_>>().join(" · ");
                let unit = if tasks.len() == 1 { "task" } else { "tasks" };
                format_title(&format!("Delegate {} {unit}:", tasks.len()), &prompts)
            }
            None => format_title("Delegate:", input.prompt.as_deref().unwrap_or_default()),
        }
    }

    /// Predicts no effect: each call of a sub-agent is judged separately.
    fn predict_effect(&self, _: &DelegateInput, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    /// Returns true: a canceled sub-agent may finish its tools, and its partial result is reported.
    async fn run(&self, input: DelegateInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let plan = Plan::from_input(input, &cx.spawner.agent_names()).map_err(ToolError::WrongInput)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let reports = plan.run_tasks(&cx).await;
        let output = build_output(&plan, &reports, cx.max_result_bytes(ANSWERS), |full_text| {
            store_full_text(&cx, full_text)
        });
        // A canceled call keeps the partial results of its sub-agents (R-SUB).
        if cx.cancel.is_cancelled() {
            Err(ToolError::CutShort(Box::new(output)))
        } else {
            Ok(output)
        }
    }
}

/// Builds the result for the model, with at most `max_answers` characters of answers; `keep` stores longer ones.
fn build_output(
    plan: &Plan,
    reports: &[SubagentReport],
    max_answers: usize,
    keep: impl Fn(&str) -> Option<ContentRef>,
) -> ToolOutput {
    let ends: Vec<_> = reports.iter().map(|report| Some(report.state)).collect();
    let joined = plan
        .join
        .decide_outcome(&ends)
        .unwrap_or(DelegateOutcome::Violated);
    let delegated = match joined {
        DelegateOutcome::Met => None,
        DelegateOutcome::Failed if plan.is_join_named => Some(DelegateResult::Violated),
        DelegateOutcome::Failed => Some(DelegateResult::Failed),
        DelegateOutcome::Violated => Some(DelegateResult::Violated),
    };
    let limit = limit_for_each(reports, max_answers);
    let full_text = format_reports(plan, reports, joined, None);
    let cut = reports
        .iter()
        .any(|report| text::cut_middle(report.text.trim(), limit).is_some());
    ToolOutput {
        is_error: delegated.is_some(),
        delegated,
        full: if cut { keep(&full_text) } else { None },
        paged: true,
        ..ToolOutput::text(if cut {
            format_reports(plan, reports, joined, Some(limit))
        } else {
            full_text
        })
    }
}

/// Returns the longest answer that is not cut. Short answers leave their share of `max_answers` to longer ones.
fn limit_for_each(reports: &[SubagentReport], max_answers: usize) -> usize {
    let mut lengths: Vec<usize> = reports
        .iter()
        .map(|report| report.text.trim().chars().count())
        .collect();
    lengths.sort_unstable();
    let mut remaining = max_answers;
    for (at, length) in lengths.iter().enumerate() {
        let share = remaining / (lengths.len() - at);
        if *length > share {
            return share;
        }
        remaining -= length;
    }
    max_answers
}

/// Formats the reports, with each answer cut to `limit` characters.
fn format_reports(
    plan: &Plan,
    reports: &[SubagentReport],
    joined: DelegateOutcome,
    limit: Option<usize>,
) -> String {
    let answer = |report: &SubagentReport| {
        let text = report.text.trim();
        match limit.and_then(|limit| text::cut_middle(text, limit)) {
            _ if text.is_empty() => "(it said nothing)".to_owned(),
            Some(cut) => cut,
            None => text.to_owned(),
        }
    };
    if let [report] = reports {
        return format!(
            "[{}]\n\n{}",
            format_report_head("the sub-agent", report),
            answer(report)
        );
    }
    let successes = reports.iter().filter(|report| report.state.is_success()).count();
    let verdict = match joined {
        DelegateOutcome::Met => "",
        DelegateOutcome::Failed => "; all of them were required",
        DelegateOutcome::Violated => "; that is too few",
    };
    let mut output = format!(
        "[{successes} of {} sub-agents succeeded{verdict}]\n",
        reports.len()
    );
    for (at, report) in reports.iter().enumerate() {
        let _ = write!(
            output,
            "\n## {}\n\n{}\n",
            format_report_head(&plan.name(at), report),
            answer(report)
        );
    }
    output
}

/// Formats who it was, how it ended, and what it cost.
fn format_report_head(name: &str, report: &SubagentReport) -> String {
    let Usage { output, .. } = report.usage;
    let mut head = format!("{name}: {}", report.state.name());
    if let Some(reason) = &report.reason {
        let _ = write!(head, " ({})", text::one_line(reason, 500));
    }
    let _ = write!(
        head,
        "; {} tokens in, {output} out",
        report.usage.total_input_tokens()
    );
    if let Some(cost) = report.cost {
        let _ = write!(head, ", ${:.4}", cost.to_usd());
    }
    head
}

fn store_full_text(cx: &ToolContext, full_text: &str) -> Option<ContentRef> {
    let stored = cx
        .content_sink
        .create_writer(cx.call.as_str())
        .and_then(|mut writer| {
            writer.append_text(full_text)?;
            writer.finish()
        });
    stored
        .inspect_err(|error| tracing::warn!(error, "long answers of sub-agents were not kept"))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::super::{Spawner, schema};
    use super::*;
    use crate::domain::Cost;

    const C: Option<ChildState> = Some(ChildState::Completed);
    const D: Option<ChildState> = Some(ChildState::Degraded);
    const F: Option<ChildState> = Some(ChildState::Failed);
    const T: Option<ChildState> = Some(ChildState::TimedOut);
    const X: Option<ChildState> = Some(ChildState::Cancelled);
    const OPEN: Option<ChildState> = None;

    #[test]
    fn the_title_counts_the_tasks() {
        for (prompts, title) in [
            (vec!["a"], "Delegate 1 task: a"),
            (vec!["a", "b"], "Delegate 2 tasks: a · b"),
        ] {
            let tasks: Vec<_> = prompts.iter().map(|prompt| json!({"prompt": prompt})).collect();
            let input = serde_json::from_value(json!({"tasks": tasks})).unwrap();
            assert_eq!(Delegate.call_title(&input), title);
        }
    }

    #[test]
    fn answers_that_fit_are_not_cut_and_short_ones_leave_room() {
        for (lengths, expected) in [
            (vec![29_500], ANSWERS),
            (vec![30_000], ANSWERS),
            (vec![30_001], 30_000),
            (vec![29_000, 1_000], ANSWERS),
            (vec![29_001, 1_000], 29_000),
            (vec![1_000, 50_000, 50_000], 14_500),
            (vec![], ANSWERS),
        ] {
            let reports: Vec<SubagentReport> = lengths
                .iter()
                .map(|length| SubagentReport {
                    state: ChildState::Completed,
                    reason: None,
                    text: "é".repeat(*length),
                    usage: Usage::default(),
                    cost: None,
                })
                .collect();
            assert_eq!(limit_for_each(&reports, ANSWERS), expected, "{lengths:?}");
        }
    }

    #[test]
    fn join_policies_decide_the_outcome() {
        use DelegateOutcome::{Failed, Met, Violated};
        let (all, some, first) = (Join::AllRequired, Join::AllowFailures, Join::FirstSuccess);
        for (join, ends, verdict) in [
            (all, vec![C, OPEN], None),
            (all, vec![F, OPEN], None),
            (all, vec![C, D], Some(Met)),
            (all, vec![C, F], Some(Failed)),
            (all, vec![T], Some(Failed)),
            (all, vec![X, C], Some(Failed)),
            (some, vec![F, OPEN], None),
            (some, vec![F, T], Some(Met)),
            (some, vec![C, C], Some(Met)),
            (first, vec![F, OPEN], None),
            (first, vec![OPEN, C], Some(Met)),
            (first, vec![OPEN, D], Some(Met)),
            (first, vec![F, T, X], Some(Violated)),
            (Join::Quorum(2), vec![C, OPEN, OPEN], None),
            (Join::Quorum(2), vec![C, OPEN, C], Some(Met)),
            (Join::Quorum(2), vec![C, F, OPEN], None),
            (Join::Quorum(2), vec![F, T, OPEN], Some(Violated)),
            (Join::Quorum(3), vec![C, C, F], Some(Violated)),
            (Join::Quorum(3), vec![C, C, D], Some(Met)),
        ] {
            assert_eq!(join.decide_outcome(&ends), verdict, "{join:?} {ends:?}");
        }
    }

    /// Ends as its prompt says, and counts how many run at the same time.
    #[derive(Default)]
    struct FakeSpawner {
        running: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
        started: Arc<AtomicUsize>,
    }

    impl Spawner for FakeSpawner {
        fn agent_names(&self) -> Vec<String> {
            vec!["default".to_owned(), "reader".to_owned()]
        }

        fn run_job(&self, job: SubagentJob) -> BoxFuture<'static, SubagentReport> {
            let (running, most) = (self.running.clone(), self.most.clone());
            self.started.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let state = match job.prompt.rsplit('\n').next() {
                    Some("fails") => ChildState::Failed,
                    Some("waits") => {
                        job.cancel.cancelled().await;
                        ChildState::Cancelled
                    }
                    _ => {
                        tokio::task::yield_now().await;
                        ChildState::Completed
                    }
                };
                running.fetch_sub(1, Ordering::Relaxed);
                SubagentReport {
                    state,
                    reason: None,
                    text: format!("{:?} {:?} {}", job.agent, job.label, job.prompt),
                    usage: Usage {
                        input: 10,
                        output: 3,
                        ..Usage::default()
                    },
                    cost: Some(Cost::from_usd(0.01)),
                }
            })
        }
    }

    async fn delegate(input: serde_json::Value) -> (ToolOutput, FakeSpawner) {
        let mut harness = ToolHarness::new();
        let fake = FakeSpawner::default();
        harness.cx.spawner = Arc::new(FakeSpawner {
            running: fake.running.clone(),
            most: fake.most.clone(),
            started: fake.started.clone(),
        });
        let output = harness.call_tool("delegate", input).await.unwrap();
        (output, fake)
    }

    #[tokio::test]
    async fn a_single_sub_agent_is_reported_with_state_and_cost() {
        let (output, _) = delegate(json!({"prompt": "look", "agent": "reader"})).await;
        assert_eq!(
            output.text,
            "[the sub-agent: completed; 10 tokens in, 3 out, $0.0100]\n\nSome(\"reader\") None look"
        );
        assert!(!output.is_error && output.delegated.is_none());
        let (output, _) = delegate(json!({"prompt": "fails"})).await;
        assert_eq!(output.delegated, Some(DelegateResult::Failed));
        assert!(
            output.is_error && output.text.contains("failed; 10 tokens"),
            "{}",
            output.text
        );
    }

    #[tokio::test]
    async fn several_tasks_share_the_common_prompt_and_are_reported_in_order() {
        let tasks = json!([{"prompt": "a"}, {"prompt": "fails", "agent": "default"}]);
        let input = json!({"prompt": "all", "agent": "reader", "tasks": tasks, "join": "allow_failures"});
        let (output, _) = delegate(input).await;
        assert!(
            output
                .text
                .starts_with("[1 of 2 sub-agents succeeded]\n\n## 1 reader: completed")
        );
        assert!(
            output
                .text
                .contains("\n## 2 default: failed; 10 tokens in, 3 out, $0.0100\n\n"),
            "{}",
            output.text
        );
        assert!(
            output.text.contains("Some(\"1 reader\") all\n\na"),
            "{}",
            output.text
        );
        assert!(!output.is_error);
    }

    #[tokio::test]
    async fn eight_run_at_the_same_time_and_a_decided_outcome_stops_the_rest() {
        let many = vec![json!({"prompt": "a"}); 20];
        let (output, fake) = delegate(json!({"tasks": many})).await;
        assert!(output.text.starts_with("[20 of 20"), "{}", output.text);
        assert_eq!(fake.most.load(Ordering::Relaxed), AT_ONCE);

        let mut many = vec![json!({"prompt": "waits"}); 19];
        many.insert(3, json!({"prompt": "a"}));
        let input = json!({"prompt": "", "tasks": many.clone(), "join": "first_success"});
        let (output, fake) = delegate(input).await;
        assert!(
            output.text.starts_with("[1 of 20 sub-agents succeeded]"),
            "{}",
            output.text
        );
        assert!(!output.is_error && fake.started.load(Ordering::Relaxed) == AT_ONCE);
        assert!(
            output.text.contains("## 20: cancelled (it was not begun)"),
            "{}",
            output.text
        );

        many.truncate(2);
        many.push(json!({"prompt": "fails"}));
        let input = json!({"prompt": "", "tasks": many, "join": "quorum(3)"});
        let (output, _) = delegate(input).await;
        assert_eq!(output.delegated, Some(DelegateResult::Violated));
        assert!(output.text.contains("that is too few"), "{}", output.text);
    }

    #[tokio::test]
    async fn long_answers_share_the_limit_and_are_kept() {
        let long = "x".repeat(20_000);
        let tasks = vec![json!({"prompt": long}); 3];
        let (output, _) = delegate(json!({"prompt": "", "tasks": tasks})).await;
        assert!(output.text.chars().count() < 30_500);
        assert!(output.text.contains("## 3: completed"));
        assert!(output.full.is_some_and(|full| full.bytes > 60_000));
    }

    #[tokio::test]
    async fn invalid_arguments_are_refused() {
        let mut harness = ToolHarness::new();
        harness.cx.spawner = Arc::new(FakeSpawner::default());
        let tasks = |count: usize| vec![json!({"prompt": "a"}); count];
        for (input, expected) in [
            (json!({"prompt": " "}), "a prompt is empty"),
            (json!({}), "give `prompt`, or `tasks` with a prompt each"),
            (
                json!({"prompt": "x", "agent": "nobody"}),
                "there is no agent named \"nobody\"; the agents are: default, reader",
            ),
            (json!({"prompt": "x", "tasks": []}), "1 to 32 tasks, not 0"),
            (
                json!({"prompt": "x", "tasks": tasks(33)}),
                "1 to 32 tasks, not 33",
            ),
            (
                json!({"prompt": "x", "tasks": [{"prompt": ""}]}),
                "a prompt is empty",
            ),
            (
                json!({"prompt": "x".repeat(100_001)}),
                "at most 100000 characters",
            ),
            (json!({"prompt": "x", "join": "any"}), "there is no join \"any\""),
            (json!({"prompt": "x", "join": "quorum(x)"}), "there is no join"),
            (json!({"prompt": "x", "join": "quorum(0)"}), "a quorum of 0"),
            (
                json!({"prompt": "x", "tasks": tasks(2), "join": "quorum(3)"}),
                "a quorum of 3 cannot be met by 2",
            ),
        ] {
            let error = harness.call_expecting_error("delegate", input).await;
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn the_schema_suits_every_api() {
        let schema = schema::input_schema::<DelegateInput>().to_string();
        assert!(!schema.contains("$ref") && !schema.contains("null"), "{schema}");
    }
}
