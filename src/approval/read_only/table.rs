//! The reviewed commands: for each, the options that are known to be harmless. Data and its parser; `read_only`
//! interprets it.
//!
//! To add a command, read its manual. Leave out every option that writes a file, runs a program, reads a configuration
//! file, connects to the network, or prints secrets. List only the others. Omitted on purpose:
//!
//! - compilers, package managers, and runtimes, even with `--version`: a repository chooses what `cargo`, `node`, or
//!   `python` is (`rust-toolchain.toml`, `.tool-versions`, `yarnPath`, the toolchain line of `go.mod`);
//! - `env`, `printenv`, `set`, `ps`, and `jq`: they print environment variables, which contain keys;
//! - `test` and `[`: bash evaluates the operand of `-v`;
//! - pagers and `man`: they run programs.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::approval::word_list::WordList;

/// Rows of `programs | operands | options;`.
///
/// - `git log` is a program with its subcommand. A program's options are those of all rows that name it.
/// - Operands: see [`OperandRule`]. `any-option` says that every option, listed or not, only changes what is shown, so a
///   file name that bash expands to an option is harmless. With `one-dash`, long options have one dash. `more` adds
///   options to earlier rows.
/// - A letter or a long option before `:` takes a value. Before `<`, the value is a file that is read. Before `?`, a
///   value may follow in the same word. Abbreviations do not match.
const TABLE: &str = "
ls | list any-option | -aAbBcCdfFgGhiI:klmnNopqQrRsStT:uUvw:xXZ1 --all --almost-all --author --block-size:
    --classify? --color? --directory --escape --file-type --format: --full-time --group-directories-first
    --hide: --human-readable --hyperlink? --ignore: --ignore-backups --indicator-style: --inode --kibibytes
    --literal --no-group --numeric-uid-gid --quote-name --quoting-style: --recursive --reverse --si --size
    --sort: --tabsize: --time: --time-style: --width: --zero;
cat | read any-option | -AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-nonprinting
    --show-tabs --squeeze-blank;
head, tail | read any-option | -c:fFn:qs:vz0123456789 --bytes: --follow? --lines: --pid: --quiet --retry
    --silent --sleep-interval: --verbose --zero-terminated;
tac, rev | read any-option |;
nl | read | -b:d:f:h:i:l:n:ps:v:w:;
wc | read | -clLmw --bytes --chars --lines --max-line-length --words;
md5sum, sha1sum, sha256sum, sha512sum, cksum, b2sum | read | -btz --binary --tag --text --zero;
od | read | -A:abcdfij:lN:oS:st:vw?x --address-radix: --format: --read-bytes: --skip-bytes:;
hexdump | read | -bCcdn:os:vx;
cut | read | -b:c:d:f:nsz --bytes: --characters: --complement --delimiter: --fields: --only-delimited
    --output-delimiter:;
paste | read | -d:sz;
fold | read | -bsw:;
expand, unexpand | read | -ait:;
column | read | -c:nN:o:s:tx --output-separator: --separator: --table;
comm | read | -123z --check-order --nocheck-order --output-delimiter: --total;
cmp | read | -bi:ln:s --bytes: --print-bytes --quiet --silent --verbose;
diff | compare | -abBcC:dEF:iI:L:nqstTuU:wyW:Z0123456789 --brief --color? --context? --ignore-all-space
    --ignore-blank-lines --ignore-case --ignore-matching-lines: --ignore-space-change --ignore-tab-expansion
    --ignore-trailing-space --label: --minimal --normal --report-identical-files --show-function-line:
    --side-by-side --strip-trailing-cr --suppress-common-lines --text --unified? --width:;
sort | read | -bcCdfghiMk:nrRst:uVz --check? --dictionary-order --field-separator: --general-numeric-sort
    --human-numeric-sort --ignore-case --ignore-leading-blanks --ignore-nonprinting --key: --month-sort
    --numeric-sort --reverse --sort: --stable --unique --version-sort --zero-terminated;
uniq | one-file | -cdDf:is:uw:z --all-repeated? --check-chars: --count --group? --ignore-case --repeated
    --skip-chars: --skip-fields: --unique --zero-terminated;
