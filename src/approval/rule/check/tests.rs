//! Tests of the check: rules that can match, and rules that never do.

use super::*;

const OWN: &[&str] = &["deploy"];

#[test]
fn every_built_in_tool_is_known() {
    let registry = crate::tool::Registry::new(crate::tool::create_builtin_tools());
    let mut names = registry.tool_names();
    names.extend(["web_fetch", OUTSIDE_SANDBOX, SANDBOXED]);
    names.sort_unstable();
    names.dedup();
    let mut known: Vec<&str> = TOOLS.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(known, names);
}

#[test]
fn rules_that_can_match_are_accepted() {
    for text in [
        "bash",
        "*",
        "*_file(src/**)",
        "*(src/**)",
        "bash(git status *)",
        "bash(ls*)",
        "bash(*)",
        "bash(touch:*)",
        "Bash(git status:*)",
        "bash(echo 'a;b')",
        "bash(echo 'it'\\\\''s')",
        "bash([ -f x ])",
        "bash(FOO=bar make *)",
        "bash(git show HEAD@{0})",
        "bash(find . -exec rm {} +)",
        "bash(find . -exec rm {} ';')",
        "bash(~/bin/x *)",
        "bash(curl https://x.org/*)",
        "edit_file(src/**)",
        "edit_file(./src/*.{rs,toml})",
        "edit_file(my docs/a b.md)",
        "edit_file(/tmp/**)",
        "edit_file(\\!x)",
        "read_file(a..b)",
        "read_file(src/)",
        "diagnostics(src/**)",
        "web_fetch(https://docs.rs/*)",
        "web_fetch(https://*.rs/*)",
        "web_fetch(*://docs.rs/*)",
        "web_fetch(http://localhost:3000/)",
        "web_fetch(http://[::1]:8080/*)",
        "delegate",
        "deploy",
        "deploy(make deploy*)",
        "mcp:server/tool",
        "mcp:server/*",
        "mcp:*",
        "mcp:server/tool({\"a\":1} ; x)",
        "mcp__server__tool",
        "mcp__server",
    ] {
        assert_eq!(
            Rule::read(text, OWN).map(|rule| rule.to_string()),
            Ok(text.to_owned())
        );
    }
}

