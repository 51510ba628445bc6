//! Writes a plan as a profile for `sandbox-exec` of macOS.
//!
//! Never tried on a Mac so far: the tests only pin the text. In a profile, the last rule that matches decides, as in a
//! plan. What it cannot do: a file that should read as empty cannot be opened, and there is no loopback interface of
//! the command's own, so it reaches no server at all.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::SandboxError;
use super::plan::{PathRule, SandboxPlan};
use crate::domain::SandboxNetwork;

/// Devices and terminals that commands write.
const DEVICES: [&str; 7] = [
    r#"(literal "/dev/null")"#,
    r#"(literal "/dev/zero")"#,
    r#"(literal "/dev/dtracehelper")"#,
    r#"(literal "/dev/tty")"#,
    r#"(literal "/dev/ptmx")"#,
    r#"(subpath "/dev/fd")"#,
    r#"(regex #"^/dev/ttys[0-9]+$")"#,
];

/// Ways to have another process do it: other processes, Apple events, and jobs of the system.
const OTHERS: &str = "\
(deny signal)
(allow signal (target same-sandbox))
(deny process-info*)
(allow process-info* (target same-sandbox))
(deny appleevent-send)
(deny job-creation)
(deny lsopen)
";

/// Builds the profile of a plan, by what exists now.
///
/// # Errors
/// A path cannot be used, or not be written in a profile.
#[cfg(target_os = "macos")]
pub fn build_seatbelt_profile(plan: &SandboxPlan) -> Result<String, SandboxError> {
    write_profile(plan, &super::expand::expand_rules(plan)?)
}

/// Writes the profile of a plan whose rules are expanded and resolved.
fn write_profile(plan: &SandboxPlan, rules: &[(PathRule, PathBuf)]) -> Result<String, SandboxError> {
    let mut profile = String::from("(version 1)\n(allow default)\n(deny file-write*)\n");
    profile.push_str(OTHERS);
    if plan.network != SandboxNetwork::Open {
        profile.push_str("(deny network*)\n");
    }
    add_rule(&mut profile, "allow file-write*", &DEVICES.join(" "));
    add_rule(&mut profile, "allow file-read* file-write*", &below(&plan.temp)?);
    for (rule, path) in rules {
        let place = below(path)?;
        match rule {
            PathRule::Write | PathRule::Workspace | PathRule::HomeWorkspace => {
                add_rule(&mut profile, "allow file-read* file-write*", &place);
            }
            PathRule::ReadOnly | PathRule::Cache => {
                add_rule(&mut profile, "allow file-read*", &place);
                add_rule(&mut profile, "deny file-write*", &place);
            }
            PathRule::Reach | PathRule::Visible => {}
            // Programs ask what is at each part of a path.
            PathRule::Empty => add_rule(&mut profile, "deny file-read-data file-write*", &place),
            PathRule::Hide | PathRule::Blank => {
                add_rule(&mut profile, "deny file-read* file-write*", &place);
            }
        }
    }
    // Last, so that no rule allows it again.
    for folder in list_folders_to_keep(rules) {
        add_rule(
            &mut profile,
            "deny file-write-unlink",
            &format!("(literal {})", quote(folder)?),
        );
    }
    Ok(profile)
}