tr | text any-option | -cCdst --complement --delete --squeeze-repeats --truncate-set1;
grep, egrep, fgrep | grep | -A:abB:cC:e:Ef<FGhHiIlLm:noPqrsTUvwxyzZ0123456789 --after-context: --basic-regexp
    --before-context: --binary --binary-files: --byte-offset --color? --colour? --context: --count
    --exclude-dir: --exclude-from< --exclude: --extended-regexp --file< --files-with-matches
    --files-without-match --fixed-strings --ignore-case --include: --initial-tab --invert-match --label:
    --line-buffered --line-number --line-regexp --max-count: --no-filename --no-ignore-case --no-messages
    --null --null-data --only-matching --perl-regexp --quiet --recursive --regexp: --silent --text
    --with-filename --word-regexp;
rg | rg | -A:abB:cC:d:e:E:f<Fg:hHiIj:lm:M:nNoPpqr:sSt:T:uUvwx0. --after-context: --auto-hybrid-regex
    --before-context: --byte-offset --case-sensitive --color: --column --context: --context-separator:
    --count --count-matches --crlf --encoding: --engine: --file< --files --files-with-matches
    --files-without-match --fixed-strings --glob: --glob-case-insensitive --heading --hidden --iglob:
    --ignore-case --include-zero --invert-match --json --line-buffered --line-number --line-regexp
    --max-columns: --max-columns-preview --max-count: --max-depth: --max-filesize: --multiline
    --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs --no-line-number
    --no-messages --null --null-data --only-matching --passthru --path-separator: --pcre2 --pre-glob:
    --pretty --quiet --regexp: --replace: --smart-case --sort: --sortr: --stats --text --threads: --trim
    --type-list --type-not: --type: --unicode --unrestricted --vimgrep --with-filename --word-regexp;
find | find one-dash | -a -amin: -and -anewer< -atime: -cmin: -cnewer< -ctime: -d -daystart -depth -empty
    -executable -false -fstype: -gid: -group: -ignore_readdir_race -ilname: -iname: -inum: -ipath: -iregex:
    -iwholename: -links: -lname: -ls -maxdepth: -mindepth: -mmin: -mount -mtime: -name: -newer< -nogroup
    -noleaf -not -nouser -o -or -P -path: -perm: -print -print0 -printf: -prune -quit -readable -regex:
    -regextype: -samefile< -size: -true -type: -uid: -used: -user: -wholename: -writable -xdev -xtype:;
tree | list | -aACdDfFghiI:L:NnpP:qrsStuUv --dirsfirst --du --filesfirst --noreport --prune --sort:
    --charset: --matchdirs --ignore-case;
du | list | -0abcd:hkmsSt:x --all --apparent-size --block-size: --bytes --exclude: --human-readable
    --max-depth: --one-file-system --separate-dirs --si --summarize --threshold: --time? --total;
df | list any-option | -aBhHiklPTt:x: --all --human-readable --inodes --local --portability --print-type --si
    --total --type:;
stat | list any-option | -c:ft --file-system --format: --printf: --terse;
file | list | -bhiIkNpr --brief --mime --mime-encoding --mime-type --no-dereference --no-pad;
realpath, readlink | list any-option | -efmnqsvz --canonicalize --canonicalize-existing
    --canonicalize-missing --no-newline --no-symlinks --quiet --relative-base: --relative-to: --strip --zero;
basename, dirname | text any-option | -as:z --multiple --suffix: --zero;
pwd | none any-option | -LP;
echo | text any-option | -eEn;
printf | printf |;
true, false, : | text any-option |;
sleep, seq | text any-option | -f:s:w;
which | text any-option | -as;
type | text any-option | -afpPt;
command | lookup | -vV;
date | date | -d:I?r<Ru --date: --iso-8601? --reference< --rfc-3339: --rfc-email --universal --utc;
uname | none any-option | -aimnoprsv --all;
id, groups | text any-option | -gGnruz --group --groups --name --real --user;
whoami, arch, tty | none any-option |;
nproc | none any-option | --all --ignore:;
git status | revisions | -bsu?z --ahead-behind --branch --column? --find-renames? --ignore-submodules?
    --ignored? --long --no-ahead-behind --no-column --no-renames --null --porcelain? --renames --short
    --show-stash --untracked-files?;
git diff | revisions | -abB?C?D?G:I:l:M?pRsS:tuU:wWz0123456789;
git log, git show, git whatchanged, git rev-list | revisions |
    -abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789;
