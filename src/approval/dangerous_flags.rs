//! Dangerous options of programs that `read_only` does not list: they run a program, or write a file that the caller
//! chooses.
//!
//! A table and pure functions. A rule must spell such an option out; its `*` does not cover it. A letter counts
//! wherever it is in a cluster (`sort -uo x`), even if it may be the value of another option: one question too many is
//! better than one too few. A long option counts by every abbreviation that getopt would accept.

use super::sed_script::find_dangerous_sed_words;
use super::shell::ShellWord;
use crate::base::word_list::WordList;

/// Commands that parse options as getopt does: rows of `names | letters of short options | long options;`.
const COMMANDS: &str = "
fd fdfind | xX | exec exec-batch;
gsort | o | output compress-program;
gdate | s | set;
man | PHCX | pager html config-file gxditview;
less more | oOk | log-file LOG-FILE lesskey-file lesskey-src lesskey-content;
bat batcat | | pager;
yq | is | inplace in-place split-exp;
tar gtar bsdtar | IF | to-command checkpoint-action use-compress-program info-script new-volume-script
    rsh-command rmt-command;
zip | T | unzip-command;
ssh | oFESI |;
scp sftp | oFSD |;
rsync | e | rsh rsync-path log-file write-batch;
curl | oOKDcT | output output-dir remote-name remote-name-all config dump-header cookie-jar trace trace-ascii
    upload-file libcurl stderr etag-save hsts alt-svc;
wget | OoaPe | output-document output-file append-output directory-prefix execute use-askpass config
    post-file body-file rejected-log save-cookies hsts-file warc-file;
cargo | | config;
npm pnpm yarn | C | script-shell shell node-options git editor viewer browser init-module onload-script
    prefix dir cwd userconfig globalconfig use-yarnrc;
pytest py.test | pco | basetemp junitxml junit-xml log-file pdbcls rootdir override-ini config-file
    confcutdir;
gradle | I | init-script;
prettier | w | write plugin config find-config-path;
eslint | cof | config fix output-file rulesdir resolve-plugins-relative-to format parser plugin
    cache-location cache-file;
";

/// Commands whose long options have one dash or two, and cannot be abbreviated.
const ONE_DASH: &str = "
gfind | | exec execdir ok okdir delete fprint fprint0 fprintf fls;
go | | exec toolexec vettool fixtool o C w u overlay modfile pkgdir compiler ldflags gccgoflags gcflags
    asmflags outputdir coverprofile cpuprofile memprofile blockprofile mutexprofile trace test.outputdir
    test.coverprofile test.gocoverdir test.cpuprofile test.memprofile test.blockprofile test.mutexprofile
    test.trace test.testlogfile;
";

/// The dangerous options of one command.
struct DangerousFlags {
    names: WordList,
    /// The letters of its short options.
    letters: &'static str,
    /// Its long options, without dashes.
    long: WordList,
}

fn parse_rows(table: &'static str) -> impl Iterator<Item = DangerousFlags> {
    table.split(';').filter_map(|row| {
        let mut columns = row.split('|').map(str::trim);
        Some(DangerousFlags {
            names: WordList(columns.next()?),
            letters: columns.next()?,
            long: WordList(columns.next()?),
        })
    })
}

fn find_flags(table: &'static str, name: &str) -> Option<DangerousFlags> {
    parse_rows(table).find(|flags| flags.names.contains(name))
}

/// Options of git before its subcommand that make it run other programs.
const GIT_GLOBAL: WordList = WordList("-c --config-env --exec-path -p --paginate");

/// Options of git before its subcommand that take the next word as their value.
const GIT_VALUED: WordList = WordList("-C -c --config-env --git-dir --work-tree --namespace");

/// Long options after any subcommand of git.
const GIT_LONG: WordList = WordList(
    "output output-directory ext-diff open-files-in-pager upload-pack receive-pack exec extcmd template \
    config separate-git-dir sendmail-cmd export-marks index-output",
);

