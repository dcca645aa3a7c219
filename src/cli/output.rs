//! Text or JSON on standard output, errors on standard error.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::CliError;

/// How a result looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Lines for people.
    Text,
    /// One value for programs.
    Json,
}

/// Where a command prints its result.
pub(super) struct Output {
    form: Form,
}

impl Output {
    pub(super) const fn new(form: Form) -> Self {
        Self { form }
    }

    /// A result: the lines for people, or the value for programs.
    pub(super) fn result(&self, lines: &[String], value: &Value) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        match self.form {
            Form::Text => lines.iter().try_for_each(|line| writeln!(out, "{line}"))?,
            Form::Json => writeln!(out, "{value}")?,
        }
        Ok(out.flush()?)
    }

    /// A line that appears at once, in both forms: what `serve` says when it listens.
    pub(super) fn line(&self, line: &str) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }

    /// Raw bytes: a document.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    pub(super) fn error(&self, error: &CliError) {
        let mut err = io::stderr().lock();
        // Nobody is left to be told when standard error is gone too.
        let _ = match self.form {
            Form::Text => writeln!(err, "oncepoint: {error}"),
            Form::Json => writeln!(err, "{}", json!({ "error": error.to_string() })),
        };
    }
}
