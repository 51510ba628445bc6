//! The reviewed commands: for each, the options that are known to be harmless. Data and its parser; `read_only`
//! interprets it.
//!
//! To add a command, read its manual. Leave out every option that writes a file, runs a program, reads a configuration
//! file, connects to the network, or prints secrets. List only the others. Omitted on purpose:
//!
//! - compilers, package managers, and runtimes, even with `--version`: a repository chooses what `cargo`, `node`, or
//!   `python` is (`rust-toolchain.toml`, `.tool-versions`, `yarnPath`, the toolchain line of `go.mod`);
//! - `env`, `printenv`, `set`, `ps`, and `jq`: they print environment variables, which contain keys;
//! - `sed`, `test`, and `[`: a script of `sed` may run programs, and bash evaluates the operand of `-v`. Their harmless
//!   forms are in `review_plain_form`;
//! - `git config`: it prints keys;
//! - pagers and `man`: they run programs.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::base::word_list::WordList;
use crate::domain::words::word_enum;

/// Rows of `programs | operands | options;`.
///
/// - `git log` is a program with its subcommand. A program's options are those of all rows that name it.
/// - Operands: see [`OperandRule`]. `any-option` says that every option, listed or not, only changes what is shown, so a
///   file name that bash expands to an option is harmless. With `one-dash`, long options have one dash. `more` adds
///   options to earlier rows.
/// - A letter or a long option before `:` takes a value. Before `<`, the value is a file that is read. Before `?`, a
///   value may follow in the same word. Abbreviations do not match.
const TABLE: &str = "
ls | list any-option | -aAbBcCdfFgGhiI:klmnNopqQrRsStT:uUvw:xXZ1 --all --almost-all --color? --directory
    --full-time --group-directories-first --human-readable --recursive --reverse --size --sort:
    --time-style:;
cat | read any-option | -AbeEnstTuv --number --show-all;
head, tail | read any-option | -c:fFn:qs:vz0123456789 --bytes: --lines: --quiet --verbose;
nl | read | -b:d:f:h:i:l:n:ps:v:w:;
wc | read | -clLmw --bytes --chars --lines --max-line-length --words;
md5sum, sha1sum, sha256sum, sha512sum | read | -btz;
cut | read | -b:c:d:f:nsz --characters: --complement --delimiter: --fields: --only-delimited
    --output-delimiter:;
diff | compare | -abBcC:dEF:iI:L:nqstTuU:wyW:Z0123456789 --brief --color? --ignore-all-space
    --ignore-blank-lines --ignore-case --ignore-space-change --side-by-side --strip-trailing-cr --unified?
    --width:;
sort | read | -bcCdfghiMk:nrRst:uVz --field-separator: --human-numeric-sort --ignore-case --key:
    --numeric-sort --reverse --stable --unique --version-sort;
uniq | one-file | -cdDf:is:uw:z --count --repeated --unique;
tr | text any-option | -cCdst --complement --delete --squeeze-repeats;
grep, egrep, fgrep | grep | -A:abB:cC:e:Ef<FGhHiIlLm:noPqrsTUvwxyzZ0123456789 --after-context:
    --before-context: --color? --context: --count --exclude-dir: --exclude: --extended-regexp --file<
    --files-with-matches --files-without-match --fixed-strings --ignore-case --include: --invert-match
    --line-number --line-regexp --max-count: --no-filename --no-messages --only-matching --perl-regexp
    --quiet --recursive --regexp: --text --with-filename --word-regexp;
rg | rg | -A:abB:cC:d:e:E:f<Fg:hHiIj:lm:M:nNoPpqr:sSt:T:uUvwx0. --after-context: --before-context:
    --case-sensitive --color: --column --context: --count --count-matches --file< --files
    --files-with-matches --files-without-match --fixed-strings --glob: --heading --hidden --iglob:
    --ignore-case --invert-match --json --line-number --line-regexp --max-columns: --max-count: --max-depth:
    --multiline --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs
    --no-line-number --no-messages --only-matching --passthru --pcre2 --pre-glob: --pretty --quiet --regexp:
    --replace: --smart-case --sort: --sortr: --stats --text --type-list --type-not: --type: --unrestricted
    --vimgrep --with-filename --word-regexp;
