//! Reports what commands left in their temporary folder: nobody else sees it, and it goes with the session.

use super::ToolContext;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::workspace::{LeftFiles, SandboxAccess};

/// Most names of a note.
const MAX_NAMES: usize = 5;
/// Longest name of a note, in characters.
const MAX_NAME: usize = 80;

/// Returns a note about what confined commands left since the last one; `None` if that is nothing.
pub(super) async fn note_left_files(cx: &ToolContext, access: &SandboxAccess) -> Option<String> {
    let left = cx.workspace.take_left_files(access).await?;
    Some(describe_left_files(&left))
}

fn describe_left_files(left: &LeftFiles) -> String {
    let names = left.names.iter().take(MAX_NAMES);
    // A command chose the names.
    let names = names.map(|name| one_line(&reveal_hidden_characters(&name.to_string_lossy()), MAX_NAME));
    let mut names = names.collect::<Vec<_>>().join(", ");
    if let Some(more) = left.names.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
        names.push_str(&format!(", {more} more"));
    }
    let folder = left.folder.display();
    match (left.is_first, left.has_own_tmp) {
        (true, true) => format!(
            "[note: {folder} is a private folder of this session's commands. What was written there ({names}) is not \
             visible outside of them, not even to your other tools, and is removed when the session ends]"
        ),
        (true, false) => format!(
            "[note: {folder} is a temporary folder of this session's commands. What was written there ({names}) is \
             removed when the session ends]"
        ),
        (false, true) => format!("[note: also in the private {folder}: {names}]"),
        (false, false) => format!("[note: also in the temporary {folder}: {names}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_short_and_explain_the_folder_once() {
        let describe = |names: &[&str], has_own_tmp, is_first| {
            describe_left_files(&LeftFiles {
                names: names.iter().map(Into::into).collect(),
                folder: "/tmp".into(),
                has_own_tmp,
                is_first,
            })
        };
        let first = describe(&["a.txt", "out/"], true, true);
        assert!(
            first.contains("private folder") && first.contains("(a.txt, out/)"),
            "{first}"
        );
        let partial = describe(&["a"], false, true);
        assert!(
            partial.contains("temporary folder") && !partial.contains("visible"),
            "{partial}"
        );
        assert_eq!(
            describe(&["b"], true, false),
            "[note: also in the private /tmp: b]"
        );
        let long = "x".repeat(300);
        let many: Vec<&str> = std::iter::repeat_n(&*long, 9).collect();
        let many = describe(&many, true, true);
        assert!(many.len() < 700 && many.contains("4 more"), "{many}");
        let hidden = describe(&["a\nb\u{202e}c"], true, false);
        assert!(!hidden.contains('\n') && hidden.contains("<U+202E>"), "{hidden}");
    }
}