/// Lists the folders around protected paths. Rules go by path, so a folder that moves would leave its rules behind.
fn list_folders_to_keep(rules: &[(PathRule, PathBuf)]) -> Vec<&Path> {
    let is_protected =
        |rule: &PathRule| matches!(rule, PathRule::ReadOnly | PathRule::Hide | PathRule::Blank);
    let protected = rules.iter().filter(|(rule, _)| is_protected(rule));
    let mut folders: Vec<&Path> = protected
        .flat_map(|(_, path)| path.ancestors().skip(1))
        .filter(|folder| folder.parent().is_some())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

fn add_rule(profile: &mut String, verdict: &str, place: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(profile, "({verdict} {place})");
}

fn below(path: &Path) -> Result<String, SandboxError> {
    Ok(format!("(subpath {})", quote(path)?))
}

/// Quotes a path. A profile is text, and a path that could not be written must not go unprotected.
fn quote(path: &Path) -> Result<String, SandboxError> {
    let refused = || io::Error::other("its path has characters that a profile cannot contain");
    let text = path
        .to_str()
        .filter(|text| !text.contains(char::is_control))
        .ok_or_else(refused)
        .map_err(SandboxError::at(format!("describe {}", path.display())))?;
    Ok(format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::domain::SandboxMethod;
    use crate::sandbox::steering_files::expand_workspace;

    fn plan(rules: &[(PathRule, &str)]) -> SandboxPlan {
        SandboxPlan {
            method: SandboxMethod::Seatbelt,
            network: SandboxNetwork::Offline,
            temp: "/private/var/folders/x/T/agentls".into(),
            cache_layers: None,
            rules: rules.iter().map(|(rule, path)| (*rule, path.into())).collect(),
        }
    }

    fn profile(rules: &[(PathRule, &str)]) -> String {
        let plan = plan(rules);
        write_profile(&plan, &plan.rules).unwrap()
    }

    /// Returns the number of the line.
    fn find_line(profile: &str, line: &str) -> usize {
        let found = profile.lines().position(|found| found == line);
        found.unwrap_or_else(|| panic!("{line} is not in\n{profile}"))
    }

    #[test]
    fn everything_can_be_read_and_nothing_written_but_devices_and_the_temporary_folder() {
        let profile = profile(&[]);
        let denied = find_line(&profile, "(deny file-write*)");
        let temp = r#"(allow file-read* file-write* (subpath "/private/var/folders/x/T/agentls"))"#;
        assert!(find_line(&profile, "(version 1)") == 0 && find_line(&profile, "(allow default)") < denied);
        assert!(denied < find_line(&profile, temp));
        assert_eq!(profile.matches("(allow file-write* ").count(), 1, "{profile}");
        assert!(profile.contains(r#"(literal "/dev/null")"#), "{profile}");
    }

    #[test]
    fn rules_keep_their_order_so_that_the_last_one_decides() {
        let profile = profile(&[
            (PathRule::Write, "/Users/u/ws"),
            (PathRule::Hide, "/Users/u/ws/keys"),
            (PathRule::Write, "/Users/u/ws/keys/public"),
            (PathRule::Blank, "/Users/u/.npmrc"),
        ]);
        let lines = [
            r#"(allow file-read* file-write* (subpath "/Users/u/ws"))"#,
            r#"(deny file-read* file-write* (subpath "/Users/u/ws/keys"))"#,
            r#"(allow file-read* file-write* (subpath "/Users/u/ws/keys/public"))"#,
            r#"(deny file-read* file-write* (subpath "/Users/u/.npmrc"))"#,
        ];
        assert!(
            lines.map(|line| find_line(&profile, line)).is_sorted(),
            "{profile}"
        );
    }

    #[test]
    fn steering_files_are_read_only_and_the_folders_around_them_stay_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        for file in [".git/config", ".git/index", ".vscode/tasks.json"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let ws = folder.path().to_str().unwrap();
        let profile = write_profile(&plan(&[]), &expand_workspace(folder.path())).unwrap();
        let workspace = format!("(allow file-read* file-write* (subpath \"{ws}\"))");
        let settings = format!("(deny file-write* (subpath \"{ws}/.git/config\"))");
        let tasks = format!("(deny file-write* (subpath \"{ws}/.vscode\"))");
        assert!(find_line(&profile, &workspace) < find_line(&profile, &settings));
        assert!(find_line(&profile, &workspace) < find_line(&profile, &tasks));
        for kept in [format!("{ws}/.git"), ws.to_owned()] {
            find_line(
                &profile,
                &format!("(deny file-write-unlink (literal \"{kept}\"))"),
            );
        }
        assert!(!profile.contains("(literal \"/\")"), "{profile}");
    }

    #[test]
    fn the_network_is_closed_unless_the_plan_opens_it() {
        let offline = plan(&[]);
        assert!(
            write_profile(&offline, &[])
                .unwrap()
                .contains("(deny network*)\n")
        );
        let online = SandboxPlan {
            network: SandboxNetwork::Open,
            ..offline
        };
        assert!(!write_profile(&online, &[]).unwrap().contains("network"));
    }

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        let tricky = r#"/Users/u/a" (subpath "/") \" b"#;
        let profile = profile(&[(PathRule::Write, tricky)]);
        let line = r#"(allow file-read* file-write* (subpath "/Users/u/a\" (subpath \"/\") \\\" b"))"#;
        find_line(&profile, line);
        for path in ["/Users/u/line\nfeed", "/Users/u/\u{7}"] {
            let plan = plan(&[(PathRule::Hide, path)]);
            assert!(write_profile(&plan, &plan.rules).is_err(), "{path:?}");
        }
        let bytes = Path::new(OsStr::from_bytes(b"/Users/u/\xff")).to_owned();
        assert!(write_profile(&plan(&[]), &[(PathRule::Hide, bytes)]).is_err());
    }
}
