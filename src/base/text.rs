//! Cutting and cleaning text: on character boundaries, with every cut stated, and safe for terminals (R-SEC).
//!
//! Pure. [`is_hidden`] is the one table of invisible characters; each function here applies it for another reader:
//! people, people who approve, models, and programs.

/// Returns the longest prefix of at most `max` bytes that ends on a character boundary.
pub fn prefix_within(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns the longest suffix of at most `max` bytes that starts on a character boundary.
pub fn suffix_within(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

/// Cuts the middle out of `text` so that about `max` characters remain, and states how many are gone, including those
/// that an earlier cut in this middle removed.
///
/// Returns `None` if `text` fits uncut.
pub fn cut_middle(text: &str, max: usize) -> Option<String> {
    // A character has at least one byte, so this needs no count of characters.
    if text.len() <= max {
        return None;
    }
    let total = text.chars().count();
    if total <= max {
        return None;
    }
    let head_chars = max / 2;
    let tail_chars = max - head_chars;
    let head_end = text
        .char_indices()
        .nth(head_chars)
        .map_or(text.len(), |(at, _)| at);
    let tail_start = text
        .char_indices()
        .nth(total - tail_chars)
        .map_or(text.len(), |(at, _)| at);
    let removed = count_removed(&text[head_end..tail_start]);
    Some(format!(
        "{}{CUT_START}{removed}{CUT_END}{}",
        &text[..head_end],
        &text[tail_start..]
    ))
}

/// What surrounds the number of characters that are cut.
const CUT_START: &str = "\n[… ";
const CUT_END: &str = " characters cut …]\n";

/// Returns how many characters `middle` has, with those that earlier cuts removed in place of their marks.
fn count_removed(middle: &str) -> usize {
    let mut parts = middle.split(CUT_START);
    let first = parts.next().unwrap_or_default().chars().count();
    parts.fold(first, |count, part| {
        let mark = part.split_once(CUT_END);
        let earlier = mark.and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest)));
        count.saturating_add(match earlier {
            Some((removed, rest)) => removed.saturating_add(rest.chars().count()),
            None => CUT_START.chars().count() + part.chars().count(),
        })
    })
}

/// Returns one line for users: white space folded, at most `max` characters, with an ellipsis if it was cut.
pub fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if count > 0 {
            if count + 1 >= max {
                line.push('…');
                return line;
            }
            line.push(' ');
            count += 1;
        }
        for ch in word.chars() {
            if count + 1 >= max {
                line.push('…');
                return line;
            }
            line.push(ch);
            count += 1;
        }
    }
    line
}

/// Returns the longest beginning of at most `max` bytes that ends between words. What is redacted later must not be cut
/// in its middle.
pub fn prefix_of_words(text: &str, max: usize) -> &str {
    let kept = prefix_within(text, max);
    if text[kept.len()..].starts_with(|c: char| !c.is_whitespace()) {
        kept.rfind(char::is_whitespace).map_or("", |end| &kept[..end])
    } else {
        kept
    }
}

/// Returns one line for users, like [`one_line`], but of whole words and at most `max` bytes.
pub fn one_line_of_words(text: &str, max: usize) -> String {
    let mut line = one_line(text, usize::MAX);
    let kept = prefix_of_words(&line, max).len();
    if kept < line.len() {
        line.truncate(kept);
        line.push('…');
    }
    line
}

/// Makes text safe to show by removing terminal escape sequences, control characters, and hidden characters (R-SEC).
///
/// Tabs and line feeds stay; a carriage return becomes a line feed unless one follows. What a script or an emoji needs
/// (one joiner, one variation selector) stays where it has an effect.
pub fn strip_control_characters(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(ch) = chars.next() {
        match ch {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\u{2028}' | '\u{2029}' => clean.push('\n'),
            _ if is_plain(ch) || has_effect(&clean, ch) => clean.push(ch),
            _ => {}
        }
    }
    clean.into()
}

