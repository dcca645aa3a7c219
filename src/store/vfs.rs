//! The file system as the journal sees it.
