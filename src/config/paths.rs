//! The folders and files of a user, by platform (R-CONF). Pure: computes paths from [`Env`], creates nothing.

use std::path::{Path, PathBuf};

use super::{Env, KeyFile};

/// The user's folders and files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPaths {
    /// The config file, which may not exist.
    pub config_file: PathBuf,
    /// `--config` or `AGENTLS_CONFIG` named the config file, so it must exist.
    pub config_named: bool,
    /// The folder of the default config file.
    pub config_dir: PathBuf,
    /// The folder of the store.
    pub data_dir: PathBuf,
    /// The folder of logs and histories.
    pub state_dir: PathBuf,
}

impl ConfigPaths {
    /// Computes the paths. `config` is the value of `--config`. Returns `None` without a home folder.
    pub fn from_env(env: &Env, config: Option<&Path>) -> Option<Self> {
        let [config_dir, data_dir, state_dir] = resolve_base_dirs(env)?;
        let named = config.map(Path::to_path_buf).or_else(|| {
            env.non_empty("AGENTLS_CONFIG")
                .map(|path| home_expanded(path, env))
        });
        Some(Self {
            config_named: named.is_some(),
            config_file: named.unwrap_or_else(|| config_dir.join("config.toml")),
            config_dir,
            data_dir,
            state_dir,
        })
    }

    /// Returns what commands must not read: sessions, logs, and a file that may contain keys.
    pub fn secret_paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![
            self.data_dir.clone(),
            self.state_dir.clone(),
            self.config_file.clone(),
            // The next server may read it, even if this one was told to read another.
            self.config_dir.join("config.toml"),
        ];
        paths.dedup();
        paths
    }

    /// Returns the file of the downloaded data about models.
    pub fn models_file(&self) -> PathBuf {
        self.data_dir.join("models.json")
    }

    /// Returns the file of the keys that `agentls login` stores.
    pub fn key_file(&self) -> KeyFile {
        KeyFile::new(&self.data_dir)
    }

    /// Returns the log file for a configuration that names none.
    pub fn log_file(&self) -> PathBuf {
        self.state_dir.join("agentls.log")
    }
}

/// Returns the config, data and state folders. XDG variables count on every Unix; the defaults differ.
fn resolve_base_dirs(env: &Env) -> Option<[PathBuf; 3]> {
    let home = env.home_dir();
    let under = |variable: &str, default: &str| {
        env.absolute_path(variable)
            .or_else(|| Some(home?.join(default)))
            .map(|base| base.join("agentls"))
    };
    let defaults = if cfg!(target_os = "macos") {
        [
            "Library/Application Support",
            "Library/Application Support",
            "Library/Logs",
        ]
    } else {
        [".config", ".local/share", ".local/state"]
    };
    Some([
        under("XDG_CONFIG_HOME", defaults[0])?,
        under("XDG_DATA_HOME", defaults[1])?,
        under("XDG_STATE_HOME", defaults[2])?,
    ])
}

/// Expands a leading `~/` to the home folder.
pub(super) fn home_expanded(path: &str, env: &Env) -> PathBuf {
    match (path.strip_prefix('~'), env.home_dir()) {
        (Some(""), Some(home)) => home.to_path_buf(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn xdg_variables_are_respected() {
        let plain = ConfigPaths::from_env(&Env::from_vars([("HOME", "/h")]), None).unwrap();
        assert_eq!(plain.config_file, Path::new("/h/.config/agentls/config.toml"));
        assert_eq!(plain.data_dir, Path::new("/h/.local/share/agentls"));
        assert_eq!(plain.log_file(), Path::new("/h/.local/state/agentls/agentls.log"));
        assert!(!plain.config_named);

        let env = Env::from_vars([
            ("HOME", "/h"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_DATA_HOME", "/d"),
            ("XDG_STATE_HOME", "relative/is/ignored"),
        ]);
        let moved = ConfigPaths::from_env(&env, None).unwrap();
        assert_eq!(moved.config_dir, Path::new("/c/agentls"));
        assert_eq!(moved.data_dir, Path::new("/d/agentls"));
        assert_eq!(moved.state_dir, Path::new("/h/.local/state/agentls"));
    }

    #[test]
    fn flag_overrides_variable_and_default() {
        let env = Env::from_vars([("HOME", "/h"), ("AGENTLS_CONFIG", "~/mine.toml")]);
        let by_env = ConfigPaths::from_env(&env, None).unwrap();
        assert_eq!(
            (by_env.config_file.as_path(), by_env.config_named),
            (Path::new("/h/mine.toml"), true)
        );
        let by_flag = ConfigPaths::from_env(&env, Some(Path::new("/x.toml"))).unwrap();
        assert_eq!(by_flag.config_file, Path::new("/x.toml"));
        assert_eq!(ConfigPaths::from_env(&Env::default(), None), None);
    }

    #[test]
    fn tilde_expands_only_as_a_whole_component() {
        let env = Env::from_vars([("HOME", "/h")]);
        for (given, expected) in [
            ("~/a", "/h/a"),
            ("~", "/h"),
            ("~other/a", "~other/a"),
            ("/a/~", "/a/~"),
        ] {
            assert_eq!(home_expanded(given, &env), Path::new(expected));
        }
        assert_eq!(home_expanded("~/a", &Env::default()), Path::new("~/a"));
    }
}