/// Short options after a subcommand of git, as (subcommand, letters).
const GIT_LETTERS: &[(&str, &str)] = &[
    ("clone", "cu"),
    ("rebase", "x"),
    ("difftool", "x"),
    ("archive", "o"),
    ("format-patch", "o"),
];

/// Subcommands of git that run programs or set which ones git runs; with the next word if that decides.
const GIT_RUNS: &[(&str, Option<&str>)] = &[
    ("config", None),
    ("difftool", None),
    ("mergetool", None),
    ("filter-branch", None),
    ("hook", None),
    ("send-email", None),
    ("instaweb", None),
    ("for-each-repo", None),
    ("submodule", Some("foreach")),
    ("bisect", Some("run")),
];

/// Returns the words of a command that a rule must spell out before it allows them.
pub(super) fn find_dangerous_words(name: &str, words: &[ShellWord]) -> Vec<String> {
    let arguments = words.get(1..).unwrap_or_default();
    if name == "git" {
        return find_dangerous_git_words(arguments);
    }
    if matches!(name, "sed" | "gsed") {
        return find_dangerous_sed_words(arguments);
    }
    let mut found = Vec::new();
    if let Some(options) = find_flags(COMMANDS, name) {
        let mut options_ended = false;
        for (at, word) in arguments.iter().enumerate() {
            let Some(text) = word.as_literal() else { continue };
            options_ended |= text == "--";
            // A glob may expand to a file name that begins with a dash, so it may become any option.
            if !options_ended && super::read_only::may_become_option(word) {
                found.extend(word.to_rule_text());
            }
            // `tar xIf`: tar accepts a first cluster without a dash.
            let bare =
                at == 0 && options.letters == "IF" && text.contains(['I', 'F']) && !text.starts_with('-');
            if bare || is_one_of(text, options.letters, options.long) {
                found.extend(word.to_rule_text());
            }
        }
    }
    if let Some(options) = find_flags(ONE_DASH, name) {
        for word in arguments {
            let text = word.as_literal().unwrap_or_default();
            let bare = text
                .strip_prefix('-')
                .map(|rest| rest.strip_prefix('-').unwrap_or(rest));
            if bare.is_some_and(|bare| options.long.contains(name_of(bare))) {
                found.extend(word.to_rule_text());
            }
        }
    }
    found
}

/// Returns whether `word` makes `name` (find, fd) run the next word as a program.
pub(super) fn runs_next(name: &str, word: &str) -> bool {
    match name {
        "find" | "gfind" => word.starts_with("-exec") || word.starts_with("-ok"),
        "fd" | "fdfind" => is_one_of(word, "xX", WordList("exec exec-batch")),
        _ => false,
    }
}

fn find_dangerous_git_words(arguments: &[ShellWord]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    let subcommand = loop {
        let Some(word) = rest.next() else { return found };
        // Unknown words need no spelling: no rule with a pattern covers them.
        let Some(text) = word.as_literal() else {
            return found;
        };
        if !text.starts_with('-') {
            break word;
        }
        if GIT_GLOBAL.iter().any(|option| text.starts_with(option)) {
            found.extend(word.to_rule_text());
        }
        if GIT_VALUED.contains(text) {
            rest.next();
        }
    };
    let name = subcommand.as_literal().unwrap_or_default();
    let next = rest.as_slice().first().and_then(ShellWord::as_literal);
    if let Some((_, second)) = GIT_RUNS
        .iter()
        .find(|(runs, second)| *runs == name && (second.is_none() || *second == next))
    {
        found.push(second.map_or_else(|| name.to_owned(), str::to_owned));
    }
    let letters = GIT_LETTERS
        .iter()
        .find(|(of, _)| *of == name)
        .map_or("", |(_, letters)| letters);
    for word in rest {
        let Some(text) = word.as_literal() else { continue };
        // `-O` belongs to `grep` and `-x` to `rebase`, but an alias may hide the subcommand's name.
        if is_one_of(text, letters, GIT_LONG) || text.starts_with("-O") || text.starts_with("-x") {
            found.extend(word.to_rule_text());
        }
    }
    found
}

