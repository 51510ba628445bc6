//! Reads old contents of files from git's own store (R-SESS-3), for files that are as git has them.
//!
//! Runs only `git check-attr` and `git cat-file`. Neither looks at a file of the work tree except `.gitattributes`.
//! Must not start anything that a repository names: no hook, filter, file system monitor, pager, or remote.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ToolContext;
use crate::base::clock;
use crate::domain::FileState;
use crate::workspace::checkpoint::regular_file_state;
use crate::workspace::file_stamp::FileStamp;
use crate::workspace::git_files;
use crate::workspace::git_index::CleanFiles;
use crate::workspace::process::{Stdin, git_command};

/// Time limit for each step of reading from git. A large change takes many, and all of it must be undone.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for all steps if the turn was canceled before.
const GIT_TIMEOUT_CANCELLED: Duration = Duration::from_millis(200);

/// Most content requested from git in one batch, in bytes.
const AT_ONCE: u64 = 32 << 20;
/// Most files requested from git in one batch. What a batch has stored stays if a later one takes too long.
const FILES_AT_ONCE: usize = 500;

/// Attributes with which git may store other bytes than the file has.
const CONVERTS: [&str; 3] = ["filter", "ident", "working-tree-encoding"];

/// Most bytes of a header of `git cat-file --batch`, besides the name: the kind, a length, a line feed after the content.
const HEADER: usize = 40;

/// Longest output of `check-attr` that is read, in bytes.
const MAX_ATTRIBUTES: usize = 64 << 20;

/// Keeps the old contents of `files` in the work tree `root`. A file missing from the result was not found.
pub(super) async fn store_clean_files(
    cx: &ToolContext,
    root: &Path,
    files: Vec<CleanFiles>,
) -> HashMap<PathBuf, FileState> {
    let mut stored = HashMap::new();
    let patience = if cx.cancel.is_cancelled() {
        GIT_TIMEOUT_CANCELLED
    } else {
        GIT_TIMEOUT
    };
    let canceled = async {
        cx.cancel.cancelled().await;
        clock::sleep(patience).await;
    };
    let reading = read(cx, root, files, &mut stored);
    // `stored` is filled batch by batch, so a time-out keeps what was read before it.
    let known = tokio::select! { biased;
        () = cx.force_cancel.cancelled() => None,
        () = canceled => None,
        known = reading => known,
    };
    if known.is_none() {
        tracing::debug!(root = %root.display(), "git did not tell all that it has");
    }
    stored
}

async fn read(
    cx: &ToolContext,
    root: &Path,
    mut files: Vec<CleanFiles>,
    stored: &mut HashMap<PathBuf, FileState>,
) -> Option<()> {
    let (tree, sought) = (root.to_owned(), files.clone());
    let regular = tokio::task::spawn_blocking(move || {
        let paths = sought.iter().map(|file| file.path.as_path());
        git_files::reads_only_regular_files(&tree, paths, sought.iter().map(|file| file.id.as_str()))
    });
    // Git would block on a pipe that a repository provides.
    if !clock::timeout(GIT_TIMEOUT, regular).await.ok()?.ok()? {
        return None;
    }
    let converted = find_converted_files(cx, root, &files);
    let converted = clock::timeout(GIT_TIMEOUT, converted).await.ok()??;
    files.retain(|file| !converted.contains(&file.path));
    while !files.is_empty() {
        let mut bytes = 0;
        let count = files
            .iter()
            .take(FILES_AT_ONCE)
            .take_while(|file| {
                bytes += file.stamp.bytes();
                bytes <= AT_ONCE
            })
            .count();
        // At least one, even if it exceeds the limit alone.
        let rest = files.split_off(count.max(1));
        let output = read_blobs(cx, root, &files);
        let output = clock::timeout(GIT_TIMEOUT, output).await.ok()??;
        let (inner, some) = (cx.clone(), std::mem::replace(&mut files, rest));
        let done = tokio::task::spawn_blocking(move || {
            let blobs = parse_batch(&output);
            let state = |file: CleanFiles| {
                let state = store_blob(&inner, blobs.get(file.id.as_str())?, file.stamp)?;
                inner
                    .workspace
                    .known_files()
                    .record_state(&file.path, file.stamp, state.clone());
                Some((file.path, state))
            };
            some.into_iter().filter_map(state).collect::<Vec<_>>()
        });
        stored.extend(clock::timeout(GIT_TIMEOUT, done).await.ok()?.ok()?);
    }
    Some(())
}

