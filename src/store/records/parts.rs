//! Disk shapes of what events are made of: messages, results, approvals, errors, usage.
//!
//! Every converter takes its source apart field by field, so that a new field or variant in `domain` does
//! not compile until its place on disk is decided.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::words::Word;
use crate::domain::{
    AgentError, Approval, Block, ContentRef, Cost, Decision, DecisionKind, ErrorClass, ErrorCode, ImageData,
    Location, Message, Reference, ReferenceKind, Risk, Role, ToolResult, Usage,
};

/// Whether a flag can be left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) fn off(flag: &bool) -> bool {
    !*flag
}

/// Shared JSON, stored as what it is.
#[derive(Clone, Debug)]
pub(super) struct Json(pub(super) Arc<Value>);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Arc::new(value)))
    }
}

/// Present JSON, `null` included; an absent field is none.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Shared text.
#[derive(Clone, Debug)]
pub(super) struct Text(pub(super) Arc<str>);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MessageRecord {
    id: String,
    role: Word<Role>,
    content: Vec<BlockRecord>,
    #[serde(default, skip_serializing_if = "off")]
    incomplete: bool,
    #[serde(default, skip_serializing_if = "off")]
    hidden: bool,
}

impl From<&Message> for MessageRecord {
    fn from(message: &Message) -> Self {
        let Message {
            id,
            role,
            content,
            incomplete,
            hidden,
        } = message;
        Self {
            id: id.to_string(),
            role: Word(*role),
            content: content.iter().map(Into::into).collect(),
            incomplete: *incomplete,
            hidden: *hidden,
        }
    }
}

