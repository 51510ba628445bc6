//! The commands that are tried: each program with its options and with many ways to name a file.

/// What a command shows secrets of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// Files that it names.
    Plain,
    /// Files below a folder.
    Search,
    /// The same with `rg`, which skips files by itself.
    Ripgrep,
    /// The repository.
    Git,
}

/// Operands that name files, as bash reads them.
const FILES: &str = r#"
NONE  README.md  .env  ./.env  sub/../.env  '.env'  .en""v  .e\nv  $'\x2eenv'  .en[v]  .e*  .??v  *  .*  ./*  */*
**  **/*  */.e*  {.env,README.md}  .{env,x}  {.e,x}*  @(.env)  +(.)env  ?(x).env  !(README.md)  link-env  link-*
link-file  link-out/plain.txt  link-out/*  sub/up/.env  sub/up/../out/plain.txt  sub/link/plain.txt  link-ssh/id_rsa
link-proc  ../out/plain.txt  ../out/*  ~/.ssh/id_rsa  ~+/.env  $HOME/.ssh/id_rsa  "$PWD"/.env  /proc/self/cwd/.env
/proc/self/environ  id_rsa  id_*  config/*  config/secrets.y?l  sub/*.pem  .ENV  .[eE][nN][vV]  *.bak  key.pem.bak
-- .env  -- *  - <.env  <.env  <link-env  0<.env  <link-out/plain.txt  <<<.env  README.md .env  src sub  src .
--help
"#;

/// Programs that print what a file contains, or something about it.
const READERS: &str = r#"
cat  head -n 3  tail -n 3  nl  wc  wc -l  cut -c 1-99  sort  uniq  diff README.md  diff -r .  diff src  md5sum
sed -n 1,3p  ls  ls -la  ls -R  stat  readlink -f  file  du -a  tree -a  echo  printf '%s\n'  test -f  fold  od -c
less  more  strings  tac  base64  find
"#;

/// Single commands: options that name a file, print one, write one, or run a program.
const LINES: &str = r#"
wc --files0-from=.env  sort --files0-from=.env  sort -o out.txt .env  sort -T . README.md  date -f .env
du --files0-from=.env  du -X .env  file -f .env  file -m .env README.md  tree --fromfile .env  tree -o out.txt
tree --info  tree -l  ls -L  ls -laL link-out  ls -I x  diff --from-file=.env README.md  diff -x src . sub
diff -r sub src  diff -N .env README.md  diff README.md - <.env  uniq README.md out.txt  find . -newer .env
find . -exec cat {} +  find . -execdir cat {} ;  find . -ok cat {} ;  find . -ls  find . -fprint out.txt
find . -fls out.txt  find . -printf '%p %l\n'  find -files0-from .env  find -L . -name .env  find . -follow
find . -type f -print0  find . -name '.e*'  find .env -type f  find . -type f | xargs cat
find . -name '*.md' -o -name .env  xargs cat <README.md  xargs -a .env  cat README.md | tee out.txt
cat README.md >out.txt  cat $(ls -a)  cat `ls -a`  cat <(cat .env)  while read -r line; do echo $line; done <.env
for f in .env; do cat $f; done  for f in .e*; do cat "$f"; done  cd sub && cat .env  cd sub; cat .env
cd sub && cat ../.env  cd .. && cat out/plain.txt  cd ../out; cat plain.txt  cd link-out && cat plain.txt
cd sub/up && cat .env  cd - ; cat .env  cd; cat .ssh/id_rsa  pushd sub; cat .env  mapfile -t x <.env; echo "${x[@]}"
read x <.env; echo "$x"  echo $(<.env)  echo "$(<.env)"  exec <.env; cat  { cat; } <.env  ( cat ) <.env
if true; then cat; fi <.env  while cat; do break; done <.env  case x in x) cat ;; esac <.env  cat <<E␤$(<.env)␤E
. .env  source .env; echo $KEY  set -a; . ./.env; env  cat 3<.env <&3  cat /dev/fd/3 3<.env  cat /dev/stdin <.env
cat</dev/stdin<.env  tr a b <.env  tr a b < link-env  head -n 1 -- .env  tail -n +1 -- .env  command cat .env
\cat .env  'cat' .env  builtin echo .env  env cat .env  nice cat .env  time cat .env  ! cat .env  sed p .env
sed -n '1r.env' README.md  sed -n 1p .env  sed -n '$p' README.md .env  awk 1 .env  jq . .env.json  true && cat .env
cat README.md; cat .env  cat README.md .env | head -n 9  cat .env | wc -c  test -s .env  [ -f .env ] && cat .env
[ -r .env ]  echo .e*  echo *  printf '%s\n' .*  printf -v x y  realpath link-env  readlink link-ssh  which cat
type cat  command -v cat  git diff --no-index README.md .env  comm README.md .env  paste README.md .env
cmp README.md .env  column .env  xxd .env  tail -c +1 .env  split .env
"#;

/// Options of `grep`.
const GREP: &str = r#"
NONE  -n  -r  -rn  -rI  -rh  -ra  -ri  -rl  -rc  -ro  -rw  -rE  -rA2  -r -m 1  -R  -s  -r --include='*'
-r --include='.e*'  -r --exclude=README.md  -r --exclude-dir=src  -d recurse  --directories=recurse  --recursive
--dereference-recursive  -r --exclude-from=README.md  -f .env -v  -r --no-messages  -c  -z  -P  -H
--binary-files=text -r  -r --color=always  -D read
"#;

/// Options of `rg`.
const RIPGREP: &str = r#"
NONE  -n  -i  -l  -c  -a  -P  -U  --json  --passthru  -g '*'  --glob '*'  --glob='*'  -g '**'  -g '*env*'  -g .env
-g '!*.md'  -g 'sub/**'  -g '{.env,x}'  --iglob '*'  --iglob '*ENV'  -u  -uu  -uuu  --unrestricted  --hidden  -.
--no-ignore  --no-ignore-vcs  --no-ignore-parent  --no-config  --ignore-file README.md  -t json  -tjson  --type json
--type=json  -t yaml  -t all  -T md  -t config  --type-add 'x:.env' -t x  -f README.md  -f .env  --pre cat
--pre-glob '*'  -z  -L  --follow  --max-depth 9  --sort path  -m 1  -A 1  -r x  -j 1  --no-messages
--one-file-system  -E utf-8  --search-zip  --no-hidden  --multiline  --stats  --files  --files-with-matches  --debug
"#;

/// What searches look at.
const SEARCHED: &str = r#"
NONE  *  sub  ./  .  sub/  s*  src  ./*  sub/.  sub/../.  link-out  link-out/  link-*  sub/out/  sub/keys/.  sub/up/
.*  .config  .env  .e*  -- .  -- *  "$PWD"  ../ws  ..  ~  README.md  **  */  .[a-z]*
"#;

