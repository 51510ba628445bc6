//! Tables and properties of the shell parser.

use proptest::prelude::*;

use super::*;

/// Formats the parts: a dynamic word is `…`, a file that is written `>target`, one that is read `<target`.
fn taken_apart(command: &str) -> Vec<String> {
    let show = |word: &ShellWord| word.to_rule_text().unwrap_or_else(|| "…".to_owned());
    parse(command)
        .commands
        .iter()
        .map(|part| {
            let mut words: Vec<String> = part.assignments.iter().chain(&part.words).map(show).collect();
            for redirect in &part.redirects {
                let sign = if redirect.writes { '>' } else { '<' };
                words.push(format!("{sign}{}", show(&redirect.target)));
            }
            words.join(" ")
        })
        .collect()
}

#[test]
fn lines_are_parsed_into_simple_commands() {
    let table: &[(&str, &[&str])] = &[
        ("", &[]),
        ("# nothing", &[]),
        ("git status", &["git status"]),
        ("  git   status\t-s ", &["git status -s"]),
        ("g\"\"it sta'tus'", &["git status"]),
        ("\\git status", &["git status"]),
        ("git \\\n status", &["git status"]),
        ("echo \"a b\" 'c d' e\\ f", &["echo 'a b' 'c d' 'e f'"]),
        ("echo \"a\\\"b\" 'it'\\''s'", &["echo 'a\"b' 'it'\\''s'"]),
        ("echo \"a\\\nb\"", &["echo ab"]),
        ("echo \"a\nb\"", &["echo 'a\nb'"]),
        ("echo '' \"\"", &["echo '' ''"]),
        ("'git status'", &["'git status'"]),
        ("a; b && c || d | e & f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
        ("! a |& b", &["a", "b"]),
        ("a | time -p b; time c", &["a", "time -p b", "c"]),
        ("time -p a", &["a"]),
        ("(a; b) && { c; }", &["a", "b", "c"]),
        (
            "if a; then b; elif c; then d; else e; fi",
            &["a", "b", "c", "d", "e"],
        ),
        ("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]),
        ("for x in 1 2; do a $x; done", &["a …"]),
        ("for PATH in /x; do a; done", &["PATH=", "a"]),
        (
            "for npm_config_prefix in /x; do a; done",
            &["npm_config_prefix=", "a"],
        ),
        ("for x in $(b); do a; done", &["b", "x= …", "a"]),
        ("case $(x) in a) b;; *) c;; esac", &["x", "b", "c"]),
        ("f() { a; }; f", &["a", "f"]),
        ("git\\\n status", &["git status"]),
        ("if\\\n a; then b; fi", &["a", "b"]),
        ("if (a) then { b; } fi", &["a", "b"]),
        ("case x in (a|b) c;; d) e;& *) f; esac; g", &["c", "e", "f", "g"]),
        ("(case x in a) b;; esac) | c", &["b", "c"]),
        ("function f { a; }; function g () (b)", &["a", "b"]),
        ("select x in a b; do c; done", &["c"]),
        ("a 2>&-b c >& -d <&-e", &["a b c e >-d"]),
        ("a 2>f b 12< g", &["a b >f <g"]),
        ("a <<E; b\n$(c)\nE\nd", &["a", "b", "c", "d"]),
        ("cat <<-E\n\t$(b)\n\tE\na", &["cat", "b", "a"]),
        ("cat <<A <<B\n$(a)\nA\n$(b)\nB\nc", &["cat", "a", "b", "c"]),
        ("$(cat <<E\nx\nE\n)", &["cat", "…"]),
        (
            "a ${x} ${#x} ${x%.rs} ${x:-y} ${a[@]} $1 $? $",
            &["a … … … … … … … '$'"],
        ),
        (
            "a ${#a[@]} ${a[0]} ${x:0:3} ${x/b/c} ${1:-y} ${@} ${#}",
            &["a … … … … … … …"],
        ),
        ("a $(( (1+0x1F)*2 ))", &["a …"]),
        ("a\"$(b \"$(c)\")\"", &["c", "b …", "…"]),
        ("[ -f x ] && a", &["[ -f x ]", "a"]),
        ("echo $(a; b) `c` \"$(d)\"", &["a", "b", "c", "d", "echo … … …"]),
        ("diff <(a) <(b)", &["a", "b", "diff … …"]),
        ("tee >(a) > out", &["a", "tee … >out"]),
        (
            "a > f 2>> g 2>&1 >/dev/null < h &> i >| j >& k <> l",
            &["a >f >g <h >i >j >k >l"],
        ),
        ("> f", &[">f"]),
        ("{ a; } > f", &["a", ">f"]),
        ("a >&2 2>&- <&3", &["a"]),
        ("A=1 B=\"x y\" c", &["A=1 'B=x y' c"]),
        ("A=$(b) c", &["b", "… c"]),
        ("PATH=/x", &["PATH=/x"]),
        ("export A=1", &["export A=1"]),
        ("A=(1 2) b", &["… b"]),
        ("a {b,c} x{1..3} HEAD@{0} {}", &["a … … HEAD@{0} {}"]),
        ("a *.rs ~/x '~/x' ~u/y", &["a *.rs ~/x '~/x' ~u/y"]),
        ("* a", &["… a"]),
        ("a $'x' $'\\x41' $\"t\"", &["a x … …"]),
        ("$a b", &["… b"]),
        ("[[ -f x ]] && a", &["[[ -f x ]]", "a"]),
        ("[[ (a)]]; b", &["[[ '(' a ')' ]]", "b"]),
        ("[[ a\t]]; b; [[ c ]]", &["[[ a ]]", "b", "[[ c ]]"]),
        ("[[ a && ! -n \"b ]]\" ]]; c", &["[[ a '&&' ! -n 'b ]]' ]]", "c"]),
        ("[[ $(a) == *b ]] || c", &["a", "[[ … == *b ]]", "c"]),
        ("[[ a < b ]]&&c", &["[[ a '<' b ]]", "c"]),
        ("[[ a =~ ^[0-9]+$ ]]; b", &["[[ a =~ '^[0-9]+$' ]]", "b"]),
        ("[[ a]] ]]; b", &["[[ a]] ]]", "b"]),
        ("((1)); a", &["'((' …", "a"]),
        ("a; # b; c", &["a"]),
        ("(a)#b", &["a"]),
        ("cat <<E\nplain\nE\na", &["cat", "a"]),
        ("cat <<E\n$(b)\nE\na", &["cat", "b", "a"]),
        ("cat <<'E'\n$(b)\nE\na", &["cat", "a"]),
        ("cat <<< \"$(b)\"", &["b", "cat"]),
        ("a # b; c", &["a"]),
        ("a#b", &["a#b"]),
        ("a '#b'", &["a '#b'"]),
    ];
    for (command, expected) in table {
        assert_eq!(taken_apart(command), *expected, "{command:?}");
        assert_eq!(parse(command).unparsed_reason, None, "{command:?}");
    }
}

#[test]
fn lines_that_are_not_understood_are_marked_hidden() {
    let long = format!("echo {}", "x".repeat(MAX_BYTES));
    let deep = format!("{}a{}", "$(".repeat(100), ")".repeat(100));
    let many = "a;".repeat(MAX_PARTS + 1);
    for command in [
        "echo 'unfinished",
        "echo \"unfinished",
        "echo $(unfinished",
        "a )",
        "a\r\nb",
        "a\0b",
        "a\u{a0}b",
        "a\u{2028}b",
        "echo ${x:-$(rm)}",
        "echo $((a[$(rm)]))",
        "[[ a ]",
        "[[ a\n]]",
        "[[ a # ]]",
        "[[ a;b ]]",
        "[[ a & b ]]",
        "[[ x =~ (a ]] # ) ]]; rm",
        "[[ x =~ a|b ]]",
        "[[ x == @(a|b) ]]",
        "[[(a) ]]",
        "x ${!y}",
        "x ${y[0]z}",
        "x ${y:-$[1]}",
        "(( a[$(rm)] ))",
        "coproc a",
        "((a); rm)",
        "a $((rm) | (rm))",
        "a[1 2]=x",
        "x ${ rm; }",
        "x ${x@P}",
        "x $[1]",
        "x \"$\\\n(rm)\"",
        "gi\\\nt",
        "git 2\\\n>f push",
        "a(b)",
        "a (b)",
        "(a) b",
        "{ a; } b",
        "(a",
        "case x in a) b",
        "cat <<E",
        "cat <<E\nE\\\n\nrm",
        "cat <<$x\nE\n",
        "cat <<E \"a\nE\nb\"\nE\n",
        "a >",
        "a > ;",
        "echo `a \\`rm\\``",
        "for ((a[$(rm)];;)); do x; done",
        "for $x in a; do b; done",
        long.as_str(),
        deep.as_str(),
        many.as_str(),
    ] {
        assert!(
            parse(command).unparsed_reason.is_some(),
            "{:?}",
            crate::base::text::prefix_within(command, 60)
        );
    }
    assert!(parse("f() { a; }").defines_function);
}

/// bash does more than the parts show; the parts that follow are still listed.
#[test]
fn hidden_effects_do_not_hide_other_commands() {
    for (reason, commands) in [
        (
            "a redirection sets a variable",
            &[
                "a {PATH}>f; rm",
                "a {PATH}>>f; rm",
                "a {PATH}<f; rm",
                "a {PATH}<<<b; rm",
                "a {PATH}<<E\nb\nE\nrm",
                "a {PATH}>&1; rm",
                "a {PATH}<&-; rm",
                "a {PATH}<>f; rm",
                "a {x}>/dev/null; rm",
                "exec {HOME}>f; rm",
                "{ a; } {PATH}>f; rm",
                "(a) {PATH}>/dev/null; rm",
                "if a; then b; fi {PATH}<f; rm",
                "for x in 1; do a; done {PATH}<f; rm",
                "while a; do b; done {PATH}<<<c; rm",
                "case x in x) a;; esac {PATH}>&1; rm",
                "f() { a; } {PATH}>f; rm",
                "[[ a ]] {PATH}>f; rm",
                "((1)) {PATH}>f; rm",
            ][..],
        ),
        (
            "it sets a variable in an expansion",
            &[
                "a ${PATH:=x}; rm",
                "a ${PATH=x}; rm",
                "a \"${PATH:=x}\"; rm",
                "a <<< ${PATH:=x}; rm",
                "a <<E\n${PATH:=x}\nE\nrm",
                "case ${PATH:=x} in b) c;; esac; rm",
                "case b in ${PATH:=x}) c;; esac; rm",
                "a=(${PATH:=x}); rm",
                "a > ${PATH:=x}; rm",
                "[[ ${PATH:=x} ]]; rm",
            ],
        ),
        (
            "it evaluates what a variable holds",
            &[
                "((x)); rm",
                "((PATH=1)); rm",
                "((1+$x)); rm",
                "((x++)); rm",
                "a $((x)); rm",
                "a \"$((x))\"; rm",
                "a $(( (x+1)*2 )); rm",
                "a <<< $((PATH=1)); rm",
                "a <<E\n$((x))\nE\nrm",
                "case $((x)) in b) c;; esac; rm",
                "a ${b[x]}; rm",
                "a ${b[$x]}; rm",
                "a ${x:y}; rm",
                "a ${x:0:y}; rm",
                "a ${x@P}; rm",
                "a \"${x[@]@P}\"; rm",
                "a ${@@P} ${1@Q}; rm",
                "a <<E\n${x@P}\nE\nrm",
            ],
        ),
        (
            "a test evaluates what a variable holds",
            &[
                "[[ x -eq y ]]; rm",
                "[[ $x -lt 1 ]]; rm",
                "[[ -v b[x] ]]; rm",
                "[[ -v 'b[$(x)]' ]]; rm",
                "[[ -R x ]]; rm",
            ],
        ),
        (
            "it opens a network connection",
            &[
                "a </dev/tcp/h/1; rm",
                "a > /dev/udp/h/1; rm",
                "a >>/dev/tcp/h/1; rm",
                "a 3<>/dev/tcp/h/1; rm",
                "a &>/dev/tcp/h/1; rm",
                "a >&/dev/tcp/h/1; rm",
                "a <&/dev/tcp/h/1; rm",
                "a <'/dev/tcp/h/1'; rm",
                "a <\"/dev\"/tc\\p/h/1; rm",
                "a <//dev//tcp/h/1; rm",
                "a </dev/./tcp/h/1; rm",
                "a </x/../dev/tcp/h/1; rm",
                "a </dev/t*p/h/1; rm",
                "a </d?v/tcp/h/1; rm",
                "a </dev/{tcp,udp}/h/1; rm",
                "a </dev/$x/h/1; rm",
                "a </dev/tcp/$x/1; rm",
                "a <\"/dev/${x}\"; rm",
                "a </dev/tcp/$(b)/1; rm",
                "{ a; } </dev/tcp/h/1; rm",
                "while a; do b; done </dev/tcp/h/1; rm",
                "</dev/tcp/h/1; rm",
                "exec 3</dev/tcp/h/1; rm",
            ],
        ),
    ] {
        for command in commands {
            let line = parse(command);
            assert_eq!(line.unparsed_reason, Some(reason), "{command:?}");
            let last = line.commands.last().and_then(SimpleCommand::text);
            assert_eq!(last.as_deref(), Some("rm"), "{command:?}");
        }
    }
    for command in [
        "a </dev/null",
        "a <dev/tcp",
        "a 2>/dev/pts/1",
        "a >$x/tcp",
        "cat /dev/tcp/h/1",
    ] {
        assert_eq!(parse(command).unparsed_reason, None, "{command}");
    }
}

/// Pieces that a hostile command line could consist of.
const PIECES: &[&str] = &[
    "a",
    "rm",
    "-rf",
    "/",
    "git status",
    " ",
    "\n",
    ";",
    ";;",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "(",
    ")",
    "{",
    "}",
    "((",
    "))",
    "[[",
    "]]",
    "[[ ",
    " ]]",
    "{PATH}>",
    "=~",
    " -eq ",
    "@P}",
    "/dev/tcp/",
    "$(",
    "${",
    "$((",
    "`",
    "\"",
    "'",
    "\\",
    "$'",
    "$\"",
    "$x",
    "<",
    ">",
    "<<",
    "<<E",
    "\nE\n",
    "<<<",
    "<(",
    ">&",
    "&>",
    "2>&1",
    "if ",
    "then ",
    "fi",
    "for ",
    "in ",
    "do ",
    "done",
    "case ",
    "esac",
    "while ",
    "function ",
    "coproc ",
    "! ",
    "time ",
    "#",
    "~",
    "*",
    "{a,b}",
    "=",
    "x=",
    "x=(",
    "eval ",
    "é",
    "-",
    "!",
    "?",
    "[",
];

/// Parses with the stack size of the server's workers: what would overflow there must overflow here.
fn on_a_small_stack(command: String) -> ParsedCommand {
    std::thread::Builder::new()
        .stack_size(2 * 1024 * 1024)
        .spawn(move || parse(&command))
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn repeated_pieces_are_parsed_in_time_without_overflow() {
    for piece in PIECES {
        for tail in ["", " ", "a", " a; "] {
            let unit = format!("{piece}{tail}");
            for times in [3, 64, MAX_BYTES / unit.len()] {
                on_a_small_stack(unit.repeat(times));
            }
        }
    }
    for (open, close) in [
        ("{ ", "; }"),
        ("if ", "; then x; fi"),
        ("${a:-", "}"),
        ("\"$(", ")\""),
        ("while ", "; do x; done"),
        ("case x in x) ", ";; esac"),
        ("coproc { ", "; }"),
        ("for((", ";;)); do x; done"),
        ("$((", "))"),
        ("for x in ", "; do x; done"),
        ("f() { ", "; }"),
        ("<(", ")"),
        ("x=(", ")"),
        ("[[ ( ", " ) ]]"),
        ("[[ ! ", " ]]"),
    ] {
        for times in [4, 16, 32, 64] {
            on_a_small_stack(format!("{}x{}", open.repeat(times), close.repeat(times)));
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed(text in any::<String>()) {
        parse(&text);
    }

    #[test]
    fn text_that_looks_like_bash_is_parsed(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        on_a_small_stack(pieces.concat());
    }

    /// A single-quoted text reaches the program unchanged.
    #[test]
    fn quoted_words_round_trip(words in prop::collection::vec("[ -~]{0,12}", 1..5)) {
        let quoted: Vec<String> = words.iter().map(|w| format!("'{}'", w.replace('\'', "'\\''"))).collect();
        let line = parse(&format!("x {}", quoted.join(" ")));
        prop_assume!(line.unparsed_reason.is_none());
        let back: Vec<&str> = line.commands[0].words[1..].iter().map(|w| w.as_literal().unwrap()).collect();
        prop_assert_eq!(back, words);
    }

    /// Both parts are found, whatever separates them.
    #[test]
    fn both_parts_of_a_compound_are_found(
        between in prop::sample::select(&[";", "&&", "||", "|", "&", "\n", " ; ", "|&", " <(x) ;"][..]),
    ) {
        let texts = taken_apart(&format!("git status{between}rm -rf /"));
        prop_assert!(texts.iter().any(|text| text.starts_with("git status")));
        prop_assert!(texts.iter().any(|text| text == "rm -rf /"));
    }
}
