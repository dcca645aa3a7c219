//! A push scanner for XML of any length.
