//! The environment variables that a server's program gets beyond those of commands.

use std::path::Path;

use super::connection::McpError;
use super::env_file::{Variables, read_env_file};
use crate::base::credential_env::is_credential;
use crate::config::{McpServerSettings, Redactor};

/// Collects the variables of `env_file` and `env`, of which `env` takes precedence. `folder` is the workspace folder.
///
/// # Errors
/// The file cannot be used.
pub(super) async fn collect_variables(
    settings: &McpServerSettings,
    folder: &Path,
    redactor: &Redactor,
) -> Result<Variables, McpError> {
    use secrecy::ExposeSecret as _;
    let mut variables = match &settings.env_file {
        // The program must not read through us what the sandbox denies it.
        Some(path) => read_env_file(path, settings.is_from_folder.then_some(folder)).await?,
        None => Variables::new(),
    };
    // `config` knows those of `env`.
    for (name, value) in &variables {
        if is_credential(name, value.expose_secret()) {
            redactor.learn_credential(value);
        }
    }
    variables.extend(settings.env.clone());
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[tokio::test]
    async fn env_takes_precedence_and_credentials_are_redacted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".env");
        std::fs::write(
            &file,
            "A=file\nB=file-value\nMY_TOKEN=abcdef-0123456789\nPASSWORD='correct horse battery'",
        )
        .unwrap();
        let settings = McpServerSettings {
            env: [("A".to_owned(), "env".into())].into(),
            env_file: Some(file),
            ..McpServerSettings::default()
        };
        let redactor = Redactor::default();
        let variables = collect_variables(&settings, dir.path(), &redactor).await;
        let variables = variables.unwrap();
        assert_eq!(variables["A"].expose_secret(), "env");
        assert_eq!(variables["B"].expose_secret(), "file-value");
        assert_eq!(
            redactor.redact_text("file-value abcdef-0123456789"),
            "file-value ***"
        );
        assert_eq!(
            redactor
                .redact_content("abcdef-0123456789 correct horse battery")
                .as_deref(),
            Some("*** ***")
        );
    }
}