#[test]
fn rules_that_never_match_are_refused_with_the_nearest_valid_one() {
    for (text, expected) in [
        ("bsh(touch*)", "there is no tool `bsh`; write `bash(touch*)`"),
        ("BASH(touch:*)", "there is no tool `BASH`; write `bash(touch *)`"),
        ("edt_file", "there is no tool `edt_file`; write `edit_file`"),
        ("deplyo", "there is no tool `deplyo`; write `deploy`"),
        ("frobnicate(x)", "there is no tool `frobnicate`"),
        ("frob*", "there is no tool `frob*`"),
        (
            "Read(./src/**)",
            "there is no tool `Read`; write `read_file(src/**)`",
        ),
        (
            "Read(//etc/**)",
            "there is no tool `Read`; write `read_file(/etc/**)`",
        ),
        (
            "Edit(src/**)",
            "there is no tool `Edit`; write `edit_file(src/**)` and `write_file(src/**)`",
        ),
        ("Write(x)", "there is no tool `Write`; write `write_file(x)`"),
        ("MultiEdit", "there is no tool `MultiEdit`; write `edit_file`"),
        ("Grep", "there is no tool `Grep`; write `grep`"),
        ("Glob(x)", "there is no tool `Glob`; write `glob(x)`"),
        ("LS", "there is no tool `LS`; write `list_dir`"),
        (
            "WebFetch(domain:example.com)",
            "there is no tool `WebFetch`; write `web_fetch(https://example.com/*)`",
        ),
        ("Shell(rm)", "there is no tool `Shell`; write `bash(rm *)`"),
        ("shell(git:*)", "there is no tool `shell`; write `bash(git *)`"),
        (
            "run_shell_command(git status)",
            "there is no tool `run_shell_command`; write `bash(git status *)`",
        ),
        ("Task(x)", "there is no tool `Task`; write `delegate`"),
        (
            "Mcp(server:tool)",
            "there is no tool `Mcp`; write `mcp:server/tool`",
        ),
        (
            "mcp:server",
            "there is no tool `mcp:server`; write `mcp:server/*`",
        ),
        (
            "delegate(x)",
            "nothing to compare a pattern with; write `delegate`",
        ),
        ("bash(https://x.org/*)", "no command begins with an address"),
        ("bash(a; b)", "one simple command"),
        ("bash(git add * && git commit *)", "one simple command"),
        ("bash(curl * | sh)", "one simple command"),
        ("bash(sleep 1 &)", "one simple command"),
        ("bash(find . -exec rm {} \\;)", "one simple command"),
        ("bash(if *)", "none begins with this word"),
        ("bash(ls > x)", "redirections"),
        ("bash(echo $HOME)", "only the shell knows"),
        ("bash(echo `a`)", "only the shell knows"),
        ("bash(git commit -m \"x\")", "single quotes"),
        ("bash(git (status|diff))", "single quotes"),
        ("bash(git {status,diff} *)", "braces are no alternatives"),
        ("bash(echo 'a)", "not closed"),
        ("bash(git  status)", "one blank"),
        ("bash( ls)", "one blank"),
        ("bash(ls )", "ends with a blank; write `bash(ls)`"),
        ("bash(# x)", "begins with `#`"),
        ("edit_file(http://x.org/*)", "a file has no address"),
        ("edit_file(git status *)", "a pattern for commands"),
        ("write_file(touch:*)", "a pattern for commands"),
        ("write_file(a | b)", "a pattern for commands"),
        ("read_file(~/.ssh/**)", "`~` is not expanded"),
        ("read_file(!src/**)", "does not negate"),
        (
            "read_file( src/**)",
            "begins or ends with a blank; write `read_file(src/**)`",
        ),
        ("read_file(../x)", "without `.` and `..`"),
        ("read_file(/a/../b)", "without `.` and `..`"),
        ("read_file(a/./b)", "without `.` and `..`"),
        (
            "read_file(//etc/**)",
            "two `/` in a row; write `read_file(/etc/**)`",
        ),
        ("read_file(src//x)", "two `/` in a row; write `read_file(src/x)`"),
        (
            "web_fetch(docs.rs)",
            "a whole address, as in `https://docs.rs/*`; write `web_fetch(https://docs.rs/*)`",
        ),
        (
            "web_fetch(domain:docs.rs)",
            "write `web_fetch(https://docs.rs/*)`",
        ),
        ("web_fetch(*)", "write `web_fetch(https://*/*)`"),
        ("web_fetch(git status)", "a whole address"),
        ("web_fetch(ftp://x.org/*)", "only http and https"),
        ("web_fetch(https:///x)", "no host"),
        (
            "web_fetch(https://docs.rs)",
            "at least `/`; write `web_fetch(https://docs.rs/*)`",
        ),
        (
            "web_fetch(https://docs.rs*)",
            "at least `/`; write `web_fetch(https://docs.rs/*)`",
        ),
        (
            "web_fetch(https://docs.rs:443/*)",
            "usual port; write `web_fetch(https://docs.rs/*)`",
        ),
        ("web_fetch(https://u@docs.rs/*)", "with a user name"),
        ("web_fetch(https://docs.rs/a#b)", "fragments"),
        ("web_fetch(https://dócs.rs/*)", "ASCII form"),
    ] {
        let error = Rule::read(text, OWN).unwrap_err().to_string();
        assert!(
            error.ends_with(expected) || error.contains(&format!("{expected};")) || error.contains(expected),
            "{text}: {error}"
        );
        assert!(
            error.contains(&format!("rule `{}`", text.trim())),
            "{text}: {error}"
        );
    }
    assert!(Rule::read_list("bash(ls), bsh(x)", OWN).is_err());
    assert!(Rule::read_list("bash(ls), grep", OWN).is_ok());
}

#[test]
fn a_star_directly_after_a_word_is_rewritten_with_a_space() {
    for (text, clear) in [
        ("bash(ls*)", Some("bash(ls *)")),
        ("bash(git status* x)", Some("bash(git status * x)")),
        ("Bash(git diff*)", Some("Bash(git diff *)")),
        ("bash(ls *)", None),
        ("bash(cat src/*)", None),
        ("bash(touch:*)", None),
        ("bash(echo a\\*)", None),
        ("edit_file(src*)", None),
        ("bash", None),
    ] {
        assert_eq!(
            Rule::parse(text).unwrap().suggest_rewrite().as_deref(),
            clear,
            "{text}"
        );
    }
}

#[test]
fn rules_that_leave_a_value_open_are_found() {
    for (text, assignment) in [
        ("bash(CI=* make)", Some("CI=*")),
        ("bash(A=1 CI=t* make *)", Some("CI=t*")),
        ("bash_sandboxed(CI=* make)", Some("CI=*")),
        ("bash(CI=1 make *)", None),
        ("bash(CI=\\* make)", None),
        ("bash(make CI=*)", None),
        ("bash(*=1 make)", None),
        ("bash", None),
        ("edit_file(CI=*)", None),
    ] {
        let rule = Rule::parse(text).unwrap();
        assert_eq!(rule.find_open_assignment(), assignment, "{text}");
    }
    assert_eq!(Rule::parse("bash(CI=t* make)").unwrap().suggest_rewrite(), None);
}

