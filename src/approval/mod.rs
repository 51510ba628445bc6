//! May this effect happen: modes, rules, grants and shell parsing, all pure.
