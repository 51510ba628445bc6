//! Links to files in a prompt: which file, and which of its lines.

use std::path::{Path, PathBuf};

use url::Url;

use super::params::ContentBlock;
use crate::base::uri;
use crate::domain::ReferenceKind;
use crate::session::{PendingReference, TextSpan};

/// Converts the URI of a file, with the lines that its fragment names (`#L3` or `#L3:9`). `None` for other URIs.
pub(super) fn to_reference(link: &str, text: Option<String>) -> Option<PendingReference> {
    let mut url = Url::parse(link).ok()?;
    if url.scheme() != "file" {
        return None;
    }
    let span = url.fragment().and_then(parse_lines);
    url.set_fragment(None);
    url.set_query(None);
    uri::path_of(url.as_str()).ok()?;
    Some(PendingReference {
        kind: if span.is_some() && text.is_some() {
            ReferenceKind::Selection
        } else {
            ReferenceKind::File
        },
        uri: url.into(),
        span,
        text,
    })
}

/// Converts a link to a file whose name is not percent-encoded, as some clients send it.
pub(super) fn to_literal_reference(link: &str) -> Option<PendingReference> {
    let path = Path::new(link.strip_prefix("file://")?);
    to_reference(&uri::uri_of(path), None)
}

/// Returns the file that a link of a prompt leads to.
pub(super) fn linked_file(block: &ContentBlock) -> Option<PathBuf> {
    let ContentBlock::ResourceLink { uri, .. } = block else {
        return None;
    };
    uri::path_of(&to_reference(uri, None)?.uri).ok()
}

fn parse_lines(fragment: &str) -> Option<TextSpan> {
    let lines = fragment.strip_prefix('L')?;
    let (first, last) = lines
        .split_once([':', '-'])
        .map_or((lines, lines), |(first, last)| {
            (first, last.trim_start_matches('L'))
        });
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some(TextSpan { first, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_may_name_lines() {
        let lines = |link: &str| to_reference(link, None).map(|link| (link.uri, link.span));
        assert_eq!(
            lines("file:///a/b.rs#L3:9"),
            Some(("file:///a/b.rs".to_owned(), Some(TextSpan { first: 3, last: 9 })))
        );
        assert_eq!(
            lines("file:///a/b.rs?symbol=x#L7-L7"),
            Some(("file:///a/b.rs".to_owned(), Some(TextSpan { first: 7, last: 7 })))
        );
        assert_eq!(
            lines("file:///a/b.rs#top"),
            Some(("file:///a/b.rs".to_owned(), None))
        );
        assert_eq!(lines("https://example.org/"), None);
    }
}
