//! Finds the item of an answer that an event refers to.
//!
//! The API identifies it twice: by `output_index` and by the item's id. Gateways change the ids between events, and
//! other servers omit the index or always send 0. So a known id wins, then the index, then the order.
//! Knows no content: `decode` interprets the items.

use std::collections::HashMap;

use serde_json::Value;

use crate::provider::fields::{optional_number, text};

/// The items of an answer, in the order of their first mention.
#[derive(Debug, Default)]
pub(super) struct WireItems {
    items: Vec<WireItem>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
}

/// One item of an answer.
#[derive(Debug)]
pub(super) struct WireItem {
    pub(super) kind: WireItemKind,
    /// The phase of a message: `commentary` or `final_answer`.
    pub(super) phase: Option<String>,
    call_id: Option<String>,
    done: bool,
}

/// The kind of an item, with what the decoder must remember of it.
#[derive(Clone, Debug)]
pub(super) enum WireItemKind {
    Message {
        /// Whether any of its text was pushed.
        has_text: bool,
    },
    Reasoning {
        /// Whether any of its text was pushed.
        has_text: bool,
        /// Whether the next piece begins a new part.
        part: bool,
    },
    /// The place in the decoder's list of tool calls, once it has one.
    Call(Option<usize>),
    /// A tool that the server runs itself, or an unknown kind.
    Other,
}

impl WireItemKind {
    /// Creates a reasoning item without text.
    pub(super) fn new_reasoning() -> Self {
        Self::Reasoning {
            has_text: false,
            part: false,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl WireItems {
    /// Reports whether no item was mentioned yet.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the item at a place that one of the methods below returned.
    pub(super) fn get(&mut self, at: usize) -> &mut WireItem {
        &mut self.items[at]
    }

    /// Returns the item that a piece of `kind` belongs to; creates one if there is none. An item of kind
    /// [`WireItemKind::Other`] accepts any piece.
    pub(super) fn resolve_piece(&mut self, event: &Value, kind: &WireItemKind) -> usize {
        let fits = |item: &WireItem| item.kind.is_like(kind) || matches!(item.kind, WireItemKind::Other);
        let named = self.find(event, &Value::Null);
        let at = match named {
            Some(at) => Some(at).filter(|at| fits(&self.items[*at])),
            // The event names an item that is not known yet, so it is a new one.
            None if has_name(event) => None,
            // An unnamed piece belongs to the open item of its kind that began last.
            None => self
                .items
                .iter()
                .rposition(|item| item.kind.is_like(kind) && !item.done),
        };
        self.insert_or_update(at, event, &Value::Null, kind)
    }

    /// Returns the item that an event begins. Some gateways send the start twice.
    pub(super) fn record_start(&mut self, event: &Value, kind: &WireItemKind) -> usize {
        let item = &event["item"];
        let at = self.find(event, item).filter(|at| {
            let known = &self.items[*at];
            !known.done && known.kind.is_like(kind) && !self.is_other_call(known, event, item)
        });
        self.insert_or_update(at, event, item, kind)
    }

    /// Returns the item that an event ends; `None` if it ended before.
    pub(super) fn record_end(&mut self, event: &Value, item: &Value, kind: &WireItemKind) -> Option<usize> {
        let at = match self.find(event, item) {
            Some(at) => Some(at).filter(|at| {
                let known = &self.items[*at];
                known.kind.is_like(kind) && !self.is_other_call(known, event, item)
            }),
            None if has_name(event) => None,
            // An unnamed end closes the open item of its kind that began first.
            None => self
                .items
                .iter()
                .position(|known| known.kind.is_like(kind) && !known.done),
        };
        let at = self.insert_or_update(at, event, item, kind);
        (!std::mem::replace(&mut self.items[at].done, true)).then_some(at)
    }

    /// Reports whether an event means another call that only shares the index, which some servers always send as 0.
    fn is_other_call(&self, known: &WireItem, event: &Value, item: &Value) -> bool {
        let is_named = iter_item_ids(event, item).any(|id| self.by_id.contains_key(id));
        let call_ids = (known.call_id.as_deref(), text(item, "call_id"));
        !is_named && matches!(call_ids, (Some(one), Some(other)) if one != other)
    }

    fn find(&self, event: &Value, item: &Value) -> Option<usize> {
        iter_item_ids(event, item)
            .find_map(|id| self.by_id.get(id))
            .or_else(|| self.by_index.get(&optional_number(event, "output_index")?))
            .copied()
    }

    /// Remembers the names that an event gives an item, and creates the item if `at` is `None`.
    fn insert_or_update(
        &mut self,
        at: Option<usize>,
        event: &Value,
        item: &Value,
        kind: &WireItemKind,
    ) -> usize {
        let at = at.unwrap_or_else(|| {
            self.items.push(WireItem {
                kind: kind.clone(),
                phase: None,
                call_id: None,
                done: false,
            });
            self.items.len() - 1
        });
        for id in iter_item_ids(event, item) {
            self.by_id.insert(id.to_owned(), at);
        }
        if let Some(index) = optional_number(event, "output_index") {
            self.by_index.insert(index, at);
        }
        let known = &mut self.items[at];
        known.call_id = known
            .call_id
            .take()
            .or_else(|| text(item, "call_id").map(str::to_owned));
        known.phase = known
            .phase
            .take()
            .or_else(|| text(item, "phase").map(str::to_owned));
        at
    }
}

/// Reports whether the event names its item.
fn has_name(event: &Value) -> bool {
    optional_number(event, "output_index").is_some() || iter_item_ids(event, &event["item"]).next().is_some()
}

fn iter_item_ids<'v>(event: &'v Value, item: &'v Value) -> impl Iterator<Item = &'v str> {
    let ids = [text(event, "item_id"), text(item, "id"), text(item, "call_id")];
    ids.into_iter().flatten().filter(|id| !id.is_empty())
}
