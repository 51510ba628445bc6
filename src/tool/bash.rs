//! `bash`: runs a command, to its end or in the background.
//!
//! Owns the arguments and the limits of a call. [`run_command`] runs, times, and stops the command; approval judges it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::command_tool::quote_word;
use super::files;
use super::output::refuse_input;
use super::refusal::CommandOrigin;
use super::run_command::{self, Overtime, not_started};
use super::terminal_output::collect_in_background;
use super::{DEFAULT_TIMEOUT, Tool, ToolContext, ToolError, ToolOutput};
use crate::base::nofollow::{self, FileKind};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{Confinement, Effect, HiddenCommits, NarrowedCommand};
use crate::workspace::process::Command;
use crate::workspace::{BackgroundError, ResolvedPath};

/// Longest timeout that a call may request, unless the settings allow more.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Shortest timeout that a call may request.
const MIN_TIMEOUT: Duration = Duration::from_millis(100);

/// What the model reads about a server in the sandbox, and what it can do about that.
const OWN_NETWORK: &str =
    "\nit runs in the sandbox: if it is a server, only this very command reaches its ports";
const REACHABLE_SERVER: &str = "; start a server that others are to reach with \"outside_sandbox\": true";

/// The `bash` tool.
pub struct Bash;

/// The arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashInput {
    /// The command, as bash reads it. Several lines are fine.
    command: String,
    /// A folder inside the workspace to run it in. Default: the working directory.
    workdir: Option<String>,
    /// Seconds after which it goes on in the background, if it still runs. Default: 120, or what the
    /// settings say; at most 600.
    timeout_s: Option<f64>,
    /// Start it and go on at once, for what has to run longer, such as a server. Read what it writes
    /// with `bash_output`, end it with `bash_kill`. Default: false.
    background: Option<bool>,
    /// Run it without the sandbox, if the result of an earlier call says that the sandbox refused what
    /// it needs. The user is asked, so say why in the description. Default: false.
    outside_sandbox: Option<bool>,
    /// What it does, in 5 to 10 words, for the user who watches.
    description: Option<String>,
}

impl Tool for Bash {
    type Input = BashInput;

    const NAME: &'static str = "bash";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Runs a shell command in the working directory, or in workdir, and gives its output \
        (standard output and error together) and its exit code if that is not 0. Every call is a shell of \
        its own: directories and variables do not carry over. There is no terminal and no input, so nothing \
        may ask. Processes that are left when the command ends are killed; for servers and watchers use \
        background. A command that still runs at its time limit goes on in the background, and the result \
        says so. Commands may run in a sandbox: there they write only in the workspace, in a /tmp \
        that no other tool sees, and in caches of build tools, read no keys, and have no network; no other command reaches their servers. \
        The result says if it refused something. \
        Of output beyond about 11 KB you get the start and the end, and a path for \
        read_file and grep to the whole. To read, find or change files use the tools made for it.";

    /// None: the command has its own limit.
    const TIMEOUT: Option<Duration> = None;

    fn call_title(&self, input: &BashInput) -> String {
        let command = one_line(&reveal_hidden_characters(&input.command), 120);
        let command = match &input.workdir {
            Some(folder) => format!(
                "in {}: {command}",
                one_line(&reveal_hidden_characters(folder), 60)
            ),
            None => command,
        };
        // Always with the command: a description alone could hide what a user is asked to allow.
        match input.description.as_deref().map(reveal_hidden_characters) {
            Some(description) if !description.trim().is_empty() => {
                format!("{}: {command}", one_line(&description, 80))
            }
            Some(_) | None => command,
        }
    }

    fn predict_effect(&self, input: &BashInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        if input.command.trim().is_empty() {
            return refuse_input("command: it is empty");
        }
        if input.command.contains('\0') {
            return refuse_input(
                "command: it contains a NUL character, which the system does not pass on; let printf write it",
            );
        }
        if let Some(seconds) = input.timeout_s.filter(|seconds| *seconds <= 0.0) {
            return refuse_input(format!("timeout_s: {seconds} is not above 0"));
        }
        let folder = resolve_folder(input, cx)?;
        let line = match &folder {
            Some(folder) => judged_line(cx, folder, &input.command)?,
            None => input.command.clone(),
        };
        Ok(Effect {
            paths: folder.map(|folder| folder.absolute).into_iter().collect(),
            confinement: match input.outside_sandbox {
                Some(true) => Confinement::Declined,
                Some(false) | None => Confinement::None,
            },
            ..Effect::from_command(line)
        })
    }

