//! The SOAP 1.2 envelope.