git reflog | verb-or-none=show | -abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789;
git stash | verb=list,show | -abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789;
git log, git show, git whatchanged, git rev-list, git reflog, git stash | more | --abbrev-commit --after:
    --all --all-match --ancestry-path? --author-date-order --author: --basic-regexp --before: --bisect
    --boundary --branches? --cherry --cherry-mark --cherry-pick --children --clear-decorations --committer:
    --count --date-order --date: --decorate? --decorate-refs: --decorate-refs-exclude: --dense --do-walk
    --encoding: --exclude: --extended-regexp --first-parent --fixed-strings --follow --format: --full-history
    --glob: --graph --grep: --invert-grep --left-only --left-right --log-size --max-age: --max-count:
    --max-parents: --merge --merges --min-age: --min-parents: --no-abbrev-commit --no-decorate
    --no-expand-tabs --no-graph --no-mailmap --no-max-parents --no-merges --no-min-parents --no-notes
    --no-walk? --not --notes? --oneline --parents --perl-regexp --pretty? --quiet --reflog
    --regexp-ignore-case --relative-date --remotes? --remove-empty --reverse --right-only
    --show-linear-break? --show-pulls --simplify-by-decoration --simplify-merges --since: --skip: --source
    --sparse --tags? --timestamp --topo-order --until: --use-mailmap --walk-reflogs;
git diff, git log, git show, git whatchanged, git rev-list, git reflog, git stash | more | --abbrev?
    --anchored: --base --binary --break-rewrites? --cached --cc --check --color-moved? --color-moved-ws:
    --color-words? --color? --combined-all-paths --compact-summary --cumulative --diff-algorithm:
    --diff-filter: --diff-merges: --dirstat-by-file? --dirstat? --dst-prefix: --exit-code
    --find-copies-harder --find-copies? --find-object: --find-renames? --full-index --function-context
    --histogram --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol --ignore-matching-lines:
    --ignore-space-at-eol --ignore-space-change --ignore-submodules? --indent-heuristic --inter-hunk-context:
    --irreversible-delete --ita-invisible-in-index --line-prefix: --merge-base --minimal --name-only
    --name-status --no-color --no-color-moved --no-diff-merges --no-ext-diff --no-indent-heuristic --no-patch
    --no-prefix --no-relative --no-rename-empty --no-renames --no-textconv --numstat --ours --patch
    --patch-with-raw --patch-with-stat --patience --pickaxe-all --pickaxe-regex --quiet --raw --relative?
    --rename-empty --shortstat --src-prefix: --staged --stat-count: --stat-graph-width: --stat-name-width:
    --stat-width: --stat? --summary --text --theirs --unified: --word-diff-regex: --word-diff?
    --ws-error-highlight:;
git shortlog | revisions | -cens --author: --committer --email --group: --numbered --since: --summary
    --until: --no-merges --all;
git branch | listing | -ailrv;
git tag | listing | -iln?;
git branch, git tag | more | --abbrev? --all --color? --column? --contains: --format: --ignore-case --list
    --merged: --no-abbrev --no-color --no-column --no-contains: --no-merged: --omit-empty --points-at:
    --remotes --show-current --sort: --verbose;
git remote | listing | -v --verbose;
git worktree | verb=list | -vz --porcelain --verbose;
git rev-parse | revisions | -q --abbrev-ref? --absolute-git-dir --all --branches? --git-common-dir --git-dir
    --is-bare-repository --is-inside-git-dir --is-inside-work-tree --is-shallow-repository --quiet --remotes?
    --short? --show-cdup --show-object-format? --show-prefix --show-superproject-working-tree --show-toplevel
    --symbolic --symbolic-full-name --tags? --verify;
git ls-files | revisions | -cdikmostuvx:z --abbrev? --cached --deduplicate --deleted --directory --eol
    --error-unmatch --exclude-standard --exclude: --full-name --ignored --killed --modified
    --no-empty-directory --others --stage --unmerged;
git ls-tree | revisions | -dlrtz --abbrev? --full-name --full-tree --long --name-only --name-status
    --object-only;
git blame, git annotate | revisions | -bC?cefL:lM?npstw --abbrev: --color-by-age --color-lines --date:
    --first-parent --ignore-rev: --line-porcelain --porcelain --root --score-debug --show-email --show-name
    --show-number --show-stats --since:;
git describe | revisions | --abbrev: --all --always --broken? --candidates: --contains --dirty? --exact-match
    --exclude: --first-parent --long --match: --tags;
