//! The repositories in which the commands run, each with secrets in other places, and hostile variables.

use super::commands::Topic;

/// A repository, made by a script of bash in its folder. `secret FILE` writes a file with a canary.
pub(super) struct Repository {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    pub(super) topics: &'static [Topic],
}

/// What all repositories share: two commits without a secret, and a change.
pub(super) const COMMON: &str = r#"
set -e
secret() { mkdir -p "$(dirname "$1")"; echo "KEY=CANARY $1" >"$1"; }
commit() { git add -A -f; git commit -qm "$1"; }
secret ../home/.ssh/id_rsa; secret ../out/plain.txt; secret ../out/.env
git init -q -b main
mkdir src sub
for file in README.md src/main.rs sub/a.txt 'with blank.txt'; do echo KEY=plain >"$file"; done
commit first
echo KEY=more >>README.md
commit second
echo KEY=third >>src/main.rs
"#;

/// Secrets that searches skip because their names begin with a dot. `.env.json` has a type of ripgrep.
const HIDDEN: &str = r"
for file in .env .npmrc sub/.env .git-credentials .env.json sub/.env.yaml .config/openai/key; do secret $file; done
";

const SEARCH: &[Topic] = &[Topic::Search, Topic::Ripgrep];
const GIT: &[Topic] = &[Topic::Git];
const ALL: &[Topic] = &[Topic::Search, Topic::Ripgrep, Topic::Git, Topic::Plain];

/// Ways in which a file includes what `rg` skips otherwise. Each is a script after [`HIDDEN`].
const INCLUDED: &[(&str, &str)] = &[
    ("included by .gitignore", "echo '!.env' >.gitignore"),
    ("included by .ignore", "echo '!.env' >.ignore"),
    ("included by .rgignore", "echo '!.env' >.rgignore"),
    ("included by a pattern", "printf '*.log\n!.e*\n' >.ignore"),
    ("included below", "echo '!.env' >sub/.ignore"),
    (
        "included after a byte order mark",
        r"printf '\xef\xbb\xbf!.env\n' >.ignore",
    ),
    ("included by a link", "echo '!.env' >list; ln -s list .ignore"),
    ("included by info/exclude", "echo '!.env' >>.git/info/exclude"),
    ("included above", "echo '!.env' >../.ignore"),
    (
        "included above in .gitignore",
        "echo '!.env' >../.gitignore; mkdir ../.git",
    ),
    (
        "included by git's list",
        "mkdir -p ../home/.config/git; echo '!.env' >../home/.config/git/ignore",
    ),
    (
        "included by git's settings",
        "echo '!.env' >../home/list; git config --file ../home/.gitconfig core.excludesFile ~/list",
    ),
    (
        "included by the repository's settings",
        "echo '!.env' >list; git config core.excludesFile \"$PWD/list\"",
    ),
];

