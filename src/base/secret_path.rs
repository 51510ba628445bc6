//! Which files look like they hold secrets (R-SEC): such files ask even to be read.

use std::path::Path;

/// Whether a file of this name usually holds secrets.
pub fn is_secret_like(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    name == ".env" || name.starts_with("id_rsa") || name.ends_with(".pem")
}
