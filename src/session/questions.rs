//! Questions: decisions and answers that came early, and the grants that answer later ones.

use std::collections::HashMap;

use crate::domain::{ApprovalId, Decision, Grant, InquiryId, InquiryReply};

/// What users decided.
#[derive(Default)]
pub(super) struct Questions {
    /// Decisions on approvals of an interrupted turn, until it is resumed.
    pub(super) decisions: HashMap<ApprovalId, Decision>,
    /// Answers to inquiries of an interrupted turn, until it is resumed.
    pub(super) replies: HashMap<InquiryId, InquiryReply>,
    /// This session's grants, and the folder's as of the turn's start.
    pub(super) grants: Vec<Grant>,
    /// A grant was added since the grants were read.
    pub(super) has_new_grants: bool,
}
