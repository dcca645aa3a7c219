//! WS-Security and PKI as computations on bytes.
