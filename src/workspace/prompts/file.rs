//! Reads one file that a user wrote for the agent. It may be huge, binary, a pipe, or a link to another place.
//!
//! Must not know what the file is for. Every text has its keys removed (I15) and its hidden characters made visible.

use std::io;
use std::path::{Path, PathBuf};

use super::PromptFolder;
use crate::base::nofollow::{self, FileKind, OpenError, OpenFolder, RegularFile};
use crate::base::secret_path::is_secret_like;
use crate::base::text::{escape_hidden_characters, prefix_within};
use crate::config::Redactor;
use crate::workspace::resolve::{PathError, real_path};

/// Longest part of a file that is read, in bytes.
pub(super) const MAX_FILE: usize = 64 << 10;

/// The text of a file, with what is wrong with it.
pub(super) struct PromptFile {
    /// The text, or the part of it that is used.
    pub(super) text: String,
    pub(super) problem: Option<String>,
}

/// Reads a file of `source`; `None` if there is none. The error says why the file is skipped. Blocks.
pub(super) fn read(source: &PromptFolder, path: &Path) -> Option<Result<PromptFile, String>> {
    let real = match resolve_prompt_path(source, path) {
        Ok(Some(real)) => real,
        Ok(None) => return None,
        Err(reason) => return Some(Err(reason)),
    };
    let mut file = match RegularFile::open(&real) {
        Ok(file) => file,
        Err(OpenError::Missing) => return None,
        Err(OpenError::NotRegular(FileKind::Folder)) => return Some(Err("it is a folder".to_owned())),
        Err(OpenError::Io(error)) => return Some(Err(format_read_error(&error))),
        Err(error) => return Some(Err(error.to_string())),
    };
    let full_length = file.metadata().len();
    Some(
        // A few bytes more show that the file is longer, and complete a character that the limit cuts.
        file.read_start(MAX_FILE as u64 + 4)
            .map_err(|error| format_read_error(&error))
            .and_then(|bytes| decode_prompt_file(bytes, full_length))
            .map(|prompt_file| redact_keys(&source.redactor, prompt_file)),
    )
}

/// Returns whether nothing is at the path, not even a link. `false` if a link leads there: it is resolved elsewhere.
pub(super) fn is_missing(path: &Path) -> bool {
    matches!(nofollow::status_of(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Resolves the path; `None` if nothing is there.
fn resolve_prompt_path(source: &PromptFolder, path: &Path) -> Result<Option<PathBuf>, String> {
    let real = match real_path(path) {
        Ok(real) => real,
        Err(PathError::NotAFolder(_)) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // A missing file, or a link to one, is neither inside nor outside.
    if is_missing(&real) {
        return Ok(None);
    }
    let Some(roots) = &source.within else {
        return Ok(Some(real));
    };
    if roots.find_containing(&real).is_none() {
        return Err("it is a link to a place outside the workspace".to_owned());
    }
    if source.denied.covers(&real) {
        return Err("[sandbox] read_deny names it".to_owned());
    }
    if is_secret_like(&real) {
        return Err("it is a link to a file that usually holds secrets".to_owned());
    }
    Ok(Some(real))
}

/// Most entries examined in one folder.
const MAX_ENTRIES: usize = 10_000;

/// Lists the paths of the entries in the folder `dir` of `source`; empty if it leads out of the workspace.
pub(super) fn list_entry_paths(source: &PromptFolder, dir: &Path) -> Vec<PathBuf> {
    if is_missing(dir) {
        return Vec::new();
    }
    let Ok(Some(real)) = resolve_prompt_path(source, dir) else {
        return Vec::new();
    };
    let entries = OpenFolder::open(&real).and_then(|folder| folder.read_entries());
    (entries.into_iter().flatten().take(MAX_ENTRIES))
        .filter_map(|entry| Some(dir.join(entry.ok()?.name)))
        .collect()
}

/// Removes keys: in a file for the agent they are there by mistake, and no model must receive them (R-SEC, I15).
fn redact_keys(redactor: &Redactor, mut prompt_file: PromptFile) -> PromptFile {
    if let Some(clean) = redactor.redact_content(&prompt_file.text) {
        prompt_file.text = clean;
    }
    prompt_file
}

fn format_read_error(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn decode_prompt_file(bytes: Vec<u8>, full_length: u64) -> Result<PromptFile, String> {
    if bytes.contains(&0) {
        return Err("it is not a text".to_owned());
    }
    let long = bytes.len() > MAX_FILE;
    let (text, invalid) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            // A character cut by the limit is not a fault of the file.
            let cut_only = long && error.utf8_error().error_len().is_none() && good >= MAX_FILE;
            (String::from_utf8_lossy(error.as_bytes()).into_owned(), !cut_only)
        }
    };
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(&text)
        .replace("\r\n", "\n");
    // Text that only a model would see is made visible.
    let text = escape_hidden_characters(&text);
    if long {
        let start = prefix_within(&text, MAX_FILE);
        // Keep whole lines, unless there is only one.
        let start = start.rfind('\n').map_or(start, |end| &start[..=end]);
        return Ok(PromptFile {
            text: start.to_owned(),
            problem: Some(format!(
                "it is too long ({full_length} bytes); used only its first {} bytes",
                start.len()
            )),
        });
    }
    Ok(PromptFile {
        text: text.into_owned(),
        problem: invalid.then(|| "it is not valid UTF-8; replaced invalid bytes".to_owned()),
    })
}

/// Computes an FNV-1a hash of a text; it is the same in every run.
pub(super) fn compute_fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
