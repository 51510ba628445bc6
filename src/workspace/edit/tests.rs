//! Single edits, and what their results say.

use proptest::prelude::*;

use super::*;

fn edit(old: &str, new: &str) -> Replacement {
    Replacement {
        old: old.to_owned(),
        new: new.to_owned(),
        all: false,
    }
}

fn all(old: &str, new: &str) -> Replacement {
    Replacement {
        all: true,
        ..edit(old, new)
    }
}

#[test]
fn replaces_and_keeps_line_ends() {
    for (text, edits, expected) in [
        ("a b c", vec![edit("b", "B")], "a B c"),
        ("a b", vec![edit("a", "x"), edit("x b", "y")], "y"),
        ("a a", vec![all("a", "bb")], "bb bb"),
        ("a\r\nb\r\n", vec![edit("a\nb", "a\nx\nb")], "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", vec![edit("a\r\nb", "c")], "c\r\n"),
        ("a\r\nb", vec![edit("b", "b\nc")], "a\r\nb\r\nc"),
        ("a\nb\n", vec![edit("a", "1\r\n2")], "1\n2\nb\n"),
        // Mixed: untouched line ends stay, a new one follows its neighbor.
        ("a\nb\r\nc\n", vec![edit("a\nb\nc", "a\nB\nc")], "a\nB\r\nc\n"),
        ("a\nb\r\nc\n", vec![edit("b", "b\nb")], "a\nb\r\nb\r\nc\n"),
        ("a\r\nb\r\n", vec![edit("a\n", "")], "b\r\n"),
        ("no end", vec![edit("end", "END")], "no END"),
    ] {
        assert_eq!(apply(text, &edits).unwrap().text, expected, "{text:?}");
    }
    assert_eq!(apply("a a a", &[all("a", "b")]).unwrap().places, 3);
    // The file has no line break at its end.
    let made = apply("b\na = 1", &[edit("a = 1\n", "a = 2\n")]).unwrap();
    assert_eq!((made.text.as_str(), made.places), ("b\na = 2", 1));
    assert!(
        made.notes[0].contains("without the final line break"),
        "{:?}",
        made.notes
    );
    assert!(apply("a = 1\nb", &[edit("a = 1\n\n", "c")]).is_err());
    let made = apply("a\r\nb\r\na", &[all("a\n", "c\n")]).unwrap();
    assert_eq!((made.text.as_str(), made.places), ("c\r\nb\r\nc", 2));
}

#[test]
fn errors_say_what_is_wrong() {
    let error = |text: &str, edits: &[Replacement]| apply(text, edits).unwrap_err().to_string();
    assert!(error("a", &[]).contains("no edits"));
    assert!(error("a", &[edit("", "x")]).contains("old_text is empty"));
    let ambiguous = error("x\ny\nx\n", &[edit("x", "z")]);
    assert!(
        ambiguous.contains("found 2 times (lines 1, 3)") && ambiguous.contains("replace_all"),
        "{ambiguous}"
    );
    assert!(error("aaa", &[edit("aa", "b")]).contains("found 2 times"));
    assert!(error(&"a".repeat(9_000), &[all("a", &"b".repeat(9_000))]).contains("larger than"));
    let second = error("a b", &[edit("a", "c"), edit("zzz", "d")]);
    assert!(
        second.starts_with("edit 2 of 2 (none was made): old_text was not found"),
        "{second}"
    );
}

const PROGRAM: &str = "fn main() {\n    let answer = 42;\n    print(\"it’s\", answer);\n}\n";

