//! Enums whose variants are words: in the protocol, in the configuration, in the store, and for people.
//!
//! A word that is sent or stored is a promise: it is never renamed. An unknown word is an error, which the reader of the
//! store reports.

use serde::{Deserialize, Deserializer, de};

/// Defines an enum, and the word for each variant.
macro_rules! word_enum {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(test, derive(proptest_derive::Arbitrary))]
        $vis enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All values, in the order of their definition.
            $vis const ALL: [Self; [$($word),*].len()] = [$(Self::$variant,)*];

            /// Returns the word.
            $vis fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the value with this word; case-sensitive.
            $vis fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::domain::words::deserialize_word(deserializer, Self::from_name)
            }
        }
    };
}

pub(crate) use word_enum;

/// Reads a word that `find` knows.
pub(crate) fn deserialize_word<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    find: fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    find(&word).ok_or_else(|| de::Error::custom(format_args!("unknown word `{word}`")))
}
