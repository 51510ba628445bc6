//! Measures the shape of the code: prints a table, and fails where a figure exceeds its limit.
//!
//! `cargo test --test repository measure -- --nocapture` shows the table. Tests and code that only tests use do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The most fields that a struct in `session` or `turn` may have.
const MAX_FIELDS: usize = 12;
/// The most lines of code in `src`. The target is 50,000; the limit only stops growth.
const MAX_CODE_LINES: usize = 123_300;
/// The largest share of functions whose name is one word, in percent.
const MAX_BARE_NAMES: usize = 30;

/// A module path from the crate's root, such as `["turn", "step"]`.
type Module = Vec<String>;

/// A source file that ships.
struct SourceFile {
    module: Module,
    text: String,
    syntax: syn::File,
}

/// The crate's files and the imports of each module.
struct Crate {
    files: Vec<SourceFile>,
    by_module: BTreeMap<Module, usize>,
    imports: Vec<Imports>,
}

/// The names that a file's `use` items bring into scope.
#[derive(Default)]
struct Imports {
    /// Each name with its absolute path.
    named: BTreeMap<String, Vec<String>>,
    /// Modules that are imported with a glob.
    globs: Vec<Vec<String>>,
}

fn find_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns whether a file serves only tests, judged by its name.
fn is_test_module(module: &Module) -> bool {
    module
        .iter()
        .any(|name| matches!(name.as_str(), "tests" | "testing" | "arbitrary") || name.ends_with("_tests"))
}

fn is_test_item(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|name| name == "test")
    })
}

fn read_crate() -> Crate {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    find_sources(&root, &mut paths);
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let relative = path.strip_prefix(&root).unwrap().with_extension("");
        let mut module: Module = relative
            .iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
            module.pop();
        }
        if is_test_module(&module) || module.first().is_some_and(|first| first == "main") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut syntax = syn::parse_file(&text).unwrap();
        syntax.items.retain(|item| !is_test_item(attributes_of(item)));
        files.push(SourceFile { module, text, syntax });
    }
    let by_module: BTreeMap<Module, usize> = files
        .iter()
        .enumerate()
        .map(|(index, file)| (file.module.clone(), index))
        .collect();
    let imports = files.iter().map(|file| find_imports(file, &by_module)).collect();
    Crate {
        files,
        by_module,
        imports,
    }
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        _ => &[],
    }
}

/// Resolves `path` in `module` to an absolute path; `None` if it leads out of the crate.
fn to_absolute(path: &[String], module: &Module, by_module: &BTreeMap<Module, usize>) -> Option<Vec<String>> {
    let mut base = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        child => {
            let mut inner = module.clone();
            inner.push(child.to_owned());
            by_module.get(&inner)?;
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// Collects the leaves of a `use` tree: the path, its name in scope, and whether it is a glob.
fn flatten_use(tree: &syn::UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, String, bool)>) {
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten_use(&path.tree, prefix, leaves);
            prefix.pop();
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten_use(tree, prefix, leaves);
            }
        }
        syn::UseTree::Glob(_) => leaves.push((prefix.clone(), String::new(), true)),
        syn::UseTree::Name(_) | syn::UseTree::Rename(_) => {
            let (original, name) = match tree {
                syn::UseTree::Rename(rename) => (rename.ident.to_string(), rename.rename.to_string()),
                syn::UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
                _ => return,
            };
            let mut path = prefix.clone();
            if original == "self" {
                let name = path.last().cloned().unwrap_or_default();
                leaves.push((path, name, false));
            } else {
                path.push(original);
                leaves.push((path, name, false));
            }
        }
    }
}

fn find_imports(file: &SourceFile, by_module: &BTreeMap<Module, usize>) -> Imports {
    let mut imports = Imports::default();
    for item in &file.syntax.items {
        let syn::Item::Use(item) = item else { continue };
        let mut leaves = Vec::new();
        flatten_use(&item.tree, &mut Vec::new(), &mut leaves);
        for (path, name, is_glob) in leaves {
            let Some(path) = to_absolute(&path, &file.module, by_module) else {
                continue;
            };
            if is_glob {
                imports.globs.push(path);
            } else {
                imports.named.insert(name, path);
            }
        }
    }
    imports
}

/// Returns whether the file defines an item with this name.
fn defines(file: &SourceFile, name: &str) -> bool {
    file.syntax.items.iter().any(|item| match item {
        syn::Item::Fn(item) => item.sig.ident == name,
        syn::Item::Struct(item) => item.ident == name,
        syn::Item::Enum(item) => item.ident == name,
        syn::Item::Trait(item) => item.ident == name,
        syn::Item::Type(item) => item.ident == name,
        syn::Item::Const(item) => item.ident == name,
        syn::Item::Static(item) => item.ident == name,
        _ => false,
    })
}

impl Crate {
    /// Finds the file that defines `path`, following re-exports.
    fn resolve(&self, path: &[String], depth: usize) -> Option<usize> {
        let mut module = Module::new();
        for (index, part) in path.iter().enumerate() {
            module.push(part.clone());
            if self.by_module.contains_key(&module) {
                continue;
            }
            module.pop();
            let file = *self.by_module.get(&module)?;
            // A cycle of re-exports does not compile; the limit only protects this test from endless recursion.
            if depth > 8 || defines(&self.files[file], part) {
                return Some(file);
            }
            if let Some(target) = self.imports[file].named.get(part) {
                let mut target = target.clone();
                target.extend_from_slice(&path[index + 1..]);
                return self.resolve(&target, depth + 1).or(Some(file));
            }
            for glob in &self.imports[file].globs {
                let mut target = glob.clone();
                target.push(part.clone());
                if let Some(found) = self.resolve(&target, depth + 1)
                    && defines(&self.files[found], part)
                {
                    return Some(found);
                }
            }
            return Some(file);
        }
        self.by_module.get(&module).copied()
    }

