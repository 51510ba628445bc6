//! What the provider's own web search has found during one call. Pure; keeps a bounded number of pages.

use crate::domain::WebSource;
use crate::provider::SearchReport;

/// The most pages that are kept.
const MAX_SOURCES: usize = 20;
/// The longest address that is kept, in bytes. Half an address would lead nowhere.
const MAX_URL: usize = 1_000;

/// The findings of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchFindings {
    /// The number of searches, which may each cost something.
    pub(super) searches: u32,
    /// The pages, each once, in the order in which they were named.
    pub(super) sources: Vec<WebSource>,
    /// The provider's word for why the last search failed.
    pub(super) failure: Option<String>,
}

impl SearchFindings {
    pub(super) fn record(&mut self, report: SearchReport) {
        match report {
            SearchReport::Searches(searches) => self.searches = self.searches.max(searches),
            SearchReport::Failed(code) => self.failure = Some(code),
            SearchReport::Source(source) => self.add_source(source),
        }
    }

    fn add_source(&mut self, source: WebSource) {
        if let Some(known) = self.sources.iter_mut().find(|known| known.url == source.url) {
            if known.title.is_empty() {
                known.title = source.title;
            }
        } else if self.sources.len() < MAX_SOURCES && source.url.len() <= MAX_URL {
            self.sources.push(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_kept_once_and_the_number_is_bounded() {
        let source = |url: &str, title: &str| {
            SearchReport::Source(WebSource {
                url: url.to_owned(),
                title: title.to_owned(),
            })
        };
        let mut findings = SearchFindings::default();
        findings.record(source("https://a.org/", ""));
        findings.record(source("https://a.org/", "A"));
        findings.record(source("https://a.org/", "B"));
        findings.record(source(&"x".repeat(1_001), "long"));
        findings.record(SearchReport::Searches(2));
        findings.record(SearchReport::Searches(1));
        assert_eq!((findings.sources.len(), findings.searches), (1, 2));
        assert_eq!(findings.sources[0].title, "A");
        (0..100).for_each(|at| findings.record(source(&at.to_string(), "")));
        assert_eq!(findings.sources.len(), 20);
    }
}
