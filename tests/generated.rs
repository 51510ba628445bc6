//! What is published from the wire types is what they say. `UPDATE_PROTOCOL=1` writes it.

use std::fs;
use std::path::Path;

use agentls::protocol::generate::generate;

#[test]
fn published_types_are_current() {
    #[expect(clippy::disallowed_methods, reason = "the switch of this test")]
    let update = std::env::var_os("UPDATE_PROTOCOL").is_some();
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(top.join("protocol.md")).expect("protocol.md is there");
    let mut stale = Vec::new();
    for file in generate(&page).expect("protocol.md has the markers of its generated part") {
        let path = top.join(file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        if update {
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the folder can be made");
            fs::write(&path, file.text).expect("the file can be written");
        } else {
            stale.push(file.path);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} differ from the wire types: run UPDATE_PROTOCOL=1 cargo test --test generated"
    );
}
