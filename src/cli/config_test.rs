//! `agentls config test`: shows what the rules of a folder decide about one call, without running it.
//!
//! The verdict comes from `approval`, with the folder's configuration and what `workspace` finds out about the files,
//! as in a session. Stored grants come from a server; if it fails, the report says that they are missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::args::GlobalArgs;
use super::client::{ClientError, Launch, ServerClient};
use super::screen::Screen;
use super::style::Color;
use crate::approval::{
    GrantedRule, Policy, Rule, Verdict, command_files, judge_tool_call, leave_out_secrets,
};
use crate::base::nofollow;
use crate::base::text::reveal_hidden_characters;
use crate::config::{ConfigSource, SandboxedCommands, Settings, ToolEffect, Trust};
use crate::domain::{
    Confinement, Effect, EffectKind, FirstUses, ForeignContent, Mode, Risk, SandboxLevel, SandboxNetwork,
    SandboxPolicy,
};
use crate::protocol::table::method;
use crate::protocol::{ListGrantsParams, ListGrantsResult};
use crate::workspace::command_sandbox::SandboxDetection;
use crate::workspace::{Workspace, WorkspaceShared, resolve};

/// The call to judge.
#[derive(Debug)]
pub(super) struct TestedCall {
    /// What the tool's rules match: a command line, a path or an address.
    pub(super) subject: String,
    pub(super) tool: String,
    /// Print JSON.
    pub(super) json: bool,
}

/// In larger files, in bytes, no rule is located.
const MAX_CONFIG: u64 = 1 << 20;

/// The exit codes, as `--help` documents them.
const EXIT_ALLOWED: i32 = 0;
const EXIT_ASKS: i32 = 1;
const EXIT_USAGE: i32 = 2;
const EXIT_DENIED: i32 = 3;

/// Prints a usage error. Its exit code differs from 1, which would mean "asked".
pub(super) fn usage_error(screen: &mut Screen, message: &str) -> i32 {
    screen.write_line(&format!("agentls: {}", reveal_hidden_characters(message)));
    EXIT_USAGE
}

/// Prints the verdict. Returns the exit code.
pub(super) async fn test(
    call: TestedCall,
    shared: &GlobalArgs,
    source: &ConfigSource,
    trust: &Trust,
    folder: PathBuf,
    mut screen: Screen,
) -> std::io::Result<i32> {
    let loaded = source.load_settings(Some(&folder), trust);
    let settings = &loaded.settings;
    let effect = match effect(&call, settings, source, &folder) {
        Ok(effect) => complete_effect(settings, effect).await,
        Err(message) => return Ok(usage_error(&mut screen, &message)),
    };
    let mode = settings.default_agent().mode;
    // A failure is not fatal: missing grants only make the verdict stricter, and the report names the failure.
    let grants = stored_grants(shared, &folder).await;
    let rules = |texts: &[String]| texts.iter().filter_map(|text| Rule::parse(text).ok()).collect();
    let policy = Policy {
        mode,
        allow: rules(&settings.approvals.allow),
        deny: rules(&settings.approvals.deny),
        require_approval: rules(&settings.approvals.require_approval),
        grants: (grants.iter().flatten())
            .filter_map(|rule| Rule::parse_list(rule).ok())
            .flatten()
            .map(GrantedRule::from)
            .collect(),
        // Without a server, there is nothing to compare.
        first_uses: FirstUses::new(),
        invalid_rules: settings.approvals.unreadable.clone(),
        // As in a new session, which has read no foreign content (R-TOOL-7).
        foreign_content: ForeignContent::None,
        sandboxed_needs_approval: settings
            .approvals
            .sandboxed
            .map(|choice| choice == SandboxedCommands::Ask),
    };
    let verdict = judge_tool_call(&policy, &call.tool, &effect);
    let report = PolicyReport {
        rule: deciding_rule(&verdict, settings, source, &folder),
        call: &call,
        mode,
        grants: grants.as_ref().map(Vec::len).map_err(ToString::to_string),
        problems: loaded
            .diagnostics
            .iter()
            .filter(|problem| super::config::is_error(problem))
            .count(),
        verdict: &verdict,
    };
    if call.json {
        super::screen::print_to_stdout(&format!("{:#}\n", report.json()))?;
    } else {
        report.show(&mut screen);
    }
    Ok(match verdict {
        Verdict::Allow { .. } => EXIT_ALLOWED,
        Verdict::Ask { .. } => EXIT_ASKS,
        Verdict::Deny { .. } => EXIT_DENIED,
    })
}