    /// Returns, for each file, the files whose items it uses. A re-export alone does not count as a use.
    fn find_uses(&self) -> Vec<BTreeSet<usize>> {
        let mut uses = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let mut paths = PathFinder::default();
            paths.visit_file(&file.syntax);
            let targets = paths
                .found
                .iter()
                .filter_map(|path| to_absolute(path, &file.module, &self.by_module))
                .filter_map(|path| self.resolve(&path, 0))
                .filter(|target| *target != index);
            uses.push(targets.collect());
        }
        uses
    }
}

/// Collects every path in a file that may refer to an item of the crate.
#[derive(Default)]
struct PathFinder {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for PathFinder {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        let mut leaves = Vec::new();
        flatten_use(&item.tree, &mut Vec::new(), &mut leaves);
        let named = leaves.into_iter().filter(|(_, _, is_glob)| !is_glob);
        self.found.extend(named.map(|(path, _, _)| path));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // The path of `pub(in path)` names a scope, not an item that is used.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.found
                .push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

/// Finds groups of files that reach each other, without single files (Tarjan's algorithm).
fn find_circles(uses: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    struct Search<'a> {
        uses: &'a [BTreeSet<usize>],
        order: Vec<Option<usize>>,
        low: Vec<usize>,
        stack: Vec<usize>,
        next: usize,
        circles: Vec<Vec<usize>>,
    }
    impl Search<'_> {
        fn enter(&mut self, file: usize) {
            self.order[file] = Some(self.next);
            self.low[file] = self.next;
            self.next += 1;
            self.stack.push(file);
            for &target in &self.uses[file] {
                match self.order[target] {
                    None => {
                        self.enter(target);
                        self.low[file] = self.low[file].min(self.low[target]);
                    }
                    Some(order) if self.stack.contains(&target) => {
                        self.low[file] = self.low[file].min(order);
                    }
                    Some(_) => {}
                }
            }
            if Some(self.low[file]) == self.order[file] {
                let start = self.stack.iter().position(|other| *other == file).unwrap();
                let circle = self.stack.split_off(start);
                if circle.len() > 1 {
                    self.circles.push(circle);
                }
            }
        }
    }
    let count = uses.len();
    let mut search = Search {
        uses,
        order: vec![None; count],
        low: vec![0; count],
        stack: Vec::new(),
        next: 0,
        circles: Vec::new(),
    };
    for file in 0..count {
        if search.order[file].is_none() {
            search.enter(file);
        }
    }
    search.circles
}

/// Counts of functions and their bare names, and structs with their number of fields.
#[derive(Default)]
struct Shapes {
    functions: usize,
    bare: usize,
    structs: Vec<(usize, String)>,
}

impl Shapes {
    fn count_function(&mut self, name: &syn::Ident) {
        self.functions += 1;
        self.bare += usize::from(!name.to_string().trim_start_matches('_').contains('_'));
    }
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.count_function(&signature.ident);
        visit::visit_signature(self, signature);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.structs.push((item.fields.len(), item.ident.to_string()));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Counts lines of code: no blank lines, no comments, no tests.
fn count_code_lines(text: &str) -> usize {
    let shipped = text.find("\n#[cfg(test)]\nmod ").map_or(text, |at| &text[..at]);
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    shipped.lines().map(str::trim).filter(is_code).count()
}

#[test]
fn code_metrics_stay_within_their_limits() {
    let krate = read_crate();
    let name = |index: &usize| krate.files[*index].module.join("/");
    let circles = find_circles(&krate.find_uses());
    let mut all = Shapes::default();
    let mut core = Shapes::default();
    for file in &krate.files {
        all.visit_file(&file.syntax);
        if matches!(file.module.first().map(String::as_str), Some("session" | "turn")) {
            core.visit_file(&file.syntax);
        }
    }
    core.structs.sort_by_key(|(fields, _)| std::cmp::Reverse(*fields));
    let (widest, widest_name) = &core.structs[0];
    let lines: usize = krate.files.iter().map(|file| count_code_lines(&file.text)).sum();
    let bare = all.bare * 100 / all.functions;
    let largest = circles.iter().map(Vec::len).max().unwrap_or(0);

    println!("| measure | now | target |");
    println!("|---|---|---|");
    println!("| product code lines in `src` | {lines} | ≤ 50000 |");
    println!("| fields of the widest struct of `session` and `turn` | {widest} ({widest_name}) | ≤ 12 |");
    println!(
        "| import circles between files | {} (largest: {largest} files) | 0 |",
        circles.len()
    );
    println!(
        "| functions named by one bare word | {bare} % of {} | ≤ 30 % |",
        all.functions
    );
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/agentls");
    if let Ok(metadata) = fs::metadata(binary) {
        println!(
            "| release binary | {:.1} MB | ≤ 20 MB |",
            metadata.len() as f64 / 1e6
        );
    }
    for (fields, name) in core.structs.iter().take_while(|(fields, _)| *fields > 12) {
        println!("wide: {name}, {fields} fields");
    }
    assert!(lines <= MAX_CODE_LINES, "{lines} lines of code; see what can go");
    assert!(*widest <= MAX_FIELDS, "{widest_name} has {widest} fields");
    let first = circles
        .first()
        .map(|circle| circle.iter().map(name).collect::<Vec<_>>());
    assert!(
        first.is_none(),
        "files that import one another: {}",
        first.unwrap_or_default().join(", ")
    );
    assert!(
        bare <= MAX_BARE_NAMES,
        "{bare} % of the functions are one bare word"
    );
}