    fn goes_on_afterwards(&self, input: &BashInput) -> bool {
        input.background == Some(true)
    }

    /// Returns true: a cancel stops the command in stages, and its output so far is reported (R-CANCEL).
    async fn run(&self, input: BashInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        // A command that was not started before the cancel must not start at all.
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if input.background == Some(true) {
            return in_background(&input, &cx).await;
        }
        let limit = time_limit(input.timeout_s, cx.time_limit);
        let overtime = Overtime::GoOn {
            title: background_title(&input),
            max_limit: max_time_limit(cx.time_limit),
        };
        let done = run_command::run_to_end(
            build_command(&input, &cx)?,
            limit,
            overtime,
            CommandOrigin::Bash,
            &cx,
        )
        .await?;
        let mut output = done.output;
        if let Some(narrowed) = &cx.narrowed {
            output.text = run_command::with_notes(&output.text, explain_left_out(narrowed));
        }
        Ok(output)
    }
}

/// Returns what the model should know about a narrowed command; nothing if it shows all that it would have shown.
fn explain_left_out(narrowed: &NarrowedCommand) -> Option<String> {
    let in_commits = if narrowed.shows_commits {
        "files with names of secrets, such as .env, if commits have any"
    } else {
        ""
    };
    let files = match narrowed.left_out.join(", ") {
        names if !names.is_empty() && narrowed.shows_commits => {
            format!("what looks like it holds secrets: {names}; and {in_commits}")
        }
        names if !names.is_empty() => format!("what looks like it holds secrets: {names}"),
        _ if narrowed.shows_commits => in_commits.to_owned(),
        _ => return None,
    };
    let missing = match narrowed.hidden_commits {
        HiddenCommits::None => "",
        HiddenCommits::OfSecrets => "; commits that change only these may be missing",
        HiddenCommits::WithMerges => {
            "; merges and commits that change only these may be missing: if the last word is a branch, put -- after it to see them"
        }
    };
    Some(format!(
        "[git left out {files}{missing}; name a file to ask for it]"
    ))
}

fn build_command(input: &BashInput, cx: &ToolContext) -> Result<Command, ToolError> {
    let folder = resolve_folder(input, cx)?;
    let script = match &cx.narrowed {
        Some(narrowed) => narrowed_script(narrowed, input, folder.as_ref(), cx)?,
        None => &input.command,
    };
    let command = run_command::prepare_command(Command::from_script(script), cx);
    Ok(match folder {
        Some(folder) => command.current_dir(folder.absolute),
        None => command,
    })
}

/// Returns what runs in place of a call's command: the narrowed line without the `cd` by which the command was judged.
fn narrowed_script<'a>(
    narrowed: &'a NarrowedCommand,
    input: &BashInput,
    folder: Option<&ResolvedPath>,
    cx: &ToolContext,
) -> Result<&'a str, ToolError> {
    let judged = match folder {
        Some(folder) => judged_line(cx, folder, &input.command)?,
        None => input.command.clone(),
    };
    let prefix = judged.strip_suffix(&input.command);
    let script = prefix.and_then(|prefix| narrowed.line.strip_prefix(prefix));
    script.ok_or_else(|| ToolError::Internal("the narrowed command is another one".to_owned()))
}

/// Returns the folder that a call names, which must be inside the workspace.
fn resolve_folder(input: &BashInput, cx: &ToolContext) -> Result<Option<ResolvedPath>, ToolError> {
    let Some(given) = input.workdir.as_deref() else {
        return Ok(None);
    };
    let folder = cx.resolve_path(given)?;
    if !folder.inside {
        return refuse_input(format!(
            "workdir: `{given}` is outside the workspace; leave it out, and begin the command with cd"
        ));
    }
    if nofollow::kind(&folder.absolute) != Some(FileKind::Folder) {
        let suggestions = files::suggest_similar_paths(cx, &folder.absolute);
        return refuse_input(format!("workdir: `{given}` is not a folder{suggestions}"));
    }
    Ok(Some(folder))
}

