//! Lists the pages of `docs/`, so that the binary contains them (`agentls docs`), compresses the model catalogue, and
//! sets how the binary is linked.

use std::error::Error;
use std::fmt::Write;
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
    pack_catalog(&top.join(SNAPSHOT), &out)?;
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

/// Compresses the model catalogue, which takes a tenth of its size in the binary.
fn pack_catalog(snapshot: &Path, out: &Path) -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SNAPSHOT}");
    let file = fs::File::create(out.join("catalog.gz"))?;
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::best());
    packed.write_all(&fs::read(snapshot)?)?;
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
