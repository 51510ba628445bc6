//! The disk shape of a compaction.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::words::EnumName;
use crate::domain::{CompactTrigger, Compaction, Event, Summary};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CompactedRecord {
    trigger: EnumName<CompactTrigger>,
    #[serde(default)]
    tokens_before: u64,
    #[serde(default)]
    tokens_after: u64,
    #[serde(default)]
    messages_before: u32,
    #[serde(default)]
    messages_after: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<SummaryRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stubs: Vec<String>,
    #[serde(default)]
    pictures: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SummaryRecord {
    message: String,
    text: String,
    from: String,
    until: String,
    #[serde(default)]
    digest: bool,
}

impl From<&Compaction> for CompactedRecord {
    fn from(compaction: &Compaction) -> Self {
        let Compaction {
            trigger,
            tokens_before,
            tokens_after,
            messages_before,
            messages_after,
            summary,
            stubs,
            pictures,
        } = compaction;
        Self {
            trigger: EnumName(*trigger),
            tokens_before: *tokens_before,
            tokens_after: *tokens_after,
            messages_before: *messages_before,
            messages_after: *messages_after,
            summary: summary.as_ref().map(|summary| SummaryRecord {
                message: summary.message.to_string(),
                text: summary.text.clone(),
                from: summary.from.to_string(),
                until: summary.until.to_string(),
                digest: summary.digest,
            }),
            stubs: stubs.iter().map(ToString::to_string).collect(),
            pictures: *pictures,
        }
    }
}

impl From<CompactedRecord> for Event {
    fn from(record: CompactedRecord) -> Self {
        Self::Compacted(Arc::new(Compaction {
            trigger: record.trigger.0,
            tokens_before: record.tokens_before,
            tokens_after: record.tokens_after,
            messages_before: record.messages_before,
            messages_after: record.messages_after,
            summary: record.summary.map(|summary| Summary {
                message: summary.message.into(),
                text: summary.text,
                from: summary.from.into(),
                until: summary.until.into(),
                digest: summary.digest,
            }),
            stubs: record.stubs.into_iter().map(Into::into).collect(),
            pictures: record.pictures,
        }))
    }
}
