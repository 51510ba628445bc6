//! The network of a sandboxed command: asks the user about hosts, and tells the model what was refused.
//!
//! Must not decide about hosts; [`crate::proxy`] does.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::context::ask_withdrawing;
use super::{ToolContext, UserPrompt};
use crate::base::clock;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::user_request::CHOICE_FIELD;
use crate::domain::{AgentQuestion, HostTarget, InquiryReply};
use crate::proxy::{CommandProxy, HostPrompt, ProxyReport};
use crate::workspace::process::Command;

/// The answer that allows a host.
const ALLOW: &str = "allow";
/// The answer that denies it.
const DENY: &str = "deny";

/// Gives a confined command its proxy, if the sandbox has a place for one.
pub(super) fn connect_command(command: Command, cx: &ToolContext) -> Command {
    if !command.needs_proxy() {
        return command;
    }
    let prompt = UserHostPrompt {
        asker: cx.asker.clone(),
        command: one_line(&reveal_hidden_characters(&command.to_line()), 300),
    };
    let rules = cx.sandbox.settings.host_rules();
    let hosts = cx.workspace.session_hosts().clone();
    command.proxy(Arc::new(CommandProxy::new(rules, hosts, Arc::new(prompt))))
}

/// Returns a note for the model about the refused hosts; `None` if there are none.
pub(super) fn format_refusals(refusals: &[String]) -> Option<String> {
    (!refusals.is_empty()).then(|| format!("[the sandbox refused connections:\n{}]", refusals.join("\n")))
}

/// Waits for the limit of a command. The time in which it waits for the user does not count.
pub(super) async fn sleep_unless_asking(limit: Duration, report: Option<&ProxyReport>) {
    let Some(report) = report else {
        return tokio::time::sleep(limit).await;
    };
    let mut asking = report.subscribe_asking();
    let mut left = limit;
    loop {
        let start = clock::now();
        tokio::select! { biased;
            () = tokio::time::sleep(left) => return,
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
        let question = build_question(target, &self.command);
        let asker = self.asker.clone();
        async move {
            match ask_withdrawing(asker.as_ref(), question).await? {
                InquiryReply::Answers(answers) => match answers.get(CHOICE_FIELD)?.first()?.as_str() {
                    ALLOW => Some(true),
                    DENY => Some(false),
                    _ => None,
                },
                InquiryReply::Dismissed
                | InquiryReply::Stop
                | InquiryReply::Accept
                | InquiryReply::Raise(_) => None,
            }
        }
        .boxed()
    }
}

/// Belongs to no call: a command that was interrupted must not run again for its question.
fn build_question(target: &HostTarget, command: &str) -> AgentQuestion {
    let rule = target.to_rule();
    AgentQuestion::with_choices(
        format!("The command wants to connect to {target}. Allow it?"),
        Some(format!(
            "It runs in the sandbox: {command}\nIt can send there what it reads. To allow the host always, add \
             \"{rule}\" to [sandbox] allow_hosts."
        )),
        &[
            (ALLOW, &format!("Allow {rule} for this session")),
            (DENY, "Deny for this session"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_host_and_the_command() {
        let target = HostTarget::parse("Registry.example:443", None).unwrap();
        let question = build_question(&target, "npm install");
        assert_eq!(
            question.text,
            "The command wants to connect to registry.example:443. Allow it?"
        );
        assert!(question.detail.unwrap().contains("npm install"));
        let choices = &question.fields[0].choices;
        assert_eq!(choices[0].label, "Allow registry.example for this session");
    }
}
