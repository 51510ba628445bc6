//! The text of the question about a command that would make something disappear for good.

use crate::base::text::one_line;
use crate::domain::LossList;

/// How many losses the question names.
const NAMED: usize = 3;

/// Says what would be lost, for people: the first few, and how many more.
pub(super) fn describe_losses(list: &LossList, is_partial: bool) -> String {
    let named = list.listed.iter().take(NAMED).map(|loss| {
        let what = one_line(&loss.what, 60);
        match loss.bytes {
            Some(bytes) => format!("{what} ({})", format_bytes(bytes)),
            None => what,
        }
    });
    let named: Vec<String> = named.collect();
    let more = list.count.saturating_sub(named.len() as u64);
    let mut text = if named.is_empty() {
        "may delete or overwrite files for good that could not be checked".to_owned()
    } else {
        format!("deletes or overwrites for good: {}", named.join(", "))
    };
    match (more, is_partial) {
        (0, false) => {}
        (0, true) if named.is_empty() => {}
        (0, true) => text.push_str(", perhaps more"),
        (more, false) => text.push_str(&format!(", and {more} more")),
        (more, true) => text.push_str(&format!(", and at least {more} more")),
    }
    text
}

fn format_bytes(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
