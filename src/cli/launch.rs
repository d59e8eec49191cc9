//! Whether an MPI launcher started this petal as one of several; then it joins the others.

use std::env;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use crate::runner::peers::Together;
use crate::runner::peers::mpi::{LIBRARY, Mpi};

use super::failure::{Exit, Failure};

/// Names the library where it is not found by itself.
const LIBRARY_VARIABLE: &str = "PETAL_MPI_LIBRARY";

/// The ranks that a launcher started.
pub struct Launched {
    mpi: Arc<Mpi>,
    pub hosts: Together,
}

impl Launched {
    /// The ranks part in order: every one of them must come to this.
    pub fn leave(&self) {
        self.mpi.leave();
    }
}

/// Joins the other ranks; None of a petal that was started alone, with or without a launcher.
pub fn join(signals: &Arc<AtomicU8>) -> Result<Option<Launched>, Failure> {
    let Some((variable, size)) = launched() else { return Ok(None) };
    let refused = |why: &str| {
        Failure::new(
            Exit::Environment,
            format!(
                "petal was started as one of {size} by an MPI launcher ({variable}={size}), and \
                 cannot join the others: {why}; it needs a library with the standard ABI of MPI 5.0 \
                 ({LIBRARY}: MPICH 5, Open MPI 6) that fits the launcher, found by LD_LIBRARY_PATH \
                 or named by {LIBRARY_VARIABLE}=PATH. Without MPI: petal run --share K/N --start-at \
                 TIME"
            ),
        )
    };
    let path = env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    let mpi = Mpi::join(path.as_deref()).map_err(|why| refused(&why))?;
    let mpi = Arc::new(mpi);
    let hosts = Together::new(mpi.clone(), signals.clone());
    if hosts.share().of != size {
        let of = hosts.share().of;
        return Err(refused(&format!(
            "the library says that there are {of}: it is of another MPI"
        )));
    }
    Ok(Some(Launched { mpi, hosts }))
}

/// How many a launcher started, if several, and the variable that says so.
fn launched() -> Option<(&'static str, u32)> {
    let number = |name: &'static str| {
        let size = env::var(name).ok()?.parse::<u32>().ok()?;
        Some((name, size))
    };
    // A job of Slurm has its number of tasks whether MPI starts them or not.
    let by_pmix = || number("SLURM_STEP_NUM_TASKS").filter(|_| env::var_os("PMIX_RANK").is_some());
    let size = number("PMI_SIZE").or_else(|| number("OMPI_COMM_WORLD_SIZE")).or_else(by_pmix);
    size.filter(|(_, size)| *size > 1)
}
