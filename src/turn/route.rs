//! The route of a turn (R-PROV-4): the models that may answer, and the position on it. Pure.
//!
//! `routing` makes the switches.

use super::model_choice::ResolvedModel;
use crate::domain::AgentError;

/// The route of a turn, and the position on it.
pub(super) struct Route {
    /// The primary model.
    pub(super) first: ResolvedModel,
    /// How many of the primary's fallbacks were tried or skipped.
    pub(super) at: usize,
    /// The primary was left because its circuit was open.
    pub(super) shut: bool,
    /// The model that answered last, in the previous turn, until the primary is called again.
    pub(super) before: Option<String>,
    /// The model that was last announced as not supporting the media of the history.
    pub(super) media_stripped_for: Option<String>,
    /// The error with which the turn ends, because no fallback was left after all.
    pub(super) exhausted: Option<AgentError>,
}

impl Route {
    /// Creates a route. `before` is the model that answered last in the session, as `provider/model`.
    pub(super) fn new(first: ResolvedModel, before: Option<String>) -> Self {
        Self {
            before: before.filter(|before| *before != first.label()),
            first,
            at: 0,
            shut: false,
            media_stripped_for: None,
            exhausted: None,
        }
    }

    /// Returns the next model that can be called now, with the position after it, and why others were skipped.
    /// `callable` returns the model of a provider, or why it cannot be called.
    pub(super) fn next(
        &self,
        callable: impl Fn(&str) -> Result<ResolvedModel, String>,
    ) -> (Option<(ResolvedModel, usize)>, Vec<String>) {
        first_of(&self.first.fallbacks.providers, self.at, callable)
    }

    /// Records that `from` is left. `open`: its circuit is not closed.
    pub(super) fn record_departure(&mut self, from: &ResolvedModel, open: bool) {
        if from.label() == self.first.label() {
            // Its window may have been learned since.
            self.first = from.clone();
        }
        // Another model of the same account shares the primary's circuit.
        self.shut |= open && from.provider.name() == self.first.provider.name();
    }

    /// Returns the announced previous model and `to`, if they differ.
    pub(super) fn model_change(
        &mut self,
        from: &ResolvedModel,
        to: &ResolvedModel,
    ) -> Option<(String, String)> {
        let from = self.before.take().unwrap_or_else(|| from.label());
        let to = to.label();
        (from != to).then_some((from, to))
    }
}

/// Returns the first callable name from position `at` on, with the position after it, and why others were skipped.
fn first_of<T>(
    names: &[String],
    at: usize,
    callable: impl Fn(&str) -> Result<T, String>,
) -> (Option<(T, usize)>, Vec<String>) {
    let mut skipped = Vec::new();
    for (at, name) in names.iter().enumerate().skip(at) {
        match callable(name) {
            Ok(found) => return (Some((found, at + 1)), skipped),
            Err(reason) => skipped.push(format!("skipping {name}: {reason}")),
        }
    }
    (None, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::model_choice::tests::model;

    fn named(name: &str) -> ResolvedModel {
        ResolvedModel {
            model: name.to_owned(),
            ..model(200_000, 8_000)
        }
    }

    #[test]
    fn models_that_cannot_be_called_are_skipped_once() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let callable = |name: &str| match name {
            "b" | "d" => Ok(name.to_owned()),
            _ => Err("no key".to_owned()),
        };
        // (position, found, skipped)
        for (at, found, skipped) in [
            (0, Some(("b", 2)), &["a"][..]),
            (1, Some(("b", 2)), &[]),
            (2, Some(("d", 4)), &["c"]),
            (4, None, &[]),
            (9, None, &[]),
        ] {
            let (next, actual_skipped) = first_of(&names, at, callable);
            let next = next.as_ref().map(|(name, at)| (name.as_str(), *at));
            let skipped: Vec<String> = skipped.iter().map(|n| format!("skipping {n}: no key")).collect();
            assert_eq!((next, actual_skipped), (found, skipped), "{at}");
        }
    }

    #[test]
    fn any_model_of_the_account_can_mark_the_primary_as_open() {
        // (departed model, whether its circuit is open, whether the primary is marked)
        for (from, open, shut) in [
            ("one", true, true),
            ("one", false, false),
            ("one-small", true, true),
            ("one-small", false, false),
        ] {
            let mut route = Route::new(named("one"), None);
            route.record_departure(&named(from), open);
            assert_eq!((route.shut, route.first.model.as_str()), (shut, "one"), "{from}");
        }
        let mut route = Route::new(named("one"), None);
        let mut learnt = named("one");
        learnt.info.window = 1_000;
        route.record_departure(&learnt, false);
        assert_eq!(route.first.info.window, 1_000);
    }

    #[test]
    fn a_switch_is_announced_once_and_starts_from_the_last_model() {
        let (one, two) = (named("one"), named("two"));
        let change = |from: &str, to: &str| Some((format!("silent/{from}"), format!("silent/{to}")));
        let mut route = Route::new(one.clone(), Some("silent/two".to_owned()));
        assert_eq!(route.model_change(&one, &one), change("two", "one"));
        assert_eq!(route.model_change(&one, &one), None);
        assert_eq!(route.model_change(&one, &two), change("one", "two"));
        // The model that answered last answers again: nothing to announce.
        let mut route = Route::new(one.clone(), Some("silent/two".to_owned()));
        assert_eq!(route.model_change(&one, &two), None);
        let mut route = Route::new(one.clone(), Some(one.label()));
        assert_eq!(route.model_change(&one, &one), None);
    }
}
