//! gzip in bounded memory.