/// Completes the effect by how its command would run in a session with these settings.
async fn complete_effect(settings: &Settings, mut effect: Effect) -> Effect {
    let (relies, is_command) = (effect.relies_on_sandbox(), effect.kind == EffectKind::Execute);
    let is_never_confined = effect.sandbox == Some(SandboxPolicy::Off);
    if !settings.sandbox.enabled || is_never_confined || !relies && !is_command {
        return effect;
    }
    let detection = SandboxDetection::default();
    match detection.detect().await.method.level() {
        SandboxLevel::Full if relies || settings.sandbox.network == SandboxNetwork::Open => {}
        SandboxLevel::Full => effect.confinement = Confinement::Sandboxed,
        SandboxLevel::Partial | SandboxLevel::None => effect.kind = EffectKind::Execute,
    }
    effect
}

/// Returns the effect that the call would have.
fn effect(
    call: &TestedCall,
    settings: &Settings,
    source: &ConfigSource,
    folder: &Path,
) -> Result<Effect, String> {
    let own = settings.tools.commands.iter().find(|tool| tool.name == call.tool);
    let of_kind = |kind| Effect {
        kind,
        sandbox: own.and_then(|tool| tool.sandbox),
        subject: call.subject.clone(),
        ..Effect::none()
    };
    let workspace = open_workspace(settings, source, folder);
    let on_file = |kind| -> Result<Effect, String> {
        let found = workspace.resolve_path(folder, &call.subject);
        let found = found.map_err(|error| error.to_string())?;
        Ok(Effect {
            kind,
            secret: found.secret,
            paths: vec![found.absolute],
            subject: found.display,
            outside: !found.inside,
            ..Effect::none()
        })
    };
    if let Some(tool) = own {
        return Ok(of_kind(match tool.effect {
            ToolEffect::Read => EffectKind::Read,
            ToolEffect::Write => EffectKind::Write,
            ToolEffect::Execute => EffectKind::Execute,
            ToolEffect::Network => EffectKind::Network,
        }));
    }
    match call.tool.as_str() {
        "bash" => {
            let mut effect = Effect::from_command(&*call.subject);
            effect.findings =
                command_files(&call.subject).map(|named| workspace.look_up_files(folder, &named));
            if let Some(findings) = &mut effect.findings {
                effect.narrowed = leave_out_secrets(&call.subject, findings).map(Arc::new);
            }
            Ok(effect)
        }
        "read_file" | "list_dir" | "glob" | "grep" => on_file(EffectKind::Read),
        "write_file" | "edit_file" | "rename_symbol" | "fix_code" => on_file(EffectKind::Write),
        // As if the patch did all that patches can do.
        "apply_patch" => Ok(Effect {
            stands_for: vec!["edit_file", "write_file"],
            ..on_file(EffectKind::Write)?
        }),
        "web_fetch" | "web_search" => Ok(of_kind(EffectKind::Network)),
        name if name.starts_with("mcp:") => Ok(of_kind(EffectKind::Network)),
        name if source.tools.iter().any(|known| known == name) => Ok(of_kind(EffectKind::None)),
        name => Err(format!(
            "unknown tool `{name}`; known are {}",
            source.tools.join(", ")
        )),
    }
}

/// Returns what a session in the folder knows about files.
fn open_workspace(settings: &Settings, source: &ConfigSource, folder: &Path) -> Workspace {
    let shared = WorkspaceShared::new(&[], source.env.home_dir().map(Path::to_owned));
    shared.note_session_folder(folder);
    shared.set_read_deny(folder, settings.sandbox.read_deny.to_vec());
    Workspace::new(shared)
}

/// Returns the rules that "always" stored for the folder.
async fn stored_grants(shared: &GlobalArgs, folder: &Path) -> Result<Vec<String>, ClientError> {
    let launch = Launch::new(shared, folder.to_owned(), "agentls config");
    let mut client = ServerClient::start(&launch).await?;
    let listed: ListGrantsResult = client
        .request(method::LIST_GRANTS, &ListGrantsParams::default())
        .await?;
    client.close().await;
    Ok(listed.grants.into_iter().map(|grant| grant.rule).collect())
}

