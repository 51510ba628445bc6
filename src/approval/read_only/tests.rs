//! Tables of what is free and what is not, and properties of every reviewed command.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::approval::{Policy, Rule, Verdict, judge_tool_call};
use crate::base::glob::GlobPattern;
use crate::domain::{Effect, FileFinding, FindingKind, Mode};

/// Returns whether the command runs without a question in mode `ask`, if its files are inside the workspace.
fn is_free(command: &str) -> bool {
    is_free_with(&Policy::default(), command)
}

fn is_free_with(policy: &Policy, command: &str) -> bool {
    let effect = Effect {
        findings: Some(Vec::new()),
        ..Effect::from_command(command)
    };
    matches!(judge_tool_call(policy, "bash", &effect), Verdict::Allow { .. })
}

const FREE: &[&str] = &[
    "ls",
    "ls -la src",
    "ls *.rs",
    "ls -- -x",
    "cat README.md",
    "cat *.md",
    "cat -n a.txt b.txt",
    "head -n 5 x",
    "head -5 x",
    "tail -n +3 x",
    "wc -l a b",
    "pwd",
    "echo 'hello; world'",
    "printf '%s\\n' a b",
    "printf '%-10s|%5.2f%%\\n' a 1",
    "true",
    "basename a/b",
    "stat -c %s x",
    "file x",
    "du -sh .",
    "tree -L 2 src",
    "grep -rn 'fn main' src",
    "grep -rn --include=*.rs 'fn main' src",
    "grep -A 3 -e x f",
    "grep -c x -- *.rs",
    "rg -n 'a|b' -g '*.rs' src",
    "rg --files",
    "find . -name '*.rs' -type f -print",
    "find src \\( -name a -o -name b \\) -mtime -7",
    "sort -unk 2 in",
    "sort a | uniq -c | sort -rn | head",
    "uniq x",
    "cut -d : -f 1 x",
    "tr a-z A-Z < x",
    "nl x",
    "diff -u a b",
    "date -u +%F",
    "uname -a",
    "whoami",
    "id -u",
    "which git",
    "type ls",
    "command -v git",
    "git status",
    "git status -sb --porcelain=v2",
    "git --no-pager log --oneline -20",
    "git log -p --stat -S x -- src",
    "git log --format='%h %s'",
    "git diff HEAD~1 --stat",
    "git diff --cached -U5",
    "git show HEAD:README.md",
    "git branch",
    "git branch -a",
    "git branch --list 'a*'",
    "git tag",
    "git tag -l 'v*'",
    "git remote -v",
    "git rev-parse --short HEAD",
    "git ls-files",
    "git blame -L 1,5 x",
    "git describe --tags",
    "git shortlog -sn HEAD",
    "git stash list",
    "git reflog",
    "git grep -n x",
    "git worktree list",
    "git -C sub status",
    "cd src && ls",
    "cd src; cat x | head -3",
    "ls && git status; pwd | cat",
    "if ls; then git status; fi",
    "for x in 1 2; do ls; done",
    "ls 2>/dev/null || true",
    "cat <<E\ntext\nE",
    "(ls; pwd)",
    "test -f x",
    "test -d src/a && ls src/a",
    "[ -f x ]",
    "[ -s x ] || cat y",
    "if [ -e x ]; then cat x; fi",
    "sed -n 1,5p x",
    "sed -n '10,$p' x y",
    "sed -n '1p;9,12p' x",
    "cat x | sed -n 5p",
    "sed -n 1p < x",
];

