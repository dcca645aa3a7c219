//! The append-only journal and its rebuildable index.
