//! Detects an MPI launcher that started this petal as one of several; then it joins the others.

use std::env;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use petal_run::peers::mpi::{LIBRARY, Mpi, OPEN_MPI};
use petal_run::peers::{CombinedProgress, ProgressShare, Together};
use petal_run::{Watch, WorkContext};

use super::console::Console;
use super::failure::{CommandError, Exit};
use super::ranks::{Ranks, launched};
use super::{signals, source};

/// Names the library if it is not found by itself.
const LIBRARY_VARIABLE: &str = "PETAL_MPI_LIBRARY";

/// Does a command's work: alone, or with the other ranks that a launcher started. The first of them
/// shows it.
pub fn with_hosts(
    console: &Console,
    work: impl FnOnce(&WorkContext<'_>, &Console) -> Result<Exit, CommandError>,
) -> Result<Exit, CommandError> {
    let signals = signals::count()?;
    let Some((mpi, hosts)) = join(&signals, console)? else {
        return work(&source::context(&signals, console), console);
    };
    let quiet = console.quieted();
    let console = if hosts.is_first() { console } else { &quiet };
    let (summed, reported) =
        (CombinedProgress::new(&hosts, console), ProgressShare { hosts: &hosts, shown: console });
    let watch: &dyn Watch = if hosts.is_first() { &summed } else { &reported };
    let context = WorkContext { hosts: Some(&hosts), watch, ..source::context(&signals, console) };
    let exit = work(&context, console);
    if let Err(failure) = &exit {
        hosts.call_off(&failure.message);
    }
    if hosts.part() {
        mpi.leave();
        return exit;
    }
    // One of them does not get there: the launcher ends the others, and this petal with them.
    let exit = exit.unwrap_or_else(|failure| {
        console.error(&failure.message);
        failure.exit
    });
    let exit = console.exit(exit);
    mpi.abort(exit as u8);
    Ok(exit)
}

/// Joins the other ranks; None of a petal that was started alone, with or without a launcher.
fn join(
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<Option<(Arc<Mpi>, Together)>, CommandError> {
    let Some((variable, Ranks { size, .. })) = launched() else { return Ok(None) };
    let refused = |why: &str| {
        CommandError::new(
            Exit::Environment,
            format!(
                "petal was started as one of {size} by an MPI launcher ({variable}={size}), and \
                 cannot join the others: {why}; it needs a library that fits the launcher: one with \
                 the standard ABI of MPI 5.0 ({LIBRARY}: MPICH 5, Open MPI 6), or that of Open MPI 3 \
                 to 5 ({OPEN_MPI}), found by LD_LIBRARY_PATH or named by {LIBRARY_VARIABLE}=PATH. Without MPI: petal run --share K/N --start-at \
                 TIME"
            ),
        )
    };
    let path = env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    let mpi = Mpi::join(path.as_deref()).map_err(|why| refused(&why))?;
    let mpi = Arc::new(mpi);
    let hosts = Together::new(mpi.clone(), source::context(signals, console).caller);
    if hosts.share().of != size {
        let of = hosts.share().of;
        return Err(refused(&format!(
            "the library says that there are {of}: it is of another MPI"
        )));
    }
    Ok(Some((mpi, hosts)))
}
