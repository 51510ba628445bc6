//! Trust methods: what trust of a folder would activate, and the user's decision about it.

use std::path::Path;

use serde_json::Value;
use tower_lsp::jsonrpc::Result;

use super::super::service::Service;
use super::super::state::{folder_param, invalid_param};
use super::super::to_wire;
use super::store_failed;
use crate::config::{FolderDescription, FolderItem};
use crate::protocol::{DescribeTrustParams, DescribeTrustResult, EmptyResult, SetTrustParams};

impl Service {
    pub(in crate::server) async fn describe_trust(&self, params: Value) -> Result<DescribeTrustResult> {
        let params: DescribeTrustParams = self.parse_params(params)?;
        let folder = folder_param("folder", &params.folder)?;
        let described = self.describe_folder(&folder).await;
        Ok(DescribeTrustResult {
            folder: folder.display().to_string(),
            trusted: described.trusted,
            activates: described.items.into_iter().map(to_wire::trust_item).collect(),
            redirects: to_wire::to_redirects(described.redirects),
        })
    }

    pub(in crate::server) async fn set_trust(&self, params: Value) -> Result<EmptyResult> {
        let params: SetTrustParams = self.parse_params(params)?;
        let folder = folder_param("folder", &params.folder)?;
        let accepted = params.accept_redirects;
        if params.trusted {
            let decisions = self.state.count_trust_decisions();
            let described = self.describe_folder(&folder).await;
            // Only what the user could see in full counts: a long list may hide its last command.
            if let Some(hidden) = described.items.iter().find(|item| !item.is_complete) {
                return Err(invalid_param("folder", explain_incomplete_list(hidden)));
            }
            let described = to_wire::to_redirects(described.redirects);
            let is_described = |provider: &str, to: &str| {
                described
                    .iter()
                    .any(|known| known.provider == provider && known.to == to)
            };
            // Only redirects that the user could see count: the files may have changed since `agent/describeTrust`.
            if let Some(unknown) = accepted.iter().find(|one| !is_described(&one.provider, &one.to)) {
                let problem = format!(
                    "the folder no longer redirects {:?} there; call agent/describeTrust again",
                    unknown.provider
                );
                return Err(invalid_param("acceptRedirects", problem));
            }
            // Trust that was withdrawn during the wait must stay withdrawn.
            if self.state.count_trust_decisions() != decisions {
                let problem = "another decision about trust came in the meantime; send this one again";
                return Err(invalid_param("trusted", problem));
            }
        } else if !accepted.is_empty() {
            return Err(invalid_param(
                "acceptRedirects",
                "accepting redirects requires `trusted: true`",
            ));
        }
        let accepted = accepted.into_iter().map(|one| (one.provider, one.to)).collect();
        let set = self.state.set_trust(&folder, params.trusted, accepted).await;
        set.map_err(store_failed)?;
        Ok(EmptyResult {})
    }

    async fn describe_folder(&self, folder: &Path) -> FolderDescription {
        self.state.resolve_trust(folder).await;
        let mut described = self.state.configured.describe_folder(folder);
        described
            .items
            .extend(self.state.workspace.list_git_activations(folder).await);
        described
    }
}

/// Explains why a folder is not trusted whose list leaves something out.
fn explain_incomplete_list(hidden: &FolderItem) -> String {
    let shown: String = hidden.name.chars().take(80).collect();
    let what = match shown.as_str() {
        "…" => "its files activate more than can be listed".to_owned(),
        name => format!("`{name}` is too long to be shown in full"),
    };
    format!(
        "the folder cannot be trusted: {what}; to trust it unseen, list it under `trusted` in your own config file"
    )
}