/// Returns whether a word is one of these options: a cluster with one of the letters, or a long option, abbreviated or
/// not.
fn is_one_of(text: &str, letters: &str, long: WordList) -> bool {
    match text.strip_prefix("--") {
        Some(rest) => {
            let name = name_of(rest);
            !name.is_empty() && long.iter().any(|option| option.starts_with(name))
        }
        None => text
            .strip_prefix('-')
            .is_some_and(|cluster| cluster.contains(|letter| letters.contains(letter))),
    }
}

/// Returns the name of an option without its value.
fn name_of(option: &str) -> &str {
    option.split_once('=').map_or(option, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::approval::{Policy, Rule, Verdict, judge_tool_call};
    use crate::domain::{Effect, Mode};

    /// Returns whether a rule of `rule` and a `*` allows `command`.
    fn allowed(rule: &str, command: &str) -> bool {
        let policy = Policy {
            mode: Mode::Ask,
            allow: vec![Rule::parse(&format!("bash({rule} *)")).unwrap()],
            ..Policy::default()
        };
        matches!(
            judge_tool_call(&policy, "bash", &Effect::from_command(command)),
            Verdict::Allow { .. }
        )
    }

    #[test]
    fn a_star_does_not_cover_options_that_run_or_write() {
        for (rule, command) in [
            ("fd", "fd -Hx rm"),
            ("fd", "fd -HX rm"),
            ("fd", "fd --exec=rm"),
            ("fd", "fd a --exec-batch rm"),
            ("sort", "sort -uo out in"),
            ("sort", "sort -uoout in"),
            ("sort", "sort --outp=x in"),
            ("sort", "sort --compress-prog ./x in"),
            ("rg", "rg --pre ./x a"),
            ("rg", "rg --pre=./x a"),
            ("tree", "tree -ao x"),
            ("tree", "tree -H . -RL 2"),
            ("file", "file -Cm x"),
            ("man", "man -P ./x ls"),
            ("man", "man -aP ./x ls"),
            ("date", "date -us 12:00"),
            ("find", "find . -execdir ./x ;"),
            ("find", "find . -fprintf out %p"),
            ("git", "git clone -u ./x a b"),
            ("git clone", "git clone -qu ./x a b"),
            ("git clone", "git clone -qc core.fsmonitor=./x a b"),
            ("git clone", "git clone --templ=x a b"),
            ("git clone", "git clone --conf core.sshCommand=./x a b"),
            ("git grep", "git grep -nO./x a"),
            ("git grep", "git grep --open-files=./x a"),
            ("git log", "git log --outp=x"),
            ("git rebase", "git rebase -ix ./x main"),
            ("git archive", "git archive -vo x HEAD"),
            ("git", "git -C a config core.fsmonitor ./x"),
            ("git", "git submodule foreach ./x"),
            ("git", "git bisect run ./x"),
            ("go vet", "go vet -vettool=./x"),
            ("go vet", "go vet --vettool ./x"),
            ("go test", "go test -exec ./x ./..."),
            ("go build", "go build -ldflags=-extld=./x"),
            ("go env", "go env -w GOFLAGS=-toolexec=./x"),
            ("tar", "tar xIf ./x a.tar"),
            ("tar", "tar -xIf ./x a.tar"),
            ("tar", "tar --to-comm=./x -xf a.tar"),
            ("ssh", "ssh host -oProxyCommand=./x"),
            ("ssh", "ssh -4o ProxyCommand=./x host"),
            ("rsync", "rsync -ae ./x a b"),
            ("cargo test", "cargo test --config build.rustc-wrapper='./x'"),
            ("npm run", "npm run lint --script-shell ./x"),
            ("npm test", "npm test --node-options=--require=./x"),
            ("curl", "curl -sSo x https://a.org"),
            ("wget", "wget -qO x https://a.org"),
            ("yq", "yq -yi . a"),
            ("prettier src", "prettier src --write"),
            ("pytest tests", "pytest tests --basetemp=x"),
        ] {
            assert!(!allowed(rule, command), "{command}");
        }
    }

    #[test]
    fn a_star_covers_options_that_only_read() {
        for (rule, command) in [
            ("fd", "fd -e rs -H src"),
            ("fd", "fd --extension rs --exclude target"),
            ("sort", "sort -unk 2 in"),
            ("rg", "rg --pretty -n --pre-glob '*.x' a"),
            ("tree", "tree -aL 2"),
            ("find", "find . -name '*.o' -print"),
            ("git log", "git log --oneline --color -S x -p"),
            ("git diff", "git diff --exit-code --no-ext-diff"),
            ("git clone", "git clone -q --depth 1 a b"),
            ("git grep", "git grep -n a"),
            ("git switch", "git switch -c a"),
            ("go vet", "go vet -composites=false ./..."),
            ("go test", "go test -run X -count=1 ./..."),
            ("cargo test", "cargo test --release"),
            ("npm run", "npm run lint -- --max-warnings 0"),
            ("tar", "tar tzf a.tgz"),
            ("date", "date -u +%F"),
            ("pytest tests", "pytest tests -x -k a"),
        ] {
            assert!(allowed(rule, command), "{command}");
        }
    }

    proptest! {
        /// The letter may be anywhere in the cluster.
        #[test]
        fn a_star_never_covers_a_cluster_with_a_dangerous_letter(
            (names, letters) in select(
                parse_rows(COMMANDS)
                    .filter(|options| !options.letters.is_empty())
                    .map(|options| (options.names, options.letters))
                    .collect::<Vec<_>>()
            ),
            before in "[a-zA-Z0-9]{0,4}",
            pick in any::<prop::sample::Index>(),
            behind in "[a-zA-Z0-9=./]{0,4}",
            first in any::<bool>(),
        ) {
            let letters: Vec<char> = letters.chars().collect();
            let word = format!("-{before}{}{behind}", letters[pick.index(letters.len())]);
            for name in names.iter() {
                let command = if first { format!("{name} {word} a b") } else { format!("{name} a {word} b") };
                prop_assert!(!allowed(name, &command), "{}", command);
            }
        }

        #[test]
        fn a_star_never_covers_a_dangerous_letter_after_a_git_subcommand(
            (name, letters) in select(GIT_LETTERS.to_vec()),
            before in "[a-zA-Z0-9]{0,4}",
            pick in any::<prop::sample::Index>(),
            behind in "[a-zA-Z0-9=./]{0,4}",
        ) {
            let letters: Vec<char> = letters.chars().collect();
            let command = format!("git {name} -{before}{}{behind} a", letters[pick.index(letters.len())]);
            prop_assert!(!allowed("git", &command), "{}", command);
            prop_assert!(!allowed(&format!("git {name}"), &command), "{}", command);
        }

        /// The option may be abbreviated, with its value in the same word or the next.
        #[test]
        fn a_star_never_covers_a_dangerous_long_option(
            (names, long) in select(
                parse_rows(COMMANDS)
                    .filter(|options| !options.long.0.is_empty())
                    .map(|options| (options.names, options.long))
                    .chain([(WordList("git"), GIT_LONG)])
                    .collect::<Vec<_>>()
            ),
            which in any::<prop::sample::Index>(),
            length in 1_usize..40,
            value in prop::option::of("[a-z./]{0,4}"),
        ) {
            let long: Vec<&str> = long.iter().collect();
            let long = long[which.index(long.len())];
            let short = &long[..length.min(long.len())];
            let value = value.map_or_else(String::new, |value| format!("={value}"));
            for name in names.iter() {
                let command = format!("{name} log --{short}{value} x");
                prop_assert!(!allowed(name, &command), "{}", command);
            }
        }
    }
}
