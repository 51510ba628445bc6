//! Reads old contents of files from git's own store (R-SESS-3), for files that are as git has them.
//!
//! Runs only `git check-attr` and `git cat-file`. Neither looks at a file of the work tree except `.gitattributes`.
//! Must not start anything that a repository names: no hook, filter, file system monitor, pager, or remote.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ToolContext;
use crate::domain::FileState;
use crate::workspace::checkpoint::regular_file_state;
use crate::workspace::git_files;
use crate::workspace::git_index::CleanFiles;
use crate::workspace::process::{Command, Stdin, Stream, git_command};
use crate::workspace::watch::FileStamp;

/// Time limit for reading from git.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit once the turn is canceled.
const PATIENCE_CANCELLED: Duration = Duration::from_millis(200);

/// Most content requested from git in one batch, in bytes.
const AT_ONCE: u64 = 32 << 20;

/// Attributes with which git may store other bytes than the file has.
const CONVERTS: [&str; 3] = ["filter", "ident", "working-tree-encoding"];

/// Longest output of `check-attr` that is read, in bytes.
const MAX_ATTRIBUTES: usize = 64 << 20;

/// Keeps the old contents of `files` in the work tree `root`. A file missing from the result was not found.
pub(super) async fn store_clean_files(
    cx: &ToolContext,
    root: &Path,
    files: Vec<CleanFiles>,
) -> HashMap<PathBuf, FileState> {
    let mut kept = HashMap::new();
    let patience = if cx.cancel.is_cancelled() {
        PATIENCE_CANCELLED
    } else {
        PATIENCE
    };
    let reading = read(cx, root, files, &mut kept);
    // `kept` is filled batch by batch, so a time-out keeps what was read before it.
    let known = tokio::select! { biased;
        () = cx.force_cancel.cancelled() => None,
        () = tokio::time::sleep(patience) => None,
        known = reading => known,
    };
    if known.is_none() {
        tracing::debug!(root = %root.display(), "git did not tell all that it has");
    }
    kept
}

