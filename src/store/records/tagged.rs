//! Enums in two columns: the name of the variant is the kind, and its content is the JSON.
//!
//! serde writes such an enum as `{"kind":JSON}`. The two halves are separate in the store, so that SQL can select by kind.

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any, ser};
use serde_json::Error;
use serde_json::de::StrRead;

/// Encodes an enum as its kind and its JSON.
pub(super) fn to_kind_and_json<T: Serialize>(value: &T) -> Result<(String, String), Error> {
    let tagged = serde_json::to_string(value)?;
    tagged
        .strip_prefix("{\"")
        .and_then(|rest| rest.strip_suffix('}'))
        // No kind contains a quote, and serde_json adds no spaces.
        .and_then(|rest| rest.split_once("\":"))
        .map(|(kind, json)| (kind.to_owned(), json.to_owned()))
        .ok_or_else(|| ser::Error::custom("a variant without content has no record"))
}

/// Decodes an enum from its kind and its JSON.
pub(super) fn from_kind_and_json<'de, T: Deserialize<'de>>(kind: &str, json: &'de str) -> Result<T, Error> {
    let mut content = serde_json::Deserializer::from_str(json);
    let value = T::deserialize(Tagged {
        kind,
        content: &mut content,
    })?;
    content.end()?;
    Ok(value)
}

/// Presents a kind and its JSON as one enum.
struct Tagged<'a, 'de> {
    kind: &'a str,
    content: &'a mut serde_json::Deserializer<StrRead<'de>>,
}

impl<'de> Deserializer<'de> for Tagged<'_, 'de> {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        kinds: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if !kinds.contains(&self.kind) {
            return Err(de::Error::custom(format_args!("unknown kind `{}`", self.kind)));
        }
        visitor.visit_enum(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("only an enum has a kind"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Tagged<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant = seed.deserialize(StrDeserializer::<Error>::new(self.kind))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Tagged<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Deserialize::deserialize(self.content)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.content)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.content.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content.deserialize_struct("", fields, visitor)
    }
}
