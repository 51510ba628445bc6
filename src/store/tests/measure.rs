//! Measurements, not tests: `cargo test --release --lib store::tests::measure -- --ignored --nocapture`.

use super::*;
use crate::base::clock;

struct Nowhere;

impl Outlet for Nowhere {
    fn pass(&mut self, _: Envelope) {}
    fn warn(&mut self, _: &str, message: &str) {
        panic!("{message}");
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn speed() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (store, thread) = Store::start(folder.path().to_owned(), Box::new(Nowhere)).unwrap();
    let text = "x".repeat(450);

    let start = clock::now();
    let row = SessionRow::new("ses_1".into(), "/w", "/w", 1);
    store
        .writes
        .send(Write::CreateSession(Box::new(row)))
        .await
        .unwrap();
    store.writes.barrier().await.unwrap();
    println!("make, open, first commit: {:?}", start.elapsed());

    let mut times = Vec::new();
    for seq in 1..=1_000 {
        let start = clock::now();
        let (done, told) = tokio::sync::oneshot::channel();
        let write = Write::Append {
            envelope: envelope("ses_1", seq, note(&text)),
            drops: Vec::new(),
            puts: Vec::new(),
            done: Some(done),
        };
        store.writes.send(write).await.unwrap();
        told.await.unwrap();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!(
        "one event, sent to passed: median {:?}, 99 % {:?}, worst {:?}",
        times[500], times[990], times[999]
    );

    let start = clock::now();
    for seq in 1_001..=100_000 {
        store
            .writes
            .send(append("ses_1", seq, note(&text)))
            .await
            .unwrap();
    }
    store.writes.barrier().await.unwrap();
    let took = start.elapsed();
    println!(
        "99,000 events in groups: {took:?}, {:.0} a second",
        99_000.0 / took.as_secs_f64()
    );

    let start = clock::now();
    let mut seq = 100_000;
    for _ in 0..5_000 {
        seq += 1;
        store
            .writes
            .send(append(
                "ses_1",
                seq,
                says("m", Role::User, &text.replace("xx", "x x")),
            ))
            .await
            .unwrap();
    }
    store.writes.barrier().await.unwrap();
    println!("5,000 searchable prompts: {:?}", start.elapsed());

    for what in ["cold connection", "warm"] {
        let start = clock::now();
        let loaded = store
            .reader
            .load(&"ses_1".into(), Window::Tail, 200)
            .await
            .unwrap()
            .unwrap();
        println!("tail of 200 ({what}): {:?}", start.elapsed());
        assert_eq!(loaded.page.events.len(), 200);
    }

    let start = clock::now();
    let mut walk = store.reader.walk(&"ses_1".into(), 0);
    let mut count = 0;
    while let Some(page) = walk.next().await.unwrap() {
        count += page.events.len();
    }
    println!("walk over {count}: {:?}", start.elapsed());

    let size = |name: &str| folder.path().join(name).metadata().map_or(0, |meta| meta.len()) >> 10;
    println!(
        "database {} KiB, log {} KiB",
        size("store.db"),
        size("store.db-wal")
    );

    let start = clock::now();
    store.writes.delete("ses_1".into()).await.unwrap();
    println!("delete: {:?}", start.elapsed());

    let start = clock::now();
    drop(store);
    assert!(thread.ended().await);
    println!("close: {:?}", start.elapsed());

    let start = clock::now();
    let (store, thread) = Store::start(folder.path().to_owned(), Box::new(Nowhere)).unwrap();
    println!("start, nothing opened: {:?}", start.elapsed());
    let start = clock::now();
    store.reader.session(&"ses_1".into()).await.unwrap();
    println!("first read of an existing store: {:?}", start.elapsed());
    drop(store);
    thread.ended().await;
}
