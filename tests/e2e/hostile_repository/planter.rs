//! Plants the attacks of one repository, and finds out which of them had an effect.
//!
//! Each attack has a canary of its name: a file that its program creates, a port that it connects to, or a text that
//! must not leave the user's home folder.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use memchr::memmem;

use super::attacks::Attack;
use crate::harness::World;

/// The folder of the files that traps create.
const FIRED: &str = "fired";

/// Plants attacks into the workspace of a world.
pub struct Planter<'a> {
    world: &'a World,
    /// The name of the attack being planted.
    attack: &'static str,
    canaries: &'a Canaries,
}

/// What the attacks of a world would set off.
#[derive(Default)]
pub struct Canaries {
    /// Commands by the name of their attack.
    pub traps: RefCell<Vec<(&'static str, String)>>,
    /// Folders with a repository of their own, relative to the workspace.
    pub repositories: RefCell<Vec<String>>,
    /// Variables of the server's environment.
    pub variables: RefCell<Vec<(String, String)>>,
    /// Addresses by the name of their attack.
    addresses: RefCell<BTreeMap<&'static str, SocketAddr>>,
    /// The attacks whose address was connected to since the last look.
    connected: Arc<Mutex<BTreeSet<String>>>,
    leaks: RefCell<Vec<(&'static str, String)>>,
    settings: RefCell<[String; 2]>,
}

impl Canaries {
    /// Plants attacks into the repository of a world.
    pub fn plant(world: &World, attacks: &[&'static Attack]) -> Self {
        let canaries = Self::default();
        std::fs::create_dir(world.path(FIRED)).unwrap();
        let mut planter = Planter {
            world,
            attack: "",
            canaries: &canaries,
        };
        planter.start_repository("");
        for attack in attacks {
            planter.attack = attack.name;
            (attack.plant)(&planter);
        }
        let [shared, local] = canaries.settings.take();
        for (path, settings) in [("config.toml", shared), ("config.local.toml", local)] {
            // Otherwise something else may be in its place.
            if !settings.is_empty() {
                planter.write(&format!(".agentls/{path}"), settings);
            }
        }
        assert_eq!(
            canaries.take_fired(world),
            BTreeSet::new(),
            "planting fires nothing"
        );
        canaries
    }

    /// Returns the texts that must not leave the home folder, for the attacks that `is_meant` accepts.
    pub fn secrets(&self, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        let leaks = self.leaks.borrow();
        let meant = leaks.iter().filter(|(attack, _)| is_meant(attack));
        meant.map(|(_, text)| text.clone()).collect()
    }

    /// Returns the names of attacks whose program ran, or that made a connection, since the last call.
    pub fn take_fired(&self, world: &World) -> BTreeSet<String> {
        let mut fired = BTreeSet::new();
        for file in std::fs::read_dir(world.path(FIRED)).unwrap() {
            let file = file.unwrap();
            fired.insert(file.file_name().into_string().unwrap());
            std::fs::remove_file(file.path()).unwrap();
        }
        fired.append(&mut self.connected.lock().unwrap());
        fired
    }

    /// Returns the names of attacks whose secret `bytes` contains.
    pub fn leaked(&self, bytes: &[u8]) -> BTreeSet<String> {
        let leaks = self.leaks.borrow();
        let found = leaks
            .iter()
            .filter(|(_, text)| memmem::find(bytes, text.as_bytes()).is_some());
        found.map(|(attack, _)| (*attack).to_owned()).collect()
    }
}

impl Planter<'_> {
    // Canaries.

    /// Returns a shell command that fires the canary.
    pub fn trap(&self) -> String {
        let file = self.world.path(FIRED).join(self.attack);
        let command = format!(": >>{}", file.display());
        self.canaries
            .traps
            .borrow_mut()
            .push((self.attack, command.clone()));
        command
    }

    /// Returns the path of the file that means that the canary has fired.
    pub fn marker(&self) -> PathBuf {
        self.world.path(FIRED).join(self.attack)
    }

    /// Writes a program that fires the canary.
    pub fn program(&self, path: &str) {
        let path = self.write(path, format!("#!/bin/sh\n{}\n", self.trap()));
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Returns an address whose first connection fires the canary.
    pub fn url(&self) -> String {
        let mut addresses = self.canaries.addresses.borrow_mut();
        let address = addresses.entry(self.attack).or_insert_with(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (attack, connected) = (self.attack.to_owned(), self.canaries.connected.clone());
            // It closes each connection at once, and ends with the tests.
            std::thread::spawn(move || {
                for _ in listener.incoming() {
                    connected.lock().unwrap().insert(attack.clone());
                }
            });
            address
        });
        format!("http://{address}/{}", self.attack)
    }

    /// Writes a file in the home folder that must not leave it, and returns its path.
    pub fn secret(&self, path: &str) -> PathBuf {
        let text = self.secret_text();
        let path = self.world.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Several lines, since git shows single lines of a file that it cannot parse.
        std::fs::write(&path, format!("{text}\n").repeat(3)).unwrap();
        path
    }

    /// Sets a variable of the server that must not leave it.
    pub fn secret_variable(&self, name: &str) {
        let text = self.secret_text();
        self.canaries.variables.borrow_mut().push((name.to_owned(), text));
    }

    fn secret_text(&self) -> String {
        let mut leaks = self.canaries.leaks.borrow_mut();
        let unique = self
            .world
            .path("")
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let text = format!("leak-{}-{}-{unique}", self.attack, leaks.len());
        leaks.push((self.attack, text.clone()));
        text
    }

    // Files.

    /// Adds a line with a dotted key to the folder's settings.
    pub fn setting(&self, line: impl AsRef<str>) {
        self.add_setting(0, line.as_ref());
    }

    /// Adds a line to the folder's local settings.
    pub fn local_setting(&self, line: impl AsRef<str>) {
        self.add_setting(1, line.as_ref());
    }

    fn add_setting(&self, file: usize, line: &str) {
        let mut settings = self.canaries.settings.borrow_mut();
        settings[file].push_str(line);
        settings[file].push('\n');
    }

    /// Writes a file of the workspace.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        self.world.write(path, text)
    }

    /// Writes a file with a name that is not UTF-8.
    pub fn write_raw(&self, name: &[u8], text: &str) {
        let path = self.world.workspace().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(path, text).unwrap();
    }

    /// Makes a link in the workspace. Replaces a file.
    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.free_path(path)).unwrap();
    }

    /// Makes a pipe in the workspace.
    pub fn pipe(&self, path: &str) {
        let path = self.free_path(path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    /// Makes a file that is large, but has no content.
    pub fn large_file(&self, path: &str, bytes: u64) {
        let file = std::fs::File::create(self.free_path(path)).unwrap();
        file.set_len(bytes).unwrap();
    }

    /// Returns the path after removing what is there.
    fn free_path(&self, path: &str) -> PathBuf {
        let path = self.world.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match path.symlink_metadata() {
            Ok(status) if status.is_dir() => std::fs::remove_dir_all(&path).unwrap(),
            Ok(_) => std::fs::remove_file(&path).unwrap(),
            Err(_) => {}
        }
        path
    }

    // Git.

    /// Adds a setting of the main repository.
    pub fn git_setting(&self, key: &str, value: &str) {
        self.git(".", &["config", key, value]);
    }

    /// Makes a repository of its own in a folder named after the attack, and returns that folder.
    pub fn inner_repository(&self) -> String {
        let folder = format!("inner/{}", self.attack);
        self.start_repository(&folder);
        self.open_later(&folder);
        folder
    }

    /// Makes the walk open sessions in a folder of the workspace.
    pub fn open_later(&self, folder: &str) {
        self.canaries.repositories.borrow_mut().push(folder.to_owned());
    }

    /// Makes a repository whose only commit is older than its files.
    fn start_repository(&self, folder: &str) {
        let template = self.world.path("template");
        if !template.exists() {
            self.make_template("../template");
        }
        let folder = self.world.workspace().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut copy = Command::new("cp");
        copy.arg("-R").arg(template.join(".")).arg(folder);
        assert!(copy.status().unwrap().success());
    }

    fn make_template(&self, folder: &str) {
        self.write(&format!("{folder}/a.txt"), "needle one\n");
        self.write(&format!("{folder}/b.cmd"), "one\n");
        self.write(&format!("{folder}/c.proc"), "one\n");
        self.write(
            &format!("{folder}/.gitattributes"),
            "*.txt filter=x diff=x merge=x\n*.cmd diff=c\n*.proc filter=p\n",
        );
        self.make_repository(folder);
        self.write(&format!("{folder}/a.txt"), "needle two\n");
        self.write(&format!("{folder}/b.cmd"), "two\n");
        self.write(&format!("{folder}/c.proc"), "two\n");
    }

    /// Makes a repository of a folder, with its files in the only commit.
    pub fn make_repository(&self, folder: &str) {
        self.git(folder, &["init", "-q", "-b", "main"]);
        self.git(folder, &["config", "user.name", "a"]);
        self.git(folder, &["config", "user.email", "a@example.org"]);
        self.git(folder, &["add", "."]);
        self.git(folder, &["commit", "-qm", "one"]);
    }

    /// Runs git in a folder of the workspace, and returns what it prints.
    pub fn git(&self, folder: &str, args: &[&str]) -> String {
        let done = Command::new("git")
            .current_dir(self.world.workspace().join(folder))
            .env("HOME", self.world.path("nobody"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{folder}: {args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }
}
