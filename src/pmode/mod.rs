//! Processing modes and finding them.