find | find one-dash | -a -and -ctime: -depth -empty -executable -iname: -ipath: -iregex: -iwholename: -ls
    -maxdepth: -mindepth: -mmin: -mount -mtime: -name: -newer< -not -o -or -path: -perm: -print -print0
    -printf: -prune -quit -readable -regex: -regextype: -samefile< -size: -true -type: -user: -wholename:
    -writable -xdev;
tree | list | -aACdDfFghiI:L:NnpP:qrsStuUv --dirsfirst --du --noreport --prune --sort:;
du | list | -0abcd:hkmsSt:x --all --apparent-size --bytes --exclude: --human-readable --max-depth:
    --summarize --threshold: --total;
df | list any-option | -aBhHiklPTt:x: --human-readable;
stat | list any-option | -c:ft --format: --printf:;
file | list | -bhiIkNr --brief --mime --mime-encoding --mime-type;
realpath, readlink | list any-option | -efmnqsvz --canonicalize --relative-base: --relative-to:;
basename, dirname | text any-option | -as:z --suffix:;
pwd | none any-option | -LP;
echo | text any-option | -eEn;
printf | printf |;
true, false, : | text any-option |;
sleep, seq | text any-option | -f:s:w;
which | text any-option | -as;
type | text any-option | -afpPt;
command | lookup | -vV;
date | date | -d:I?r<Ru --date: --iso-8601? --reference< --rfc-3339: --utc;
uname | none any-option | -aimnoprsv --all;
id | text any-option | -gGnruz;
whoami, arch, tty | none any-option |;
nproc | none any-option | --all;
git status | revisions | -bsu?z --branch --ignore-submodules? --ignored? --long --no-renames --porcelain?
    --renames --short --show-stash --untracked-files?;
git diff | revisions | -abB?C?D?G:I:l:M?pRsS:tuU:wWz0123456789;
git log, git show, git whatchanged, git rev-list | revisions |
    -abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789;
git reflog | verb-or-none=show | -abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789;
git stash | verb=list,show | -abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789;
git log, git show, git whatchanged, git rev-list, git reflog, git stash | more | --abbrev-commit --after:
    --all --all-match --ancestry-path? --author: --before: --branches? --cherry-pick --committer: --count
    --date-order --date: --decorate? --extended-regexp --first-parent --fixed-strings --follow --format:
    --full-history --graph --grep: --invert-grep --left-only --left-right --max-count: --merges --no-decorate
    --no-merges --no-walk? --not --oneline --parents --perl-regexp --pretty? --reflog --regexp-ignore-case
    --remotes? --reverse --right-only --simplify-by-decoration --since: --skip: --source --tags? --topo-order
    --until: --walk-reflogs;
git diff, git log, git show, git whatchanged, git rev-list, git reflog, git stash | more | --abbrev? --binary
    --cached --cc --check --color-moved? --color-words? --color? --compact-summary --diff-algorithm:
    --diff-filter: --diff-merges: --dirstat? --exit-code --find-copies-harder --find-copies? --find-renames?
    --full-index --function-context --histogram --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol
    --ignore-space-at-eol --ignore-space-change --ignore-submodules? --inter-hunk-context: --merge-base
    --minimal --name-only --name-status --no-color --no-ext-diff --no-patch --no-prefix --no-renames
    --no-textconv --numstat --patch --patch-with-raw --patch-with-stat --patience --pickaxe-all
    --pickaxe-regex --quiet --raw --relative? --shortstat --staged --stat-width: --stat? --summary --text
    --unified: --word-diff-regex: --word-diff?;
