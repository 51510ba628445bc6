//! Stores that past versions wrote: this version opens them and reads the same.
//!
//! The fixtures are databases, packed with gzip. They are never written again: a version that adds to the format adds
//! its own fixture.

use std::collections::BTreeSet;
use std::io::Read as _;

use super::*;

/// A store of schema version 5 with all samples and early records, and with three damaged records.
const SCHEMA_5: &[u8] = include_bytes!("past_versions/schema_5.db.gz");

/// Opens the store in a packed database.
fn open_packed(packed: &[u8]) -> StoreFixture {
    let mut database = Vec::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut database)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("store.db"), database).unwrap();
    StoreFixture::in_folder(Arc::new(folder))
}

async fn read_all_events(fixture: &StoreFixture, session: &str) -> (Vec<Event>, Vec<SkippedRow>) {
    let mut cursor = fixture.store.reader.walk_events(&session.into(), 0);
    let (mut events, mut skipped) = (Vec::new(), Vec::new());
    while let Some(page) = cursor.next().await.unwrap() {
        events.extend(page.events.into_iter().map(|stored| stored.event));
        skipped.extend(page.skipped);
    }
    (events, skipped)
}

#[tokio::test(start_paused = true)]
async fn events_of_schema_5_read_as_they_were_written() {
    let fixture = open_packed(SCHEMA_5);
    let (events, skipped) = read_all_events(&fixture, "ses_1").await;
    assert_eq!(events, samples::events());
    assert_eq!(skipped, []);

    let early: Vec<_> = (samples::early_records().into_iter())
        .map(|(_, _, event)| event)
        .collect();
    let (events, skipped) = read_all_events(&fixture, "ses_3").await;
    assert_eq!(events, early);
    let reasons: Vec<_> = skipped.iter().map(|row| row.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "unknown kind `hologram`",
            "unknown word `oracle` at line 1 column 28",
            "EOF while parsing a string at line 1 column 9",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn pending_values_and_changes_of_schema_5_read_as_they_were_written() {
    let fixture = open_packed(SCHEMA_5);
    let reader = &fixture.store.reader;
    let session = SessionId::from("ses_2");
    assert_eq!(
        reader.read_pending(&session).await.unwrap(),
        (samples::pending(), Vec::new())
    );
    let changes: Vec<_> = (samples::changes().into_iter())
        .map(|change| ("turn_1".to_owned(), change))
        .collect();
    assert_eq!(reader.read_changes(&session).await.unwrap(), changes);
    assert_eq!(reader.open_approvals().await.unwrap(), []);
    assert_eq!(reader.open_inquiries().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn rows_of_schema_5_read_as_they_were_written() {
    let fixture = open_packed(SCHEMA_5);
    let reader = &fixture.store.reader;
    let query = SessionQuery {
        query: Some("needle".into()),
        ..SessionQuery::default()
    };
    insta::assert_debug_snapshot!((
        reader.list_sessions(SessionQuery::default()).await.unwrap(),
        reader.list_sessions(query).await.unwrap().sessions,
        reader.list_grants("/w", Some(&"ses_1".into())).await.unwrap(),
        reader.read_trust("/w").await.unwrap(),
        reader.read_trust("/x").await.unwrap(),
        reader.list_redirects().await.unwrap(),
        reader.read_choice("/w", "").await.unwrap(),
        reader.spent_elsewhere(0).await.unwrap(),
        reader.list_turns(&"ses_1".into()).await.unwrap(),
    ));
}

#[tokio::test(start_paused = true)]
async fn a_store_of_schema_5_accepts_writes() {
    let fixture = open_packed(SCHEMA_5);
    let seq = samples::events().len() as u64 + 1;
    fixture.send(append("ses_1", seq, build_warning("later"))).await;
    assert_eq!(fixture.barrier().await, StoreHealth::Ok);
    let (events, _) = read_all_events(&fixture, "ses_1").await;
    assert_eq!(events.last(), Some(&build_warning("later")));
}

/// A kind without a sample would not be frozen.
#[test]
fn the_samples_cover_every_kind_of_event() {
    let kinds: BTreeSet<_> = (samples::events().iter())
        .map(|event| records::encode_event(event).unwrap().0)
        .collect();
    assert_eq!(kinds.len(), 23, "{kinds:?}");
}