/// Returns the configured rule that the verdict names, and where it is written.
fn deciding_rule(
    verdict: &Verdict,
    settings: &Settings,
    source: &ConfigSource,
    folder: &Path,
) -> Option<(String, Option<String>)> {
    let reason = match verdict {
        Verdict::Allow { by } => by,
        Verdict::Ask { reason, .. } | Verdict::Deny { reason } => reason,
    };
    let approvals = &settings.approvals;
    let lists = match verdict {
        Verdict::Allow { .. } => vec![&approvals.allow],
        Verdict::Ask { .. } => vec![&approvals.require_approval, &approvals.deny],
        Verdict::Deny { .. } => vec![&approvals.deny],
    };
    let mut rules = lists.into_iter().flat_map(|list| list.iter());
    let rule = rules.find(|rule| {
        reason.contains(&format!("rule `{rule}`")) || reason.contains(&format!("`{rule}` always asks"))
    })?;
    Some((rule.clone(), locate_rule(rule, source, folder)))
}

/// Returns `file:line` of a rule, if a line of the files quotes it.
fn locate_rule(rule: &str, source: &ConfigSource, folder: &Path) -> Option<String> {
    let basic = json!(rule).to_string();
    let literal = format!("'{rule}'");
    super::config::find_config_files(source, folder)
        .into_iter()
        .find_map(|file| {
            // A user's file may be a link, and `nofollow` refuses links.
            let real = resolve::real_path(Path::new(&file)).ok()?;
            let text = String::from_utf8(nofollow::read(&real, MAX_CONFIG).ok()?).ok()?;
            let line = text
                .lines()
                .position(|line| line.contains(&basic) || line.contains(&literal))?;
            Some(format!("{file}:{}", line + 1))
        })
}

struct PolicyReport<'a> {
    call: &'a TestedCall,
    verdict: &'a Verdict,
    rule: Option<(String, Option<String>)>,
    mode: Mode,
    /// How many grants are considered, or why none could be read.
    grants: Result<usize, String>,
    /// Configuration errors, whose settings have no effect.
    problems: usize,
}

impl PolicyReport<'_> {
    fn json(&self) -> serde_json::Value {
        let (verdict, reason) = match self.verdict {
            Verdict::Allow { by } => ("allowed", by),
            Verdict::Ask { reason, .. } => ("asked", reason),
            Verdict::Deny { reason } => ("denied", reason),
        };
        let mut report = json!({
            "verdict": verdict,
            "why": reason,
            "tool": self.call.tool,
            "subject": self.call.subject,
            "mode": self.mode.name(),
            "grantsConsidered": self.grants.is_ok(),
            "configurationErrors": self.problems,
        });
        if let Verdict::Ask { risk, rule, .. } = self.verdict {
            report["risk"] = json!(name_of(*risk));
            report["always"] = json!(rule);
        }
        if let Some((rule, location)) = &self.rule {
            report["rule"] = json!({"text": rule, "place": location});
        }
        report
    }

    fn show(&self, screen: &mut Screen) {
        let styler = screen.styler;
        let (ink, name, reason) = match self.verdict {
            Verdict::Allow { by } => (Color::Green, "allowed", by),
            Verdict::Ask { reason, .. } => (Color::BoldYellow, "asked", reason),
            Verdict::Deny { reason } => (Color::BoldRed, "denied", reason),
        };
        screen.write_line(&format!(
            "{}: {}",
            styler.paint_text(ink, name),
            reveal_hidden_characters(reason)
        ));
        if let Some((rule, location)) = &self.rule {
            let location = location
                .as_ref()
                .map_or_else(String::new, |location| format!(" ({location})"));
            screen.write_line(&format!(
                "  rule: {}{}",
                reveal_hidden_characters(rule),
                reveal_hidden_characters(&location)
            ));
        }
        if let Verdict::Ask { risk, rule, .. } = self.verdict {
            screen.write_line(&format!("  risk: {}", name_of(*risk)));
            screen.write_line(&match rule {
                Some(rule) => format!("  \"always\" would remember: {}", reveal_hidden_characters(rule)),
                None => "  \"always\" is not offered: no rule covers exactly this".to_owned(),
            });
        }
        screen.write_line(&format!("  mode: {}", self.mode));
        if let Err(error) = &self.grants {
            screen.write_line(&format!(
                "  stored grants are not considered: {}",
                reveal_hidden_characters(error)
            ));
        }
        if self.problems > 0 {
            screen.write_line(
                "  the configuration has errors, so some settings do not count; see agentls config check",
            );
        }
    }
}

fn name_of(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    }
}