git shortlog | revisions | -cens --all --author: --email --no-merges --numbered --since: --summary --until:;
git branch | listing | -ailrv;
git tag | listing | -iln?;
git branch, git tag | more | --all --color? --contains: --format: --ignore-case --list --merged: --no-color
    --no-contains: --no-merged: --points-at: --remotes --show-current --sort: --verbose;
git remote | listing | -v --verbose;
git worktree | verb=list | -vz --porcelain;
git rev-parse | revisions | -q --abbrev-ref? --absolute-git-dir --git-common-dir --git-dir
    --is-bare-repository --is-inside-git-dir --is-inside-work-tree --is-shallow-repository --quiet --short?
    --show-cdup --show-prefix --show-superproject-working-tree --show-toplevel --symbolic-full-name --verify;
git ls-files | revisions | -cdikmostuvx:z --cached --deleted --error-unmatch --exclude-standard --exclude:
    --full-name --ignored --modified --others --stage --unmerged;
git ls-tree | revisions | -dlrtz --full-name --full-tree --long --name-only --name-status;
git blame, git annotate | revisions | -bC?cefL:lM?npstw --date: --line-porcelain --porcelain --show-email
    --since:;
git describe | revisions | --abbrev: --all --always --contains --dirty? --exact-match --long --match: --tags;
git grep | revisions | -A:abB:cC:e:EFGhHiIlLm:noPpqrvwWz0123456789 --after-context: --and --before-context:
    --break --cached --color? --column --context: --count --extended-regexp --files-with-matches
    --files-without-match --fixed-strings --function-context --heading --ignore-case --invert-match
    --line-number --max-count: --name-only --no-color --not --only-matching --or --perl-regexp --quiet
    --show-function --text --word-regexp;
git cat-file | revisions | -epst;
git merge-base | revisions | -a --all --fork-point --is-ancestor --octopus;
git check-ignore | revisions | -nqv --no-index;
git show-ref | revisions | -dqs --heads --tags --verify;
git count-objects | listing | -Hv;
cargo test, cargo build, cargo check, cargo clippy, cargo doc, cargo bench | rule | -F:j:p:qrv --all
    --all-features --all-targets --bench: --benches --bin: --bins --color: --doc --example: --examples
    --exclude: --features: --frozen --jobs: --keep-going --lib --locked --message-format:
    --no-default-features --no-deps --no-fail-fast --no-run --offline --package: --profile: --quiet --release
    --test: --tests --verbose --workspace --document-private-items;
cargo fmt | rule | -p:qv --all --check --package: --quiet --verbose;
go test, go build, go vet | rule one-dash | -a -asan -asmdecl -assign -atomic -bench: -benchmem -benchtime:
    -bools -buildssa -buildvcs? -c -cgocall -composites -copylocks -count: -cover -covermode: -coverpkg:
    -cpu: -failfast -fullpath -httpresponse -json -list: -loopclosure -lostcancel -msan -n -nilfunc -p:
    -parallel: -printf -race -run: -shift -short -shuffle: -skip: -stdmethods -structtag -tags: -tests
    -timeout: -trimpath -unmarshal -unreachable -unsafeptr -unusedresult -v -work -x;
b2sum, cksum, cmp, column, comm, expand, fold, groups, hexdump, od, paste, rev, tac, unexpand | rule |;
";

/// One reviewed command.
#[derive(Debug, Default)]
pub(super) struct ReadOnlyCommand {
    /// The meaning of the words that are not options.
    pub(super) operands: OperandRule,
    /// The words that may come first, for [`OperandRule::Verb`] and [`OperandRule::VerbOrNone`].
    pub(super) verbs: Vec<&'static str>,
    pub(super) has_any_option: bool,
    pub(super) has_one_dash: bool,
    /// Letters with their marks.
    pub(super) short: String,
    /// Long options with their marks, without dashes.
    pub(super) long: Vec<&'static str>,
}

