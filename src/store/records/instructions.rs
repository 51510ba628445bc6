//! The record of the loaded instruction files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::words::EnumName;
use crate::domain::{InstructionFile, InstructionKind};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InstructionsRecord {
    files: Vec<FileRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileRecord {
    path: String,
    kind: EnumName<InstructionKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    bytes: u64,
    fingerprint: String,
    trusted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<&[InstructionFile]> for InstructionsRecord {
    fn from(files: &[InstructionFile]) -> Self {
        let record = |file: &InstructionFile| FileRecord {
            path: file.path.clone(),
            kind: EnumName(file.kind),
            name: file.name.clone(),
            bytes: file.bytes,
            fingerprint: file.fingerprint.clone(),
            trusted: file.trusted,
            problem: file.problem.clone(),
        };
        Self {
            files: files.iter().map(record).collect(),
        }
    }
}

impl From<InstructionsRecord> for Arc<[InstructionFile]> {
    fn from(record: InstructionsRecord) -> Self {
        let file = |record: FileRecord| InstructionFile {
            path: record.path,
            kind: record.kind.0,
            name: record.name,
            bytes: record.bytes,
            fingerprint: record.fingerprint,
            trusted: record.trusted,
            problem: record.problem,
        };
        record.files.into_iter().map(file).collect()
    }
}
