//! `multipart/related`, fed piece by piece.
