//! Hunks in texts: where they fit, and what is refused.

use super::*;

const PROGRAM: &str = "class Cart:\n    def total(self):\n        net = self.net\n        return net\n\n    def weight(self):\n        \
                       net = self.grams\n        return net\n\n\ndef total(cart):\n    return net\n";

/// Builds a hunk from lines with a mark at the start.
fn hunk(headers: &[&str], lines: &str) -> Hunk {
    let lines = lines.lines().map(|line| match line.split_at(1) {
        ("+", line) => HunkLine::Add(line.to_owned()),
        ("-", line) => HunkLine::Remove(line.to_owned()),
        (_, line) => HunkLine::Keep(line.to_owned()),
    });
    Hunk {
        headers: headers.iter().map(|header| (*header).to_owned()).collect(),
        lines: lines.collect(),
        is_at_end: false,
    }
}

fn at_end(lines: &str) -> Hunk {
    Hunk {
        is_at_end: true,
        ..hunk(&[], lines)
    }
}

fn apply(text: &str, hunks: &[Hunk]) -> String {
    apply_hunks(text, hunks).unwrap().text
}

fn refuse(text: &str, hunks: &[Hunk]) -> String {
    apply_hunks(text, hunks).unwrap_err().to_string()
}

#[test]
fn hunks_are_applied_in_any_order() {
    let hunks = [
        hunk(&[], " def total(cart):\n-    return net\n+    return cart.net"),
        hunk(&[], "-        net = self.net\n+        net = self.net or 0"),
    ];
    let edited = apply_hunks(PROGRAM, &hunks).unwrap();
    assert_eq!(
        edited.text,
        PROGRAM
            .replace("self.net\n", "self.net or 0\n")
            .replace("cart):\n    return net", "cart):\n    return cart.net")
    );
    assert_eq!((edited.places, edited.notes.len()), (2, 0));
}

#[test]
fn headers_choose_among_places() {
    let lines = "-        return net\n+        return 2 * net";
    for (headers, number) in [
        (&["def total(self):"][..], 4),
        (&["    def weight"], 8),
        (&["class Cart", "def weight"], 8),
    ] {
        let text = apply(PROGRAM, &[hunk(headers, lines)]);
        let changed: Vec<usize> = (1..)
            .zip(text.lines().zip(PROGRAM.lines()))
            .filter(|(_, (new, old))| new != old)
            .map(|(number, _)| number)
            .collect();
        assert_eq!(changed, [number], "{headers:?}");
    }
    for headers in [&[][..], &["class Cart"], &["no such line"], &["def tot"]] {
        let refused = refuse(PROGRAM, &[hunk(headers, lines)]);
        assert!(
            refused.starts_with("the hunk fits at 2 places (lines 4, 8)")
                && refused.contains("     8\t        return net"),
            "{headers:?}: {refused}"
        );
    }
    // One place that contradicts its header is refused; a header that is not there says nothing.
    let above = hunk(&["def total(cart):"], "-class Cart:\n+class Basket:");
    assert!(refuse(PROGRAM, &[above]).contains("fits only above the line"));
    let unknown = hunk(&["def gone"], "-class Cart:\n+class Basket:");
    assert!(apply(PROGRAM, &[unknown]).starts_with("class Basket:"));
}

#[test]
fn a_hunk_that_is_nowhere_shows_the_closest_lines() {
    let hunks = [
        hunk(&[], "-class Cart:\n+class Basket:"),
        hunk(
            &[],
            "     def total(self):\n-        net = self.netto\n+        net = 1",
        ),
    ];
    let refused = refuse(PROGRAM, &hunks);
    assert!(
        refused.starts_with(
            "hunk 2 of 2 was not found. The closest lines are 2 to 3 (- is the patch, + is the file):\n"
        ) && refused.ends_with("-        net = self.netto\n+        net = self.net"),
        "{refused}"
    );
}

#[test]
fn white_space_and_typography_follow_the_file() {
    let text = "if ready:\n\tsay(\"it's\")\n\tgo_on()\n";
    let edited = apply_hunks(
        text,
        &[hunk(&[], "     say(“it’s”)\n-    go_on()\n+    go_back()")],
    )
    .unwrap();
    assert_eq!(edited.text, text.replace("go_on", "go_back"));
    assert!(
        edited.notes[0]
            .starts_with("the hunk differs from the file in white space or typography; made at line 2"),
        "{edited:?}"
    );
    // What is unclear by itself may be clear below a header.
    let text = "def a():\n    go_onward() \ndef b():\n    go_onward() \n";
    let lines = "-    go_onward()\n+    go_backward()";
    assert!(refuse(text, &[hunk(&[], lines)]).contains("fits at 2 places (lines 2, 4)"));
    assert_eq!(
        apply(text, &[hunk(&["def b"], lines)]),
        "def a():\n    go_onward() \ndef b():\n    go_backward()\n"
    );
}

