//! Tables and properties of the verdict, with the policy that they share.

#[cfg(target_os = "linux")]
mod against_bash;
mod commands;
mod definitions;
mod files_and_others;
mod losses;
mod properties;
mod sandbox;
mod smuggling;

use super::*;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| Rule::parse(text).unwrap()).collect()
}

fn grants(texts: &[&str]) -> Vec<GrantedRule> {
    rules(texts).into_iter().map(GrantedRule::from).collect()
}

fn sample(mode: Mode) -> Policy {
    static SAMPLE: std::sync::LazyLock<Policy> = std::sync::LazyLock::new(in_mode_ask);
    Policy {
        mode,
        ..SAMPLE.clone()
    }
}

fn in_mode_ask() -> Policy {
    Policy {
        mode: Mode::Ask,
        require_approval: rules(&["bash(cargo publish*)", "write_file(Cargo.toml)", "web_search"]),
        allow: rules(&[
            "bash(git status*)",
            "bash(git diff*)",
            "bash(cargo test *)",
            "bash(ls *)",
            "bash(cat *)",
            "bash(find *)",
            "bash(echo *)",
            "bash(grep *)",
            "bash(cargo publish*)",
            "edit_file(src/**)",
            "write_file(Cargo.toml)",
            "web_fetch(https://docs.rs/*)",
            "mcp:docs/*",
        ]),
        deny: rules(&[
            "bash(rm -rf*)",
            "bash(git push*)",
            "edit_file(src/gen/**)",
            "read_file(private/**)",
            "web_fetch(https://evil.example/*)",
            "mcp:docs/delete",
        ]),
        invalid_rules: Vec::new(),
        grants: Vec::new(),
        first_uses: FirstUses::new(),
        foreign_content: ForeignContent::None,
        sandboxed_needs_approval: None,
    }
}

fn letter(verdict: &Verdict) -> char {
    match verdict {
        Verdict::Allow { .. } => 'A',
        Verdict::Ask { .. } => '?',
        Verdict::Deny { .. } => 'D',
    }
}

/// Returns the verdict in each mode: plan, ask, autoEdit, full.
fn letters(tool: &str, effect: &Effect) -> String {
    Mode::ALL
        .into_iter()
        .map(|mode| letter(&judge_tool_call(&sample(mode), tool, effect)))
        .collect()
}

fn on_file(kind: EffectKind, subject: &str) -> Effect {
    let path = if subject.starts_with('/') {
        PathBuf::from(subject)
    } else {
        Path::new("/ws").join(subject)
    };
    Effect {
        kind,
        outside: !path.starts_with("/ws"),
        paths: vec![path],
        subject: subject.to_owned(),
        ..Effect::none()
    }
}

fn of_kind(kind: EffectKind, subject: &str) -> Effect {
    Effect {
        kind,
        subject: subject.to_owned(),
        ..Effect::none()
    }
}
