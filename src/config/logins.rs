//! Loads the keys of logins with the rest of the configuration.

use secrecy::SecretString;

use super::inputs::Trust;
use super::layers::{ConfigSource, LoadedConfig, load_settings};
use super::login_keys::{KeyFileStamp, LoginKeys};

impl ConfigSource {
    /// Loads the user's own configuration as if `provider` had a login.
    pub fn settings_with_login(&self, provider: &str) -> LoadedConfig {
        let keys = self.login_keys().with_key(provider, SecretString::default());
        self.with_inputs(None, &Trust::default(), keys, load_settings)
    }

    /// Returns what tells changed keys of logins from these. Blocks briefly.
    pub fn login_stamp(&self) -> KeyFileStamp {
        self.places.as_ref()?.key_file().stamp()
    }

    pub(super) fn login_keys(&self) -> LoginKeys {
        let places = self.places.as_ref();
        places.map_or_else(LoginKeys::default, |places| places.key_file().load())
    }
}