/// Makes text that a user approves safe to show: every control character, hidden character, and odd space is visible.
///
/// Nothing is removed, so that what is approved is what is read (R-SEC). Tabs and line feeds stay as they are; a
/// carriage return before a line feed is dropped.
pub fn reveal_hidden_characters(text: &str) -> std::borrow::Cow<'_, str> {
    let harmless = |c: char| is_plain(c) && !is_odd_space(c);
    if text.chars().all(harmless) {
        return text.into();
    }
    let mut clear = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(ch) = chars.next() {
        match ch {
            '\r' if chars.peek() == Some(&'\n') => {}
            _ if harmless(ch) => clear.push(ch),
            // Unicode has a visible symbol for each ASCII control character.
            '\0'..='\u{1f}' => clear.push(char::from_u32(0x2400 + u32::from(ch)).unwrap_or('\u{fffd}')),
            '\u{7f}' => clear.push('\u{2421}'),
            _ => write_out(&mut clear, ch),
        }
    }
    clear.into()
}

/// Returns a file's name or path as one line of a list. A name with a line end or another control character is quoted
/// and escaped, so that one entry never looks like two.
pub fn name_in_list(name: &str) -> std::borrow::Cow<'_, str> {
    let breaks = |c: char| c.is_control() || is_hidden(c);
    if name.chars().any(breaks) {
        format!("{name:?}").into()
    } else {
        name.into()
    }
}

/// Escapes hidden text in what a model reads, so that a model reads nothing that people do not see.
///
/// Tag characters and runs of other hidden characters are written as code points. A hidden character that stands alone
/// stays, so that a file can be edited as it was read.
pub fn escape_hidden_characters(text: &str) -> std::borrow::Cow<'_, str> {
    /// How many characters of a run are written one by one. Each grows to eight or more, and a run may be long.
    const WRITTEN: usize = 32;
    if text.is_ascii() || !text.chars().any(is_hidden) {
        return text.into();
    }
    let mut clear = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(from) = rest.find(is_hidden) {
        clear.push_str(&rest[..from]);
        rest = &rest[from..];
        let length = rest.find(|ch| !is_hidden(ch)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        rest = after;
        if !is_carrier(&clear, run) {
            clear.push_str(run);
            continue;
        }
        let count = run.chars().count();
        run.chars().take(WRITTEN).for_each(|ch| write_out(&mut clear, ch));
        if count > WRITTEN {
            clear.push_str(&format!("<and {} more hidden characters>", count - WRITTEN));
        }
    }
    clear.push_str(rest);
    clear.into()
}

/// Escapes JSON for a terminal: what is not ASCII and could act on the terminal becomes a JSON escape.
pub fn escape_for_terminal(json: &str) -> std::borrow::Cow<'_, str> {
    use std::fmt::Write;
    let harmless = |ch: char| ch.is_ascii() || !(ch.is_control() || is_hidden(ch));
    if json.chars().all(harmless) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len() + 16);
    for ch in json.chars() {
        if harmless(ch) {
            out.push(ch);
            continue;
        }
        for unit in ch.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out.into()
}

