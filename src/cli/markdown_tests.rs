//! How Markdown renders, and that the splitting of its input makes no difference.

use proptest::prelude::*;

use super::*;

const PLAIN: Styler = Styler {
    use_color: false,
    dumb: false,
};
const COLOUR: Styler = Styler {
    use_color: true,
    dumb: false,
};

fn render(styler: Styler, width: usize, text: &str) -> String {
    let mut markdown = Markdown::new(styler, width, width);
    markdown.push(text) + &markdown.finish()
}

/// Shows escape sequences as `{1;36}`, and a reset as `{}`.
fn looks(text: &str) -> String {
    let rendered = render(COLOUR, 40, text);
    let mut out = String::new();
    for (number, piece) in rendered.split("\u{1b}[").enumerate() {
        match piece.split_once('m').filter(|_| number > 0) {
            Some(("0", rest)) => out += &format!("{{}}{rest}"),
            Some((code, rest)) => out += &format!("{{{code}}}{rest}"),
            None => out += piece,
        }
    }
    out
}

const LONG: &str = "# Title with `code`\n\nA **bold** word, *an* __other__ ~~gone~~ and `code **kept**` here, long \
enough to be folded twice at forty columns.\n- one\n  - nested item that is also long enough to be folded\n1. first\n\
10) tenth\n> quoted text\n\n\n```rust\nfn main() { // é\n\n}\n```\nafter [a link](https://x.example/é) and [not] \
one [x](rel)\n\n| a | **b** |\n|---|:-:|\n| 1 | two |\n\n---\n***both*** 2 * 3 * 4 snake_case_name \\*no\\*\n日本語の\
文章は単語の間に空白がないので、どこでも折り返せます。\n~~~\nopen";

#[test]
fn blocks_and_spans_render() {
    for (text, expected) in [
        ("plain", "plain\n"),
        ("a **b** c", "a {1}b {}c\n"),
        ("*i* _i_ x_y_z", "{3}i i {}x_y_z\n"),
        ("2 * 3 * 4", "2 * 3 * 4\n"),
        ("`a*b*`", "{36}a*b*{}\n"),
        ("``a`b``", "{36}a`b{}\n"),
        ("## Head **x**", "{1;36}Head {}{1;36;1}x{}\n"),
        ("#hash", "#hash\n"),
        ("**open", "{1}open{}\n"),
        ("- item", "{2}• {}item\n"),
        (
            "- [ ] open\n- [x] done\n* [X] done",
            "{2}☐ {}open\n{2}☑ {}done\n{2}☑ {}done\n",
        ),
        ("- [link] x\n- [", "{2}• {}[link] x\n{2}• {}[\n"),
        ("-5 is", "-5 is\n"),
        ("> q", "{2}▎ {}{2}q{}\n"),
        ("a\n\n\n\nb", "a\n\nb\n"),
        ("\n\na", "a\n"),
        ("---", "{2}────────────────────────────────────────{}\n"),
        ("***b***", "{1;3}b{}\n"),
        ("[x] done", "[x] done\n"),
        ("[t](https://u)", "{4}t {}{2}(https://u){}\n"),
        ("[t](file.rs)!", "{4}t{}!\n"),
        ("[open", "[open\n"),
        ("**[t](u)**", "{1;4}t{}\n"),
        ("\\*a\\*", "*a*\n"),
        ("```\n**x**\n```", "  {36}**x**{}\n"),
        ("```diff\n-old\n x\n```", "  {31}-old{}\n   x\n"),
        ("```\nunclosed", "  {36}unclosed{}\n"),
        ("\u{1b}[31mx\u{202e}", "x\n"),
        (
            "a\u{1b}]0;title\u{7}b\u{1b}]8;;u\u{1b}\\c\u{9b}1md\u{1b}(Be",
            "abcde\n",
        ),
        ("a\u{1b}]open\nb", "a\nb\n"),
        ("-", "-\n"),
        ("1.", "1.\n"),
    ] {
        let rendered = looks(text);
        assert_eq!(rendered, expected, "{text:?}");
    }
}

#[test]
fn text_wraps_at_words_with_hanging_indent() {
    assert_eq!(
        render(PLAIN, 20, "- one two three four five"),
        "• one two three four\n  five\n"
    );
    assert_eq!(render(PLAIN, 10, "aaaaaaaaaaaaaaa b"), "aaaaaaaaaa\naaaaa b\n");
    assert_eq!(render(PLAIN, 10, "日本語日本語"), "日本語日本\n語\n");
    assert_eq!(render(PLAIN, 12, "> one two three"), "▎ one two\n▎ three\n");
}

#[test]
fn tables_are_aligned_and_wrapped() {
    let text = "| a | b |\n|---|---|\n| long | x |\n\nafter";
    assert_eq!(render(PLAIN, 40, text), "a    │ b\n─────┼──\nlong │ x\n\nafter\n");
    let code = render(COLOUR, 40, "|`a`|b|\n|-|-|\n|cc|d|");
    assert_eq!(strip_colors(&code), "a  │ b\n───┼──\ncc │ d\n");
    let wide = "| name | what |\n|--|--|\n| one | a very long cell that is folded |";
    for line in render(PLAIN, 24, wide).lines() {
        assert!(measure_width(line) <= 24, "{line}");
    }
}

#[test]
fn splitting_the_input_makes_no_difference() {
    for styler in [PLAIN, COLOUR] {
        let expected = render(styler, 40, LONG);
        for cut in (0..=LONG.len()).filter(|at| LONG.is_char_boundary(*at)) {
            let mut markdown = Markdown::new(styler, 40, 40);
            let rendered = markdown.push(&LONG[..cut]) + &markdown.push(&LONG[cut..]) + &markdown.finish();
            assert_eq!(rendered, expected, "cut at {cut}");
        }
        let mut markdown = Markdown::new(styler, 40, 40);
        let single: String = LONG.chars().map(|ch| markdown.push(&ch.to_string())).collect();
        assert_eq!(single + &markdown.finish(), expected);
    }
}

#[test]
fn lines_never_exceed_the_width() {
    let code = |line: &str| line.starts_with("  ");
    for line in render(PLAIN, 40, LONG).lines().filter(|line| !code(line)) {
        assert!(measure_width(line) <= 40, "{line}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_renders_the_same_in_two_pieces(text in "[-*_`~#>|\\[\\]() a1.\n\\\\é日\u{1b}]{0,80}", at in 0usize..80) {
        let expected = render(COLOUR, 20, &text);
        let at = text.floor_char_boundary(at.min(text.len()));
        let mut markdown = Markdown::new(COLOUR, 20, 20);
        let shown = markdown.push(&text[..at]) + &markdown.push(&text[at..]) + &markdown.finish();
        prop_assert_eq!(&shown, &expected);
        // Every style that starts also ends.
        let last = shown.rfind("\u{1b}[").map(|at| &shown[at..]);
        prop_assert!(last.is_none_or(|last| last.starts_with("\u{1b}[0m")), "{}", shown);
    }
}