/// Returns the line by which a command in another folder is judged: as if it changed there first. So its files count
/// from there, a rule that watches `cd` applies, and a rule for an exact line covers no other folder.
fn judged_line(cx: &ToolContext, folder: &ResolvedPath, command: &str) -> Result<String, ToolError> {
    let path = &folder.absolute;
    if path.to_str().is_none() {
        // The line would name another folder.
        return refuse_input("workdir: the name of the folder is not UTF-8");
    }
    let shown = match cx.workspace.format_for_model(&cx.cwd, path) {
        shown if shown == "." => return Ok(command.to_owned()),
        shown if cx.cwd.join(&shown) == *path && !shown.starts_with(['-', '~']) => shown,
        // Another root, or a name with a meaning of its own.
        _ => path.display().to_string(),
    };
    Ok(format!("cd {} && {command}", quote_word(&shown)))
}

/// Returns the line for the list of background processes.
fn background_title(input: &BashInput) -> String {
    one_line(&reveal_hidden_characters(&input.command), 120)
}

/// Returns the longest time limit that a call may request. A configured limit above the maximum raises the maximum.
fn max_time_limit(configured: Option<Duration>) -> Duration {
    MAX_TIMEOUT.max(configured.unwrap_or(DEFAULT_TIMEOUT))
}

/// Returns the time limit of a command, from the requested and the configured one.
fn time_limit(requested: Option<f64>, configured: Option<Duration>) -> Duration {
    let most = max_time_limit(configured);
    match requested {
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .unwrap_or(most)
            .clamp(MIN_TIMEOUT, most),
        None => configured.unwrap_or(DEFAULT_TIMEOUT),
    }
}

