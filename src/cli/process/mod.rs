//! petal's processes: the first one keeps the command line free of secrets and waits for the
//! second one, which does the work.

mod handover;
mod supervisor;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use petal_settings::argv;

use super::ranks;
use super::signals;
use handover::{Handover, Received};

/// `off`: one process does everything, as a debugger or tracer may want it. A thread that hangs in
/// the kernel then keeps the shell waiting, too.
const SUPERVISOR: &str = "PETAL_SUPERVISOR";

/// The arguments of this call of petal, and the handling of the secrets among them.
pub struct CallArguments {
    pub all: Vec<OsString>,
    pub secrets: Secrets,
    is_worker: bool,
}

/// Secrets among the arguments, which every user can read in the list of processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    None,
    /// Secrets that were readable for a moment.
    Hidden,
    /// Secrets that are readable for as long as petal runs.
    Readable,
}

/// Takes the arguments. If there are secrets among them, petal replaces itself by the same program
/// with a command line that holds none.
pub fn arguments() -> CallArguments {
    match handover::received() {
        Some(Received { arguments, orders }) => {
            let secrets = match argv::redacted(&arguments) {
                Some(_) => Secrets::Hidden,
                None => Secrets::None,
            };
            let is_worker = orders.is_some();
            if let Some(orders) = orders {
                signals::follow_supervisor(orders);
            }
            CallArguments { all: arguments, secrets, is_worker }
        }
        None => {
            let all: Vec<OsString> = std::env::args_os().collect();
            let secrets = match argv::redacted(&all) {
                None => Secrets::None,
                Some(shown) => {
                    // It returns only if the program could not be replaced.
                    let _ = Handover::of(&all).map(|handover| handover.replace_by(&shown));
                    Secrets::Readable
                }
            };
            CallArguments { all, secrets, is_worker: false }
        }
    }
}

impl CallArguments {
    /// Has a command on a target done by a second process and waits for it; None if this process is to
    /// do it itself.
    pub fn supervise(&self, is_on_target: bool) -> Option<ExitCode> {
        let is_off = std::env::var_os(SUPERVISOR).is_some_and(|value| value == "off");
        // A launcher waits for its ranks itself.
        if self.is_worker || !is_on_target || is_off || ranks::is_launched() {
            return None;
        }
        let shown = argv::redacted(&self.all);
        supervisor::supervise(&self.all, shown.as_ref().unwrap_or(&self.all))
    }
}

/// This program, to be called with these arguments.
fn this_program(shown: &[OsString]) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("/proc/self/exe");
    if let Some((name, arguments)) = shown.split_first() {
        command.arg0(name).args(arguments);
    }
    command
}
