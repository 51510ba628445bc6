//! What a turn knows about its environment. How it is found out is `environment`'s.

use crate::context::Fact;
use crate::domain::Mode;

/// What a turn knows about its environment.
#[derive(Default)]
pub(super) struct EnvironmentState {
    /// The session's mode, as of the last step that began.
    pub(super) mode: Mode,
    /// Everything but mode and sandbox; `None` before the first request.
    pub(super) facts: Option<Vec<Fact>>,
}
