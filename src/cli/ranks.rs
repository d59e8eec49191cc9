//! Detects an MPI launcher that started this petal as one of several.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ArgMatches;
use petal_workload::share::Share;

use super::failure::CommandError;

/// True after a caller named this host's share: the launcher then only started petal.
static HAS_SHARE: AtomicBool = AtomicBool::new(false);

/// Notes whether the caller named this host's share.
pub fn note_share(matches: &ArgMatches) {
    let of_command = matches.subcommand().map(|(_, matches)| matches);
    let share = of_command.and_then(|of| of.try_get_one::<Share>("share").ok().flatten());
    HAS_SHARE.store(share.is_some(), Ordering::Relaxed);
}

/// True of the petal that speaks for all that a launcher started; the others only work.
pub fn is_first() -> bool {
    launched().is_none_or(|(_, launched)| launched.rank == 0)
}

/// True if an MPI launcher started this petal as one of several.
pub fn is_launched() -> bool {
    launched().is_some()
}

/// Refuses a command that several ranks would each do for themselves.
pub fn refuse(command: &str) -> Result<(), CommandError> {
    let Some((variable, Ranks { size, .. })) = launched() else { return Ok(()) };
    Err(CommandError::usage(format!(
        "petal {command}: an MPI launcher started petal as one of {size} ({variable}={size}), and \
         each of them would do it; only run and sweep are done by several hosts together: call \
         petal {command} without the launcher"
    )))
}

/// The ranks that a launcher started, by its variables.
pub struct Ranks {
    pub size: u32,
    /// Number of this rank, from 0.
    pub rank: u32,
}

/// The ranks, if a launcher started several, and the variable that says so.
pub fn launched() -> Option<(&'static str, Ranks)> {
    let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
    let reported = |size: &'static str, rank: &str| {
        Some((size, Ranks { size: number(size)?, rank: number(rank).unwrap_or(0) }))
    };
    // A job of Slurm has its number of tasks whether MPI starts them or not.
    let by_pmix = || {
        reported("SLURM_STEP_NUM_TASKS", "PMIX_RANK").filter(|_| env::var_os("PMIX_RANK").is_some())
    };
    reported("PMI_SIZE", "PMI_RANK")
        .or_else(|| reported("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
        .or_else(by_pmix)
        .filter(|(_, ranks)| ranks.size > 1 && !HAS_SHARE.load(Ordering::Relaxed))
}
