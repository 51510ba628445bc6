//! What a folder's own files would do if it were trusted. All texts were made legible where they were read.

use crate::config::{FolderItem, FolderItemKind, ProviderRedirect};
use crate::protocol as wire;

/// How many redirects are told at most; the others cannot be accepted.
const MAX_REDIRECTS: usize = 50;

/// One thing that the folder's files activate.
pub fn trust_item(item: FolderItem) -> wire::TrustItem {
    wire::TrustItem {
        kind: match item.kind {
            FolderItemKind::Hook => wire::TrustItemKind::Hook,
            FolderItemKind::Tool => wire::TrustItemKind::Tool,
            FolderItemKind::Setting => wire::TrustItemKind::Setting,
        },
        name: item.name,
        detail: item.detail,
        command: item.command,
    }
}

/// The redirects that a person can be asked about.
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