const REPOSITORIES: &[(&str, &str, &[Topic])] = &[
    ("hidden", HIDDEN, ALL),
    (
        "visible",
        "secret id_rsa; secret config/secrets.yml; secret sub/server.pem; secret .ENV; secret key.pem.bak",
        ALL,
    ),
    (
        "links",
        "secret .env; ln -s .env link-env; ln -s ../out/plain.txt link-file; ln -s ../out link-out
         ln -s ~/.ssh link-ssh; ln -s .. sub/up; ln -s ../link-out sub/link; ln -s /proc/self/cwd/.env link-proc",
        ALL,
    ),
    ("links to folders", "ln -s ../out sub/out; ln -s ../../home/.ssh sub/keys", SEARCH),
    (
        "tracked",
        "echo KEY=none >.env; mkdir config; cp .env config/secrets.yml; commit third; secret .env
         secret config/secrets.yml",
        GIT,
    ),
    ("tracked with the secret", "secret .env; secret id_rsa; commit third; echo KEY=new >>README.md", GIT),
    ("tracked, another letter case", "secret .Env; secret Config/Secrets.YML; commit third", GIT),
    ("tracked, unusual names", "secret 'a b/.env'; secret 'sub/ü[1]*.pem'; secret ':x/:(top).pem'; commit third", GIT),
    ("staged", "secret .env; git add -f .env", GIT),
    ("to be added", "secret .env; git add -N -f .env", GIT),
    ("in conflict", "secret .env; commit third; git checkout -q -b other HEAD~1; echo KEY=other >.env; commit other
         git merge -q main >/dev/null || true", GIT),
    ("stashed", "echo KEY=none >.env; commit third; secret .env; git stash -q", GIT),
    (
        "no longer tracked",
        "secret .env; secret config/secrets.yml; secret sub/server.pem; secret .ENV.local; secret .ssh/key; commit third
         git tag gone; git rm -qr .env config sub/server.pem .ENV.local .ssh; echo KEY=new >>README.md; commit fourth",
        GIT,
    ),
    (
        "on another branch",
        "git checkout -q -b gone; secret .env; secret sub/id_rsa; secret sub/x.key.1; commit third; git checkout -q main",
        GIT,
    ),
    (
        "merged and deleted",
        "git checkout -q -b gone; secret .env; commit third; git checkout -q main; git merge -q --no-ff -m merge gone
         git rm -q .env; commit fourth",
        GIT,
    ),
    (
        "stashed, with files that were not tracked",
        "secret .env; secret id_rsa.bak; git stash -q -u; git tag gone 'stash^3'",
        GIT,
    ),
    (
        "renamed",
        "secret .env; commit third; git tag gone; git mv .env prod.env; commit fourth; git mv prod.env secrets.json
         commit fifth; git rm -q secrets.json; commit sixth",
        GIT,
    ),
    ("removed from the index", "secret .env; commit third; git tag gone; git rm -q --cached .env", GIT),
    (
        "no longer tracked in a submodule",
        "git init -q ../other; cd ../other; secret .env; commit first; cd ../ws
         git -c protocol.file.allow=always submodule --quiet add ../other sub/module; commit third
         git -C sub/module rm -q .env; git -C sub/module commit -qm second; git tag gone
         git config --file ../home/.gitconfig diff.submodule diff",
        GIT,
    ),
    ("skipped", "secret .env; commit third; git update-index --skip-worktree .env; secret .env", GIT),
    ("sparse", "secret sub/.env; commit third; git sparse-checkout set --sparse-index src; secret .env", GIT),
    ("split index", "secret .env; commit third; git update-index --split-index", GIT),
    ("no index", "secret .env; commit third; rm .git/index", GIT),
    ("packed, no index", "secret .env; commit third; git pack-refs --all; rm .git/index", GIT),
    (
        "another folder of the work tree",
        "secret .env; commit third; git worktree add -q sub/tree; echo KEY=new >>sub/tree/README.md",
        GIT,
    ),
    (
        "tags of contents",
        "secret .env; commit third; for tag in blob v1 notes.md; do git tag $tag HEAD:.env; done
         git tag -a -m x annotated HEAD:.env; git update-ref refs/blob2 HEAD:.env",
        GIT,
    ),
    (
        "a secret as a list of revisions",
        "secret .env; ln -s .env .git-blame-ignore-revs; commit third; git config blame.ignoreRevsFile .git-blame-ignore-revs",
        GIT,
    ),
    ("a list of revisions elsewhere", "git config blame.ignoreRevsFile ../out/.env", GIT),
    ("a repository below", "cd sub; git init -q; secret .env; commit third; secret .env", GIT),
    ("a bare repository below", "git init -q --bare sub/bare; git -C sub/bare config core.worktree \"$PWD\"", GIT),
    (
        "a submodule",
        "git init -q ../other; cd ../other; secret .env; commit first; cd ../ws
         git -c protocol.file.allow=always submodule --quiet add ../other sub/module; commit third
         secret sub/module/.env; git config --file ../home/.gitconfig submodule.recurse true
         git config --file ../home/.gitconfig diff.submodule diff",
        GIT,
    ),
    (
        "settings that run programs",
        r#"secret .env; echo '*.rs diff=x filter=x' >.gitattributes; echo '*.md diff=y' >>.gitattributes
         git config diff.x.textconv 'cat .env; cat'; git config filter.x.clean 'cat .env; cat'
         git config diff.y.command 'cat .env; true'; git config diff.external 'cat .env; true'
         git config core.pager 'cat .env; cat'; git config pager.log 'cat .env; cat'
         git config core.fsmonitor 'cat .env >&2; true'; git config alias.st '!cat .env'
         git config alias.diff '!cat .env'; git config gpg.program 'cat .env; true'
         git config core.hooksPath .hooks; git config log.showSignature true"#,
        GIT,
    ),
    ("settings elsewhere", "git config include.path ../../out/plain.txt || true", GIT),
];

/// Returns all repositories.
pub(super) fn list_repositories() -> Vec<Repository> {
    let plain = REPOSITORIES
        .iter()
        .map(|(name, script, topics)| Repository { name, script, topics });
    let included = INCLUDED.iter().map(|(name, script)| Repository {
        name,
        script: Box::leak(format!("{HIDDEN}\n{script}").into_boxed_str()),
        topics: &[Topic::Ripgrep],
    });
    plain.chain(included).collect()
}

/// Names and values.
pub(super) type Variables = &'static [(&'static str, &'static str)];

/// Variables that agentls may have inherited, and the repository in which commands run with them. `{base}` is the folder
/// that contains the repository, `out` next to it, and the home folder.
pub(super) const VARIABLES: &[(&str, &[Topic], Variables)] = &[
    (
        "hidden",
        &[Topic::Plain, Topic::Search, Topic::Ripgrep],
        &[
            ("BASHOPTS", "dotglob:extglob:globstar:nocaseglob"),
            ("GREP_OPTIONS", "-r -a"),
            ("LESSOPEN", "|cat .env"),
            ("MANPAGER", "cat .env"),
            ("PAGER", "cat .env"),
            ("RIPGREP_CONFIG_PATH", "{base}/ripgrep"),
        ],
    ),
    (
        "hidden",
        &[Topic::Plain, Topic::Search],
        &[
            ("GLOBIGNORE", "none"),
            ("POSIXLY_CORRECT", "1"),
            ("SHELLOPTS", "keyword:posix"),
        ],
    ),
    (
        "settings that run programs",
        GIT,
        &[
            ("GIT_EXTERNAL_DIFF", "cat .env; true"),
            ("GIT_PAGER", "cat .env; cat"),
            ("GIT_PAGER_IN_USE", "1"),
            ("GIT_EDITOR", "cat .env; true"),
            ("GIT_SSH_COMMAND", "cat .env"),
            ("GIT_TRACE", "1"),
        ],
    ),
    (
        "hidden",
        GIT,
        &[(
            "GIT_CONFIG_PARAMETERS",
            "'diff.external'='cat .env; true' 'core.pager'='cat .env; cat'",
        )],
    ),
    (
        "hidden",
        GIT,
        &[
            ("GIT_DIR", "{base}/repository/.git"),
            ("GIT_WORK_TREE", "{base}/repository"),
        ],
    ),
    (
        "hidden",
        GIT,
        &[("GIT_INDEX_FILE", "{base}/repository/.git/index")],
    ),
    ("hidden", GIT, &[("GIT_WORK_TREE", "{base}/repository")]),
    ("tracked", GIT, &[("GIT_INDEX_FILE", "{base}/out/none")]),
    ("tracked", GIT, &[("GIT_LITERAL_PATHSPECS", "1")]),
    (
        "tracked",
        GIT,
        &[("GIT_ICASE_PATHSPECS", "1"), ("GIT_PREFIX", "sub/")],
    ),
];

/// Makes what the variables name.
pub(super) const FOR_VARIABLES: &str = r"
echo --hidden >../ripgrep
git init -q ../repository; cd ../repository; secret .env; commit first; secret .env; secret id_rsa
";
