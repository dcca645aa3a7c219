//! The `oncepoint` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncepoint::cli::run()
}