#[test]
fn line_ends_and_the_end_of_the_file_stay() {
    assert_eq!(
        apply("a\r\nb\nc\r\n", &[hunk(&[], " a\n b\n-c\n+d\n+e")]),
        "a\r\nb\nd\r\ne\r\n"
    );
    assert_eq!(apply("a\nb", &[hunk(&[], " a\n-b\n+c")]), "a\nc");
    assert_eq!(apply("a\nb", &[hunk(&[], " a\n b\n+c")]), "a\nb\nc");
    assert_eq!(apply("a\nb", &[hunk(&[], " a\n-b")]), "a");
    assert_eq!(apply("a\n", &[hunk(&[], "-a")]), "");
    assert_eq!(apply("", &[hunk(&[], "+a\n+b")]), "a\nb\n");
    assert_eq!(apply("a\n", &[at_end("+b")]), "a\nb\n");
    assert_eq!(apply("x\ny\nx\n", &[at_end("-x\n+z")]), "x\ny\nz\n");
    assert!(refuse("x\ny\n", &[at_end("-x\n+z")]).contains("at the end of the file, but more lines"));
    assert!(refuse("a\n", &[hunk(&[], "+b")]).contains("has only new lines"));
}

#[test]
fn blank_lines_around_a_hunk_that_the_file_lacks_do_not_move_its_end() {
    let last = |lines: &str| at_end(&format!("{lines}\n "));
    for (text, expected) in [
        ("a();\n  call_it();\n", "a();\n  call_all();\n"),
        (
            "  call_it();\nb();\n  call_it();\n",
            "  call_it();\nb();\n  call_all();\n",
        ),
        ("a();\n  call_it();\n\n\n", "a();\n  call_all();\n\n\n"),
    ] {
        for hunk in [
            last("-call_it();\n+call_all();"),
            at_end(" \n-call_it();\n+call_all();"),
        ] {
            assert_eq!(apply(text, &[hunk]), expected);
        }
    }
    let refused = refuse("  call_it();\nb();\n", &[last("-call_it();\n+call_all();")]);
    assert!(
        refused.contains("at the end of the file, but more lines"),
        "{refused}"
    );
}

#[test]
fn a_header_is_sought_among_the_lines_that_begin_with_it() {
    let text: String = (0..3_000).map(|number| format!("fn f_{number}() {{\n")).collect();
    let folded = FoldedText::new(&text);
    assert_eq!(folded.iter_keys("fn f_299").count(), 11);
    assert_eq!(folded.iter_keys("fn g").count(), 0);
}

#[test]
fn hunks_that_overlap_are_refused() {
    let twice = hunk(&[], "-a\n+b");
    assert!(refuse("a\n", &[twice.clone(), twice]).contains("two hunks change the same lines"));
    // Lines that both keep are no conflict.
    assert_eq!(
        apply("a\nb\nc\n", &[hunk(&[], "-a\n+1\n b"), hunk(&[], " b\n-c\n+3")]),
        "1\nb\n3\n"
    );
}

#[test]
fn a_hunk_with_nothing_to_do_is_skipped() {
    let edited = apply_hunks(
        PROGRAM,
        &[
            hunk(&[], " class Cart:"),
            hunk(
                &[],
                "     def weight(self):\n-        net = self.kilos\n+        net = self.grams",
            ),
        ],
    )
    .unwrap();
    assert_eq!((edited.text.as_str(), edited.places), (PROGRAM, 0));
    assert_eq!(
        edited.notes,
        [
            "hunk 1 was skipped: it changes nothing",
            "hunk 2 was skipped: its old lines are not in the file, and its new ones are already there (line 6)"
        ]
    );
    let edited = apply_hunks("new\n", &[hunk(&[], "-old\n+new")]).unwrap();
    assert_eq!((edited.text.as_str(), edited.places), ("new\n", 0));
    // Another place may have the line.
    let refused = refuse(
        PROGRAM,
        &[hunk(&[], "-        net = self.kilos\n+        net = self.grams")],
    );
    assert!(
        refused.starts_with("the hunk was not found, but its new lines are at line 7. The closest lines"),
        "{refused}"
    );
}
