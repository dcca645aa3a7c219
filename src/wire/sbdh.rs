//! The standard business document, in bounded memory.