/// Returns whether a run of hidden characters after `before` may carry hidden text.
///
/// It may if it contains tags, or is longer than emoji and scripts need. So may a run that starts with a variation
/// selector without effect.
fn is_carrier(before: &str, run: &str) -> bool {
    let is_tag = |ch| matches!(ch, '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}');
    let is_selector = |ch| matches!(ch, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    let idle_selector = run.starts_with(is_selector) && !run.starts_with(|first| has_effect(before, first));
    let needed = run.strip_prefix('\u{fe0f}').unwrap_or(run);
    run.contains(is_tag) || idle_selector || needed.chars().count() > 1
}

fn write_out(text: &mut String, ch: char) {
    use std::fmt::Write;
    // Writing to a string cannot fail.
    let _ = write!(text, "<U+{:04X}>", u32::from(ch));
}

/// Returns whether a character is neither a control character nor hidden.
fn is_plain(ch: char) -> bool {
    match ch {
        ' '..='~' | '\n' | '\t' => true,
        _ => !(ch.is_control() || is_hidden(ch)),
    }
}

/// Returns whether a character is invisible, or changes the order in which others are read.
///
/// These are Unicode's default ignorable code points, and the annotation, separator, and filler characters around them.
pub fn is_hidden(ch: char) -> bool {
    matches!(
        ch,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{16fe4}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d159}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns whether a character looks like a space, or like nothing, and is not the usual space.
fn is_odd_space(ch: char) -> bool {
    matches!(
        ch,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}'
    )
}

/// Returns whether a hidden character changes how the text before it looks.
///
/// That is one joiner or one variation selector after a character that is not ASCII (or is the base of a keycap).
fn has_effect(before: &str, ch: char) -> bool {
    let mut before = before.chars().rev();
    let Some(last) = before.next() else { return false };
    match ch {
        '\u{200c}' | '\u{200d}' => {
            let base = if last == '\u{fe0f}' {
                before.next()
            } else {
                Some(last)
            };
            base.is_some_and(|base| !base.is_ascii() && !is_hidden(base))
        }
        '\u{fe0e}' | '\u{fe0f}' => {
            matches!(last, '0'..='9' | '#' | '*') || !last.is_ascii() && !is_hidden(last)
        }
        '\u{180b}'..='\u{180d}' | '\u{180f}' => matches!(last, '\u{1820}'..='\u{18aa}'),
        '\u{e0100}'..='\u{e01ef}' => matches!(last, '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}'),
        _ => false,
    }
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => skip_csi(chars),
        // Strings (OSC, DCS, APC, PM, SOS) run to BEL or ESC \. One that never ends swallows its own line, but not
        // the text after it.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(ch) = chars.next_if(|ch| *ch != '\n') {
                if ch == '\u{7}' || ch == '\u{9c}' {
                    return;
                }
                if ch == '\u{1b}' {
                    chars.next_if_eq(&'\\');
                    return;
                }
            }
        }
        // Intermediate bytes, then one final byte.
        Some(' '..='/') => while chars.next().is_some_and(|c| matches!(c, ' '..='/')) {},
        Some(_) | None => {}
    }
}

