//! One suite over all decoders (quality §2): recorded streams, cut at every byte, fed byte by byte, give
//! the same events, or exactly one clean error.
