//! Lists the pages of `docs/`, so that the binary contains them (`agentls docs`).

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    // Only the package's own variables, which Cargo sets.
    #[expect(clippy::disallowed_methods, reason = "a build script has no other way")]
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("Cargo sets OUT_DIR")?);
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = top.join("docs");
    println!("cargo::rerun-if-changed=docs");
    println!("cargo::rerun-if-changed=protocol.md");
    let mut pages = Vec::new();
    if docs.is_dir() {
        find_pages(&docs, &mut pages)?;
    }
    pages.sort();
    let mut code = String::from("&[\n");
    for page in &pages {
        let name = page.strip_prefix(&docs)?.with_extension("");
        let name = name.to_str().ok_or("the name of a page is not UTF-8")?;
        // The page of the book only includes this file.
        let page = match name {
            "reference/protocol" => top.join("protocol.md"),
            _ => page.clone(),
        };
        writeln!(code, "    ({name:?}, include_str!({page:?})),")?;
    }
    code.push_str("]\n");
    fs::write(out.join("pages.rs"), code)?;
    Ok(())
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_pages(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}