fn skip_csi(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    // Parameter and intermediate bytes, then one final byte.
    for ch in chars.by_ref() {
        if !matches!(ch, ' '..='?') {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_the_middle_and_says_so() {
        assert_eq!(cut_middle("short", 5), None);
        assert_eq!(cut_middle("ééééé", 5), None);
        let cut = cut_middle(&"x".repeat(100), 10).unwrap();
        assert_eq!(cut, "xxxxx\n[… 90 characters cut …]\nxxxxx");
    }

    #[test]
    fn escape_sequences_and_hidden_characters_are_removed() {
        for (raw, clean) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("a\r\nb\rc", "a\nb\nc"),
            ("bell\u{7}null\0", "bellnull"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}(Bx", "x"),
            ("unfinished \u{1b}[", "unfinished "),
            ("evil\u{202e}txt", "eviltxt"),
            ("a\u{1b}]no end\nb\u{1b}Pno end\r\nc", "a\nb\nc"),
            ("a\u{200b}b\u{200d}c\u{feff}\u{ad}\u{3164}", "abc"),
            ("x\u{e0041}\u{e0042}\u{fe0f}\u{fe0e}", "x"),
            ("a\u{2028}b", "a\nb"),
            // Emoji, keycaps, Persian, and Han keep what they need, and no more.
            (
                "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
                "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            ),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("葛\u{e0100}", "葛\u{e0100}"),
            ("❤\u{fe0f}\u{fe0f}\u{fe01}\u{e0101}", "❤\u{fe0f}"),
            ("می\u{200c}\u{200d}\u{200c}", "می\u{200c}"),
        ] {
            assert_eq!(strip_control_characters(raw), clean, "{raw:?}");
        }
    }

    #[test]
    fn hidden_characters_are_visible_in_approvals_and_removed_elsewhere() {
        let named = [
            0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x180e, 0x200b, 0x200f, 0x2028, 0x2029, 0x202e, 0x2060,
            0x2064, 0x2065, 0x2069, 0x206f, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0xfffb, 0x1d173,
            0x1d17a, 0xe0001, 0xe0020, 0xe007f, 0xe0100, 0xe01ef,
        ];
        for code in named {
            let hidden = char::from_u32(code).unwrap();
            let text = format!("a{hidden}b");
            assert_eq!(reveal_hidden_characters(&text), format!("a<U+{code:04X}>b"));
            assert!(!strip_control_characters(&text).contains(hidden), "{code:x}");
        }
        for code in [
            0xa0, 0x2000, 0x2007, 0x200a, 0x202f, 0x205f, 0x1680, 0x2800, 0x9b, 0x85,
        ] {
            let text = format!("a{}b", char::from_u32(code).unwrap());
            assert_eq!(reveal_hidden_characters(&text), format!("a<U+{code:04X}>b"));
        }
        assert_eq!(reveal_hidden_characters("👩\u{200d}💻"), "👩<U+200D>💻");
        assert_eq!(
            escape_for_terminal("{\"a\":\"\u{9b}\u{202e}é\u{e0041}\"}"),
            "{\"a\":\"\\u009b\\u202eé\\udb40\\udc41\"}"
        );
    }

    #[test]
    fn a_model_reads_nothing_that_people_do_not_see() {
        for (raw, clear) in [
            ("plain ❤\u{fe0f}\u{200d}🔥 می\u{200c}خ a\u{200b}b \u{feff}x", None),
            ("hi\u{e0041}\u{e0042}", Some("hi<U+E0041><U+E0042>")),
            ("x\u{e0041}y", Some("x<U+E0041>y")),
            ("a\u{e0141}b\u{fe01}", Some("a<U+E0141>b<U+FE01>")),
            ("a\u{200b}\u{200c}b", Some("a<U+200B><U+200C>b")),
            ("❤\u{fe0f}\u{e0100}\u{e0101}", Some("❤<U+FE0F><U+E0100><U+E0101>")),
        ] {
            assert_eq!(escape_hidden_characters(raw), clear.unwrap_or(raw), "{raw:?}");
        }
        let long = escape_hidden_characters(&"\u{e0041}".repeat(100)).into_owned();
        assert!(
            long.ends_with("<U+E0041><and 68 more hidden characters>"),
            "{long}"
        );
    }

    #[test]
    fn control_characters_are_visible_in_approvals() {
        for (raw, clear) in [
            ("plain\ttext\r\n", "plain\ttext\n"),
            (
                "true \u{1b}] ; rm -r x ; echo \u{7} fine",
                "true ␛] ; rm -r x ; echo ␇ fine",
            ),
            ("a\rb\0\u{7f}", "a␍b␀␡"),
            ("\u{9b}31m\u{202e}txt", "<U+009B>31m<U+202E>txt"),
        ] {
            assert_eq!(reveal_hidden_characters(raw), clear, "{raw:?}");
        }
    }

    #[test]
    fn a_name_in_a_list_is_one_line() {
        for (name, expected) in [
            ("src/ä b.rs", "src/ä b.rs"),
            ("a\nb.rs:1:x", r#""a\nb.rs:1:x""#),
            ("a\u{2028}\u{202e}", r#""a\u{2028}\u{202e}""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
        ] {
            assert_eq!(name_in_list(name), expected);
        }
    }

    #[test]
    fn one_line_folds_and_cuts() {
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("abcdefgh", 5), "abcd…");
        assert_eq!(one_line("abcd ef", 5), "abcd…");
        assert_eq!(one_line_of_words("abcd\nef gh", 7), "abcd ef…");
        assert_eq!(one_line_of_words("abcd ef gh", 6), "abcd…");
        assert_eq!(one_line_of_words("abcdefgh", 7), "…");
        assert_eq!(one_line_of_words(" abcdefgh ", 8), "abcdefgh");
    }

    #[test]
    fn prefix_and_suffix_respect_characters() {
        assert_eq!(prefix_within("aé", 2), "a");
        assert_eq!(suffix_within("éa", 2), "a");
    }
}
