//! How much harm a command could do, for the user who decides (R-APPR-1).
//!
//! For display only: nothing is allowed or denied because of it. Knows commands by name and options, and no rules.

use std::path::Path;

use super::dangerous_flags;
use super::programs::{SHELLS, WRAPPERS, base_name};
use super::shell::{ParsedCommand, ShellWord, SimpleCommand};
use crate::base::steering::find_steering;
use crate::base::word_list::WordList;
use crate::domain::Risk;

/// Programs that connect to other machines, or whose purpose is to fetch and run code.
const NETWORK: WordList = WordList(
    "curl wget http https xh aria2c ssh scp sftp rsync nc ncat netcat socat telnet ftp dig nslookup host \
    ping git-lfs gh glab docker podman kubectl helm terraform ansible aws gcloud az npx bunx uvx pipx \
    mail sendmail psql mysql redis-cli mongosh",
);

/// Subcommands that connect to other machines, install, publish, or discard work, by program.
const SUBCOMMANDS: &[(&str, WordList)] = &[
    (
        "git",
        WordList(
            "push pull fetch clone clean submodule ls-remote send-email filter-branch config daemon remote",
        ),
    ),
    (
        "cargo",
        WordList("install publish login yank owner search add update fetch"),
    ),
    (
        "npm",
        WordList("install i ci add publish exec x login update create init"),
    ),
    ("pnpm", WordList("install i add publish dlx exec update create")),
    ("yarn", WordList("install add publish dlx npm up create")),
    ("bun", WordList("install add publish x create update")),
    ("pip", WordList("install download uninstall")),
    ("pip3", WordList("install download uninstall")),
    ("uv", WordList("pip add sync tool publish")),
    ("poetry", WordList("install add publish update")),
    ("go", WordList("get install mod")),
    ("gem", WordList("install push update")),
    ("bundle", WordList("install update add")),
    ("composer", WordList("install require update")),
];

/// Programs that change the machine, its users, or other processes, or that write to devices.
const SYSTEM: WordList = WordList(
    "dd mkfs fdisk parted mount umount shred chown chgrp chattr setfacl useradd usermod passwd systemctl \
    service launchctl crontab at batch reboot shutdown iptables nft apt apt-get dnf yum pacman apk brew \
    snap dpkg rpm killall pkill",
);

/// Wrappers that run a command with other privileges, or in another environment of the system.
const PRIVILEGE: WordList = WordList("sudo doas su runuser pkexec run0 chroot nsenter unshare setpriv");

/// Returns the risk of a line: that of its riskiest command, or high if a part cannot be parsed.
///
/// `read_only_parts` tells which commands only read.
pub(super) fn of_line(line: &ParsedCommand, read_only_parts: &[bool]) -> Risk {
    if line.unparsed_reason.is_some() || line.defines_function {
        return Risk::High;
    }
    let risks = line
        .commands
        .iter()
        .zip(read_only_parts)
        .map(|(part, is_read_only)| match is_read_only {
            true => Risk::Low,
            false => of_part(part),
        });
    risks.max().unwrap_or(Risk::Medium)
}

fn of_part(part: &SimpleCommand) -> Risk {
    let writes_steering = part.find_written_file().is_some_and(|target| {
        target
            .as_literal()
            // An unknown target counts as one that steers something.
            .is_none_or(|path| find_steering(Path::new(path)).is_some())
    });
    // The program is unknown, or a variable may turn it into another one.
    let unknown = match part.words.first() {
        Some(word) => word.as_literal().is_none(),
        None => true,
    };
    if writes_steering || unknown || !part.assignments.is_empty() {
        return Risk::High;
    }
    // After a wrapper, any word may be the program.
    let words: Vec<&str> = part.words.iter().filter_map(ShellWord::as_literal).collect();
    let wrapped = words
        .first()
        .is_some_and(|word| WRAPPERS.contains(base_name(word)));
    let starts = if wrapped { words.len() } else { 1 };
    let high = (0..starts.min(words.len())).any(|at| is_high_risk(&words[at..]));
    if high || !dangerous_flags::find_dangerous_words(base_name(words[0]), &part.words).is_empty() {
        Risk::High
    } else {
        Risk::Medium
    }
}

fn is_high_risk(words: &[&str]) -> bool {
    let name = base_name(words[0]);
    let has = |wanted: &[&str]| words[1..].iter().any(|word| wanted.contains(word));
    let letter = |letters: &[char]| {
        (words[1..].iter())
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    // A shell that takes its script from an argument or from its input may run anything.
    let shell = SHELLS.contains(name)
        && (words.len() == 1 || letter(&['c', 's']) || words[1..].iter().all(|word| word.starts_with('-')));
    let removes = match name {
        "rm" => letter(&['r', 'R']) || has(&["--recursive"]),
        "find" => has(&["-delete", "-exec", "-execdir", "-ok", "-okdir"]),
        "chmod" => letter(&['R']) || has(&["--recursive"]),
        "git" => has(&["--hard", "-D", "--force", "-f"]),
        // These print the environment, which may contain keys.
        "env" => words.len() == 1,
        "printenv" | "set" | "export" | "declare" => true,
        "eval" | "source" | "." | "kill" => true,
        _ => false,
    };
    let listed = SUBCOMMANDS.iter().find(|(program, _)| *program == name);
    let mut rest = words[1..].iter();
    let subcommand = loop {
        match rest.next() {
            // Options of git that take the next word as their value.
            Some(&("-C" | "-c" | "--git-dir" | "--work-tree")) => drop(rest.next()),
            Some(word) if word.starts_with('-') => {}
            word => break word,
        }
    };
    NETWORK.contains(name)
        || SYSTEM.contains(name)
        || PRIVILEGE.contains(name)
        || shell
        || removes
        || listed.is_some_and(|(_, grave)| subcommand.is_some_and(|word| grave.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::super::{read_only, shell};
    use super::*;

    #[test]
    fn risk_follows_the_effect() {
        for (risk, commands) in [
            (
                Risk::Low,
                &["ls", "git status && cat x | head", "cd src && ls"][..],
            ),
            (
                Risk::Medium,
                &[
                    "make",
                    "cargo test",
                    "touch x",
                    "rm x",
                    "mkdir -p a/b",
                    "ls > out",
                    "npm test",
                    "python3 x.py",
                    "git commit -m x",
                    "sh x.sh",
                    "ls $x",
                    "timeout 5 make",
                ],
            ),
            (
                Risk::High,
                &[
                    "rm -rf x",
                    "rm -fr x",
                    "ls; rm --recursive x",
                    "curl https://x.org",
                    "git push",
                    "git -C a push",
                    "git reset --hard",
                    "npm install",
                    "sudo ls",
                    "timeout 5 curl x",
                    "env sudo make",
                    "cat x | sh",
                    "sh -c x",
                    "xargs rm -r",
                    "echo x > .git/hooks/pre-commit",
                    "echo x > AGENTS.md",
                    "echo 'x",
                    "$x",
                    "env; echo x",
                    "printenv",
                    "A=1 make",
                    "f() { ls; }; f",
                    "find . -delete",
                    "eval x",
                    "/usr/bin/curl x",
                    "rsync a b",
                    "chmod -R 777 .",
                ],
            ),
        ] {
            for command in commands {
                let line = shell::parse(command);
                let read_only_parts = read_only::reading_parts(&line, command);
                assert_eq!(of_line(&line, &read_only_parts), risk, "{command}");
            }
        }
    }
}
