//! What an untrusted folder's files may do with a setting.
//!
//! Each setting states it at its field, as `#[schemars(extend("x-untrusted" = …))]`; the published schema omits it.
//! `trust` applies it.

use serde::{Deserialize, Serialize};

/// What an untrusted folder's files may do with a setting (R-CONF). They must not loosen approvals, redirect requests
/// or keys, send code to another provider, pass secrets on, start anything, or write elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Untrusted {
    /// They must not set it. Applies to every setting that states nothing.
    #[default]
    Never,
    /// They may set it to anything, because that loosens nothing.
    Any,
    /// They may set a number, at most the user's own or else the default. Without either, they may set any.
    Lower,
    /// They may set a number, at most the user's own; without one, none above 0.
    LowerOrZero,
    /// They may set a retry profile or a number of retries that retries no more and waits no longer than the user's.
    FewerRetries,
    /// They may set a mode that allows no more than the user's own.
    StricterMode,
    /// They may set a sandbox that allows commands no more than the user's own. So may those of a trusted folder.
    StricterSandbox,
    /// They may set it to `ask`, or repeat the user's own value.
    Ask,
    /// They may set it if the user has not.
    IfUnset,
    /// They may only repeat the user's own value.
    Repeat,
}
