//! Cutting and cleaning text: on character boundaries, with the cut stated, safe for terminals.

/// The longest prefix of `text` of at most `max` bytes that ends on a character boundary.
pub fn prefix(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The longest suffix of `text` of at most `max` bytes that starts on a character boundary.
pub fn suffix(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

/// Cuts the middle out of `text` so that about `max` characters remain, and says how many are gone.
///
/// `None` when it fits as it is.
pub fn cut_middle(text: &str, max: usize) -> Option<String> {
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
    let gone = total - head_chars - tail_chars;
    Some(format!(
        "{}\n[… {gone} characters cut …]\n{}",
        &text[..head_end],
        &text[tail_start..]
    ))
}

/// One line for people: white space folded, at most `max` characters, an ellipsis where it was cut.
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

/// Text that is safe to show: terminal escape sequences and control characters are taken out,
/// tabs and line feeds stay, a carriage return becomes a line feed unless one follows (R-SEC).
pub fn neutralise(text: &str) -> std::borrow::Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_bidi_control(c));
    if text.chars().all(harmless) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(ch) = chars.next() {
        match ch {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            _ if harmless(ch) => clean.push(ch),
            _ => {}
        }
    }
    clean.into()
}

/// Text that a person is asked about, safe to show: every control character is made visible and nothing is taken
/// out, so that what is approved is what is read (R-SEC). Tabs and line feeds stay, also those after a carriage
/// return.
pub fn reveal(text: &str) -> std::borrow::Cow<'_, str> {
    use std::fmt::Write;
    let harmless = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_bidi_control(c));
    if text.chars().all(harmless) {
        return text.into();
    }
    let mut clear = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(ch) = chars.next() {
        match ch {
            '\r' if chars.peek() == Some(&'\n') => {}
            _ if harmless(ch) => clear.push(ch),
            // Unicode has a picture for each of the old controls.
            '\0'..='\u{1f}' => clear.push(char::from_u32(0x2400 + u32::from(ch)).unwrap_or('\u{fffd}')),
            '\u{7f}' => clear.push('\u{2421}'),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(clear, "<U+{:04X}>", u32::from(ch));
            }
        }
    }
    clear.into()
}

/// A file's name or path as one line of a list, quoted and escaped where it holds a line end or another control
/// character: one entry never looks like two.
pub fn name_in_list(name: &str) -> std::borrow::Cow<'_, str> {
    let breaks = |c: char| c.is_control() || is_bidi_control(c) || matches!(c, '\u{2028}' | '\u{2029}');
    match name.chars().any(breaks) {
        true => format!("{name:?}").into(),
        false => name.into(),
    }
}

/// Controls that reorder what a reader sees (the "Trojan source" set).
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => skip_csi(chars),
        // Strings (OSC, DCS, APC, PM, SOS) run to BEL or ESC \; one that never ends takes its line with it, not all
        // that follows.
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
    fn neutralises_escapes() {
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
        ] {
            assert_eq!(neutralise(raw), clean, "{raw:?}");
        }
    }

    #[test]
    fn nothing_hides_from_the_one_who_is_asked() {
        for (raw, clear) in [
            ("plain\ttext\r\n", "plain\ttext\n"),
            (
                "true \u{1b}] ; rm -r x ; echo \u{7} fine",
                "true ␛] ; rm -r x ; echo ␇ fine",
            ),
            ("a\rb\0\u{7f}", "a␍b␀␡"),
            ("\u{9b}31m\u{202e}txt", "<U+009B>31m<U+202E>txt"),
        ] {
            assert_eq!(reveal(raw), clear, "{raw:?}");
        }
    }

    #[test]
    fn a_name_in_a_list_is_one_line() {
        for (name, shown) in [
            ("src/ä b.rs", "src/ä b.rs"),
            ("a\nb.rs:1:x", r#""a\nb.rs:1:x""#),
            ("a\u{2028}\u{202e}", r#""a\u{2028}\u{202e}""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
        ] {
            assert_eq!(name_in_list(name), shown);
        }
    }

    #[test]
    fn one_line_folds_and_cuts() {
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line("abcdefgh", 5), "abcd…");
        assert_eq!(one_line("abcd ef", 5), "abcd…");
    }

    #[test]
    fn prefix_and_suffix_respect_characters() {
        assert_eq!(prefix("aé", 2), "a");
        assert_eq!(suffix("éa", 2), "a");
    }
}