#[test]
fn lines_that_differ_in_form_are_replaced_in_the_form_of_the_file() {
    for (text, old, new, expected) in [
        // Another indentation, and a deeper new line.
        (
            PROGRAM,
            "let answer = 42;",
            "let answer = 43;",
            "fn main() {\n    let answer = 43;\n    print(\"it’s\", answer);\n}\n",
        ),
        (
            "if a:\n\tfirst()\n\tsecond()\n",
            "if a:\n    first()\n    second()\n",
            "if a:\n    first()\n    if b:\n        second()\n",
            "if a:\n\tfirst()\n\tif b:\n\t\tsecond()\n",
        ),
        (
            "class A:\n    def f(self):\n        return 1\n",
            "def f(self):\n    return 1",
            "def f(self):\n    if x:\n        return 2\n    return 1",
            "class A:\n    def f(self):\n        if x:\n            return 2\n        return 1\n",
        ),
        // Typography: what stays is the file's, new letters follow it.
        (
            PROGRAM,
            "    print(“it's”, answer);",
            "    print(“it's”, answer, “!”);",
            "fn main() {\n    let answer = 42;\n    print(\"it’s\", answer, \"!\");\n}\n",
        ),
        // One such letter means that the others are not meant either.
        (
            "print('hi')\n  return 1\n",
            "print(‘hi’)\n  return 1",
            "print(‘hi’)\n  print(“there”)\n  return 1",
            "print('hi')\n  print(\"there\")\n  return 1\n",
        ),
        (
            "x = a - b\ny = 1\n",
            "x = a – b\ny = 1",
            "x = a – c\ny = 1 – 2",
            "x = a - c\ny = 1 - 2\n",
        ),
        // The amount of white space.
        (
            "x   =  \"a  b\"\nfunction()\n",
            "x = \"a b\"",
            "xy = \"a b\"",
            "xy   =  \"a  b\"\nfunction()\n",
        ),
        (
            "one line  \nother line\n",
            "one line\nother line",
            "one line\nchanged line",
            "one line  \nchanged line\n",
        ),
        // Empty lines round it, line ends, and a deletion.
        (
            "\r\n  first line\r\nlast\r\n",
            "\nfirst line\n\n",
            "\nother line\n\n",
            "\r\n  other line\r\nlast\r\n",
        ),
        ("a\n  second line\nb\n", "second line \n", "", "a\nb\n"),
        ("a\n  second line", "second line \n", "", "a\n"),
    ] {
        let edited = apply(text, &[edit(old, new)]);
        assert_eq!(
            edited.map(|edited| edited.text).as_deref(),
            Ok(expected),
            "{old:?}"
        );
    }
    let edited = apply(
        PROGRAM,
        &[edit(
            "  let answer = 42;  \n  print(\"it’s\", answer);",
            "  run(answer);",
        )],
    )
    .unwrap();
    assert_eq!(edited.text, "fn main() {\n    run(answer);\n}\n");
    assert_eq!(
        edited.notes,
        [
            "old_text differs from the file in white space or typography; made at line 2 in the file's own form"
        ]
    );
}

#[test]
fn what_models_add_to_a_text_is_left_out() {
    for (old, new, what) in [
        (
            "     2\t    let answer = 42;\n     3\t    print",
            "     2\t    let answer = 43;\n     3\t    print",
            "line numbers",
        ),
        (
            "     2\t    let answer = 42;",
            "    let answer = 43;",
            "line numbers",
        ),
        (
            "```rust\n    let answer = 42;\n```",
            "```rust\n    let answer = 43;\n```",
            "a code fence",
        ),
        (
            "```\n    2\t    let answer = 42;\n```",
            "    let answer = 43;",
            "line numbers",
        ),
        // Another indentation too.
        ("2\t\tlet answer = 42;", "2\t\tlet answer = 43;", "line numbers"),
        (
            "main() {\\n    let answer = 42;",
            "main() {\\n    let answer = 43;",
            "one level of escaping",
        ),
    ] {
        let edited = apply(PROGRAM, &[edit(old, new)]).unwrap();
        assert_eq!(edited.text, PROGRAM.replace("42", "43"), "{old:?}");
        let note = format!("made without {what}, which the file does not have");
        assert!(edited.notes[0].starts_with(&note), "{edited:?}");
    }
    // Text that has them is taken as it is.
    for text in ["```\ncode\n```\n", "1\tone\n2\ttwo\n", "print(\"a\\n\")\n"] {
        let edited = apply(text, &[edit(text.trim_end(), "x")]).unwrap();
        assert_eq!((edited.text.as_str(), edited.notes.len()), ("x\n", 0));
    }
}