async fn read(
    cx: &ToolContext,
    root: &Path,
    mut files: Vec<CleanFiles>,
    kept: &mut HashMap<PathBuf, FileState>,
) -> Option<()> {
    let (tree, sought) = (root.to_owned(), files.clone());
    let regular = tokio::task::spawn_blocking(move || {
        let paths = sought.iter().map(|file| file.path.as_path());
        git_files::reads_only_regular_files(&tree, paths, sought.iter().map(|file| file.id.as_str()))
    });
    // Git would block on a pipe that a repository provides.
    if !regular.await.ok()? {
        return None;
    }
    let converted = find_converted_files(cx, root, &files).await?;
    files.retain(|file| !converted.contains(&file.path));
    while !files.is_empty() {
        let mut bytes = 0;
        let count = files
            .iter()
            .take_while(|file| {
                bytes += file.stamp.bytes();
                bytes <= AT_ONCE
            })
            .count();
        // At least one, even if it exceeds the limit alone.
        let rest = files.split_off(count.max(1));
        let blobs = read_blobs(cx, root, &files).await?;
        let (inner, some) = (cx.clone(), std::mem::replace(&mut files, rest));
        let done = tokio::task::spawn_blocking(move || {
            let state = |file: CleanFiles| {
                let state = store_blob(&inner, blobs.get(&file.id)?, file.stamp)?;
                inner
                    .workspace
                    .known_files()
                    .record_state(&file.path, file.stamp, state.clone());
                Some((file.path, state))
            };
            some.into_iter().filter_map(state).collect::<Vec<_>>()
        });
        kept.extend(done.await.ok()?);
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
    let child = cx.workspace.shared().launcher().spawn(command).await.ok()?;
    let said = child.collect_output(MAX_ATTRIBUTES).await;
    if !said.status.success() || said.cut {
        return None;
    }
    let words: Vec<&[u8]> = said.stdout.split(|byte| *byte == 0).collect();
    // Path, attribute, value; the last word is empty.
    let told = words.chunks_exact(3);
    // Not one answer per question: the output cannot be assigned to the files.
    if told.len() != files.len() * CONVERTS.len() {
        return None;
    }
    told.filter(|told| ![&b"unspecified"[..], b"unset"].contains(&told[2]))
        .map(|told| Some(root.join(std::str::from_utf8(told[0]).ok()?)))
        .collect()
}

/// Reads the contents of blobs, by name.
async fn read_blobs(cx: &ToolContext, root: &Path, files: &[CleanFiles]) -> Option<HashMap<String, Vec<u8>>> {
    let input: String = files.iter().map(|file| format!("{}\n", file.id)).collect();
    let command: Command = git_command(["cat-file", "--batch", "--buffer"])
        .current_dir(root)
        .stdin(Stdin::Bytes(input.into_bytes()));
    let mut child = cx.workspace.shared().launcher().spawn(command).await.ok()?;
    let mut batch = BlobBatch::new(files);
    while let Some(chunk) = child.output.next().await {
        if chunk.stream == Stream::Stdout {
            batch.push(&chunk.bytes);
        }
    }
    Some(batch.blobs)
}

/// Parses the output of `git cat-file --batch` as it arrives.
struct BlobBatch {
    blobs: HashMap<String, Vec<u8>>,
    /// Length of the longest blob that is needed, in bytes.
    longest: usize,
    head: Vec<u8>,
    body: Option<BlobReader>,
}

struct BlobReader {
    id: String,
    bytes: Vec<u8>,
    /// Bytes still to come, including the line feed after the blob.
    left: usize,
    wanted: bool,
}

impl BlobBatch {
    fn new(files: &[CleanFiles]) -> Self {
        let longest = files.iter().map(|file| file.stamp.bytes()).max().unwrap_or(0);
        Self {
            blobs: HashMap::new(),
            longest: usize::try_from(longest).unwrap_or(usize::MAX),
            head: Vec::new(),
            body: None,
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(body) = &mut self.body else {
                let Some(end) = memchr::memchr(b'\n', bytes) else {
                    return self.head.extend_from_slice(bytes);
                };
                self.head.extend_from_slice(&bytes[..end]);
                bytes = &bytes[end + 1..];
                let head = std::mem::take(&mut self.head);
                self.body = self.parse_header(&head);
                continue;
            };
            let (now, later) = bytes.split_at(bytes.len().min(body.left));
            if body.wanted {
                body.bytes.extend_from_slice(now);
            }
            body.left -= now.len();
            bytes = later;
            if body.left == 0
                && let Some(BlobReader {
                    id,
                    mut bytes,
                    wanted: true,
                    ..
                }) = self.body.take()
            {
                // The line feed that ends each object.
                bytes.pop();
                self.blobs.insert(id, bytes);
            }
        }
    }

    /// Parses `<id> blob <length>`; a missing object has no length.
    fn parse_header(&self, head: &[u8]) -> Option<BlobReader> {
        let mut words = std::str::from_utf8(head).ok()?.split(' ');
        let (id, kind) = (words.next()?, words.next()?);
        let length: usize = words.next()?.parse().ok()?;
        // Other objects are read past, without keeping their bytes.
        Some(BlobReader {
            id: id.to_owned(),
            bytes: Vec::new(),
            left: length.checked_add(1)?,
            wanted: kind == "blob" && length <= self.longest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_parsed_wherever_it_is_split() {
        let out = b"aa blob 3\nx\ny\nbb missing\ncc tree 2\nzz\ndd blob 0\n\nee blob 9\n123456789\nff blob 4\nlast\n";
        for cut in 0..=out.len() {
            let mut batch = BlobBatch::new(&[]);
            batch.longest = 4;
            batch.push(&out[..cut]);
            batch.push(&out[cut..]);
            let mut blobs: Vec<(&str, &[u8])> = batch
                .blobs
                .iter()
                .map(|(id, bytes)| (id.as_str(), bytes.as_slice()))
                .collect();
            blobs.sort_unstable();
            assert_eq!(
                blobs,
                [("aa", &b"x\ny"[..]), ("dd", b""), ("ff", b"last")],
                "{cut}"
            );
        }
    }
}
