//! Disk shapes of messages and of the results of tool calls. Taken apart field by field, as in `parts`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::parts::{Json, SharedText, deserialize_present, is_false};
use super::words::EnumName;
use crate::domain::{
    Block, ContentRef, ImageData, Message, ProviderCall, Reference, ReferenceKind, Role, Signature,
    ToolResult,
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MessageRecord {
    id: String,
    role: EnumName<Role>,
    content: Vec<BlockRecord>,
    #[serde(default, skip_serializing_if = "is_false")]
    incomplete: bool,
    #[serde(default, skip_serializing_if = "is_false")]
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
            role: EnumName(*role),
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
        /// The source of the signature; absent in early records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<SharedText>,
        #[serde(default, skip_serializing_if = "is_false")]
        redacted: bool,
    },
    ToolUse {
        id: String,
        name: String,
        input: Json,
        /// Absent in early records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attached: Option<ProviderCallRecord>,
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
                signature: signature.as_ref().map(|signature| signature.value.clone()),
                origin: signature
                    .as_ref()
                    .and_then(|signature| signature.origin.clone().map(SharedText)),
                redacted: *redacted,
            },
            Block::ToolUse {
                id,
                name,
                input,
                attached,
            } => Self::ToolUse {
                id: id.to_string(),
                name: name.clone(),
                input: Json(input.clone()),
                attached: attached.as_deref().map(Into::into),
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
                origin,
                redacted,
            } => Self::Reasoning {
                text,
                signature: signature.map(|value| Signature {
                    value,
                    origin: origin.map(|SharedText(origin)| origin),
                }),
                redacted,
            },
            BlockRecord::ToolUse {
                id,
                name,
                input,
                attached,
            } => Self::ToolUse {
                id: id.into(),
                name,
                input: input.0,
                attached: attached.map(|record| Arc::new(record.into())),
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
pub(super) struct ProviderCallRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    extra: Option<Json>,
    origin: SharedText,
}

impl From<&ProviderCall> for ProviderCallRecord {
    fn from(call: &ProviderCall) -> Self {
        let ProviderCall { id, extra, origin } = call;
        Self {
            id: id.clone(),
            extra: extra.clone().map(Json),
            origin: SharedText(origin.clone()),
        }
    }
}

impl From<ProviderCallRecord> for ProviderCall {
    fn from(record: ProviderCallRecord) -> Self {
        let ProviderCallRecord { id, extra, origin } = record;
        Self {
            id,
            extra: extra.map(|json| json.0),
            origin: origin.0,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImageRecord {
    media_type: String,
    data: SharedText,
}

impl From<&ImageData> for ImageRecord {
    fn from(image: &ImageData) -> Self {
        let ImageData { media_type, data } = image;
        Self {
            media_type: media_type.clone(),
            data: SharedText(data.clone()),
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
    kind: EnumName<ReferenceKind>,
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
            kind: EnumName(*kind),
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
    #[serde(default, skip_serializing_if = "is_false")]
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