#[test]
fn line_numbers_fit_only_the_lines_that_they_name() {
    // They tell equal lines apart.
    let made = apply(
        "same();\nother();\nsame();\n",
        &[edit("3\tsame();", "3\tthird();")],
    )
    .unwrap();
    assert_eq!(made.text, "same();\nother();\nthird();\n");
    let everywhere = apply("a\nb\na\n", &[all("3\ta", "3\tc")]).unwrap();
    assert_eq!((everywhere.text.as_str(), everywhere.places), ("c\nb\nc\n", 2));
    let numbered = "1\tone\n2\ttwo\n3\tthree\n";
    for (text, old) in [
        // Lines with numbers of their own.
        (numbered, "3\tone"),
        (numbered, "2\tone"),
        ("2\tone\n", "1\tone"),
        ("7\tone\n", "1\t7\tone"),
        // Another line, or numbers that do not count on.
        (PROGRAM, "3\t    let answer = 42;"),
        (
            PROGRAM,
            "2\t    let answer = 42;\n4\t    print(\"it’s\", answer);",
        ),
        (PROGRAM, "0\tfn main() {"),
        (
            PROGRAM,
            "18446744073709551615\tfn main() {\n18446744073709551616\t",
        ),
        ("a\nb\n", "7\ta"),
    ] {
        let refused = apply(text, &[edit(old, "3\tXX")]);
        assert!(refused.is_err(), "{old:?} became {refused:?}");
        apply(text, &[all(old, "3\tXX")]).unwrap_err();
    }
    // The place is shown without numbers that are wrong.
    let shown = apply(PROGRAM, &[edit("9\t    let answer = 42;", "x")]).unwrap_err();
    assert!(shown.to_string().contains("closest lines are 2 to 2"), "{shown}");
}

#[test]
fn a_number_that_belongs_to_the_new_text_stays() {
    let text = "status\tmeaning\nOK\tfine\nend\n";
    for separator in ["\t", ": ", "|"] {
        let old = format!("2{separator}OK\tfine");
        for new in ["200\tOK", "200: OK", "200|OK", "3\tOK", "2\tOK\n200\tOK"] {
            match apply(text, &[edit(&old, new)]) {
                Ok(edited) => assert_eq!(edited.text, text.replace("OK\tfine", new), "{separator:?}"),
                Err(error) => assert!(
                    error.to_string().contains("line numbers too is not clear"),
                    "{error}"
                ),
            }
        }
        // Those that go on are line numbers.
        let edited = apply(text, &[edit(&old, &format!("2{separator}OK\n3{separator}ALL"))]).unwrap();
        assert_eq!(edited.text, text.replace("OK\tfine", "OK\nALL"));
    }
}

#[test]
fn a_fence_round_the_old_text_only_adds_no_line() {
    for (new, expected) in [
        ("two();", "one\ntwo();\nthree\n"),
        ("two();\n", "one\ntwo();\nthree\n"),
        ("```\ntwo();\n```\n", "one\ntwo();\nthree\n"),
        ("", "one\nthree\n"),
        ("```\n```", "one\nthree\n"),
    ] {
        let edited = apply("one\nsecond();\nthree\n", &[edit("```rust\nsecond();\n```", new)]).unwrap();
        assert_eq!(edited.text, expected, "{new:?}");
    }
    let edited = apply("one\nsecond();", &[edit("```\nsecond();\n```", "")]).unwrap();
    assert_eq!(edited.text, "one\n");
}

#[test]
fn blanks_at_the_ends_of_all_lines_are_not_copied() {
    let bend = |text: &str| text.replace('\n', "  \n");
    let old = "fn main() {\n    let answer = 42;\n";
    let new = "fn main() {\n    // Why?\n    // It was computed.\n    let answer = 43;\n";
    let edited = apply(PROGRAM, &[edit(&bend(old), &bend(new))]).unwrap();
    assert_eq!(edited.text, PROGRAM.replace(old, new));
    // One line without them says that those of the others are meant.
    let text = "* one\n* two\n";
    let edited = apply(text, &[edit("*  one  \n* two", "*  one  \n* three  ")]).unwrap();
    assert!(edited.text.ends_with("* three  \n"), "{edited:?}");
}

