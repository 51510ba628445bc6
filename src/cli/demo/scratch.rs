//! The demo's own files: a workspace and a home folder that exist only while the demo runs.
//!
//! Keeps the demo away from the user's configuration, sessions and keys.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::random;
use crate::config::Env;

/// The file that the demo repairs.
pub(super) const FILE: &str = "cart.py";

/// The faulty line of the file.
pub(super) const WRONG: &str = "    return result - discount\n";
/// The correct line of the file.
pub(super) const RIGHT: &str = "    return result * (1 - discount / 100)\n";

const CART: &str = "\"\"\"A small shopping cart.\"\"\"\n\n\ndef total(prices, discount=0):\n    \
\"\"\"The sum of the prices, less a discount in percent.\"\"\"\n    result = 0\n    for price in prices:\n        \
result += price\n    return result - discount\n";

const README: &str = "# Shop\n\n`total([10, 20], discount=10)` should be 27.\n";

/// A temporary folder. Dropping this value removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Creates the folders and files.
    pub(super) fn new() -> io::Result<Self> {
        let name = format!("agentls-demo-{}", random::random_token(10));
        let root = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&root)?;
        let scratch = Self {
            // The temporary folder may be a link, while the server reports resolved paths.
            root: root.canonicalize().unwrap_or(root),
        };
        for folder in ["shop", "home", "config/agentls", "data", "state"] {
            fs::create_dir_all(scratch.root.join(folder))?;
        }
        fs::write(scratch.file_path(), CART)?;
        fs::write(scratch.workspace_path().join("README.md"), README)?;
        Ok(scratch)
    }

    /// Returns the folder that the agent works in.
    pub(super) fn workspace_path(&self) -> PathBuf {
        self.root.join("shop")
    }

    /// Returns the file that the agent repairs.
    pub(super) fn file_path(&self) -> PathBuf {
        self.workspace_path().join(FILE)
    }

    /// Writes a configuration whose provider is the demo's own model.
    pub(super) fn write_config(&self, port: u16) -> io::Result<()> {
        let config = format!(
            "[provider.demo]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:{port}\"\n\
             api_key = \"no-key-needed\"\nmodel = \"demo-model\"\nmax_retries = 3\n\
             initial_backoff_ms = 900\nbackoff_factor = 1.2\n\n\
             [model.\"demo-model\"]\ninput = 3.0\noutput = 15.0\ncontext_window = 200000\n\n\
             [agent.default]\nprovider = \"demo\"\nmode = \"ask\"\n"
        );
        fs::write(self.root.join("config/agentls/config.toml"), config)
    }

    /// Builds an environment without the user's variables, except `PATH` and `LANG`.
    pub(super) fn build_env(&self, env: &Env) -> Vec<(OsString, OsString)> {
        let mut vars: Vec<(OsString, OsString)> = [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
        ]
        .map(|(name, folder)| (name.into(), self.root.join(folder).into()))
        .into();
        let inherited = env.iter().filter(|(name, _)| *name == "PATH" || *name == "LANG");
        vars.extend(inherited.map(|(name, value)| (name.into(), value.into())));
        vars
    }

    /// Returns the folder as the demo displays it.
    pub(super) fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