/// Other searches.
const SEARCH_LINES: &str = r#"
egrep -r KEY FOLDER  fgrep -rn KEY FOLDER  rgrep KEY FOLDER  cd FOLDER && rg KEY  cd FOLDER && grep -r KEY .
rg KEY FOLDER | head -n 9  fd . FOLDER  fd -H -x cat  fdfind -u . FOLDER  tree FOLDER  tree -a FOLDER
rg -e KEY -g '*' FOLDER  rg --regexp=KEY FOLDER  rg . FOLDER  diff -r FOLDER src  find FOLDER -type f  ag KEY FOLDER
ack KEY FOLDER  cd FOLDER && rg --type json KEY  cat FOLDER/*  ls -R FOLDER  rg KEY FOLDER && rg -n KEY
"#;

/// Options and operands of git's commands. `{blob}` is the name of a blob with a secret.
const GIT: &[(&str, &str)] = &[
    (
        "diff",
        r#"
NONE  --cached  --staged  HEAD  HEAD~1  HEAD~1 HEAD  HEAD~1..HEAD  main  -U0  -U9  --stat  --stat -p  --stat=80
--name-only  --name-status  --name-only -p  --word-diff  --color-words  --check  --numstat  --raw  --raw -p  -a  -R
--binary  -w  -b  -W  --diff-filter=M  --relative  --ext-diff  --textconv  --no-ext-diff  --no-textconv  --submodule
--submodule=diff  --output=out.txt  -o out.txt  --no-index README.md .env  README.md .env  README.md link-env
-O README.md  --cc  --merge-base HEAD~1  -S KEY  -G KEY  -S KEY --stat  stash@{0}  stash  stash@{0}^3  --quiet  -s
-s -p  --summary  --shortstat  --patch-with-stat  --compact-summary  -z  -p  -u  --no-patch  --exit-code  --minimal
--patience  -M  -C -C  --find-copies-harder  -- .  .  -- '*'  '*'  *  -- sub  sub  src README.md  -- src README.md
HEAD -- .  -- .env  .env  -- .e*  -- '.e*'  -- ':(glob)**'  -- ':(top)'  -- ':!src'  -- ':(icase).ENV'
-- ':(exclude)src'  -- ':^README.md'  -- config  -- 'con*/'  -- sub/..  HEAD:.env HEAD:README.md  HEAD {blob}
{blob} HEAD:README.md  {blob} {blob}  --ours  --theirs  --base  -1  -2  --function-context  --no-prefix
{blob}..{blob}  HEAD..{blob}  {blob}...HEAD  ^{blob}  gone  gone HEAD  gone..HEAD  main...gone  gone -- .  gone~1 gone
gone:sub HEAD:sub  HEAD:README.md..gone:.env  HEAD:README.md  -S KEY gone  --exit-code gone  gone:.env gone:.env
--ignore-submodules=none  --pickaxe-all -S KEY  --find-object={blob}  --line-prefix=x  --color=always
"#,
    ),
    (
        "show",
        r#"
NONE  HEAD  HEAD~1  main  --stat  --stat HEAD  HEAD:.env  HEAD:  HEAD:sub  :.env  :0:.env  :1:.env  :2:.env  :3:.env
HEAD:config/secrets.yml  HEAD:./.env  HEAD:sub/../.env  HEAD^{tree}  stash  stash@{0}  stash@{0}^3  stash^2  {blob}
-s {blob}  --stat {blob}  --name-only {blob}  --no-patch {blob}  --oneline -s {blob}  --raw --stat {blob}^{}
--quiet {blob}  -s {blob}^{blob}  --oneline  --format=%B  --format=%B -s  --pretty=raw  -m  --first-parent
--no-patch  -s  --patch  --name-only  HEAD -- .  HEAD -- .env  HEAD -- sub  HEAD README.md  --textconv HEAD:.env
--format=%N  --show-signature  -c  --cc  --remerge-diff  --abbrev-commit  HEAD HEAD~1  :/third  HEAD^{/third}
--stat HEAD^{tree} {blob}  main@{0}  @  -1  gone  gone~0  gone^{}  gone^{commit}  gone -- .  gone:sub/../.env
gone:README.md  gone:./.env  HEAD:README.md gone  gone:README.md..gone:.env  {blob}..HEAD  HEAD {blob}  -s gone
{blob}:.env  HEAD:README.md -- .env  :README.md  :/third  --no-walk gone  x-g{blob}  stash@{0} -- .  blob gone:README.md
"#,
    ),
    (
        "log",
        r#"
NONE  -p  -p -1  --patch  -u  --stat  -L1,2:.env  -L 1,2:README.md  -G KEY  -S KEY --oneline  -S KEY  --all -p
-g -p  --reflog -p  -m -p  --cc  -c  -c -p  --name-only  --graph --oneline  --follow -p -- README.md
-p --follow README.md  -p -- src  -p -- .env  -p .env  --format=%b  --format=%GG  --ext-diff -p  --oneline -5
--patch-with-stat  --remerge-diff  --diff-merges=on  --diff-merges=on -p  -p --all  -p stash@{0}  --stat -p  -U1
--unified=1  -W  --check  --word-diff  --color-words  --binary  -1 -p --stat  -p main  --raw  --numstat -1  -z -p
-p HEAD~1..  --source --all  --show-notes  --output=out.txt -p  -t -p  --no-walk -p  --full-diff -p -- src
-SKEY --name-only  --pickaxe-all -S KEY  -p --not HEAD~1  -p gone  -p --all -- .  -p --all -- README.md  -p --all -- sub
-p HEAD~1..gone  -p gone -- .  --all -p -m  --all --cc -c  -p --all --full-history  -p --simplify-by-decoration --all
-p {blob}  -p HEAD..{blob}  -L1,1:README.md gone  -p -S KEY --all  --all -G CANARY  -p --follow -- prod.env
-p --committer=a  -g -p gone  --all --committer=a --date-order  -E -F --source --all  -p --merges --all  --all -U0
"#,
    ),
    (
        "whatchanged",
        r#"
NONE  -p  -1  -p -1  --stat
"#,
    ),
    (
        "reflog",
        r#"
NONE  -p  show  show -p  show --stat  list  expire  show HEAD -p
"#,
    ),
    (
        "rev-list",
        r#"
HEAD  --all  -p HEAD  --objects HEAD  --pretty HEAD  -1 HEAD
"#,
    ),
    (
        "stash",
        r#"
NONE  list  list -p  list --stat  list -p --stat  show  show -p  show -u  show -u -p  show --stat  show -p stash@{0}
show stash@{0}  show -p --include-untracked  show --only-untracked -p  show -U1  show --name-only  list -S KEY
list -c  pop  create  show -p -- .  show --stat -p  show --numstat  show --include-untracked  show --name-only -U1
"#,
    ),
    (
        "grep",
        r#"
KEY  -n KEY  -l KEY  -c KEY  -h KEY  -i key  -w KEY  -e KEY  -e KEY -e x  --cached KEY  --untracked KEY
--no-index KEY  --no-index -r KEY  --untracked --no-exclude-standard KEY  -L x  -q KEY  -o KEY  -A1 KEY  -C 2 KEY
--recurse-submodules KEY  -O KEY  --open-files-in-pager=cat KEY  -f .env  --heading --break KEY  -p KEY  -W KEY
-a KEY  --textconv KEY  KEY HEAD  KEY HEAD~1  KEY stash@{0}  KEY -- .  KEY -- sub  KEY sub  KEY .env  KEY -- .env
KEY -- '.e*'  KEY -- '*'  KEY *  -l -c KEY  -l -A1 KEY  -l --no-name-only KEY  -c -o KEY  -q -n KEY  -L -o KEY  -v x
-E 'KEY|x'  -P KEY  -F KEY  -m 1 KEY  -e KEY --and -e plain  --not -e x  -z KEY  KEY {blob}  -n KEY main
--column KEY  --color=always KEY  -I KEY  -r KEY  KEY -- ':!src'  KEY -- ':(top)'  --max-depth 3 KEY
-h KEY $(git rev-list --all)  KEY gone  KEY gone -- .  KEY gone:  KEY gone:sub  -e KEY gone  -l KEY gone  -c KEY gone
KEY HEAD gone  -h KEY stash@{0}^3  KEY HEAD..{blob}  KEY gone -- '*'
"#,
    ),
    (
        "blame",
        r#"
README.md  .env  HEAD -- .env  gone -- .env  gone README.md  gone -- README.md  -L1,1 .env  -C -C README.md  config/secrets.yml  --contents .env README.md
-S .env README.md  --ignore-revs-file .env README.md  -p README.md  -s README.md  -w -C README.md  -- .env  -e .e*
"#,
    ),
    (
        "annotate",
        r#"
README.md  .env
"#,
    ),
    (
        "cat-file",
        r#"
-p HEAD  -p HEAD:.env  -p {blob}  -t {blob}  -s {blob}  -e {blob}  blob {blob}  blob HEAD:.env  -p :.env
-p gone:.env  -p gone:README.md  -p gone  -p gone:sub  -t gone:.env  blob gone:README.md  -p HEAD^{tree}
--batch-all-objects --batch  --batch  --textconv HEAD:.env  --filters HEAD:.env  -p stash@{0}:.env
commit HEAD  -p main  -p HEAD:sub/.env
"#,
    ),
    (
        "format-patch",
        r#"
--stdout -1  -1  --stdout HEAD~1  -o out -1
"#,
    ),
    (
        "ls-files",
        r#"
NONE  -s  -o  -m  --stage  -u  --others --exclude-standard  -X .env  -x x  --exclude-from=.env  --format='%(path)'
-d -v  --eol  -o -i --exclude='*'
"#,
    ),
    (
        "ls-tree",
        r#"
HEAD  -r HEAD  -rt HEAD  -l HEAD  HEAD .env  --format='%(path)' HEAD
"#,
    ),
    (
        "status",
        r#"
NONE  -s  -v  -vv  --porcelain  --porcelain -v  -sb  --ignored  -uall  --show-stash
"#,
    ),
    (
        "shortlog",
        r#"
HEAD  -sn HEAD  -sne --all
"#,
    ),
    (
        "describe",
        r#"
--always  --all  --always --dirty
"#,
    ),
    (
        "branch",
        r#"
NONE  -a  -v  -vv  --list  --format='%(contents)'  -av --no-color
"#,
    ),
    (
        "tag",
        r#"
-l  -n  -l --format='%(contents)'  -l --format='%(raw)'  -v x  --format='%(raw)'  -l gone
"#,
    ),
    (
        "rev-parse",
        r#"
HEAD  HEAD:.env  HEAD:README.md  --show-toplevel  --all  --parseopt  --sq-quote x
"#,
    ),
    (
        "show-ref",
        r#"
NONE  --heads  -d
"#,
    ),
    (
        "merge-base",
        r#"
HEAD HEAD~1
"#,
    ),
    (
        "check-ignore",
        r#"
-v .env  .env  -n -v .env  --stdin
"#,
    ),
    (
        "count-objects",
        r#"
-v
"#,
    ),
    (
        "worktree",
        r#"
list  list -v
"#,
    ),
    (
        "remote",
        r#"
NONE  -v  show origin
"#,
    ),
    (
        "config",
        r#"
-l  --list --show-origin  --get user.name  --file .env -l
"#,
    ),
];

