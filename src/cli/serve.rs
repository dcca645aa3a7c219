//! Placeholder.
use super::{CliError, output::Output};
pub(super) fn run<T>(_a: T, _o: &Output) -> Result<(), CliError> {
    Ok(())
}
