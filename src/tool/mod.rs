//! What the model can do: the trait, the registry, one file per tool.