/// Other commands that start git.
const GIT_LINES: &str = r#"
git diff | head -n 99  git diff 2>&1 | cat  git diff | grep KEY  git diff; git status  git status && git diff
git diff --stat && git diff  cd sub && git diff  cd sub; git diff HEAD  cd sub && git diff -- ..
cd src && git grep KEY  cd sub && git grep KEY -- ..  cd sub && git show HEAD  cd sub && git log -p  git -C sub diff
git -C . diff  git -C sub grep KEY  git -C sub log -p  git -C sub/tree diff HEAD~1  git -C sub/module diff
git -C sub/bare show  git -C ../out diff  git -C sub -C .. diff  git --no-pager diff  git -P log -p
git --no-optional-locks diff  git --literal-pathspecs diff  git --literal-pathspecs grep KEY
git -c core.pager=cat diff  git -c diff.external='cat .env' diff  git --git-dir=.git diff
git --git-dir ../repository/.git diff  git --work-tree=.. diff  git --bare show  git -p diff  git --paginate log -p
GIT_DIR=../repository/.git git diff  GIT_EXTERNAL_DIFF='cat .env' git diff  git archive HEAD
git bundle create - HEAD  git fast-export --all  git range-diff HEAD~1...HEAD  git diff-tree -p HEAD
git diff-index -p HEAD  git diff-files -p  git show-branch  git cherry -v HEAD~1  git notes show  git var -l
git rerere diff  git difftool -y  git check-attr -a .env  git interpret-trailers .env  git column <.env
git stripspace <.env  git hash-object -w README.md  git st  git mailinfo a b <.env  git am --show-current-patch
git rebase --show-current-patch  git submodule foreach git diff  git submodule summary  git merge-tree HEAD HEAD~1
git unpack-file {blob}  git cat-file -p $(git rev-parse HEAD:.env)  git show $(git rev-parse HEAD)
git log --oneline | head -n 3  git show --stat | cat  git diff >out.txt  git diff HEAD~1 | tee out.txt
if git diff; then true; fi  ( git diff )  { git diff; }  for x in 1; do git diff; done  ! git diff  time git diff
git diff & wait  git diff # .env  git diff␤git show  git 'diff'  gi\t diff  git diff --  git diff HEAD --
git grep KEY --  git diff < README.md  command git diff  env git diff  git␉diff  git diff --cached; cat README.md
git grep -n KEY | sort  git diff HEAD -- README.md src && git log -1 -p  cat README.md | git grep KEY
git show HEAD | grep -n KEY | head -n 3  git show gone | cat  git -C sub show gone  cd sub && git show gone
cd sub && git show gone:.env  git -C sub log -p --all  git -C sub/module show HEAD  git -C sub/module log -p
git show blob  git show v1  git show annotated  git show notes.md  git show --stat v1  git show HEAD notes.md
git show tags/v1  git show --sparse 'v1^{}'  git show -s blob  git show blob2  git grep KEY blob  git grep KEY v1
git grep -c KEY notes.md  git grep -e KEY annotated  git grep KEY HEAD blob2  git diff blob v1  git log -p blob
git tag --format='%(*raw)'  git tag -l --format '%(raw)'  git branch --format='%(*raw)'  git tag --format='%(contents)'
git blame README.md  git annotate src/main.rs  git diff blob README.md  git show 'blob^0'  git show main README.md
git show gone; git log -p; git diff gone; git show HEAD; git show main; git diff; git diff HEAD; git show gone
"#;

