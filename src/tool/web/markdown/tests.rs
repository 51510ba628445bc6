//! What pages become, and malicious pages.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn to_markdown(html: &str) -> String {
    convert_html(html, &Url::parse("https://a.org/docs/x").unwrap(), || false).text
}

#[test]
fn pages_become_markdown() {
    for (html, want) in [
        ("<p>one\n  two<p>three", "one two\n\nthree"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<h1>A <em>b</em></h1>text<h3>c</h3>", "# A _b_\n\ntext\n\n### c"),
        ("x <b> bold </b>y", "x **bold** y"),
        ("<b></b>x<i> </i>y", "x y"),
        ("use <code>a &lt; b</code>!", "use `a < b`!"),
        (
            "<a href='../y?a=1&amp;b'>to <b>y</b></a>, <a href='#z'>z</a>, <a href='javascript:x()'>j</a>",
            "[to **y**](https://a.org/y?a=1&b), z, j",
        ),
        (
            "<a href=/p><p>one</p><p>two</p></a>",
            "[one](https://a.org/p)\n\ntwo",
        ),
        (
            "<img src=i.png alt='a cat'><img src=i.png>",
            "![a cat](https://a.org/docs/i.png)",
        ),
        ("<img src='data:image/png;base64,xx' alt=dot>", "dot"),
        (
            "<ul><li>one<li>two<ul><li>deep</ul><li><p>three<p>more</ul>after",
            "- one\n- two\n  - deep\n- three\n\n  more\n\nafter",
        ),
        ("<ol start=9><li>a</li><li>b</li></ol>", "9. a\n10. b"),
        (
            "<blockquote>a<p>b<ul><li>c</ul></blockquote>d",
            "> a\n>\n> b\n>\n> - c\n\nd",
        ),
        (
            "<pre><code class='x language-rust'>fn a() {\n    b::&lt;c&gt;()\n}\n</code></pre>",
            "```rust\nfn a() {\n    b::<c>()\n}\n```",
        ),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<pre><div>one</div><div>two</div></pre>", "```\none\ntwo\n```"),
        (
            "<table><tr><th>a<th>b<tr><td>1<td>x|y<br>z</table>",
            "| a | b |\n| --- | --- |\n| 1 | x\\|y z |",
        ),
        ("<table><tr><td>only<tr><td>one</table>", "only\n\none"),
        (
            "<table><tr><td>1<td><pre>code</pre></table>",
            "1\n\n```\ncode\n```",
        ),
        ("<dl><dt>a<dd>b<dd>c</dl>", "a\n\n: b\n\n: c"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("&amp;lt; &nbsp;&copy; &#x41;", "&lt; \u{a0}© A"),
        ("", ""),
    ] {
        assert_eq!(to_markdown(html), want, "{html}");
    }
}

#[test]
fn invisible_parts_are_left_out() {
    for html in [
        "a<script>if (x < 1) { '<p>no' }</script>b",
        "a<style>p { no }</style>b",
        "a<noscript>no</noscript>b",
        "a<svg><title>no</title><text>no</text></svg>b",
        "a<div hidden>no<div>no</div></div>b",
        "a<span style='display : NONE'>no</span>b",
        "a<span aria-hidden=true>no</span>b",
        "a<!-- no -->b",
        "a<template><p>no</p></template>b",
        "a<nav><a href=/>no</a></nav>b",
        "a<iframe><p>no</iframe>b",
        "a<select><option>no</select>b",
    ] {
        let text = to_markdown(html).replace("\n\n", "");
        assert_eq!(text, "ab", "{html}");
    }
}

#[test]
fn the_main_part_and_the_title_are_found() {
    let long = "word ".repeat(60);
    let html = format!(
        "<html><head><title>A\n page</title></head><body><header>Menu</header><main><p>{long}</main>\
         <footer>Imprint</footer>"
    );
    let page = convert_html(&html, &Url::parse("https://a.org/").unwrap(), || false);
    assert_eq!((page.title.as_str(), page.text.as_str()), ("A page", long.trim()));
    assert_eq!(
        to_markdown("<header>Menu</header><main>little</main>"),
        "Menu\n\nlittle"
    );
    assert_eq!(
        to_markdown("<base href='https://b.org/x/'><a href=y>z</a>"),
        "[z](https://b.org/x/y)"
    );
}

#[test]
fn a_conversion_can_be_stopped() {
    let html = "<p>word".repeat(100_000);
    let url = Url::parse("https://a.org/").unwrap();
    let page = convert_html(&html, &url, || true);
    assert!(page.cut && page.text.len() < PIECE && page.text.starts_with("word"));
}

/// Malicious pages must neither end the server nor keep it busy: deep nesting, and output that grows with it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a bound is measured")]
fn malicious_pages_are_read_in_time() {
    let count = 50_000;
    let url = Url::parse("https://a.org/docs/x").unwrap();
    for html in [
        "<div>".repeat(count),
        "<b>".repeat(count) + &"text ".repeat(count) + &"</b>".repeat(count),
        "<blockquote>".repeat(count) + &"x<br>".repeat(count),
        "<ul><li>".repeat(count) + "x",
        "<ol><li>".repeat(count) + &"</li></ol>".repeat(count),
        "<table><tr><td>".repeat(count) + "x",
        "<table><tr>".to_owned() + &"<td>x".repeat(count) + &"<tr>".repeat(count),
        "<a href=x>y".repeat(count),
        "<svg>".repeat(count),
        "<pre>".repeat(count),
        "`".repeat(count),
        "<p>".repeat(count),
        "&".repeat(count),
        "<".repeat(count),
        format!("<p {}>x", "a=b ".repeat(count)),
        (0..count).fold("<p ".to_owned(), |html, n| html + &format!("a{n} ")) + ">x",
        format!("<base href='https://a.org/{}/'>", "x".repeat(1_900)) + &"<a href=x>y</a>".repeat(count),
        "<script>".repeat(count),
    ] {
        let started = std::time::Instant::now();
        let _ = convert_html(&html, &url, || started.elapsed() > Duration::from_secs(2));
        let took = started.elapsed();
        // Little can happen between two calls of `stop`; the rest is for a busy machine.
        assert!(took < Duration::from_secs(30), "{took:?}: {}", &html[..20]);
    }
}

proptest! {
    /// Reads any tags in any order, cut anywhere.
    #[test]
    fn arbitrary_tags_do_not_panic(parts in prop::collection::vec(prop_oneof![
        "[a-z ]{0,8}",
        prop::sample::select(vec![
            "<p>", "</p>", "<ul>", "</ul>", "<ol>", "<li>", "</li>", "<b>", "</b>", "<i>", "</i>", "<a href=x>", "</a>",
            "<pre>", "</pre>", "<code>", "</code>", "<table>", "</table>", "<tr>", "<td>", "</td>", "<br>", "<h2>",
            "</h2>", "<blockquote>", "</blockquote>", "<main>", "</main>", "<div hidden>", "</div>", "<svg>", "</svg>",
            "ü", "\u{a0}", "&lt;", "`", "<img alt=é src=x>", "<title>", "</title>", "<hr>",
        ]).prop_map(str::to_owned),
    ], 0..60)) {
        let html = parts.concat();
        let _ = to_markdown(&html);
        for at in (0..html.len()).step_by(17).filter(|at| html.is_char_boundary(*at)) {
            let _ = to_markdown(&html[..at]);
        }
    }
}