word_enum! {
    /// The meaning of the words that are not options.
    #[derive(Default)]
    pub(super) enum OperandRule {
        /// Files to list.
        List = "list",
        /// Files to read.
        Read = "read",
        /// Files to read, or folders whose files are read.
        Compare = "compare",
        /// A pattern, unless `-e` or `-f` gave one; then files to read, or to search if `-r` is given.
        Grep = "grep",
        /// A pattern, unless `-e` or `-f` gave one; then files and folders to search.
        Ripgrep = "rg",
        /// Folders to list, then an expression.
        Find = "find",
        /// Text that names no file.
        Text = "text",
        /// Names to look up with `-v` or `-V`; without, the command would run.
        Lookup = "lookup",
        /// A file to read; the command would write a second one.
        OneFile = "one-file",
        /// None.
        #[default]
        Nothing = "none",
        /// A format that begins with `+`: anything else would set the clock.
        DateFormat = "date",
        /// A format, then text.
        PrintFormat = "printf",
        /// None: git would create or delete something by that name. With `-l` they are patterns.
        OnlyWithList = "listing",
        /// `verb-or-none=WORD,WORD`: none, or one of these words first.
        VerbOrNone = "verb-or-none",
        /// `verb=WORD,WORD`: one of these words first.
        Verb = "verb",
        /// Revisions and paths of a git repository.
        Revisions = "revisions",
        /// Anything. It never counts as reading, mostly because it runs the project's own code. The row says which
        /// options a rule covers.
        RuleOnly = "rule",
    }
}

static COMMANDS: LazyLock<HashMap<&str, ReadOnlyCommand>> = LazyLock::new(|| {
    let mut commands: HashMap<&str, ReadOnlyCommand> = HashMap::new();
    for row in TABLE.split(';') {
        let mut columns = row.split('|').map(str::trim);
        let (Some(names), Some(operands), Some(options)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        for name in names.split(", ") {
            let command = commands.entry(name).or_default();
            for word in operands.split(' ') {
                let (word, verbs) = word.split_once('=').unwrap_or((word, ""));
                command.verbs.extend(verbs.split_terminator(','));
                match word {
                    "any-option" => command.has_any_option = true,
                    "one-dash" => command.has_one_dash = true,
                    // `more` has no meaning of its own.
                    _ => command.operands = OperandRule::from_name(word).unwrap_or(command.operands),
                }
            }
            for option in options.split_whitespace() {
                let bare = option.trim_start_matches('-');
                if command.has_one_dash || option.starts_with("--") {
                    command.long.push(bare);
                } else {
                    command.short.push_str(bare);
                }
            }
        }
    }
    commands
});

/// Returns the entry of a program or of its subcommand, and whether it is that of the subcommand.
pub(super) fn find_command(
    program: &str,
    subcommand: Option<&str>,
) -> Option<(&'static ReadOnlyCommand, bool)> {
    // A program may have a blank in its name: `'git log'`.
    if program.contains(' ') {
        return None;
    }
    let joined = subcommand.and_then(|subcommand| COMMANDS.get(format!("{program} {subcommand}").as_str()));
    joined
        .map(|command| (command, true))
        .or_else(|| Some((COMMANDS.get(program)?, false)))
}

/// Options before git's subcommand that do not change what runs.
pub(super) const GIT_GLOBAL: WordList = WordList("--no-pager -P --no-optional-locks --literal-pathspecs");

/// Programs whose second word decides what they do.
pub(super) const WITH_SUBCOMMANDS: WordList = WordList("git cargo go npm pnpm yarn gh docker podman kubectl");

/// Options after the `--` of `cargo test` and similar that libtest, clippy, and rustfmt accept, and that name no file.
pub(super) const BEHIND_DASHES: WordList = WordList(
    "--nocapture --no-capture --ignored --include-ignored --exact --list --show-output --quiet -q --test-threads \
    --skip --check -D -W -A",
);

#[cfg(test)]
pub(super) fn lists_option(name: &str) -> bool {
    let mut long = COMMANDS.values().flat_map(|command| &command.long);
    long.any(|entry| entry.trim_end_matches([':', '<', '?']) == name)
}
