//! Wire types (serde and schema only) and the files generated from them.