#[test]
fn rules_that_let_any_program_run_are_found() {
    for (text, runner) in [
        ("bash(awk *)", Some("awk")),
        ("bash(python3 *)", Some("python3")),
        ("bash(python3*)", Some("python3")),
        ("bash(python3:*)", Some("python3")),
        ("bash(python3.12 -c *)", Some("python3.12")),
        ("bash(/usr/bin/node -e *)", Some("/usr/bin/node")),
        ("Bash(npx:*)", Some("npx")),
        ("bash(npx -y *)", Some("npx")),
        ("bash(xargs *)", Some("xargs")),
        ("bash(timeout 60 *)", Some("timeout")),
        ("bash(env A=b *)", Some("env")),
        ("bash(sudo bash *)", Some("bash")),
        ("bash(sudo -u x *)", Some("sudo")),
        ("bash(sudo -u x make test *)", None),
        ("bash(docker run *)", Some("docker")),
        ("bash(docker run alpine *)", None),
        ("bash(java *)", Some("java")),
        ("bash(sh -c *)", Some("sh")),
        ("bash(npm exec *)", Some("npm")),
        ("bash(uv run *)", Some("uv")),
        ("bash(uv run python *)", Some("python")),
        ("bash(deno eval *)", Some("deno")),
        ("bash(find * -exec *)", Some("find")),
        ("bash(find . -exec *)", Some("find")),
        ("bash(find . -exec sh *)", Some("sh")),
        ("bash(python3)", None),
        ("bash(python3 -c 'print(1)')", None),
        ("bash(python3 scripts/build.py *)", None),
        ("bash(python3 -m pytest *)", None),
        ("bash(timeout 60 cargo test *)", None),
        ("bash(npx eslint *)", None),
        ("bash(npm run *)", None),
        ("bash(npm *)", Some("npm")),
        ("bash(pnpm *)", Some("pnpm")),
        ("bash(bun *)", Some("bun")),
        ("bash(yarn dlx *)", Some("yarn")),
        ("bash(go run *)", Some("go")),
        ("bash(go test *)", None),
        ("bash(tsx *)", Some("tsx")),
        ("bash(tsx scripts/build.ts *)", None),
        ("bash(make *)", Some("make")),
        ("bash(make*)", Some("make")),
        ("bash(make test *)", None),
        ("bash(gcc*)", Some("gcc")),
        ("bash(gcc -O2 *)", Some("gcc")),
        ("bash(docker *)", Some("docker")),
        ("bash(sqlite3 *)", Some("sqlite3")),
        ("bash(find *)", None),
        ("bash(cargo test *)", None),
        ("bash(sed -n *)", None),
        ("bash(*)", None),
        ("bash", None),
        ("bash_sandboxed(python3 *)", None),
        ("edit_file(python3/*)", None),
    ] {
        assert_eq!(Rule::parse(text).unwrap().find_open_runner(), runner, "{text}");
    }
}

#[test]
fn rules_for_every_command_are_found() {
    for (text, is_every) in [
        ("bash", true),
        ("Bash(*)", true),
        ("bash(**)", true),
        ("bash(:*)", true),
        ("bash(* *)", true),
        ("bash(a*)", false),
        ("bash_sandboxed(*)", false),
        ("edit_file(**)", false),
    ] {
        assert_eq!(
            Rule::parse(text).unwrap().allows_every_command(),
            is_every,
            "{text}"
        );
    }
}

/// Text that the policy matches must pass the check; otherwise "always" could offer a rule that is refused later.
#[test]
fn exact_rules_of_commands_and_files_are_valid() {
    for command in [
        "echo 'a;b'",
        "echo 'it'\\''s'",
        "echo 'a \"b\"'",
        "[ -f x ]",
        "rm '*.o'",
        "echo a\\ b",
        "x '$y' '`z`'",
        "a '#b'",
        "find . -name '*.rs'",
        "git show HEAD@{0}",
        "printf '%s\\n' x",
        "echo ''",
        "jq '.a | .b' x",
    ] {
        let line = crate::approval::shell::parse(command);
        let text = line.commands[0].text().unwrap();
        let rule = Rule::with_exact_pattern("bash", &text).unwrap();
        assert_eq!(rule.validate_against_tools(OWN), Ok(()), "{command}");
    }
    for file in ["a b.md", "x[1].rs", "a(b),c", "src/*x", "!x", "a{b}"] {
        assert_eq!(
            Rule::with_exact_pattern("edit_file", file)
                .unwrap()
                .validate_against_tools(OWN),
            Ok(()),
            "{file}"
        );
    }
}
