//! Compresses the pages of `docs/` (`agentls docs`) and the model catalogue, which the binary contains, and sets how the
//! binary is linked.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The model catalogue.
const SNAPSHOT: &str = "src/provider/models/catalog/snapshot.json";

fn main() -> Result<(), Box<dyn Error>> {
    let out = read_variable("OUT_DIR")?;
    // Read when it runs: the script that another checkout has built may run for this one.
    let top = read_variable("CARGO_MANIFEST_DIR")?;
    link_at_a_fixed_address();
    println!("cargo::rerun-if-changed={SNAPSHOT}");
    pack(&fs::read(top.join(SNAPSHOT))?, &out.join("catalog.gz"))?;
    pack(join_pages(&top)?.as_bytes(), &out.join("pages.gz"))
}

/// Joins the pages of `docs/`. Before each, a line has a NUL and the page's path, without `.md`.
fn join_pages(top: &Path) -> Result<String, Box<dyn Error>> {
    let docs = top.join("docs");
    println!("cargo::rerun-if-changed=docs");
    println!("cargo::rerun-if-changed=protocol.md");
    let mut pages = Vec::new();
    if docs.is_dir() {
        find_pages(&docs, &mut pages)?;
    }
    pages.sort();
    let mut joined = String::new();
    for page in &pages {
        let name = page.strip_prefix(&docs)?.with_extension("");
        let name = name.to_str().ok_or("the name of a page is not UTF-8")?;
        // The page of the book only includes this file.
        let text = match name {
            "reference/protocol" => fs::read_to_string(top.join("protocol.md"))?,
            _ => fs::read_to_string(page)?,
        };
        joined.push_str(&format!("\0{name}\n{text}"));
    }
    Ok(joined)
}

/// Reads a path that Cargo sets for build scripts.
fn read_variable(name: &str) -> Result<PathBuf, String> {
    #[expect(clippy::disallowed_methods, reason = "a build script has no other way")]
    let value = std::env::var_os(name);
    value
        .map(PathBuf::from)
        .ok_or_else(|| format!("Cargo sets {name}"))
}

/// Links the program for Linux at a fixed address.
///
/// A position-independent program has some 70,000 pointers to adjust at every start, which costs 1.7 ms, 1 MB of
/// memory, and 1.6 MB of file (benches/RESULTS.md). The program starts itself for every command, so this counts twice.
/// The stack, the heap, and the shared libraries keep their random addresses.
fn link_at_a_fixed_address() {
    let is_target = |key: &str, value: &str| {
        #[expect(clippy::disallowed_methods, reason = "a build script has no other way")]
        std::env::var_os(key).is_some_and(|target| target == value)
    };
    if is_target("CARGO_CFG_TARGET_OS", "linux") && is_target("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// Writes compressed data to a file.
fn pack(data: &[u8], to: &Path) -> Result<(), Box<dyn Error>> {
    let mut packed = flate2::write::GzEncoder::new(fs::File::create(to)?, flate2::Compression::best());
    packed.write_all(data)?;
    packed.finish()?;
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
