//! The list of sessions, and full-text search over titles, prompts and final texts (R-SESS-2).
//!
//! Builds queries and excerpts only; `apply` fills the search table.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::apply::{IS_LISTED, event_id, event_ids, seq_of};
use super::error::StoreError;
use super::row_reading::{SESSION, session_row, stored_event};
use super::rows::{SearchHit, SessionHit, SessionPage, SessionQuery, StoredEvent};
use super::schema;
use crate::base::text;
use crate::domain::Event;

/// Sessions on a page by default.
const PAGE: usize = 50;

/// Characters of an excerpt.
const EXCERPT: usize = 120;

/// Returns a page of the session list.
pub(super) fn list_sessions(
    connection: &Connection,
    query: &SessionQuery,
) -> Result<SessionPage, StoreError> {
    let limit = if query.limit == 0 { PAGE } else { query.limit };
    let words = query.query.as_deref().map(split_words).unwrap_or_default();
    let searched = query.query.as_ref().is_some_and(|text| !text.trim().is_empty());
    // A query without a letter or digit matches nothing; without this it would list everything.
    if searched && words.is_empty() {
        return Ok(SessionPage::default());
    }
    let expression = searched.then(|| build_match_expression(&words));
    let (sql, values) = build_query(query, expression.as_deref(), limit)?;
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut page = SessionPage::default();
    let (mut seen, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        if seen == limit {
            page.next_cursor = last;
            break;
        }
        seen += 1;
        let (num, updated_ms): (i64, i64) = (row.get("num")?, row.get("updated_ms")?);
        last = Some(format!("{updated_ms}.{num}"));
        let session = match session_row(row) {
            Ok((_, session)) => session,
            // One damaged row must not hide the others.
            Err(error) => {
                tracing::warn!(num, %error, "a session cannot be listed");
                continue;
            }
        };
        let found = match &expression {
            Some(expression) => find(connection, num, expression, &words)?,
            None => None,
        };
        page.sessions.push(SessionHit { session, found });
    }
    Ok(page)
}

/// Reads the ids and titles of the sessions that were used last, in a store of any version.
pub(super) fn list_recent(path: &Path) -> Result<Vec<(String, Option<String>)>, StoreError> {
    let connection = schema::open_read_only(path, Duration::ZERO)?;
    let sql = format!(
        "SELECT id, title FROM sessions WHERE ({IS_LISTED}) ORDER BY updated_ms DESC, num DESC LIMIT 100"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Builds the statement for a page, and its values.
fn build_query(
    query: &SessionQuery,
    expression: Option<&str>,
    limit: usize,
) -> Result<(String, Vec<Value>), StoreError> {
    let mut sql = format!("SELECT {SESSION} FROM sessions WHERE ({IS_LISTED})");
    let mut values = Vec::new();
    if let Some(cwd) = &query.cwd {
        sql.push_str(" AND cwd = ?");
        values.push(Value::from(cwd.clone()));
    }
    if let Some(cursor) = &query.cursor {
        let (updated_ms, num) = parse_cursor(cursor)?;
        sql.push_str(" AND (updated_ms, num) < (?, ?)");
        values.extend([Value::from(updated_ms), Value::from(num)]);
    }
    // The upper half of a row id is the number of its session.
    if let Some(expression) = expression {
        sql.push_str(" AND num IN (SELECT rowid >> 32 FROM search WHERE search MATCH ?)");
        values.push(Value::from(expression.to_owned()));
    }
    sql.push_str(" ORDER BY updated_ms DESC, num DESC LIMIT ?");
    // One row more than requested tells whether there is a next page.
    values.push(Value::from(
        i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1),
    ));
    Ok((sql, values))
}

fn parse_cursor(cursor: &str) -> Result<(i64, i64), StoreError> {
    cursor
        .split_once('.')
        .and_then(|(updated_ms, num)| Some((updated_ms.parse().ok()?, num.parse().ok()?)))
        .ok_or_else(|| StoreError::BadCursor(text::one_line(cursor, 40)))
}

/// Splits a query into words. Parts without a letter or digit match nothing and are left out.
fn split_words(query: &str) -> Vec<String> {
    query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Builds an expression that requires all words in one text. The last word may be incomplete, as it is while the user
/// types.
fn build_match_expression(words: &[String]) -> String {
    // Quoted, so that no word acts as an operator of the query language.
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("{}*", quoted.join(" "))
}

/// Finds the newest match of the words in a session.
fn find(
    connection: &Connection,
    num: i64,
    expression: &str,
    words: &[String],
) -> Result<Option<SearchHit>, StoreError> {
    let (first, last) = event_ids(num);
    let id: Option<i64> = connection
        .prepare_cached(
            "SELECT rowid FROM search WHERE search MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT 1",
        )?
        .query_row(params![expression, first, last], |row| row.get(0))
        .optional()?;
    let Some(id) = id else {
        return Ok(None);
    };
    let (seq, full_text) = if id == event_id(num, 0) {
        let title: Option<String> = connection
            .prepare_cached("SELECT title FROM sessions WHERE num = ?")?
            .query_row([num], |row| row.get(0))?;
        (None, title.unwrap_or_default())
    } else {
        let event = connection
            .prepare_cached("SELECT id, turn, at_ms, kind, json FROM events WHERE id = ?")?
            .query_row([id], |row| Ok(stored_event(row)))
            .optional()?;
        // An event that became unreadable still counts as a match, with an empty excerpt.
        let full_text = match event {
            Some(Ok(StoredEvent {
                event: Event::Message(message),
                ..
            })) => message.text(),
            Some(_) | None => String::new(),
        };
        (Some(seq_of(id)), full_text)
    };
    Ok(Some(SearchHit {
        seq,
        excerpt: extract_excerpt(&full_text, words),
    }))
}

/// Returns the text around the first word found.
fn extract_excerpt(full_text: &str, words: &[String]) -> String {
    // Lowercasing may change lengths. The position is then only approximate, which is good enough for an excerpt.
    let lower = full_text.to_lowercase();
    let at = words
        .iter()
        .filter_map(|word| lower.find(word))
        .min()
        .unwrap_or(0);
    let start = full_text.floor_char_boundary(at.min(full_text.len()));
    let before = text::suffix_within(&full_text[..start], EXCERPT / 4);
    let lead = if before.len() < start { "…" } else { "" };
    format!(
        "{lead}{}",
        text::one_line(&full_text[start - before.len()..], EXCERPT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_cannot_break_the_expression() {
        for (query, expected) in [
            ("Parser", "\"parser\"*"),
            ("fix the parser", "\"fix\" \"the\" \"parser\"*"),
            ("\"a\" OR b*", "\"a\" \"or\" \"b\"*"),
            ("foo_bar(x)", "\"foo\" \"bar\" \"x\"*"),
        ] {
            assert_eq!(build_match_expression(&split_words(query)), expected, "{query}");
        }
        assert!(split_words("-- \" *").is_empty());
    }

    #[test]
    fn excerpts_show_the_text_around_the_match() {
        let long = format!("{} needle {}", "hay ".repeat(50), "straw ".repeat(50));
        let excerpt = extract_excerpt(&long, &["needle".to_owned()]);
        assert!(excerpt.starts_with("…") && excerpt.ends_with('…'), "{excerpt}");
        assert!(excerpt.contains("hay needle straw"), "{excerpt}");
        assert_eq!(super::extract_excerpt("Ünlaut", &["x".to_owned()]), "Ünlaut");
    }
}
