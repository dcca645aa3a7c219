//! Durable memory.

pub mod journal;
pub mod vfs;
