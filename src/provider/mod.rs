//! LLM APIs as one typed stream; retry arithmetic; prices.
