//! `agentls docs`: shows the pages of `docs/`, which the binary contains, in the terminal.
//!
//! `build.rs` finds the pages, so a new page needs no change here. Needs neither a server nor a network.

use std::io::Read;

use super::markdown::Markdown;
use super::screen::{Screen, print_to_stdout};
use super::style::Styler;
use crate::base::nearest::nearest_few;

/// The pages, compressed. `join_pages` of `build.rs` documents the format.
const PACKED_PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages.gz"));

/// The table of contents: it orders the topics, and is not one.
const CONTENTS: &str = "SUMMARY";

/// How many similar topics an error names.
const SUGGESTIONS: usize = 3;

/// Shows a page, or the list of topics. Returns the exit code.
///
/// # Errors
///
/// No page has this topic, or standard output cannot be written.
pub(super) fn docs(topic: Option<&str>, screen: &Screen) -> Result<i32, Box<dyn std::error::Error>> {
    let mut joined = String::new();
    flate2::read::GzDecoder::new(PACKED_PAGES).read_to_string(&mut joined)?;
    let pages = split_pages(&joined);
    let text = match topic {
        None => list(&pages),
        Some(topic) => render(
            find(&pages, topic)?,
            screen.styler,
            (screen.width(), screen.full_width()),
        ),
    };
    print_to_stdout(&text)?;
    Ok(0)
}

/// Returns the topics and their pages, sorted by topic. A topic is the page's path below `docs/`, without `.md`.
fn split_pages(joined: &str) -> Vec<(&str, &str)> {
    joined
        .split('\0')
        .filter_map(|page| page.split_once('\n'))
        .collect()
}

fn list(pages: &[(&str, &str)]) -> String {
    let contents = pages.iter().find(|(topic, _)| *topic == CONTENTS);
    let position = |topic: &str| {
        let link = format!("({topic}.md)");
        contents
            .and_then(|(_, text)| text.find(&link))
            .unwrap_or(usize::MAX)
        // Topics that the contents omit come last.
    };
    let mut topics: Vec<_> = pages.iter().filter(|(topic, _)| *topic != CONTENTS).collect();
    topics.sort_by_key(|(topic, _)| (position(topic), *topic));
    let width = topics.iter().map(|(topic, _)| topic.len()).max().unwrap_or(0);
    let mut text = String::from("Topics; `agentls docs TOPIC` shows one:\n\n");
    for (topic, page) in topics {
        text.push_str(&format!("  {topic:width$}  {}\n", title(page)));
    }
    text
}

/// Returns the text of the first heading.
fn title(page: &str) -> &str {
    page.lines()
        .find_map(|line| line.strip_prefix("# "))
        .unwrap_or_default()
}

/// Finds the page of a topic. The last part of a topic suffices if only one page has it.
fn find<'a>(pages: &[(&str, &'a str)], wanted: &str) -> Result<&'a str, String> {
    let wanted = wanted.trim_end_matches(".md");
    let topics = || pages.iter().filter(|(topic, _)| *topic != CONTENTS);
    if let Some((_, page)) = topics().find(|(topic, _)| *topic == wanted) {
        return Ok(page);
    }
    let with_last: Vec<_> = topics().filter(|(topic, _)| last_part(topic) == wanted).collect();
    if let [(_, page)] = with_last[..] {
        return Ok(page);
    }
    let names = topics().flat_map(|(topic, _)| [*topic, last_part(topic)]);
    let similar = nearest_few(wanted, names, SUGGESTIONS);
    // Part of a topic is as good a hint as a misspelled one.
    let mut suggestions: Vec<&str> = topics()
        .map(|(topic, _)| *topic)
        .filter(|topic| {
            similar.contains(topic) || similar.contains(&last_part(topic)) || topic.contains(wanted)
        })
        .collect();
    suggestions.truncate(SUGGESTIONS);
    let hint = match suggestions.as_slice() {
        [] => String::new(),
        suggestions => format!("did you mean {}? ", suggestions.join(", ")),
    };
    Err(format!(
        "no documentation about {wanted:?}; {hint}`agentls docs` lists the topics"
    ))
}

fn last_part(topic: &str) -> &str {
    topic.rsplit_once('/').map_or(topic, |(_, last)| last)
}

fn render(page: &str, styler: Styler, (width, full): (usize, usize)) -> String {
    let mut markdown = Markdown::new(styler, width, full);
    let mut text = markdown.push(&unfold(page));
    text.push_str(&markdown.finish());
    text
}

/// Joins each paragraph to one line, because the renderer keeps line breaks. Removes HTML comments.
fn unfold(page: &str) -> String {
    let mut text = String::new();
    let mut fence: Option<&str> = None;
    // Whether the next line may continue the last one.
    let mut is_open = false;
    for line in page.lines() {
        let bare = line.trim_start();
        if let Some(mark) = fence {
            if bare.starts_with(mark) {
                fence = None;
            }
        } else if bare.starts_with("<!--") && bare.ends_with("-->") {
            continue;
        } else if is_open && !begins_block(bare) {
            text.push(' ');
            text.push_str(bare);
            continue;
        } else {
            fence = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
        let is_closed = bare.is_empty()
            || ["#", "|", "```", "~~~", "---"]
                .iter()
                .any(|mark| bare.starts_with(mark));
        is_open = fence.is_none() && !is_closed;
    }
    text.push('\n');
    text
}

/// Returns whether this line never continues the paragraph before it.
fn begins_block(bare: &str) -> bool {
    let digits = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    bare.is_empty()
        || bare.starts_with(['#', '|', '>'])
        || ["- ", "* ", "+ ", "```", "~~~", "---"]
            .iter()
            .any(|mark| bare.starts_with(mark))
        || digits.len() < bare.len() && digits.starts_with(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[(&str, &str)] = &[
        ("SUMMARY", "# Summary\n- [Hooks](hooks.md)\n- [Chat](chat.md)\n"),
        ("chat", "# Chat\n"),
        ("editors/neovim", "# Neovim\n"),
        ("hooks", "# Hooks\n"),
        ("reference/hooks", "# All hooks\n"),
    ];

    #[test]
    fn topics_follow_the_order_of_the_contents() {
        let text = list(SOME);
        let topics: Vec<&str> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().next().unwrap())
            .collect();
        assert_eq!(topics, ["hooks", "chat", "editors/neovim", "reference/hooks"]);
        assert!(text.contains("  editors/neovim   Neovim\n"), "{text}");
    }

    #[test]
    fn last_part_of_a_topic_is_enough() {
        assert_eq!(find(SOME, "neovim"), Ok("# Neovim\n"));
        assert_eq!(find(SOME, "chat.md"), Ok("# Chat\n"));
        assert_eq!(find(SOME, "hooks"), Ok("# Hooks\n"), "a whole topic goes first");
        let error = find(SOME, "hoks").unwrap_err();
        assert!(error.contains("did you mean hooks, reference/hooks?"), "{error}");
        let error = find(SOME, "zzz").unwrap_err();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn paragraphs_become_one_line_and_code_stays() {
        let page =
            "# A\n\n<!-- x -->\nOne\n`two`\nthree.\n\n- a\n  b\n1. c\n| x |\n| y |\n```sh\nd\ne\n```\nf\n";
        let text = "# A\n\nOne `two` three.\n\n- a b\n1. c\n| x |\n| y |\n```sh\nd\ne\n```\nf\n";
        assert_eq!(unfold(page), text);
    }
}
