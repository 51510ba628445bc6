//! The order of the calls of one step: which call waits for which earlier one (R-TOOL-1).
//!
//! It knows what calls touch, and nothing of tools, permissions, or results.

use std::path::PathBuf;

use tokio::sync::watch;

use super::context::TurnContext;
use super::session_link::TurnStopped;
use crate::approval::only_reads;
use crate::domain::{Effect, EffectKind};

/// What a call touches, as far as the order needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Footprint {
    /// Neither reads nor changes files.
    Nothing,
    /// Reads these files and folders; all if there are none.
    Reads(Vec<PathBuf>),
    /// May read anything, but not what a later call would change: another server answers it.
    ReadsElsewhere,
    /// Changes these files; all if there are none.
    Writes(Vec<PathBuf>),
    /// May change anything.
    ChangesAnything,
}

impl Footprint {
    fn from_effect(effect: &Effect) -> Self {
        match effect.kind {
            EffectKind::None => Self::Nothing,
            EffectKind::Network => Self::ReadsElsewhere,
            EffectKind::Read if effect.foreign.is_some() => Self::ReadsElsewhere,
            EffectKind::Read => Self::Reads(effect.paths.clone()),
            EffectKind::Write => Self::Writes(effect.paths.clone()),
            EffectKind::Execute if effect.foreign.is_none() && only_reads(&effect.subject) => {
                Self::Reads(Vec::new())
            }
            EffectKind::Execute => Self::ChangesAnything,
        }
    }

    /// Returns whether a call must wait for the end of an earlier one, because it could otherwise read or change what
    /// the earlier one has yet to change or read.
    fn must_follow(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Nothing, _) | (_, Self::Nothing | Self::ReadsElsewhere) => false,
            (Self::Reads(_) | Self::ReadsElsewhere, Self::Reads(_)) => false,
            (_, Self::ChangesAnything) | (Self::ReadsElsewhere | Self::ChangesAnything, _) => true,
            (Self::Reads(paths) | Self::Writes(paths), Self::Reads(earlier) | Self::Writes(earlier)) => {
                overlap(paths, earlier)
            }
        }
    }

    /// Returns whether the change of a call cannot be shown to anybody before an earlier one has ended.
    fn needs_result_of(&self, earlier: &Self) -> bool {
        matches!((self, earlier), (Self::Writes(paths), Self::Writes(earlier)) if overlap(paths, earlier))
    }
}

/// Returns whether a path of one list is, contains, or lies in one of the other. An empty list means all files.
fn overlap(paths: &[PathBuf], others: &[PathBuf]) -> bool {
    let touches = |path: &PathBuf| {
        others
            .iter()
            .any(|other| path.starts_with(other) || other.starts_with(path))
    };
    paths.is_empty() || others.is_empty() || paths.iter().any(touches)
}

/// How far a call has come.
#[derive(Debug)]
enum Stage {
    /// Its hooks may still change its arguments.
    Unknown,
    Known {
        footprint: Footprint,
        /// The user has been asked about it, or need not be.
        is_asked: bool,
    },
    Ended,
}

/// The calls of one step, in the order in which the model made them.
pub(super) struct CallOrder(Vec<watch::Sender<Stage>>);

impl CallOrder {
    pub(super) fn new(calls: usize) -> Self {
        Self((0..calls).map(|_| watch::Sender::new(Stage::Unknown)).collect())
    }

    /// Returns the place of the call at this index. The call has ended when the place is dropped.
    pub(super) fn place(&self, at: usize) -> CallPlace<'_> {
        CallPlace { order: self, at }
    }
}

/// The place of one call in its step.
pub(super) struct CallPlace<'a> {
    order: &'a CallOrder,
    at: usize,
}

impl CallPlace<'_> {
    /// Sets what the call touches. Later calls wait for this at least.
    pub(super) fn declare(&self, effect: &Effect) {
        let footprint = Footprint::from_effect(effect);
        self.order.0[self.at].send_modify(|stage| {
            let is_asked = matches!(stage, Stage::Known { is_asked: true, .. });
            *stage = Stage::Known { footprint, is_asked };
        });
    }

    /// Lets the next call of the step ask the user.
    pub(super) fn mark_asked(&self) {
        self.order.0[self.at].send_modify(|stage| {
            if let Stage::Known { is_asked, .. } = stage {
                *is_asked = true;
            }
        });
    }

    /// Waits until all earlier calls have asked the user, or need not ask: people read questions in the order of the
    /// calls.
    pub(super) async fn wait_for_earlier_questions(&self, cx: &TurnContext) -> Result<(), TurnStopped> {
        self.wait_for_stages(cx, |stage| match stage {
            Stage::Unknown => false,
            Stage::Known { is_asked, .. } => *is_asked,
            Stage::Ended => true,
        })
        .await
    }

    /// Waits until the change of this call can be shown: earlier changes of the same file have ended.
    pub(super) async fn wait_to_ask(&self, cx: &TurnContext) -> Result<(), TurnStopped> {
        self.wait_for_earlier(cx, Footprint::needs_result_of)
            .await
            .map(|_| ())
    }

    /// Waits until the call may run. Returns whether it had to wait for a call that may have changed files.
    pub(super) async fn wait_to_run(&self, cx: &TurnContext) -> Result<bool, TurnStopped> {
        self.wait_for_earlier(cx, Footprint::must_follow).await
    }

    async fn wait_for_earlier(
        &self,
        cx: &TurnContext,
        must_wait: impl Fn(&Footprint, &Footprint) -> bool,
    ) -> Result<bool, TurnStopped> {
        let own = match &*self.order.0[self.at].borrow() {
            Stage::Known { footprint, .. } => footprint.clone(),
            Stage::Unknown | Stage::Ended => return Ok(false),
        };
        let mut waited = false;
        self.wait_for_stages(cx, |stage| match stage {
            Stage::Unknown => false,
            Stage::Known { footprint, .. } if must_wait(&own, footprint) => {
                waited = true;
                false
            }
            Stage::Known { .. } | Stage::Ended => true,
        })
        .await?;
        Ok(waited)
    }

    /// Waits until the stages of all earlier calls let this one go on.
    async fn wait_for_stages(
        &self,
        cx: &TurnContext,
        mut may_go_on: impl FnMut(&Stage) -> bool,
    ) -> Result<(), TurnStopped> {
        for earlier in &self.order.0[..self.at] {
            let mut stage = earlier.subscribe();
            tokio::select! { biased;
                () = cx.cancel.cancelled() => return Err(TurnStopped),
                // An error would mean that the order is gone, and this call with it.
                _ = stage.wait_for(&mut may_go_on) => {}
            }
        }
        Ok(())
    }
}

