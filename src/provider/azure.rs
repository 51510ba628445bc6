//! The addresses and keys of OpenAI's models on Azure. Knows no API's shape.
//!
//! Azure has two forms. The current one is `https://NAME.openai.azure.com/openai/v1`, and takes the deployment's name as
//! the model. The older one, `…/openai/deployments/NAME?api-version=…`, has the deployment in its path.

use url::Url;

/// The hosts of Azure, without the resource's name.
const HOSTS: [&str; 3] = [
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".cognitiveservices.azure.com",
];

/// The path of the current API.
const CURRENT: &str = "/openai/v1";

/// The last stable version of the older API, used if the address names none.
const OLD_VERSION: &str = "2024-10-21";

/// Reports whether the address is on Azure.
pub(super) fn is_azure(address: &Url) -> bool {
    address.host_str().is_some_and(is_azure_host)
}

/// Reports whether the host is on Azure.
pub(super) fn is_azure_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    HOSTS.iter().any(|known| host.ends_with(known))
}

/// Reports whether a key is a token of Entra ID (a JWT), which Azure takes in another header than keys.
pub(super) fn is_access_token(key: &str) -> bool {
    key.starts_with("eyJ") && key.matches('.').count() == 2
}

/// Completes an address on Azure: its path, and the version of the older API. Leaves all others unchanged.
pub(super) fn complete_address(mut address: Url) -> Url {
    if !is_azure(&address) {
        return address;
    }
    if matches!(address.path().trim_end_matches('/'), "" | "/openai") {
        address.set_path(CURRENT);
    }
    let has_version = address.query_pairs().any(|(name, _)| name == "api-version");
    if address.path().contains("/deployments/") && !has_version {
        address.query_pairs_mut().append_pair("api-version", OLD_VERSION);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_on_azure_are_completed() {
        for (given, expected) in [
            (
                "https://me.openai.azure.com",
                "https://me.openai.azure.com/openai/v1",
            ),
            (
                "https://me.openai.azure.com/openai/",
                "https://me.openai.azure.com/openai/v1",
            ),
            (
                "https://me.services.ai.azure.com/openai/v1/",
                "https://me.services.ai.azure.com/openai/v1/",
            ),
            (
                "https://me.openai.azure.com/openai/deployments/gpt",
                "https://me.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21",
            ),
            (
                "https://me.openai.azure.com/openai/deployments/gpt?api-version=2025-01-01-preview",
                "https://me.openai.azure.com/openai/deployments/gpt?api-version=2025-01-01-preview",
            ),
            (
                "https://openai.azure.com.example",
                "https://openai.azure.com.example/",
            ),
        ] {
            assert_eq!(complete_address(Url::parse(given).unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn tokens_differ_from_keys() {
        assert!(is_access_token("eyJ0eXAi.eyJhdWQi.c2ln"));
        assert!(!is_access_token("5f3c0a.b.c") && !is_access_token("eyJabc"));
    }
}
