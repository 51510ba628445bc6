//! The reviewed commands: for each, the options that are known to be harmless. Data only; `read_only` interprets it.
//!
//! To add a command, read its manual. Leave out every option that writes a file, runs a program, reads a configuration
//! file, connects to the network, or prints secrets. List only the others. Omitted on purpose:
//!
//! - compilers, package managers, and runtimes, even with `--version`: a repository chooses what `cargo`, `node`, or
//!   `python` is (`rust-toolchain.toml`, `.tool-versions`, `yarnPath`, the toolchain line of `go.mod`);
//! - `env`, `printenv`, `set`, `ps`, and `jq`: they print environment variables, which contain keys;
//! - `test` and `[`: bash evaluates the operand of `-v`;
//! - pagers and `man`: they run programs.

/// One reviewed command.
#[derive(Debug)]
pub(super) struct ReadOnlyCommand {
    /// The programs that share the entry; `git log` means a program with its subcommand.
    pub(super) names: &'static [&'static str],
    /// Short options. A letter before `:` takes a value; before `<`, the value is a file that is read; before `?`, a
    /// value may follow in the same word.
    pub(super) short: &'static str,
    /// Lists of long options without dashes, separated by spaces, with the same marks. Abbreviations do not match.
    pub(super) long: &'static [&'static str],
    /// The meaning of the words that are not options.
    pub(super) operands: OperandRule,
    /// The syntax of its options.
    pub(super) style: OptionStyle,
    /// Whether every option, listed or not, only changes what is shown. If so, a file name that bash expands to an
    /// option is harmless.
    pub(super) harmless: bool,
    /// Whether it only reads. If not, the entry says which options a prefix rule covers.
    pub(super) reads: bool,
}

/// The syntax of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionStyle {
    /// `-l`, `-la`, `--all`.
    Getopt,
    /// `-run X`, `--run=X`.
    OneDash,
    /// The expression of `find`.
    Find,
}

/// The meaning of the words that are not options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandRule {
    /// Files to list.
    List,
    /// Files to read.
    Read,
    /// Files to read, or folders whose files are read.
    Compare,
    /// A pattern, unless `-e` or `-f` gave one; then files to read, or to search if `-r` is given.
    Grep,
    /// A pattern, unless `-e` or `-f` gave one; then files and folders to search.
    Ripgrep,
    /// Text that names no file.
    Text,
    /// Files to read, at most this many: the command would write one more.
    AtMost(usize),
    /// A format that begins with `+`: anything else would set the clock.
    DateFormat,
    /// A format, then text.
    PrintFormat,
    /// None: git would create or delete something by that name. With `-l` they are patterns.
    OnlyWithList,
    /// None, or one of these words first.
    Verbs(&'static [&'static str]),
    /// One of these words first.
    NeedsVerb(&'static [&'static str]),
    /// Revisions and paths of a git repository.
    Revisions,
    /// Anything: the program runs the project's own code.
    Any,
}

const GETOPT: ReadOnlyCommand = ReadOnlyCommand {
    names: &[],
    short: "",
    long: &[],
    operands: OperandRule::Read,
    style: OptionStyle::Getopt,
    harmless: false,
    reads: true,
};

const LS: &str = "all almost-all author block-size: classify? color? directory escape file-type format: full-time \
    group-directories-first hide: human-readable hyperlink? ignore: ignore-backups indicator-style: \
    inode kibibytes literal no-group numeric-uid-gid quote-name quoting-style: recursive reverse si \
    size sort: tabsize: time: time-style: width: zero";

const GREP: &str = "after-context: basic-regexp before-context: binary binary-files: byte-offset color? colour? \
    context: count exclude-dir: exclude-from< exclude: extended-regexp file< files-with-matches \
    files-without-match fixed-strings ignore-case include: initial-tab invert-match label: \
    line-buffered line-number line-regexp max-count: no-filename no-ignore-case no-messages null \
    null-data only-matching perl-regexp quiet recursive regexp: silent text with-filename \
    word-regexp";

