//! Exclusive XML canonicalization.
