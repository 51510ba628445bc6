//! Converts what a folder's own files would do if it were trusted.
//!
//! Expects texts whose hidden characters were revealed on reading.

use crate::config::{FolderItem, FolderItemKind, ProviderRedirect};
use crate::protocol as wire;

/// Redirects that are listed at most; the others cannot be accepted.
const MAX_REDIRECTS: usize = 50;

/// Converts one thing that the folder's files activate.
pub fn trust_item(item: FolderItem) -> wire::TrustItem {
    wire::TrustItem {
        kind: match item.kind {
            FolderItemKind::Hook => wire::TrustItemKind::Hook,
            FolderItemKind::Tool => wire::TrustItemKind::Tool,
            FolderItemKind::McpServer => wire::TrustItemKind::McpServer,
            FolderItemKind::Setting => wire::TrustItemKind::Setting,
            FolderItemKind::GitSetting => wire::TrustItemKind::GitSetting,
        },
        name: item.name,
        detail: item.detail,
        command: item.command,
    }
}

/// Converts the redirects that the user may accept.
pub fn to_redirects(found: Vec<ProviderRedirect>) -> Vec<wire::ProviderRedirect> {
    let redirects = found.into_iter().filter(ProviderRedirect::can_be_accepted);
    let redirects = redirects.map(|redirect| wire::ProviderRedirect {
        provider: redirect.provider,
        from: redirect.from,
        to: redirect.to,
        sends: redirect.sends,
        accepted: redirect.accepted,
    });
    redirects.take(MAX_REDIRECTS).collect()
}
