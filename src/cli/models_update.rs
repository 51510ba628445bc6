//! `agentls models update`: fetches newer data about models, shows the difference, and stores it.
//!
//! The only place that fetches such data. Nothing is changed if anything is wrong with it.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::screen::Screen;
use super::style::Color;
use crate::base::date::format_date;
use crate::config::{ConfigSource, Trust};
use crate::provider::models::{CatalogDownload, catalog_source, compare_download, current_day};
use crate::provider::{MAX_CATALOG_SOURCE, fetch_catalog};

/// Where the data comes from unless `--from` names another place.
pub(super) const DEFAULT_SOURCE: &str = "https://models.dev/api.json";

/// How many names of a kind are shown.
const SHOWN: usize = 12;

/// Runs the command.
///
/// # Errors
/// Says why nothing was changed.
pub(super) async fn update_models(
    from: Option<&str>,
    source: &ConfigSource,
    trust: &Trust,
    screen: &mut Screen,
) -> Result<i32, String> {
    let places = source.places.as_ref();
    let file = places
        .ok_or("no home folder: set HOME or XDG_DATA_HOME")?
        .models_file();
    // Behind a firewall the usual address cannot be reached.
    let hint = from.map_or(
        "\nsave that file on a machine that reaches it, and name it with --from",
        |_| "",
    );
    let from = from.unwrap_or(DEFAULT_SOURCE);
    let unchanged = |problem: String| format!("{problem}\nnothing was changed");
    let (text, day) = if from.contains("://") {
        let network = &source.load_settings(None, trust).settings.network;
        screen.set_status(&format!("fetching {from} …"));
        let fetched = fetch_catalog(from, network).await;
        let text =
            fetched.map_err(|problem| unchanged(format!("{problem}\n{from} was not fetched{hint}")))?;
        (text, current_day())
    } else {
        read_bounded(Path::new(from)).map_err(|error| unchanged(format!("{from}: {error}")))?
    };
    let (in_use, _) = catalog_source();
    let new = CatalogDownload::parse(&text, from, &format_date(day))
        .map_err(|problem| unchanged(format!("{from} cannot be used: {problem}")))?;
    if new.date() < in_use {
        let problem = format!(
            "{from} is of {}, and the data in use is newer: {in_use}",
            new.date()
        );
        return Err(unchanged(problem));
    }
    let difference = compare_download(&new);
    for (what, names) in [
        ("new", &difference.added),
        ("changed", &difference.changed),
        ("no longer listed; the built-in data stays", &difference.removed),
        (
            "no longer known, because only the data in use until now lists them",
            &difference.lost,
        ),
    ] {
        if names.is_empty() {
            continue;
        }
        screen.write_line(
            &screen
                .styler
                .paint_text(Color::Bold, &format!("{} {what}:", names.len())),
        );
        for name in names.iter().take(SHOWN) {
            screen.write_line(&format!("  {name}"));
        }
        if names.len() > SHOWN {
            screen.write_line(&format!("  and {} more", names.len() - SHOWN));
        }
    }
    let path = file.display();
    new.store(&file)
        .map_err(|error| unchanged(format!("{path} cannot be written: {error}")))?;
    screen.write_line(&format!(
        "{} models as of {} are in {path}; servers use them after a restart",
        new.count_models(),
        new.date()
    ));
    screen.write_line(&format!("from {from}, sha256 {}", new.sha256()));
    Ok(0)
}

/// Returns the text of a file, and the day of its last change.
fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, i64)> {
    let mut text = Vec::new();
    let limit = MAX_CATALOG_SOURCE as u64;
    let file = fs::File::open(path)?;
    let changed = file.metadata()?.modified()?.duration_since(UNIX_EPOCH);
    let day = changed.map_or(0, |since| since.as_secs() / 86_400);
    file.take(limit + 1).read_to_end(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {} MB", limit >> 20)));
    }
    Ok((text, day.cast_signed()))
}
