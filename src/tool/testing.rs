//! A workspace in a temporary folder, and a context to run tools in, for tests.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::{
    CallPreview, ContentSink, ContentWriter, NoEditor, Registry, ToolContext, ToolOutput, ToolProgress,
    create_builtin_tools,
};
use crate::base::{CancellationToken, uri};
use crate::domain::{ContentRef, Effect, SessionId, ToolCallId};
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::{Folder, Workspace, WorkspaceShared};

/// Keeps content in memory.
#[derive(Debug, Default)]
pub(crate) struct MemorySink {
    contents: Arc<Mutex<HashMap<String, String>>>,
}

struct MemoryWriter {
    contents: Arc<Mutex<HashMap<String, String>>>,
    name: String,
    text: String,
}

impl ContentSink for MemorySink {
    fn create_writer(&self, name: &str) -> Result<Box<dyn ContentWriter>, String> {
        Ok(Box::new(MemoryWriter {
            contents: self.contents.clone(),
            name: name.to_owned(),
            text: String::new(),
        }))
    }

    fn open_reader(&self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        let content = self.contents.lock().unwrap().get(name).cloned();
        let content = content.ok_or_else(|| "there is no such output in this session".to_owned())?;
        Ok(Box::new(std::io::Cursor::new(content)))
    }
}

impl ContentWriter for MemoryWriter {
    fn append_text(&mut self, text: &str) -> Result<(), String> {
        self.text.push_str(text);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ContentRef, String> {
        let bytes = self.text.len() as u64;
        self.contents.lock().unwrap().insert(self.name.clone(), self.text);
        Ok(ContentRef {
            name: self.name,
            bytes,
        })
    }
}

/// Runs tools in a workspace of its own.
pub(crate) struct ToolHarness {
    _dir: TempDir,
    /// The first workspace folder, with links resolved.
    pub(crate) root: PathBuf,
    pub(crate) cx: ToolContext,
    pub(crate) progress: mpsc::Receiver<ToolProgress>,
    registry: Registry,
}

impl ToolHarness {
    /// Creates a harness with one workspace folder, which is the cwd.
    pub(crate) fn new() -> Self {
        Self::with_folders(&[])
    }

    /// Creates a harness with the workspace folders `names`, the first of which is the cwd; one folder if empty.
    pub(crate) fn with_folders(names: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let folders: Vec<Folder> = names
            .iter()
            .map(|name| Folder {
                name: (*name).to_owned(),
                path: base.join(name),
            })
            .collect();
        for folder in &folders {
            std::fs::create_dir_all(&folder.path).unwrap();
        }
        let root = folders.first().map_or(base, |folder| folder.path.clone());
        let (sender, progress) = mpsc::channel(16);
        let cx = ToolContext {
            session: SessionId::new_random(),
            call: ToolCallId::new_random(),
            cwd: root.clone(),
            workspace: Arc::new(Workspace::new(WorkspaceShared::new(&folders, None))),
            skills: Arc::default(),
            asker: Arc::new(super::NoUser),
            spawner: Arc::new(super::NoSpawner),
            model: None,
            editor: Arc::new(NoEditor),
            cancel: CancellationToken::new(),
            force_cancel: CancellationToken::new(),
            time_limit: None,
            progress: sender,
            content_sink: Arc::new(MemorySink::default()),
            checkpoints: Arc::new(super::NoCheckpoints),
            new_errors_wait: None,
            allows_uncheckpointed: false,
            is_carried: false,
            judged: None,
            narrowed: None,
            sandbox: CallSandbox::default(),
        };
        Self {
            _dir: dir,
            root,
            cx,
            progress,
            registry: Registry::new(create_builtin_tools()),
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// Opens `path` in the editor with `text`.
    pub(crate) fn open(&self, path: &str, text: &str) {
        let uri = uri::uri_of(&self.path(path));
        self.cx.workspace.overlay().did_open(&uri, 1, text);
        self.cx.workspace.overlay().reconcile_with_disk(&uri);
    }

    /// Checks the arguments and runs the tool; returns an error as the model reads it.
    pub(crate) async fn call_tool(&self, name: &str, input: Value) -> Result<ToolOutput, String> {
        let call = self.registry.get(name).unwrap().clone().prepare_call(&input)?;
        call.run(self.cx.clone()).await.map_err(|error| error.to_string())
    }

    /// Judges the call and runs it bound to that, as a turn does; `None` if it would need approval.
    pub(crate) async fn judged_call(&self, name: &str, input: Value) -> Option<Result<ToolOutput, String>> {
        let effect = self.predict_effect(name, input.clone()).ok()?;
        if effect.outside || effect.secret {
            return None;
        }
        let call = self
            .registry
            .get(name)
            .unwrap()
            .clone()
            .prepare_call(&input)
            .unwrap();
        let cx = ToolContext {
            judged: Some(effect.paths.into()),
            ..self.cx.clone()
        };
        Some(call.run(cx).await.map_err(|error| error.to_string()))
    }

    /// Returns the error of a call that must fail.
    pub(crate) async fn call_expecting_error(&self, name: &str, input: Value) -> String {
        self.call_tool(name, input).await.unwrap_err()
    }

    pub(crate) async fn preview_change(&self, name: &str, input: Value) -> Result<CallPreview, String> {
        let call = self.registry.get(name).unwrap().clone().prepare_call(&input)?;
        call.preview_change(&self.cx)
            .await
            .map_err(|error| error.to_string())
    }

    pub(crate) fn predict_effect(&self, name: &str, input: Value) -> Result<Effect, String> {
        let call = self.registry.get(name).unwrap().clone().prepare_call(&input)?;
        call.predict_effect(&self.cx).map_err(|error| error.to_string())
    }
}