#[test]
fn what_is_not_certain_is_refused() {
    for (text, old, new) in [
        // The old text has one indentation where the file has two.
        (
            "if a:\n    first()\nsecond()\n",
            "if a:\nfirst()\nsecond()",
            "if a:\nfirst()\nthird()",
        ),
        // Lines that differ within, and which of the new lines they become is unknown.
        (
            "say(\"a  b\")\n",
            "say(\"a b\")",
            "say(\"a b\", 1)\nsay(\"a b\", 2)",
        ),
        // Tabs and blanks: the width of a tab is unknown.
        (
            "\tlet first = 1;\n",
            "let first = 1; ",
            "let first = 1; \n  let second = 2;",
        ),
        // A bracket is no place.
        ("{\n  }\n", "} \n", "x"),
        // Numbers in front of some lines only.
        ("a line\nanother\n", "1\ta line\nanother", "1\ta line"),
        // New text with a fence of its own.
        ("a line of text\n", "```\na line of text\n```", "```\nx"),
    ] {
        let refused = apply(text, &[edit(old, new)]);
        assert!(refused.is_err(), "{old:?} became {refused:?}");
    }
    let twice = apply("  first line\nx\n\tfirst line\n", &[edit("first line ", "x")]).unwrap_err();
    assert!(
        twice.to_string().contains("found 2 times (lines 1, 3)"),
        "{twice}"
    );
}

#[test]
fn a_refusal_names_the_true_reason() {
    for (text, old, new, reason) in [
        // Whether the line break is one of the file or of the text is unknown.
        (
            "say(\"a\");\n",
            "say(\\\"a\\\");",
            "say(\\\"a\\nb\\\");",
            "exactly, and what was added to it can be left out in two ways",
        ),
        // Quotes with and without a backslash, entities and letters.
        (
            "say(\"a\");\n",
            "say(\\\"a\\\")\n",
            "say(\\\"a\", b)\n",
            "The closest lines are 1 to 1",
        ),
        (
            "if a < b {\n",
            "if a &lt; b {",
            "if a &lt; c && c < b {",
            "The closest lines are 1 to 1",
        ),
        (
            "<p>\"first\"</p>\n",
            "<p>&quot;first&quot;</p>",
            "<p>&quot;a&quot; &amp; b</p>",
            "exactly, and whether the new text has HTML entities too is not clear. The closest lines are 1 to 1",
        ),
        // Numbers of other lines, or of some new lines only.
        (
            PROGRAM,
            "3: let answer = 42;",
            "3: let answer = 43;",
            "at the lines that its line numbers name. The closest lines are 2 to 2 (- is old_text without line numbers",
        ),
        (
            PROGRAM,
            "2: let answer = 42;",
            "1: one",
            "whether the new text has line numbers too is not clear",
        ),
        (
            PROGRAM,
            "2: let answer = 42;",
            "2: let a = {\n1: 'a',\n2: 'b' }",
            "lines are 2 to 2",
        ),
        (
            PROGRAM,
            "2: let answer = 42;",
            "2: let answer = 43;\nlet b = 44;",
            "lines are 2 to 2",
        ),
        (
            "one\n'c'\n",
            "2: 'c",
            "2: 'd",
            "at the lines that its line numbers name",
        ),
        // The file has two forms of the same line.
        (
            "a = ‘first’\na = 'first'\nb = 'x–y'\n",
            "a = 'first'\na = 'first'\nb = 'x-y'",
            "a = 1",
            "which of them change",
        ),
    ] {
        let refused = apply(text, &[edit(old, new)]).unwrap_err().to_string();
        assert!(refused.contains(reason), "{old:?}: {refused}");
    }
}

#[test]
fn quotes_of_the_file_are_paired_among_themselves() {
    for (text, old, new, expected) in [
        ("code = “x”\n", "code = \"x\"", "code = \"y\"", "code = “y”\n"),
        ("code = “x”\n", "code = \"x\"", "c = \"y\"", "c = \"y\"\n"),
        ("code = “x”\n", "code = \"x\"", "b = 1\nc = 2", "b = 1\nc = 2\n"),
        (
            "code = “x”\n",
            "code = \"x\"",
            "b = 1\ncode = \"xy\"",
            "b = 1\ncode = “xy”\n",
        ),
        // A part of a line.
        ("  say(“x y z”);\n", "say(\"x y z", "say(\"x y", "  say(“x y”);\n"),
        (
            "  say(“x\u{a0}y z”);\n",
            "say(\"x y z\"",
            "say(\"x y\"",
            "  say(“x\u{a0}y”);\n",
        ),
    ] {
        let edited = apply(text, &[edit(old, new)]).map(|edited| edited.text);
        assert_eq!(edited.as_deref(), Ok(expected), "{new}");
    }
}

