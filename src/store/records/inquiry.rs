//! Records of inquiries and of the replies to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::parts::is_false;
use super::words::EnumName;
use crate::domain::{
    AgentQuestion, Answers, FieldChoice, Inquiry, InquiryReply, LimitName, LimitReached, QuestionField,
    RequestSubject, ResolvedBy,
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InquiryRecord {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(flatten)]
    subject: SubjectRecord,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SubjectRecord {
    Limit(LimitRecord),
    Question(QuestionRecord),
}

#[derive(Debug, Serialize, Deserialize)]
struct LimitRecord {
    limit: EnumName<LimitName>,
    used: u64,
    most: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    message: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct QuestionRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call: Option<String>,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(default)]
    fields: Vec<FieldRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FieldRecord {
    name: String,
    label: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    choices: Vec<ChoiceRecord>,
    #[serde(default, skip_serializing_if = "is_false")]
    several: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    free: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    required: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct ChoiceRecord {
    value: String,
    label: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReplyRecord {
    Raise(u64),
    Accept,
    Stop,
    Answers(Answers),
    Dismissed,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InquiryResolvedRecord {
    pub(super) inquiry: InquiryRecord,
    pub(super) reply: ReplyRecord,
    pub(super) by: EnumName<ResolvedBy>,
}

impl From<&Inquiry> for InquiryRecord {
    fn from(inquiry: &Inquiry) -> Self {
        let Inquiry { id, subject, parent } = inquiry;
        Self {
            id: id.to_string(),
            parent: parent.as_ref().map(ToString::to_string),
            subject: match subject {
                RequestSubject::Limit(limit) => SubjectRecord::Limit(limit.into()),
                RequestSubject::Question(question) => SubjectRecord::Question(question.into()),
            },
        }
    }
}

impl From<InquiryRecord> for Arc<Inquiry> {
    fn from(record: InquiryRecord) -> Self {
        let InquiryRecord { id, parent, subject } = record;
        Self::new(Inquiry {
            id: id.into(),
            parent: parent.map(Into::into),
            subject: match subject {
                SubjectRecord::Limit(limit) => RequestSubject::Limit(limit.into()),
                SubjectRecord::Question(question) => RequestSubject::Question(question.into()),
            },
        })
    }
}

impl From<&LimitReached> for LimitRecord {
    fn from(reached: &LimitReached) -> Self {
        let LimitReached {
            limit,
            used,
            most,
            provider,
            model,
            message,
        } = reached;
        Self {
            limit: EnumName(*limit),
            used: *used,
            most: *most,
            provider: provider.clone(),
            model: model.clone(),
            message: message.clone(),
        }
    }
}

impl From<LimitRecord> for LimitReached {
    fn from(record: LimitRecord) -> Self {
        let LimitRecord {
            limit,
            used,
            most,
            provider,
            model,
            message,
        } = record;
        Self {
            limit: limit.0,
            used,
            most,
            provider,
            model,
            message,
        }
    }
}

impl From<&AgentQuestion> for QuestionRecord {
    fn from(question: &AgentQuestion) -> Self {
        let AgentQuestion {
            tool_call,
            text,
            detail,
            fields,
        } = question;
        Self {
            tool_call: tool_call.as_ref().map(ToString::to_string),
            text: text.clone(),
            detail: detail.clone(),
            fields: fields.iter().map(Into::into).collect(),
        }
    }
}

impl From<QuestionRecord> for AgentQuestion {
    fn from(record: QuestionRecord) -> Self {
        let QuestionRecord {
            tool_call,
            text,
            detail,
            fields,
        } = record;
        Self {
            tool_call: tool_call.map(Into::into),
            text,
            detail,
            fields: fields.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&QuestionField> for FieldRecord {
    fn from(field: &QuestionField) -> Self {
        let QuestionField {
            name,
            label,
            choices,
            several,
            free,
            required,
        } = field;
        let choice = |FieldChoice { value, label }: &FieldChoice| ChoiceRecord {
            value: value.clone(),
            label: label.clone(),
        };
        Self {
            name: name.clone(),
            label: label.clone(),
            choices: choices.iter().map(choice).collect(),
            several: *several,
            free: *free,
            required: *required,
        }
    }
}

impl From<FieldRecord> for QuestionField {
    fn from(record: FieldRecord) -> Self {
        let FieldRecord {
            name,
            label,
            choices,
            several,
            free,
            required,
        } = record;
        let choice = |ChoiceRecord { value, label }| FieldChoice { value, label };
        Self {
            name,
            label,
            choices: choices.into_iter().map(choice).collect(),
            several,
            free,
            required,
        }
    }
}

impl From<&InquiryReply> for ReplyRecord {
    fn from(reply: &InquiryReply) -> Self {
        match reply {
            InquiryReply::Raise(by) => Self::Raise(*by),
            InquiryReply::Accept => Self::Accept,
            InquiryReply::Stop => Self::Stop,
            InquiryReply::Answers(answers) => Self::Answers(answers.clone()),
            InquiryReply::Dismissed => Self::Dismissed,
        }
    }
}

impl From<ReplyRecord> for InquiryReply {
    fn from(record: ReplyRecord) -> Self {
        match record {
            ReplyRecord::Raise(by) => Self::Raise(by),
            ReplyRecord::Accept => Self::Accept,
            ReplyRecord::Stop => Self::Stop,
            ReplyRecord::Answers(answers) => Self::Answers(answers),
            ReplyRecord::Dismissed => Self::Dismissed,
        }
    }
}