const RG: &str = "after-context: auto-hybrid-regex before-context: byte-offset case-sensitive color: column \
    context: context-separator: count count-matches crlf encoding: engine: file< files \
    files-with-matches files-without-match fixed-strings glob: glob-case-insensitive heading hidden \
    iglob: ignore-case include-zero invert-match json line-buffered line-number line-regexp \
    max-columns: max-columns-preview max-count: max-depth: max-filesize: multiline multiline-dotall \
    no-config no-filename no-heading no-ignore no-ignore-vcs no-line-number no-messages null \
    null-data only-matching passthru path-separator: pcre2 pre-glob: pretty quiet regexp: replace: \
    smart-case sort: sortr: stats text threads: trim type-list type-not: type: unicode unrestricted \
    vimgrep with-filename word-regexp";

/// Options of `git log`, `git show`, and other commands that walk through commits.
const GIT_LOG: &str = "abbrev-commit after: all all-match ancestry-path? author-date-order author: basic-regexp before: \
    bisect boundary branches? cherry cherry-mark cherry-pick children clear-decorations committer: \
    count date-order date: decorate? decorate-refs: decorate-refs-exclude: dense do-walk encoding: \
    exclude: extended-regexp first-parent fixed-strings follow format: full-history glob: graph \
    grep: invert-grep left-only left-right log-size max-age: max-count: max-parents: merge merges \
    min-age: min-parents: no-abbrev-commit no-decorate no-expand-tabs no-graph no-mailmap \
    no-max-parents no-merges no-min-parents no-notes no-walk? not notes? oneline parents perl-regexp \
    pretty? quiet reflog regexp-ignore-case relative-date remotes? remove-empty reverse right-only \
    show-linear-break? show-pulls simplify-by-decoration simplify-merges since: skip: source sparse \
    tags? timestamp topo-order until: use-mailmap walk-reflogs";

/// Options of `git diff` and other commands that show changes.
const GIT_DIFF: &str = "abbrev? anchored: base binary break-rewrites? cached cc check color-moved? color-moved-ws: \
    color-words? color? combined-all-paths compact-summary cumulative diff-algorithm: diff-filter: \
    diff-merges: dirstat-by-file? dirstat? dst-prefix: exit-code find-copies-harder find-copies? \
    find-object: find-renames? full-index function-context histogram ignore-all-space \
    ignore-blank-lines ignore-cr-at-eol ignore-matching-lines: ignore-space-at-eol \
    ignore-space-change ignore-submodules? indent-heuristic inter-hunk-context: irreversible-delete \
    ita-invisible-in-index line-prefix: merge-base minimal name-only name-status no-color \
    no-color-moved no-diff-merges no-ext-diff no-indent-heuristic no-patch no-prefix no-relative \
    no-rename-empty no-renames no-textconv numstat ours patch patch-with-raw patch-with-stat \
    patience pickaxe-all pickaxe-regex quiet raw relative? rename-empty shortstat src-prefix: staged \
    stat-count: stat-graph-width: stat-name-width: stat-width: stat? summary text theirs unified: \
    word-diff-regex: word-diff? ws-error-highlight:";

const DIFF_LETTERS: &str = "abB?C?D?G:I:l:M?pRsS:tuU:wWz0123456789";
const LOG_LETTERS: &str = "abB?cC?D?EFgG:iI:l:L:mM?n:pPqrRsS:tuU:wWz0123456789";

const GIT_REFS: &str = "abbrev? all color? column? contains: format: ignore-case list merged: no-abbrev no-color \
    no-column no-contains: no-merged: omit-empty points-at: remotes show-current sort: verbose";

const CARGO: &str = "all all-features all-targets bench: benches bin: bins color: doc example: examples exclude: \
    features: frozen jobs: keep-going lib locked message-format: no-default-features no-deps \
    no-fail-fast no-run offline package: profile: quiet release test: tests verbose workspace \
    document-private-items";