/// One that the model wrote plainly in the old text is meant where the new text has another form.
#[test]
fn only_typography_that_differs_is_made_plain() {
    let text = "don't say \"x\" - now\n";
    for (old, new, expected) in [
        (
            "don’t say \"x\" - now",
            "don’t say “x” – now",
            "don't say “x” – now\n",
        ),
        (
            "don’t say \"x\"",
            "don’t say ‘x’ – “y”",
            "don't say 'x' – “y” - now\n",
        ),
        (
            "don't say “x” - now",
            "don't say “y’s” — now",
            "don't say \"y’s\" — now\n",
        ),
        // Nothing says whether it is meant, so the file decides.
        ("don’t say", "don’t “say”", "don't \"say\" \"x\" - now\n"),
        (
            "don't say \"x\" – now",
            "don't say “x” — now",
            "don't say “x” - now\n",
        ),
    ] {
        let edited = apply(text, &[edit(old, new)]).map(|edited| edited.text);
        assert_eq!(edited.as_deref(), Ok(expected), "{new}");
    }
}

#[test]
fn an_empty_old_text_fills_an_empty_file() {
    let edited = apply("", &[edit("", "a\nb\n")]).unwrap();
    assert_eq!((edited.text.as_str(), edited.places), ("a\nb\n", 1));
    assert!(
        edited.notes[0].starts_with("old_text is empty, and so was the file"),
        "{edited:?}"
    );
    assert_eq!(
        apply("\n", &[edit("", "a")]).unwrap_err().problem,
        EditProblem::Empty
    );
}

#[test]
fn edits_with_nothing_to_do_are_skipped() {
    let edited = apply(
        PROGRAM,
        &[
            edit("42", "42"),
            edit("42;\n", "42;\r\n"),
            edit("answer);", "x);"),
        ],
    )
    .unwrap();
    assert_eq!(edited.text, PROGRAM.replace("answer);", "x);"));
    assert_eq!(
        edited.notes,
        [
            "edit 1: skipped: old_text and new_text are the same",
            "edit 2: skipped: old_text and new_text are the same"
        ]
    );
    let absent = apply(PROGRAM, &[edit("a\n", "a\r\n")]).unwrap_err();
    assert!(absent.to_string().contains("old_text was not found"), "{absent}");
}

#[test]
fn only_what_was_surely_made_before_is_already_there() {
    let two = "fn a() {\n    return 1;\n}\nfn b() {\n    return 2;\n}\n";
    let block = "    let a = 1;\n    let b = 2;\n    let c = 3;";
    for (text, old, new, line) in [
        // A line that stays occurs only there.
        (two, "fn b() {\n    return 17;", "fn b() {\n    return 2;", 4),
        ("x\nb\n", "x\na", "x\nb", 1),
        // It is the whole file.
        ("new\n", "old", "new", 1),
        // Too much for a coincidence.
        (block, "    do_it();", block, 1),
        (&format!("{two}{block}\n"), "    do_it();", block, 7),
    ] {
        let there = apply(text, &[edit(old, new)]).unwrap();
        assert_eq!((there.text.as_str(), there.places), (text, 0), "{new:?}");
        assert!(
            there.notes[0].ends_with(&format!("new_text is already there (line {line})")),
            "{there:?}"
        );
    }
    for (text, old, new) in [
        // Another function has the line, or all of the lines.
        (two, "    return 17;", "    return 2;"),
        (two, "    return 17;\n}", "    return 2;\n}"),
        (PROGRAM, "let answer = 41;", "    let answer = 42;"),
        // The old text resembles another place.
        (
            &format!("{block}\n{two}    let x = first(1, 2);\n    let y = second(3);\n"),
            "    let x = first(1, 2);\n    let y = secnd(3);",
            block,
        ),
        // Too short, or only a part of a line.
        (PROGRAM, "let answer = 41;", "}"),
        (PROGRAM, "let answer = 41;", "answer = 42"),
    ] {
        let refused = apply(text, &[edit(old, new)]).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.starts_with("old_text was not found"), "{refused}");
    }
    let refused = apply(two, &[edit("    return 17;", "    return 2;")]).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("old_text was not found, but new_text is at line 5. The closest lines are"),
        "{refused}"
    );
}

