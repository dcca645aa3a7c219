//! Transport: TLS, HTTP, limits. Knows no AS4.