const GO: &str = "a asan asmdecl assign atomic bench: benchmem benchtime: bools buildssa buildvcs? c cgocall \
    composites copylocks count: cover covermode: coverpkg: cpu: failfast fullpath httpresponse json \
    list: loopclosure lostcancel msan n nilfunc p: parallel: printf race run: shift short shuffle: \
    skip: stdmethods structtag tags: tests timeout: trimpath unmarshal unreachable unsafeptr \
    unusedresult v work x";

/// Actions and tests of `find` that only look.
const FIND: &str = "a amin: and anewer< atime: cmin: cnewer< ctime: d daystart depth empty executable false fstype: \
    gid: group: ignore_readdir_race ilname: iname: inum: ipath: iregex: iwholename: links: lname: ls \
    maxdepth: mindepth: mmin: mount mtime: name: newer< nogroup noleaf not nouser o or P path: perm: \
    print print0 printf: prune quit readable regex: regextype: samefile< size: true type: uid: used: \
    user: wholename: writable xdev xtype:";

/// Options before git's subcommand that do not change what runs.
pub(super) const GIT_GLOBAL: &[&str] = &["--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"];

/// Programs whose second word decides what they do.
pub(super) const WITH_SUBCOMMANDS: &[&str] = &[
    "git", "cargo", "go", "npm", "pnpm", "yarn", "gh", "docker", "podman", "kubectl",
];

