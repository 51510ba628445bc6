//! The reference of the command line, from clap's own definition.

use agentls::cli::Arguments;
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::cell;

const INTRO: &str = "\
# Command line

<!-- Generated from src/cli/args.rs: UPDATE_PROTOCOL=1 cargo test --test repository -->

`agentls COMMAND --help` prints the same. [Chat](../chat.md) and [Scripting](../scripting.md) show the commands at work.
";

/// Renders `docs/reference/cli.md`.
pub(crate) fn page() -> String {
    let mut top = Arguments::command();
    top.build();
    let mut page = INTRO.to_owned();
    section(&top, true, &mut page);
    page
}

fn section(command: &Command, is_top: bool, page: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    page.push_str(&format!("\n## {name}\n\n"));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        page.push_str(&format!("{}\n\n", about.to_string().trim()));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    page.push_str(&format!("```text\n{usage}\n```\n"));
    // Global options are listed once, under the program itself.
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && (is_top || !arg.is_global_set() || is_own(command, arg)))
        .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
        .collect();
    if !arguments.is_empty() {
        page.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in arguments {
            page.push_str(&format!("| {} | {} |\n", spelling(arg), meaning(arg)));
        }
    }
    if is_top {
        page.push_str("\nOptions with a long name and a value work with every command. ");
        page.push_str("`--help` and `--version` print help and the version.\n");
    }
    if let Some(more) = command.get_after_help() {
        page.push_str(&format!("\n```text\n{}\n```\n", more.to_string().trim_end()));
    }
    for sub in command.get_subcommands() {
        if sub.get_name() != "help" && !sub.is_hide_set() {
            section(sub, false, page);
        }
    }
}

/// Returns whether a global option belongs to this command rather than to one above it.
fn is_own(command: &Command, arg: &Arg) -> bool {
    let top = Arguments::command();
    let shared = top.get_arguments().any(|other| other.get_id() == arg.get_id());
    !shared && command.has_subcommands()
}

fn spelling(arg: &Arg) -> String {
    let value = arg.get_value_names().map(|names| names[0].to_string());
    let value = value.filter(|_| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append));
    if arg.is_positional() {
        return format!("`{}`", value.unwrap_or_else(|| arg.get_id().to_string()));
    }
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
    format!("`{}{value}`", names.join("`, `"))
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    if !values.is_empty() && arg.get_action().takes_values() {
        let names: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        text.push_str(&format!(". One of {}.", names.join(", ")));
    }
    if let [default] = arg.get_default_values()
        && arg.get_action().takes_values()
    {
        text = format!(
            "{}. Default: `{}`.",
            text.trim_end_matches('.'),
            default.to_string_lossy()
        );
    }
    cell(&text)
}