git grep | revisions | -A:abB:cC:e:EFGhHiIlLm:noPpqrvwWz0123456789 --after-context: --all-match --and
    --basic-regexp --before-context: --break --cached --color? --column --context: --count --extended-regexp
    --files-with-matches --files-without-match --fixed-strings --full-name --function-context --heading
    --ignore-case --invert-match --line-number --max-count: --max-depth: --name-only --no-color --no-ext-grep
    --no-recursive --no-textconv --not --null --only-matching --or --perl-regexp --quiet --recursive
    --show-function --text --threads: --word-regexp;
git cat-file | revisions | -epst;
git merge-base | revisions | -a --all --fork-point --independent --is-ancestor --octopus;
git show-ref | revisions | -dqs --abbrev? --branches --dereference --hash? --head --heads --quiet --tags
    --verify;
git check-ignore | revisions | -nqv --no-index --non-matching --quiet --verbose;
git count-objects | listing | -Hv --human-readable --verbose;
cargo test, cargo build, cargo check, cargo clippy, cargo doc, cargo bench | project | -F:j:p:qrv --all
    --all-features --all-targets --bench: --benches --bin: --bins --color: --doc --example: --examples
    --exclude: --features: --frozen --jobs: --keep-going --lib --locked --message-format:
    --no-default-features --no-deps --no-fail-fast --no-run --offline --package: --profile: --quiet --release
    --test: --tests --verbose --workspace --document-private-items;
cargo fmt | project | -p:qv --all --check --package: --quiet --verbose;
go test, go build, go vet | project one-dash | -a -asan -asmdecl -assign -atomic -bench: -benchmem
    -benchtime: -bools -buildssa -buildvcs? -c -cgocall -composites -copylocks -count: -cover -covermode:
    -coverpkg: -cpu: -failfast -fullpath -httpresponse -json -list: -loopclosure -lostcancel -msan -n
    -nilfunc -p: -parallel: -printf -race -run: -shift -short -shuffle: -skip: -stdmethods -structtag -tags:
    -tests -timeout: -trimpath -unmarshal -unreachable -unsafeptr -unusedresult -v -work -x;
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

/// The meaning of the words that are not options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OperandRule {
    /// `list`: files to list.
    List,
    /// `read`: files to read.
    Read,
    /// `compare`: files to read, or folders whose files are read.
    Compare,
    /// `grep`: a pattern, unless `-e` or `-f` gave one; then files to read, or to search if `-r` is given.
    Grep,
    /// `rg`: a pattern, unless `-e` or `-f` gave one; then files and folders to search.
    Ripgrep,
    /// `find`: folders to list, then an expression.
    Find,
    /// `text`: text that names no file.
    Text,
    /// `lookup`: names to look up with `-v` or `-V`; without, the command would run.
    Lookup,
    /// `one-file`: a file to read; the command would write a second one.
    OneFile,
    /// `none`.
    #[default]
    Nothing,
    /// `date`: a format that begins with `+`: anything else would set the clock.
    DateFormat,
    /// `printf`: a format, then text.
    PrintFormat,
    /// `listing`: none: git would create or delete something by that name. With `-l` they are patterns.
    OnlyWithList,
    /// `verb-or-none=WORD,WORD`: none, or one of these words first.
    VerbOrNone,
    /// `verb=WORD,WORD`: one of these words first.
    Verb,
    /// `revisions`: revisions and paths of a git repository.
    Revisions,
    /// `project`: anything. The program runs the project's own code, so it never counts as reading; the row says which
    /// options a rule covers.
    Project,
}

impl OperandRule {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "list" => Self::List,
            "read" => Self::Read,
            "compare" => Self::Compare,
            "grep" => Self::Grep,
            "rg" => Self::Ripgrep,
            "find" => Self::Find,
            "text" => Self::Text,
            "lookup" => Self::Lookup,
            "one-file" => Self::OneFile,
            "none" => Self::Nothing,
            "date" => Self::DateFormat,
            "printf" => Self::PrintFormat,
            "listing" => Self::OnlyWithList,
            "verb-or-none" => Self::VerbOrNone,
            "verb" => Self::Verb,
            "revisions" => Self::Revisions,
            "project" => Self::Project,
            _ => return None,
        })
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
                    _ => command.operands = OperandRule::parse(word).unwrap_or(command.operands),
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
