//! What to do with a message: values in, a decision out.