#[test]
fn a_refusal_shows_the_closest_lines() {
    let refuse = |text: &str, old: &str| apply(text, &[edit(old, "x")]).unwrap_err().to_string();
    assert_eq!(
        refuse(
            PROGRAM,
            "fn main() {\n    let result = 42;\n    print(\"no\");\n}"
        ),
        "old_text was not found. The closest lines are 1 to 4 (- is old_text, + is the file):\n fn main() {\n\
         -    let result = 42;\n-    print(\"no\");\n+    let answer = 42;\n+    print(\"it’s\", answer);\n }"
    );
    assert!(refuse(PROGRAM, "let anwser = 42;").ends_with(
        "lines are 2 to 2 (- is old_text, + is the file):\n-let anwser = 42;\n+    let answer = 42;"
    ));
    assert_eq!(
        refuse(PROGRAM, "nothing of the kind at all"),
        "old_text was not found, and nothing in the file is similar; read the file again"
    );
    // No more than sixty lines, and no line of any length.
    let long: String = (0..200)
        .map(|number| format!("line {number} {}\n", "x".repeat(1_000)))
        .collect();
    let shown = refuse(&long, &long.replace("line 1", "lime 1"));
    assert!(
        shown.contains("\n[74 equal lines]\n")
            && shown.ends_with("\n[177 more lines]")
            && shown.len() < 15_000
            && shown.lines().count() == 62,
        "{}",
        shown.len()
    );
    // Of both sides, if they have nothing in common.
    let long: String = (0..200)
        .map(|number| format!("value {number} is here\n"))
        .collect();
    let shown = refuse(&long, &long.replace("here", "hare"));
    let count = |mark: &str| shown.matches(mark).count();
    assert_eq!((count("\n-value"), count("\n+value")), (30, 30), "{shown}");
    assert!(shown.ends_with("\n[340 more lines]"), "{shown}");
    let ambiguous = refuse("one {\n  end\n}\ntwo {\n  end\n}\n", "  end\n");
    assert!(
        ambiguous.ends_with(
            "set replace_all\n     1\tone {\n     2\t  end\n     3\t}\n---\n     4\ttwo {\n     5\t  end\n     6\t}"
        ),
        "{ambiguous}"
    );
}

proptest! {
    /// Read with `\n`, the result equals that of a plain replacement; everything outside stays the same. The last line
    /// may lack the line break that the old text has.
    #[test]
    fn equals_a_plain_replacement(text in "([ab]|\r\n|\n){0,20}", old in "([ab]|\n){1,3}", new in "([abc]|\n){0,3}") {
        match apply(&text, &[all(&old, &new)]) {
            Ok(edited) if edited.places == 0 => prop_assert_eq!(edited.text, text),
            Ok(edited) if old == "\n" || !old.ends_with('\n') || text.ends_with('\n') => {
                prop_assert_eq!(unix_lines(&edited.text), unix_lines(&text).replace(&old, &new));
            }
            // As if the last line had a line break, which the file does not get.
            Ok(edited) => {
                let text = unix_lines(&text) + "\n";
                let last = text.match_indices(&old).last();
                let is_last_replaced = last.is_some_and(|(at, _)| at + old.len() == text.len());
                let end = if !is_last_replaced || new.ends_with('\n') { "\n" } else { "" };
                prop_assert_eq!(unix_lines(&edited.text) + end, text.replace(&old, &new));
            }
            Err(error) => match error.problem {
                EditProblem::NotFound { .. } => prop_assert!(!unix_lines(&text).contains(&old)),
                other => panic!("{other:?}"),
            },
        }
    }

    /// A file with one kind of line end keeps that kind.
    #[test]
    fn a_uniform_line_end_is_kept(text in "([ab]{0,2}\r\n){1,6}", old in "([ab]|\n){1,3}", new in "([abc]|\n){0,3}") {
        if let Ok(edited) = apply(&text, &[all(&old, &new)]) {
            prop_assert_eq!(edited.text.matches('\n').count(), edited.text.matches("\r\n").count());
        }
    }

    /// All or nothing, and the opposite edit undoes an edit.
    #[test]
    fn the_opposite_edit_undoes_an_edit(text in "([abü]|\r\n|\n){0,16}", old in "[abü]{1,2}", new in "[c-e]{1,3}") {
        if let Ok(edited) = apply(&text, &[all(&old, &new)]) {
            prop_assert_eq!(apply(&edited.text, &[all(&new, &old)]).unwrap().text, text);
        }
    }
}