const NOT_FREE: &[&str] = &[
    "",
    "comm -12 a b",
    "od -c x",
    "git log --log-size",
    "make",
    "./ls",
    "/bin/ls",
    "src/cat x",
    "ls > out",
    "ls $x",
    "ls $(pwd)",
    "ls {a,b}",
    "sort -k1* a",
    "grep -e* a",
    "A=1 ls",
    "PATH=. ls",
    "PATH=.; ls",
    "export PATH=.; ls",
    "ls() { make; }; ls",
    "alias ls=make; ls",
    "ls; make",
    "ls | sh",
    "sudo ls",
    "env ls",
    "env",
    "printenv",
    "set",
    "jq . x",
    "ps aux",
    "test -v x",
    "test -v 'a[$(make)]'",
    "test -R x",
    "test -o x",
    "test -f x -a -v 'a[$(make)]'",
    "test ! -v 'a[$(make)]'",
    "test -- -f x",
    "test x -eq 1",
    "test -f *",
    "test -f $x",
    "test -f x > out",
    "A=1 test -f x",
    "./test -f x",
    "[ -v 'a[$(make)]' ]",
    "[ -f x",
    "[ -f x ] ]",
    "[ -f x -o -v 'a[$(make)]' ]",
    "[[ -f x ]]",
    "sed -n 1,5p -i x",
    "sed -n 1,5p x -i",
    "sed -ni 1,5p x",
    "sed -n -i 1,5p x",
    "sed -i 1,5p x",
    "sed -n -e 1p -e 'w out' x",
    "sed -n -f script x",
    "sed -n -s 1p x",
    "sed -n '1,5w out' x",
    "sed -n '1,5p;w out' x",
    "sed -n 1e x",
    "sed -n '1e make' x",
    "sed -n 's/a/make/ep' x",
    "sed -n '/a/p' x",
    "sed -n $x x",
    "sed -n 1p *",
    "sed -n 1p -- -i",
    "sed -n 1p x > out",
    "/bin/sed -n 1p x",
    "sed",
    "sed -n",
    "node --version",
    "git config --get user.name",
    "man ls",
    "less x",
    "awk 1 x",
    "sed p x",
    "xxd a b",
    "cat ~root/x",
    "cat '~/x'",
    // Options that run, write, or were not reviewed.
    "ls --unheard-of",
    "ls --col",
    "sort -o out in",
    "sort -uoout in",
    "sort --output=out in",
    "sort --outp=out in",
    "sort --compress-program=./x in",
    "sort -T . in",
    "sort --files0-from=x",
    "sort -S 1G --random-source=x in",
    "uniq a b",
    "uniq a*",
    "date -s 12:00",
    "date 01010000",
    "date --set=x",
    "date -f x",
    "rg --pre ./x a",
    "rg --pre=./x a",
    "rg -z x",
    "rg --search-zip x",
    "rg --hostname-bin=./x a",
    "rg -L x",
    "grep -R x .",
    "grep -d recurse x .",
    "grep --directories=recurse x .",
    "find . -delete",
    "find . -exec make {} +",
    "find . -execdir make \\;",
    "find . -ok make \\;",
    "find . -okdir make \\;",
    "find . -fprint out",
    "find . -fprintf out x",
    "find . -fls out",
    "find -L . -name x",
    "find . -files0-from x",
    "tree -o out",
    "tree -R -H . -L 1",
    "tree --fromfile x",
    "tree -l",
    "file -C -m x",
    "file -f list",
    "file -z x",
    "file -p x",
    "file -bp x",
    "file --preserve-date x",
    "md5sum -c list",
    "wc --files0-from=list",
    "du --files0-from=list",
    "diff -r a b",
    "diff --from-file=x y",
    "printf -v PATH x",
    "printf '%n' PATH",
    "printf 'a%5n' PATH",
    "printf '%(%F)T'",
    "command ls",
    "command -p ls",
    "git",
    "git push",
    "git commit -m x",
    "git statusx",
    "git -c core.pager=x log",
    "git --exec-path=x log",
    "git --git-dir=x log",
    "git --paginate log",
    "git log --output=x",
    "git log --ext-diff",
    "git log --textconv",
    "git log --show-signature",
    "git log --format='%h %G?'",
    "git diff --no-index a b",
    "git diff -Ox",
    "git diff --output x",
    "git status -vv",
    "git branch x",
    "git branch -D x",
    "git branch --edit-description",
    "git branch -m a b",
    "git tag v1",
    "git tag -a v1",
    "git tag -s v1",
    "git tag -v v1",
    "git remote add a b",
    "git remote show origin",
    "git remote update",
    "git stash",
    "git stash pop",
    "git stash drop",
    "git reflog expire --all",
    "git worktree add x",
    "git grep -Ox y",
    "git grep --open-files-in-pager=x y",
    "git grep --no-index x",
    "git grep --untracked x",
    "git grep -f x",
    "git cat-file --textconv HEAD:x",
    "git cat-file --filters HEAD:x",
    "git cat-file --batch",
    "git blame --contents x y",
    "git config --list",
    "git config user.name",
    "git help log",
    "git rev-parse --parseopt",
    // The repository chooses which program these run.
    "cargo --version",
    "cargo metadata",
    "cargo test",
    "rustc --version",
    "node --version",
    "npm --version",
    "python3 --version",
    "go version",
    "go test ./...",
    // The environment, or an assignment, in a place that is not a word.
    "cat <<E\n$KEY\nE",
    "cat <<< $KEY",
    "true <<E\n$((PATH=1))\nE\nls",
    "case $((PATH=1)) in *) ls;; esac",
    "ls; </dev/tcp/example.org/80",
    "git -C a -C .. status",
    // The shell may be in another folder by then.
    "cd a/../b && ls",
    "cd ..; ls",
    "ls; cd ..; cat x",
    "cd a && cd b && ls",
    "while cd ..; do ls; done",
    "cd",
    "cd -",
    "cd $x && ls",
    "cd -P a; ls",
    "pushd a; ls",
    // A file name may look like an option.
    "sort *",
    "sort ?x",
    "sort [-]oPWN",
    "git log *",
    "git diff *",
    "rg x *",
    "grep x *",
    "find * -name x",
    "find . -name *.rs",
    "wc -l *",
    "git log -n *",
    "printf '%s' *",
    "git conf?g alias.x y",
    "git st*",
    "s?rt x",
    "uniq *",
    "cut -d * x",
];

