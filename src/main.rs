//! Parses, dispatches, and turns the result into an exit code. Nothing else in petal exits.

use std::process::ExitCode;

fn main() -> ExitCode {
    petal::cli::main()
}