/// Stores a blob as the old content of a file with this stamp.
fn store_blob(cx: &ToolContext, blob: &[u8], stamp: FileStamp) -> Option<FileState> {
    // With another length, git converts the content between the store and the file.
    if blob.len() as u64 != stamp.bytes() {
        return None;
    }
    if stamp.is_link() {
        let target = String::from_utf8(blob.to_vec()).ok()?;
        return Some(FileState::Link { target });
    }
    cx.checkpoints.store_content(blob).ok()?;
    Some(regular_file_state(blob, stamp.mode()))
}

/// Returns the files whose attributes convert them between the store and the work tree.
async fn find_converted_files(cx: &ToolContext, root: &Path, files: &[CleanFiles]) -> Option<Vec<PathBuf>> {
    let mut input = Vec::new();
    for file in files {
        input.extend_from_slice(file.path.strip_prefix(root).ok()?.to_str()?.as_bytes());
        input.push(0);
    }
    let args = ["check-attr", "-z", "--stdin"].into_iter().chain(CONVERTS);
    let command = git_command(args).current_dir(root).stdin(Stdin::Bytes(input));
    let git = cx.workspace.shared().git_reader(cx.sandbox.settings.clone());
    let output = git.run(root, command, MAX_ATTRIBUTES).await?;
    if !output.status.success() || output.cut {
        return None;
    }
    let words: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
    // Path, attribute, value; the last word is empty.
    let entries = words.chunks_exact(3);
    // Not one answer per question: the output cannot be assigned to the files.
    if entries.len() != files.len() * CONVERTS.len() {
        return None;
    }
    entries
        .filter(|entry| ![&b"unspecified"[..], b"unset"].contains(&entry[2]))
        .map(|entry| Some(root.join(std::str::from_utf8(entry[0]).ok()?)))
        .collect()
}

/// Runs `git cat-file --batch` for the blobs of `files`, and returns its output. Any output beyond the files' own sizes
/// is cut.
async fn read_blobs(cx: &ToolContext, root: &Path, files: &[CleanFiles]) -> Option<Vec<u8>> {
    let input: String = files.iter().map(|file| format!("{}\n", file.id)).collect();
    let contents: u64 = files.iter().map(|file| file.stamp.bytes()).sum();
    let headers = input.len() + files.len() * HEADER;
    let limit = usize::try_from(contents)
        .unwrap_or(usize::MAX)
        .saturating_add(headers);
    let command = git_command(["cat-file", "--batch", "--buffer"])
        .current_dir(root)
        .stdin(Stdin::Bytes(input.into_bytes()));
    let git = cx.workspace.shared().git_reader(cx.sandbox.settings.clone());
    Some(git.run(root, command, limit).await?.stdout)
}

/// Finds the complete blobs in the output of `git cat-file --batch`, by name.
fn parse_batch(mut output: &[u8]) -> HashMap<&str, &[u8]> {
    let mut blobs = HashMap::new();
    while let Some(end) = memchr::memchr(b'\n', output) {
        let (head, rest) = (&output[..end], &output[end + 1..]);
        // `<id> <kind> <length>`; a missing object has no length, and no content follows.
        let mut words = std::str::from_utf8(head).unwrap_or_default().split(' ');
        let (id, kind) = (words.next(), words.next());
        let Some(length) = words.next().and_then(|length| length.parse::<usize>().ok()) else {
            output = rest;
            continue;
        };
        // A line feed ends each content.
        let Some((content, rest)) = rest.split_at_checked(length).filter(|(_, rest)| !rest.is_empty()) else {
            break;
        };
        if let (Some(id), Some("blob")) = (id, kind) {
            blobs.insert(id, content);
        }
        output = &rest[1..];
    }
    blobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_blobs_of_a_cut_batch_are_found() {
        let out = b"aa blob 3\nx\ny\nbb missing\ncc tree 2\nzz\ndd blob 0\n\nff blob 4\nlast\n";
        for cut in 0..=out.len() {
            let mut blobs: Vec<(&str, &[u8])> = parse_batch(&out[..cut]).into_iter().collect();
            blobs.sort_unstable();
            let all = [("aa", &b"x\ny"[..]), ("dd", b""), ("ff", b"last")];
            let complete = [14, 49, out.len()].iter().filter(|end| cut >= **end).count();
            assert_eq!(blobs, all[..complete], "{cut}");
        }
    }
}