/// Returns the words of a table, which at least two blanks or a line separate.
fn split_table(table: &'static str) -> impl Iterator<Item = String> {
    let words = table.lines().flat_map(|line| line.split("  "));
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| match word {
        "NONE" => String::new(),
        word => word.replace('␤', "\n").replace('␉', "\t"),
    })
}

/// Returns the searches of a program: those with its usual options for all operands, the others for a few.
fn list_searches(program: &str, options: &'static str, common: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for option in split_table(options) {
        let is_common = option.is_empty() || option == common;
        let operands = split_table(SEARCHED).take(if is_common { usize::MAX } else { 4 });
        commands.extend(operands.map(|operand| format!("{program} {option} KEY {operand}")));
    }
    commands
}

/// Returns the commands about a topic.
pub(super) fn list_commands(topic: Topic) -> Vec<String> {
    match topic {
        Topic::Plain => {
            let readers = split_table(READERS)
                .flat_map(|program| split_table(FILES).map(move |file| format!("{program} {file}")));
            readers.chain(split_table(LINES)).collect()
        }
        Topic::Search => {
            let mut commands = list_searches("grep", GREP, "-r");
            for folder in [".", "sub", "src"] {
                commands.extend(split_table(SEARCH_LINES).map(|line| line.replace("FOLDER", folder)));
            }
            commands
        }
        Topic::Ripgrep => list_searches("rg", RIPGREP, ""),
        Topic::Git => {
            let git = GIT
                .iter()
                .flat_map(|(name, forms)| split_table(forms).map(move |form| format!("git {name} {form}")));
            git.chain(split_table(GIT_LINES)).collect()
        }
    }
}