impl From<MessageRecord> for Message {
    fn from(record: MessageRecord) -> Self {
        let MessageRecord {
            id,
            role,
            content,
            incomplete,
            hidden,
        } = record;
        Self {
            id: id.into(),
            role: role.0,
            content: content.into_iter().map(Into::into).collect(),
            incomplete,
            hidden,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlockRecord {
    Text(String),
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        #[serde(default, skip_serializing_if = "off")]
        redacted: bool,
    },
    ToolUse {
        id: String,
        name: String,
        input: Json,
    },
    ToolResult {
        id: String,
        result: ToolResultRecord,
    },
    Image(ImageRecord),
    Reference(ReferenceRecord),
}

impl From<&Block> for BlockRecord {
    fn from(block: &Block) -> Self {
        match block {
            Block::Text(text) => Self::Text(text.clone()),
            Block::Reasoning {
                text,
                signature,
                redacted,
            } => Self::Reasoning {
                text: text.clone(),
                signature: signature.clone(),
                redacted: *redacted,
            },
            Block::ToolUse { id, name, input } => Self::ToolUse {
                id: id.to_string(),
                name: name.clone(),
                input: Json(input.clone()),
            },
            Block::ToolResult { id, result } => Self::ToolResult {
                id: id.to_string(),
                result: result.as_ref().into(),
            },
            Block::Image(image) => Self::Image(image.into()),
            Block::Reference(reference) => Self::Reference(reference.into()),
        }
    }
}

impl From<BlockRecord> for Block {
    fn from(record: BlockRecord) -> Self {
        match record {
            BlockRecord::Text(text) => Self::Text(text),
            BlockRecord::Reasoning {
                text,
                signature,
                redacted,
            } => Self::Reasoning {
                text,
                signature,
                redacted,
            },
            BlockRecord::ToolUse { id, name, input } => Self::ToolUse {
                id: id.into(),
                name,
                input: input.0,
            },
            BlockRecord::ToolResult { id, result } => Self::ToolResult {
                id: id.into(),
                result: Arc::new(result.into()),
            },
            BlockRecord::Image(image) => Self::Image(image.into()),
            BlockRecord::Reference(reference) => Self::Reference(reference.into()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImageRecord {
    media_type: String,
    data: Text,
}

impl From<&ImageData> for ImageRecord {
    fn from(image: &ImageData) -> Self {
        let ImageData { media_type, data } = image;
        Self {
            media_type: media_type.clone(),
            data: Text(data.clone()),
        }
    }
}

impl From<ImageRecord> for ImageData {
    fn from(record: ImageRecord) -> Self {
        let ImageRecord { media_type, data } = record;
        Self {
            media_type,
            data: data.0,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReferenceRecord {
    kind: Word<ReferenceKind>,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines: Option<(u32, u32)>,
    text: String,
}

impl From<&Reference> for ReferenceRecord {
    fn from(reference: &Reference) -> Self {
        let Reference {
            kind,
            path,
            lines,
            text,
        } = reference;
        Self {
            kind: Word(*kind),
            path: path.clone(),
            lines: *lines,
            text: text.clone(),
        }
    }
}

impl From<ReferenceRecord> for Reference {
    fn from(record: ReferenceRecord) -> Self {
        let ReferenceRecord {
            kind,
            path,
            lines,
            text,
        } = record;
        Self {
            kind: kind.0,
            path,
            lines,
            text,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToolResultRecord {
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageRecord>,
    #[serde(default, skip_serializing_if = "off")]
    is_error: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    full: Option<ContentRefRecord>,
}

impl From<&ToolResult> for ToolResultRecord {
    fn from(result: &ToolResult) -> Self {
        let ToolResult {
            text,
            images,
            is_error,
            full,
        } = result;
        Self {
            text: text.clone(),
            images: images.iter().map(Into::into).collect(),
            is_error: *is_error,
            full: full.as_ref().map(Into::into),
        }
    }
}

impl From<ToolResultRecord> for ToolResult {
    fn from(record: ToolResultRecord) -> Self {
        let ToolResultRecord {
            text,
            images,
            is_error,
            full,
        } = record;
        Self {
            text,
            images: images.into_iter().map(Into::into).collect(),
            is_error,
            full: full.map(Into::into),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ContentRefRecord {
    name: String,
    bytes: u64,
}

impl From<&ContentRef> for ContentRefRecord {
    fn from(content: &ContentRef) -> Self {
        let ContentRef { name, bytes } = content;
        Self {
            name: name.clone(),
            bytes: *bytes,
        }
    }
}

impl From<ContentRefRecord> for ContentRef {
    fn from(record: ContentRefRecord) -> Self {
        let ContentRefRecord { name, bytes } = record;
        Self { name, bytes }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LocationRecord {
    uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl From<&Location> for LocationRecord {
    fn from(location: &Location) -> Self {
        let Location { uri, line } = location;
        Self {
            uri: uri.clone(),
            line: *line,
        }
    }
}

impl From<LocationRecord> for Location {
    fn from(record: LocationRecord) -> Self {
        let LocationRecord { uri, line } = record;
        Self { uri, line }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ApprovalRecord {
    id: String,
    tool_call: String,
    name: String,
    input: Json,
    title: String,
    cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<Text>,
    risk: Word<Risk>,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

impl From<&Approval> for ApprovalRecord {
    fn from(approval: &Approval) -> Self {
        let Approval {
            id,
            tool_call,
            name,
            input,
            title,
            cwd,
            diff,
            risk,
            why,
            rule,
        } = approval;
        Self {
            id: id.to_string(),
            tool_call: tool_call.to_string(),
            name: name.clone(),
            input: Json(input.clone()),
            title: title.clone(),
            cwd: cwd.clone(),
            diff: diff.clone().map(Text),
            risk: Word(*risk),
            why: why.clone(),
            rule: rule.clone(),
        }
    }
}

impl From<ApprovalRecord> for Approval {
    fn from(record: ApprovalRecord) -> Self {
        let ApprovalRecord {
            id,
            tool_call,
            name,
            input,
            title,
            cwd,
            diff,
            risk,
            why,
            rule,
        } = record;
        Self {
            id: id.into(),
            tool_call: tool_call.into(),
            name,
            input: input.0,
            title,
            cwd,
            diff: diff.map(|text| text.0),
            risk: risk.0,
            why,
            rule,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DecisionRecord {
    kind: Word<DecisionKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feedback: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

impl From<&Decision> for DecisionRecord {
    fn from(decision: &Decision) -> Self {
        let Decision {
            kind,
            feedback,
            input,
            rule,
        } = decision;
        Self {
            kind: Word(*kind),
            feedback: feedback.clone(),
            input: input.clone().map(Json),
            rule: rule.clone(),
        }
    }
}

impl From<DecisionRecord> for Decision {
    fn from(record: DecisionRecord) -> Self {
        let DecisionRecord {
            kind,
            feedback,
            input,
            rule,
        } = record;
        Self {
            kind: kind.0,
            feedback,
            input: input.map(|json| json.0),
            rule,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ErrorRecord {
    code: Word<ErrorCode>,
    class: Word<ErrorClass>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reset_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
}

impl From<&AgentError> for ErrorRecord {
    fn from(error: &AgentError) -> Self {
        let AgentError {
            code,
            class,
            message,
            cause,
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        } = error.clone();
        Self {
            code: Word(code),
            class: Word(class),
            message,
            cause,
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        }
    }
}

impl From<ErrorRecord> for AgentError {
    fn from(record: ErrorRecord) -> Self {
        let ErrorRecord {
            code,
            class,
            message,
            cause,
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        } = record;
        Self {
            code: code.0,
            class: class.0,
            message,
            cause,
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsageRecord {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl From<Usage> for UsageRecord {
    fn from(usage: Usage) -> Self {
        let Usage {
            input,
            output,
            cache_read,
            cache_write,
        } = usage;
        Self {
            input,
            output,
            cache_read,
            cache_write,
        }
    }
}

impl From<UsageRecord> for Usage {
    fn from(record: UsageRecord) -> Self {
        let UsageRecord {
            input,
            output,
            cache_read,
            cache_write,
        } = record;
        Self {
            input,
            output,
            cache_read,
            cache_write,
        }
    }
}

/// Money in nano-dollars.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct CostRecord(u64);

impl From<Cost> for CostRecord {
    fn from(cost: Cost) -> Self {
        let Cost(nanos) = cost;
        Self(nanos)
    }
}

impl From<CostRecord> for Cost {
    fn from(record: CostRecord) -> Self {
        Self(record.0)
    }
}