impl Drop for CallPlace<'_> {
    fn drop(&mut self) {
        self.order.0[self.at].send_replace(Stage::Ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ForeignTool;

    fn on_files(kind: EffectKind, paths: &[&str]) -> Effect {
        Effect {
            kind,
            paths: paths.iter().map(PathBuf::from).collect(),
            ..Effect::none()
        }
    }

    fn foreign(only_reads: bool) -> Effect {
        Effect {
            kind: if only_reads {
                EffectKind::Read
            } else {
                EffectKind::Execute
            },
            foreign: Some(ForeignTool {
                name: "mcp:server/tool".to_owned(),
                only_reads,
                definition: Default::default(),
            }),
            ..Effect::none()
        }
    }

    fn must_follow(later: &Effect, earlier: &Effect) -> bool {
        Footprint::from_effect(later).must_follow(&Footprint::from_effect(earlier))
    }

    #[test]
    fn a_call_waits_for_what_could_change_what_it_reads_or_changes() {
        let read = on_files(EffectKind::Read, &["/w/a"]);
        let read_folder = on_files(EffectKind::Read, &["/w"]);
        let write = on_files(EffectKind::Write, &["/w/a"]);
        let write_any = on_files(EffectKind::Write, &[]);
        let command = Effect::from_command("cargo test");
        let status = Effect::from_command("git status && ls");
        let fetch = on_files(EffectKind::Network, &[]);
        let (asked, called) = (foreign(true), foreign(false));
        for (later, earlier) in [
            (&read, &write),
            (&read, &write_any),
            (&read_folder, &write),
            (&read, &command),
            (&read, &called),
            (&status, &write),
            (&status, &command),
            (&write, &read),
            (&write, &read_folder),
            (&write, &write),
            (&write, &status),
            (&write, &command),
            (&command, &read),
            (&command, &write),
            (&command, &command),
            (&command, &status),
            (&command, &called),
            (&called, &called),
            (&called, &write),
            (&fetch, &write),
            (&fetch, &command),
            (&asked, &write),
            (&asked, &called),
        ] {
            assert!(must_follow(later, earlier), "{later:?} must follow {earlier:?}");
        }
    }

    #[test]
    fn independent_calls_do_not_wait() {
        let read = on_files(EffectKind::Read, &["/w/a"]);
        let write = on_files(EffectKind::Write, &["/w/a"]);
        let other = on_files(EffectKind::Write, &["/w/ab"]);
        let command = Effect::from_command("cargo test");
        let status = Effect::from_command("git status && ls");
        let fetch = on_files(EffectKind::Network, &[]);
        let (plan, asked) = (Effect::none(), foreign(true));
        for (later, earlier) in [
            (&read, &read),
            (&read, &status),
            (&status, &status),
            (&read, &other),
            (&write, &other),
            (&write, &fetch),
            (&write, &asked),
            (&command, &fetch),
            (&command, &asked),
            (&fetch, &fetch),
            (&asked, &asked),
            (&fetch, &read),
            (&plan, &command),
            (&command, &plan),
        ] {
            assert!(
                !must_follow(later, earlier),
                "{later:?} need not follow {earlier:?}"
            );
        }
    }

    #[test]
    fn only_a_change_of_the_same_file_delays_a_question() {
        let of = |effect: &Effect| Footprint::from_effect(effect);
        let write = of(&on_files(EffectKind::Write, &["/w/a", "/w/b"]));
        assert!(write.needs_result_of(&of(&on_files(EffectKind::Write, &["/w/b"]))));
        assert!(!write.needs_result_of(&of(&on_files(EffectKind::Write, &["/w/c"]))));
        assert!(!write.needs_result_of(&of(&Effect::from_command("make"))));
        assert!(!of(&Effect::from_command("make")).needs_result_of(&write));
    }
}
