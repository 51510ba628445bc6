//! The network of a sandboxed command: asks the user about hosts, and tells the model what was refused.
//!
//! Must not decide about hosts; [`crate::proxy`] does.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::context::ask_withdrawing;
use super::mcp_elicitation::server_of;
use super::{ToolContext, UserPrompt};
use crate::base::clock;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::user_request::CHOICE_FIELD;
use crate::domain::{AgentQuestion, HostTarget, InquiryReply};
use crate::mcp::HostRequest;
use crate::proxy::{HostPrompt, ProxyReport};
use crate::workspace::process::Command;

/// The answer that allows a host.
const ALLOW: &str = "allow";
/// The answer that denies it.
const DENY: &str = "deny";

/// Gives a confined command its proxy, if the sandbox has a place for one.
pub(super) fn connect_command(command: Command, cx: &ToolContext) -> Command {
    let prompt = UserHostPrompt {
        asker: cx.asker.clone(),
        command: one_line(&reveal_hidden_characters(&command.to_line()), 300),
    };
    let settings = &cx.sandbox.settings;
    cx.workspace.connect_command(settings, Arc::new(prompt), command)
}

/// Asks the user about a host that an MCP server wants to reach. `call` is the running call of its tool.
pub(super) async fn answer_host_request(cx: &ToolContext, call: &str, request: HostRequest) {
    let HostRequest { target, mut reply } = request;
    let server = server_of(call);
    let question = build_question(
        &target,
        &format!("MCP server {server}"),
        &format!("It is in the sandbox, and asks during a call of {call}."),
        "until the server restarts",
    );
    let answer = tokio::select! { biased;
        // The call has ended, or the server has closed its connection.
        () = reply.closed() => return,
        answer = ask_about_host(cx.asker.as_ref(), question) => answer,
    };
    // The server may have given up meanwhile.
    let _ = reply.send(answer);
}

/// Returns a note for the model about the refused hosts; `None` if there are none.
pub(super) fn format_refusals(refusals: &[String]) -> Option<String> {
    (!refusals.is_empty()).then(|| format!("[the sandbox refused connections:\n{}]", refusals.join("\n")))
}

/// Waits for the limit of a command. The time in which it waits for the user does not count.
pub(super) async fn sleep_unless_asking(limit: Duration, report: Option<&ProxyReport>) {
    let Some(report) = report else {
        return clock::sleep(limit).await;
    };
    let mut asking = report.subscribe_asking();
    let mut left = limit;
    loop {
        let start = clock::now();
        tokio::select! { biased;
            () = clock::sleep(left) => return,
            // The sender is in the report, so it does not end.
            _ = asking.wait_for(|is_asking| *is_asking) => {}
        }
        left = left.saturating_sub(start.elapsed());
        let _ = asking.wait_for(|is_asking| !is_asking).await;
    }
}

/// Asks the user of the session.
struct UserHostPrompt {
    asker: Arc<dyn UserPrompt>,
    /// The command, for the user.
    command: String,
}

impl HostPrompt for UserHostPrompt {
    fn ask(&self, target: &HostTarget) -> BoxFuture<'static, Option<bool>> {
        let question = build_question(
            target,
            "command",
            &format!("It runs in the sandbox: {}", self.command),
            "for this session",
        );
        let asker = self.asker.clone();
        async move { ask_about_host(asker.as_ref(), question).await }.boxed()
    }
}

/// Asks a question from [`build_question`]; `None` without an answer.
async fn ask_about_host(asker: &dyn UserPrompt, question: AgentQuestion) -> Option<bool> {
    match ask_withdrawing(asker, question).await? {
        InquiryReply::Answers(answers) => match answers.get(CHOICE_FIELD)?.first()?.as_str() {
            ALLOW => Some(true),
            DENY => Some(false),
            _ => None,
        },
        InquiryReply::Dismissed | InquiryReply::Stop | InquiryReply::Accept | InquiryReply::Raise(_) => None,
    }
}

/// Builds the question whether `program` may connect. `reason` is a sentence about it, and the answer holds for `period`.
///
/// Belongs to no call: a command that was interrupted must not run again for its question.
fn build_question(target: &HostTarget, program: &str, reason: &str, period: &str) -> AgentQuestion {
    let rule = target.to_rule();
    AgentQuestion::with_choices(
        format!("The {program} wants to connect to {target}. Allow it?"),
        Some(format!(
            "{reason}\nIt can send there what it reads. To allow the host always, or one whose address is not public, \
             add \"{rule}\" to [sandbox] allow_hosts."
        )),
        &[
            (ALLOW, &format!("Allow {rule} {period}")),
            (DENY, &format!("Deny {period}")),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_host_and_the_command() {
        let target = HostTarget::parse("Registry.example:443", None).unwrap();
        let question = build_question(
            &target,
            "command",
            "It runs in the sandbox: npm install",
            "for this session",
        );
        assert_eq!(
            question.text,
            "The command wants to connect to registry.example:443. Allow it?"
        );
        let detail = question.detail.unwrap();
        assert!(detail.contains("npm install") && detail.contains("address is not public"));
        let choices = &question.fields[0].choices;
        assert_eq!(choices[0].label, "Allow registry.example for this session");
    }
}