#[test]
fn commands_that_only_read_are_free() {
    let wrong: Vec<_> = FREE.iter().filter(|command| !is_free(command)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn other_commands_are_not_free() {
    let wrong: Vec<_> = NOT_FREE.iter().filter(|command| is_free(command)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn reading_is_free_in_every_mode_unless_a_rule_watches() {
    let rules = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| Rule::parse(text).unwrap())
            .collect::<Vec<_>>()
    };
    for (mode, free) in [(Mode::Plan, true), (Mode::Ask, true), (Mode::AutoEdit, true)] {
        let policy = Policy {
            mode,
            ..Policy::default()
        };
        assert_eq!(is_free_with(&policy, "git status | head"), free, "{mode}");
        assert!(!is_free_with(&policy, "make"), "{mode}");
    }
    for rule in ["bash", "bash(git *)", "*"] {
        for policy in [
            Policy {
                require_approval: rules(&[rule]),
                ..Policy::default()
            },
            Policy {
                deny: rules(&[rule]),
                ..Policy::default()
            },
        ] {
            assert!(!is_free_with(&policy, "git status"), "{rule}");
        }
    }
    // One part of a line may be free, and a rule may cover another.
    let policy = Policy {
        allow: rules(&["bash(make *)"]),
        ..Policy::default()
    };
    assert!(is_free_with(&policy, "git status && make test | tail -5"));
    // A rule for `cd` says nothing about where the rest of the line reads.
    let policy = Policy {
        allow: rules(&["bash(cd *)", "bash(printf *)", "bash(export *)"]),
        ..Policy::default()
    };
    for command in ["ls; cd /; cat etc/x", "printf %n PATH; ls", "export PATH=.; ls"] {
        assert!(!is_free_with(&policy, command), "{command}");
    }
}

#[test]
fn a_command_whose_files_are_special_is_not_free() {
    for kind in [
        FindingKind::Outside,
        FindingKind::Secret,
        FindingKind::OptionName,
        FindingKind::Unchecked,
        FindingKind::WorkspaceProgram,
    ] {
        let finding = FileFinding {
            part: 1,
            kind,
            file: "x".to_owned(),
            tracked_as: None,
        };
        let effect = |command: &str| Effect {
            findings: Some(vec![finding.clone()]),
            ..Effect::from_command(command)
        };
        let verdict = judge_tool_call(&Policy::default(), "bash", &effect("ls; cat x"));
        assert!(matches!(verdict, Verdict::Ask { .. }), "{kind:?}: {verdict:?}");
        // Links and searches may lead to a secret even if a rule allows the command.
        let policy = Policy {
            allow: vec![Rule::parse("bash(cat *)").unwrap()],
            ..Policy::default()
        };
        let allowed = matches!(
            judge_tool_call(&policy, "bash", &effect("ls; cat x")),
            Verdict::Allow { .. }
        );
        let special = matches!(kind, FindingKind::Secret | FindingKind::OptionName);
        assert_eq!(allowed, !special, "{kind:?}");
    }
    // The files were not checked.
    let verdict = judge_tool_call(&Policy::default(), "bash", &Effect::from_command("ls"));
    assert!(matches!(verdict, Verdict::Ask { .. }));
}

#[test]
fn a_prefix_rule_covers_only_reviewed_options() {
    let allows = |rule: &str, command: &str| {
        let policy = Policy {
            allow: vec![Rule::parse(&format!("bash({rule})")).unwrap()],
            ..Policy::default()
        };
        matches!(
            judge_tool_call(&policy, "bash", &Effect::from_command(command)),
            Verdict::Allow { .. }
        )
    };
    for (rule, command) in [
        ("sort *", "sort -o out in"),
        ("sort *", "sort *"),
        ("sort *", "sort --unheard-of in"),
        ("git *", "git log *"),
        ("git *", "git conf?g alias.y '!x'"),
        ("git *", "git c* x"),
        ("git tag *", "git tag -a v1"),
        ("git tag *", "git tag -s v1"),
        ("git branch *", "git branch --edit-description"),
        ("git cat-file *", "git cat-file --filters HEAD:x"),
        ("npm *", "npm te*"),
        ("cargo *", "cargo ?est"),
        ("curl *", "curl *"),
        ("printf *", "printf %n PATH"),
        ("uniq *", "uniq a b"),
        ("date *", "date 01010000"),
        ("cargo test *", "cargo test --config x"),
        ("cargo test *", "cargo test --manifest-path ../x/Cargo.toml"),
        ("cargo test *", "cargo test -- --logfile=/tmp/x"),
        ("cargo test *", "cargo test *"),
        ("cargo build *", "cargo build --target-dir /tmp/x"),
        ("cargo build *", "cargo build --target ./evil.json"),
        ("cargo clippy *", "cargo clippy -- -Clinker=./x"),
        ("go test *", "go test -exec ./x ./..."),
        ("go vet *", "go vet -vettool=./x"),
        ("go build *", "go build -o /tmp/x"),
    ] {
        assert!(!allows(rule, command), "{command}");
    }
    for (rule, command) in [
        ("sort -o *", "sort -o out in"),
        ("find * -exec grep *", "find . -exec grep -n x {} +"),
        ("git tag -a *", "git tag -a v1"),
        ("git branch *", "git branch x"),
        ("git switch *", "git switch -c x"),
        (
            "cargo test *",
            "cargo test --release -p x name -- --nocapture --test-threads=1",
        ),
        ("cargo clippy *", "cargo clippy --all-targets -- -D warnings"),
        ("go test *", "go test -run X -count=1 ./..."),
        ("mytool *", "mytool *"),
    ] {
        assert!(allows(rule, command), "{command}");
    }
}

#[test]
fn programs_that_only_read_are_collected() {
    let files = command_files("cd src && git status | cat x; make; ./ls").unwrap();
    let programs: Vec<(usize, &str)> = (files.programs.iter())
        .map(|(part, name)| (*part, &**name))
        .collect();
    assert_eq!(programs, [(1, "git"), (2, "cat")]);
}

#[test]
fn the_files_of_a_line_are_collected() {
    let named = |command: &str| -> Vec<(String, FileUsage)> {
        let files = command_files(command).unwrap();
        (files.words.into_iter())
            .filter(|word| word.usage != FileUsage::Mention)
            .map(|word| (word.text, word.usage))
            .collect()
    };
    let search = |hidden| FileUsage::Search { hidden };
    let repository = |urls, contents| FileUsage::Repository { urls, contents };
    let git = repository(false, GitContents::None);
    let contents = repository(false, GitContents::Any);
    for (command, expected) in [
        ("cat a - b", vec![("a", FileUsage::Read), ("b", FileUsage::Read)]),
        ("cat < a", vec![("a", FileUsage::Read)]),
        ("ls", vec![(".", FileUsage::List)]),
        ("grep x a", vec![("a", FileUsage::Read)]),
        (
            "grep -f p a",
            vec![("p", FileUsage::Read), ("a", FileUsage::Read)],
        ),
        (
            "grep --file=p a",
            vec![("p", FileUsage::Read), ("a", FileUsage::Read)],
        ),
        ("grep -r /x", vec![(".", search(true))]),
        ("rg /x", vec![(".", search(false))]),
        ("rg --hidden x a", vec![("a", search(true))]),
        ("rg -g '*' x a", vec![("a", search(true))]),
        ("rg --iglob=* x", vec![(".", search(true))]),
        (
            "find a b -newer c",
            vec![
                ("a", FileUsage::List),
                ("b", FileUsage::List),
                ("c", FileUsage::Read),
            ],
        ),
        ("diff a b", vec![("a", search(true)), ("b", search(true))]),
        ("date -r x", vec![("x", FileUsage::Read)]),
        ("echo a*", vec![("a*", FileUsage::List)]),
        ("git diff -- x", vec![("x", FileUsage::Read), (".", contents)]),
        ("git diff --stat", vec![(".", git)]),
        ("git diff --stat -p", vec![(".", contents)]),
        ("git log --oneline -5", vec![(".", git)]),
        ("git log -p", vec![(".", contents)]),
        ("git log --oneline -U1", vec![(".", contents)]),
        ("git stash list", vec![(".", git)]),
        ("git stash show", vec![(".", contents)]),
        ("git stash show --stat", vec![(".", git)]),
        (
            "git show HEAD:a",
            vec![
                ("HEAD:a", FileUsage::Read),
                ("a", FileUsage::Read),
                (".", repository(false, GitContents::Named)),
            ],
        ),
        ("git show --name-only", vec![(".", git)]),
        (
            "git show --stat main",
            vec![("main", FileUsage::Read), (".", contents)],
        ),
        (
            "git show --stat HEAD~2",
            vec![("HEAD~2", FileUsage::Read), (".", git)],
        ),
        (
            "git show --stat 12ab",
            vec![("12ab", FileUsage::Read), (".", contents)],
        ),
        (
            "git cat-file -p main",
            vec![("main", FileUsage::Read), (".", contents)],
        ),
        (
            "git cat-file -t main",
            vec![("main", FileUsage::Read), (".", git)],
        ),
        ("rg -tjson x a", vec![("a", search(true))]),
        ("git grep x", vec![("x", FileUsage::Read), (".", contents)]),
        ("git grep -l x", vec![("x", FileUsage::Read), (".", contents)]),
        (
            "git grep -qc x a",
            vec![
                ("x", FileUsage::Read),
                ("a", FileUsage::ReadOrTag),
                (".", contents),
            ],
        ),
        (
            "git grep x HEAD -- a",
            vec![
                ("x", FileUsage::Read),
                ("HEAD", FileUsage::Read),
                ("a", FileUsage::Read),
                (".", contents),
            ],
        ),
        ("git status", vec![(".", git)]),
        (
            "git show HEAD:../x",
            vec![
                ("HEAD:../x", FileUsage::Read),
                ("../x", FileUsage::Read),
                (".", contents),
            ],
        ),
        (
            "git -C s log x",
            vec![
                ("x", FileUsage::Read),
                (".", git),
                ("s/x", FileUsage::Read),
                ("s/.", git),
                ("s", FileUsage::List),
            ],
        ),
        ("git remote -v", vec![(".", repository(true, GitContents::None))]),
        (
            "cd s && cat x",
            vec![("x", FileUsage::Read), ("s", FileUsage::List)],
        ),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(text, usage)| (text.to_owned(), usage))
            .collect();
        assert_eq!(named(command), expected, "{command}");
    }
    assert!(command_files("echo 'x").is_none());
}

/// Options that some reviewed command must not receive.
const DANGEROUS: &[&str] = &[
    "-oPWN",
    "--output=PWN",
    "--pre=sh",
    "-delete",
    "--compress-program=sh",
    "-exec",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager=sh",
    "--files0-from=x",
    "-fprint",
];

/// Expands a line as bash would in a folder with these files: each pattern becomes the matching names.
fn expand(command: &str, names: &[&str]) -> String {
    let words = command.split(' ').flat_map(|word| {
        let glob = GlobPattern::for_names(word)
            .ok()
            .filter(|_| word.contains(['*', '?', '[']));
        let matches: Vec<String> = match glob {
            Some(glob) if !word.starts_with('\'') => (names.iter())
                .filter(|name| glob.is_match(name))
                .map(|name| (*name).to_owned())
                .collect(),
            _ => Vec::new(),
        };
        if matches.is_empty() {
            vec![word.to_owned()]
        } else {
            matches
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

proptest! {
    /// No file name changes what a free command does.
    #[test]
    fn file_names_do_not_make_a_free_command_dangerous(
        command in select(FREE),
        word in select(&["*", "?*", "[-a]*", "*x", "./*", "a*", "src/*", "-*", "--*", "--include=*", "*=*"][..]),
        behind in any::<bool>(),
        names in prop::collection::vec(select(DANGEROUS), 1..4),
    ) {
        // Only simple lines, so that a word can be inserted anywhere.
        prop_assume!(!command.contains(['|', ';', '&', '<', '(', '\n', '\\', '\'', '*']));
        let line = if behind { format!("{command} {word}") } else {
            command.split_once(' ').map_or_else(|| format!("{command} {word}"), |(head, rest)| format!("{head} {word} {rest}"))
        };
        if is_free(&line) {
            let expanded = expand(&line, &names);
            let harmless = ["ls", "cat", "head", "tail", "echo", "stat", "which", "type", "true", "basename", "id"];
            let program = line.split(' ').next().unwrap_or_default();
            prop_assert!(harmless.contains(&program) || is_free(&expanded), "{line} -> {expanded}");
        }
    }

    /// A `*` never covers an option that the table does not list, wherever it is.
    #[test]
    fn unknown_options_are_not_free(command in select(FREE), option in "--[a-z]{3,12}(=[a-z/.]{0,4})?", at in 0_usize..4) {
        prop_assume!(!command.contains(['|', ';', '&', '<', '(', '\n', '\\', '\'']));
        prop_assume!(!["echo", "printf", "true"].iter().any(|program| command.starts_with(program)));
        let mut words: Vec<&str> = command.split(' ').collect();
        let ended = words.iter().position(|word| *word == "--").unwrap_or(usize::MAX);
        let at = at.max(1).min(words.len());
        prop_assume!(at <= ended);
        words.insert(at, &option);
        let line = words.join(" ");
        let known = table::lists_option(option[2..].split('=').next().unwrap_or_default());
        // After an option with a value, the word is that value.
        let value = words[at - 1].starts_with('-');
        prop_assert!(known || value || !is_free(&line), "{line}");
    }
}