/// All reviewed commands.
pub(super) const COMMANDS: &[ReadOnlyCommand] = &[
    ReadOnlyCommand {
        names: &["ls"],
        short: "aAbBcCdfFgGhiI:klmnNopqQrRsStT:uUvw:xXZ1",
        long: &[LS],
        operands: OperandRule::List,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["cat"],
        short: "AbeEnstTuv",
        long: &["number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank"],
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["head", "tail"],
        short: "c:fFn:qs:vz0123456789",
        long: &["bytes: follow? lines: pid: quiet retry silent sleep-interval: verbose zero-terminated"],
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["tac", "rev"],
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["nl"],
        short: "b:d:f:h:i:l:n:ps:v:w:",
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["wc"],
        short: "clLmw",
        long: &["bytes chars lines max-line-length words"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum"],
        short: "btz",
        long: &["binary tag text zero"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["od"],
        short: "A:abcdfij:lN:oS:st:vw?x",
        long: &["address-radix: format: read-bytes: skip-bytes:"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["hexdump"],
        short: "bCcdn:os:vx",
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["cut"],
        short: "b:c:d:f:nsz",
        long: &["bytes: characters: complement delimiter: fields: only-delimited output-delimiter:"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["paste"],
        short: "d:sz",
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["fold"],
        short: "bsw:",
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["expand", "unexpand"],
        short: "ait:",
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["column"],
        short: "c:nN:o:s:tx",
        long: &["output-separator: separator: table"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["comm"],
        short: "123z",
        long: &["check-order nocheck-order output-delimiter: total"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["cmp"],
        short: "bi:ln:s",
        long: &["bytes: print-bytes quiet silent verbose"],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["diff"],
        short: "abBcC:dEF:iI:L:nqstTuU:wyW:Z0123456789",
        long: &[
            "brief color? context? ignore-all-space ignore-blank-lines ignore-case \
            ignore-matching-lines: ignore-space-change ignore-tab-expansion ignore-trailing-space \
            label: minimal normal report-identical-files show-function-line: side-by-side \
            strip-trailing-cr suppress-common-lines text unified? width:",
        ],
        operands: OperandRule::Compare,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["sort"],
        short: "bcCdfghiMk:nrRst:uVz",
        long: &[
            "check? dictionary-order field-separator: general-numeric-sort human-numeric-sort \
            ignore-case ignore-leading-blanks ignore-nonprinting key: month-sort numeric-sort \
            reverse sort: stable unique version-sort zero-terminated",
        ],
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["uniq"],
        short: "cdDf:is:uw:z",
        long: &[
            "all-repeated? check-chars: count group? ignore-case repeated skip-chars: skip-fields: \
            unique zero-terminated",
        ],
        operands: OperandRule::AtMost(1),
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["tr"],
        short: "cCdst",
        long: &["complement delete squeeze-repeats truncate-set1"],
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["grep", "egrep", "fgrep"],
        short: "A:abB:cC:e:Ef<FGhHiIlLm:noPqrsTUvwxyzZ0123456789",
        long: &[GREP],
        operands: OperandRule::Grep,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["rg"],
        short: "A:abB:cC:d:e:E:f<Fg:hHiIj:lm:M:nNoPpqr:sSt:T:uUvwx0.",
        long: &[RG],
        operands: OperandRule::Ripgrep,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["find"],
        long: &[FIND],
        operands: OperandRule::List,
        style: OptionStyle::Find,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["tree"],
        short: "aACdDfFghiI:L:NnpP:qrsStuUv",
        long: &["dirsfirst du filesfirst noreport prune sort: charset: matchdirs ignore-case"],
        operands: OperandRule::List,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["du"],
        short: "0abcd:hkmsSt:x",
        long: &[
            "all apparent-size block-size: bytes exclude: human-readable max-depth: one-file-system \
            separate-dirs si summarize threshold: time? total",
        ],
        operands: OperandRule::List,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["df"],
        short: "aBhHiklPTt:x:",
        long: &["all human-readable inodes local portability print-type si total type:"],
        operands: OperandRule::List,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["stat"],
        short: "c:ft",
        long: &["file-system format: printf: terse"],
        operands: OperandRule::List,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["file"],
        short: "bhiIkNpr",
        long: &["brief mime mime-encoding mime-type no-dereference no-pad"],
        operands: OperandRule::List,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["realpath", "readlink"],
        short: "efmnqsvz",
        long: &[
            "canonicalize canonicalize-existing canonicalize-missing no-newline no-symlinks quiet \
            relative-base: relative-to: strip zero",
        ],
        operands: OperandRule::List,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["basename", "dirname"],
        short: "as:z",
        long: &["multiple suffix: zero"],
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["pwd"],
        short: "LP",
        operands: OperandRule::AtMost(0),
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["echo"],
        short: "eEn",
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["printf"],
        operands: OperandRule::PrintFormat,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["true", "false", ":"],
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["sleep", "seq"],
        short: "f:s:w",
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["which"],
        short: "as",
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["type"],
        short: "afpPt",
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["command"],
        short: "vV",
        operands: OperandRule::Text,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["date"],
        short: "d:I?r<Ru",
        long: &["date: iso-8601? reference< rfc-3339: rfc-email universal utc"],
        operands: OperandRule::DateFormat,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["uname"],
        short: "aimnoprsv",
        long: &["all"],
        operands: OperandRule::AtMost(0),
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["id", "groups"],
        short: "gGnruz",
        long: &["group groups name real user"],
        operands: OperandRule::Text,
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["whoami", "arch", "tty"],
        operands: OperandRule::AtMost(0),
        harmless: true,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["nproc"],
        long: &["all ignore:"],
        operands: OperandRule::AtMost(0),
        harmless: true,
        ..GETOPT
    },
    // ---- git ----
    ReadOnlyCommand {
        names: &["git status"],
        short: "bsu?z",
        long: &[
            "ahead-behind branch column? find-renames? ignore-submodules? ignored? long \
            no-ahead-behind no-column no-renames null porcelain? renames short show-stash \
            untracked-files?",
        ],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git diff"],
        short: DIFF_LETTERS,
        long: &[GIT_DIFF],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git log", "git show", "git whatchanged", "git rev-list"],
        short: LOG_LETTERS,
        long: &[GIT_LOG, GIT_DIFF],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git reflog"],
        short: LOG_LETTERS,
        long: &[GIT_LOG, GIT_DIFF],
        operands: OperandRule::Verbs(&["show"]),
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git stash"],
        short: LOG_LETTERS,
        long: &[GIT_LOG, GIT_DIFF],
        operands: OperandRule::NeedsVerb(&["list", "show"]),
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git shortlog"],
        short: "cens",
        long: &["author: committer email group: numbered since: summary until: no-merges all"],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git branch"],
        short: "ailrv",
        long: &[GIT_REFS],
        operands: OperandRule::OnlyWithList,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git tag"],
        short: "iln?",
        long: &[GIT_REFS],
        operands: OperandRule::OnlyWithList,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git remote"],
        short: "v",
        long: &["verbose"],
        operands: OperandRule::OnlyWithList,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git worktree"],
        short: "vz",
        long: &["porcelain verbose"],
        operands: OperandRule::NeedsVerb(&["list"]),
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git rev-parse"],
        short: "q",
        long: &[
            "abbrev-ref? absolute-git-dir all branches? git-common-dir git-dir is-bare-repository \
            is-inside-git-dir is-inside-work-tree is-shallow-repository quiet remotes? short? \
            show-cdup show-object-format? show-prefix show-superproject-working-tree show-toplevel \
            symbolic symbolic-full-name tags? verify",
        ],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git ls-files"],
        short: "cdikmostuvx:z",
        long: &[
            "abbrev? cached deduplicate deleted directory eol error-unmatch exclude-standard exclude: \
            full-name ignored killed modified no-empty-directory others stage unmerged",
        ],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git ls-tree"],
        short: "dlrtz",
        long: &["abbrev? full-name full-tree long name-only name-status object-only"],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git blame", "git annotate"],
        short: "bC?cefL:lM?npstw",
        long: &[
            "abbrev: color-by-age color-lines date: first-parent ignore-rev: line-porcelain porcelain \
            root score-debug show-email show-name show-number show-stats since:",
        ],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git describe"],
        long: &[
            "abbrev: all always broken? candidates: contains dirty? exact-match exclude: first-parent \
            long match: tags",
        ],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git grep"],
        short: "A:abB:cC:e:EFGhHiIlLm:noPpqrvwWz0123456789",
        long: &[
            "after-context: all-match and basic-regexp before-context: break cached color? column \
            context: count extended-regexp files-with-matches files-without-match fixed-strings \
            full-name function-context heading ignore-case invert-match line-number max-count: \
            max-depth: name-only no-color no-ext-grep no-recursive no-textconv not null \
            only-matching or perl-regexp quiet recursive show-function text threads: word-regexp",
        ],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git cat-file"],
        short: "epst",
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git merge-base"],
        short: "a",
        long: &["all fork-point independent is-ancestor octopus"],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git show-ref"],
        short: "dqs",
        long: &["abbrev? branches dereference hash? head heads quiet tags verify"],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git check-ignore"],
        short: "nqv",
        long: &["no-index non-matching quiet verbose"],
        operands: OperandRule::Revisions,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["git count-objects"],
        short: "Hv",
        long: &["human-readable verbose"],
        operands: OperandRule::OnlyWithList,
        ..GETOPT
    },
    // ---- These run the project's code, so they never count as reading; a prefix rule may cover them. ----
    ReadOnlyCommand {
        names: &[
            "cargo test",
            "cargo build",
            "cargo check",
            "cargo clippy",
            "cargo doc",
            "cargo bench",
        ],
        short: "F:j:p:qrv",
        long: &[CARGO],
        operands: OperandRule::Any,
        reads: false,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["cargo fmt"],
        short: "p:qv",
        long: &["all check package: quiet verbose"],
        operands: OperandRule::Any,
        reads: false,
        ..GETOPT
    },
    ReadOnlyCommand {
        names: &["go test", "go build", "go vet"],
        long: &[GO],
        operands: OperandRule::Any,
        style: OptionStyle::OneDash,
        reads: false,
        ..GETOPT
    },
];

/// Options after the `--` of `cargo test` and similar that libtest, clippy, and rustfmt accept, and that name no file.
pub(super) const BEHIND_DASHES: &[&str] = &[
    "--nocapture",
    "--no-capture",
    "--ignored",
    "--include-ignored",
    "--exact",
    "--list",
    "--show-output",
    "--quiet",
    "-q",
    "--test-threads",
    "--skip",
    "--check",
    "-D",
    "-W",
    "-A",
];
