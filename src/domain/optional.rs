//! Optional JSON, where `null` is a value and not the absence of one.

use serde::{Deserialize, Deserializer};

/// Reads a present field, `null` included; with `serde(default)`, an absent field is `None`.
pub(super) fn deserialize_present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