async fn in_background(input: &BashInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let title = background_title(input);
    let launcher = cx.workspace.shared().launcher();
    let background = cx.workspace.background();
    let command = build_command(input, cx)?;
    let shared = cx.workspace.shared();
    let command = shared.guard_git(&cx.cwd, &cx.sandbox.settings, command).await;
    let (command, watched) = run_command::confine_command(command, cx, true).await?;
    let has_own_network = command
        .confinement()
        .is_some_and(|confinement| confinement.access.has_own_network());
    let started = background
        .start(
            &cx.cancel,
            &launcher,
            command,
            (&title, collect_in_background(cx)),
            watched,
        )
        .await;
    let status = started.map_err(|error| match error {
        BackgroundError::Spawn(error) => not_started(error, input.workdir.is_some()),
        BackgroundError::TooMany => ToolError::WrongInput(format!("{error} with bash_kill")),
        BackgroundError::Closed | BackgroundError::Unknown { .. } => ToolError::Reported(error.to_string()),
    })?;
    let network = match (has_own_network, cx.sandbox.settings.required) {
        (false, _) => String::new(),
        (true, true) => OWN_NETWORK.to_owned(),
        (true, false) => format!("{OWN_NETWORK}{REACHABLE_SERVER}"),
    };
    let left_out = cx.narrowed.as_deref().and_then(explain_left_out);
    let left_out = left_out.map_or_else(String::new, |note| format!("\n{note}"));
    Ok(ToolOutput::text(format!(
        "started in the background as {id} (process {pid})\nread its output with bash_output, end it with \
         bash_kill; it ends with {owner} at the latest{network}{left_out}",
        id = status.id,
        pid = status.pid,
        owner = cx.workspace.background_owner(),
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    #[test]
    fn time_limits_are_clamped() {
        let second = Duration::from_secs;
        for (requested, configured, want) in [
            (None, None, second(120)),
            (None, Some(second(900)), second(900)),
            (Some(5.0), Some(second(900)), second(5)),
            (Some(1e9), None, second(600)),
            (Some(120_000.0), Some(second(900)), second(900)),
            (Some(f64::INFINITY), None, second(600)),
            (Some(0.001), None, MIN_TIMEOUT),
            (Some(1.5), None, Duration::from_millis(1500)),
        ] {
            assert_eq!(
                time_limit(requested, configured),
                want,
                "{requested:?} {configured:?}"
            );
        }
    }

    #[test]
    fn a_note_says_what_a_narrowed_command_leaves_out() {
        for (left_out, shows_commits, hidden_commits, want) in [
            (&[][..], false, HiddenCommits::None, None),
            (
                &["a~", ".env"],
                false,
                HiddenCommits::None,
                Some("[git left out what looks like it holds secrets: a~, .env; name a file to ask for it]"),
            ),
            (
                &[],
                true,
                HiddenCommits::None,
                Some(
                    "[git left out files with names of secrets, such as .env, if commits have any; name a file to ask \
                     for it]",
                ),
            ),
            (
                &[".env"],
                true,
                HiddenCommits::OfSecrets,
                Some(
                    "[git left out what looks like it holds secrets: .env; and files with names of secrets, such as \
                     .env, if commits have any; commits that change only these may be missing; name a file to ask for \
                     it]",
                ),
            ),
            (
                &[],
                true,
                HiddenCommits::WithMerges,
                Some(
                    "[git left out files with names of secrets, such as .env, if commits have any; merges and commits \
                     that change only these may be missing: if the last word is a branch, put -- after it to see them; name a file to \
                     ask for it]",
                ),
            ),
        ] {
            let narrowed = NarrowedCommand {
                line: String::new(),
                left_out: left_out.iter().map(|name| (*name).to_owned()).collect(),
                shows_commits,
                hidden_commits,
            };
            assert_eq!(explain_left_out(&narrowed).as_deref(), want);
        }
    }

    #[test]
    fn the_title_always_shows_the_command() {
        let input = |command: &str, description: Option<&str>| BashInput {
            command: command.to_owned(),
            workdir: None,
            timeout_s: None,
            background: None,
            outside_sandbox: None,
            description: description.map(str::to_owned),
        };
        for (command, description, want) in [
            ("ls", None, "ls"),
            ("ls", Some(" "), "ls"),
            ("rm -r x\n  echo", Some("List\nfiles"), "List files: rm -r x echo"),
            ("echo \u{1b}[8mhidden", None, "echo ␛[8mhidden"),
            ("true \u{1b}]; rm x; echo \u{7}", None, "true ␛]; rm x; echo ␇"),
        ] {
            assert_eq!(Bash.call_title(&input(command, description)), want);
        }
        assert!(Bash.call_title(&input(&"x".repeat(1_000), None)).chars().count() <= 120);
        let elsewhere = BashInput {
            workdir: Some("sub".to_owned()),
            ..input("ls", Some("List files"))
        };
        assert_eq!(Bash.call_title(&elsewhere), "List files: in sub: ls");
    }

    #[test]
    fn a_command_elsewhere_is_judged_as_if_it_changed_there_first() {
        let harness = ToolHarness::with_folders(&["app", "lib"]);
        for folder in ["it's here/deep", "-x", "../lib/src"] {
            std::fs::create_dir_all(harness.path(folder)).unwrap();
        }
        harness.write("file", "");
        std::os::unix::fs::symlink("/tmp", harness.path("leak")).unwrap();
        std::os::unix::fs::symlink("it's here", harness.path("link")).unwrap();
        let root = harness.root.display();
        let lib = harness.root.parent().unwrap().join("lib/src");
        let lib = lib.display();
        for (workdir, want) in [
            (".", "make".to_owned()),
            ("it's here", r"cd 'it'\''s here' && make".to_owned()),
            ("link/deep", r"cd 'it'\''s here/deep' && make".to_owned()),
            ("-x", format!("cd {root}/-x && make")),
            ("lib/src", format!("cd {lib} && make")),
        ] {
            let input = json!({"command": "make", "workdir": workdir});
            let effect = harness.predict_effect("bash", input).unwrap();
            assert_eq!((effect.subject, effect.paths.len()), (want, 1));
        }
        for (workdir, want) in [
            ("/tmp", "outside the workspace"),
            ("leak", "outside the workspace"),
            ("..", "outside the workspace"),
            ("file", "`file` is not a folder"),
            ("it's her", "is not a folder. Did you mean `it's here`?"),
        ] {
            let refusal = harness
                .predict_effect("bash", json!({"command": "make", "workdir": workdir}))
                .unwrap_err();
            assert!(refusal.contains(want), "{workdir}: {refusal}");
            assert!(workdir != "file" || refusal.ends_with(want), "{refusal}");
        }
        for (input, want) in [
            (json!({"command": ""}), "command: it is empty"),
            (json!({"command": " \n"}), "command: it is empty"),
            (
                json!({"command": "ls", "timeout_s": -1}),
                "timeout_s: -1 is not above 0",
            ),
            (
                json!({"command": "ls", "timeout_s": 0}),
                "timeout_s: 0 is not above 0",
            ),
        ] {
            assert!(harness.predict_effect("bash", input).unwrap_err().contains(want));
        }
    }
}
