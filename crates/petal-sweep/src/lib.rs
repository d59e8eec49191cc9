//! Sweep: every combination of the requested values, several times, in one folder that the same
//! command finds again. It is planned ([`plan`]). Its cells ([`next_cells`]) run one after the
//! other ([`cells`]) in a folder that only one petal holds at a time ([`folder`]), on several
//! hosts together if requested ([`together`], [`mod@follow`]). A last run at the peak may follow
//! ([`peak_run`]).

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cells;
pub mod changed_server;
mod folder;
mod follow;
mod next_cells;
mod peak_run;
mod plan;
mod together;

use std::path::PathBuf;

use changed_server::{ChangedServer, ForeignValues, RestartCommand, ServerChanges};
use petal_record::RecordFolder;
use petal_record::Status;
use petal_record::profile::{self, Profile};
use petal_record::replay::ReplayOf;
use petal_record::server_settings;
use petal_record::sweep::{self as kept, Swept, load};
use petal_record::sweep_design::Design;
use petal_run::{RunError, WorkContext};
use petal_settings::axes::SweepArguments;
use petal_settings::objective::Objective;
use petal_settings::read::Sources;

use petal_report::numbers::counted;

pub use folder::{done_before, hold};
pub use follow::follow;
pub use petal_record::sweep_order::{Pace, cell_runs, left, with_order};
pub use plan::{Planned, main_bytes, plan, run_time, steps_dir};

/// Request for a sweep, in addition to its settings.
pub struct SweepRequest<'a> {
    pub asked: SweepArguments,
    pub design: Design,
    pub sources: Sources<'a>,
    /// Folder of the sweep; else one named after this word and the plan.
    pub dir: Option<PathBuf>,
    pub name: &'static str,
    /// Seconds of a last run at the peak, with experiments; 0: none.
    pub peak_run_s: u64,
    pub load: bool,
    pub fresh: Fresh,
    pub again_failed: bool,
    /// Recording of `petal os` on the database's host.
    pub os_data: Option<PathBuf>,
    /// Objective of `--max-latency`: the report marks the highest load that meets it.
    pub objective: Option<Objective>,
    /// Notes on the settings are shown: false if nobody chose them.
    pub is_noted: bool,
    /// Restarts the server for settings that need it.
    pub restart: Option<RestartCommand>,
    /// The load that every cell imitates, step by step, until one does not hold it.
    pub replay: Option<Replayed<'a>>,
}

/// Cases in which the folder of an earlier sweep gets another name, and the sweep begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    Never,
    Always,
    /// Unless the present one is unfinished and has the same plan.
    UnlessUnfinished,
}

/// Load that was fitted to the target, and its profile.
pub struct Replayed<'a> {
    pub of: ReplayOf,
    pub profile: &'a Profile,
}

/// Ended sweep, complete or not.
pub struct Done {
    pub swept: Swept,
    pub folder: PathBuf,
    /// Failures that affect no figure: hooks, reports.
    pub failures: Vec<RunError>,
}

impl Done {
    pub fn is_complete(&self) -> bool {
        self.swept.sweep.status == Status::Complete
    }
}

/// Plans, runs the remaining cells, and reports. An error means that the sweep could not begin or
/// had to stop; finished cells are kept and reported in its folder.
pub fn run(request: &SweepRequest<'_>, context: &WorkContext<'_>) -> Result<Done, RunError> {
    let done = run_here(request, context);
    together::end(context);
    done
}

fn run_here(request: &SweepRequest<'_>, context: &WorkContext<'_>) -> Result<Done, RunError> {
    let watch = context.watch;
    let planned = plan(request, context)?.noted(context);
    put_back_before(&planned, request, context)?;
    let mut held = folder::take(&planned, request)?;
    if let Some(replay) = &request.replay {
        let text = replay.profile.text(&held.folder.path().join(profile::NAME))?;
        held.folder.write_atomically(profile::NAME, &text)?;
    }
    for name in &held.removed {
        watch.note(&format!("{name} was cut off and is removed; its cell is done again"));
    }
    for folder in &held.damaged {
        watch.note(&format!(
            "the record of a cell is damaged or lost; the cell is done again, and its old files \
             are kept in {}",
            folder.display()
        ));
    }
    let all = held.sweep.plan.order.iter().map(Vec::len).sum::<usize>();
    match left(&held.sweep).len() {
        _ if !held.sweep.plan.design.is_grid() => {}
        0 if held.sweep.status == Status::Complete => {
            watch.note("this sweep is complete: nothing is run; --fresh begins it again")
        }
        left if left < all => {
            watch.note(&format!("{} of {all} cells are done, {left} are left", all - left));
        }
        _ => {}
    }
    if !held.sweep.plan.design.is_grid() && !held.sweep.cells.is_empty() {
        watch.note(&format!("{} are done", counted(held.sweep.cells.len() as u64, "run")));
    }
    together::send_plan(&held.sweep, context)?;
    let ran = run_cells(&planned, &mut held, request, context);
    // The lock is this petal's, and its work is done.
    let swept = Swept { is_at_work: false, ..load(&held.folder.own_path())? };
    petal_report::write_sweep(&held.folder, &swept, request.objective.as_ref())?;
    let done = Done { swept, folder: held.folder.path().to_owned(), failures: ran? };
    if context.caller.is_interrupted() {
        watch.note("interrupted: the same command goes on with the remaining cells");
    }
    Ok(done)
}

/// Runs the cells, and puts the server's settings back however they end.
fn run_cells(
    planned: &Planned,
    held: &mut folder::SweepFolder,
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
) -> Result<Vec<RunError>, RunError> {
    let folder = held.folder.clone();
    let target = (planned.cells.first(), planned.server_settings.as_slice());
    let mut changes = match target {
        (Some(first), [_, ..]) => {
            let restart = request.restart.as_ref();
            Some(ServerChanges::new(first, target.1, restart, &folder, context)?)
        }
        _ => None,
    };
    let ran = cells::run(planned, held, changes.as_mut(), context);
    let ran = ran.and_then(|mut failures| {
        failures.extend(peak_run::run(planned, held, context)?);
        Ok(failures)
    });
    match (changes.as_mut().map_or(Ok(()), ServerChanges::put_back), ran) {
        (Ok(()), ran) => ran,
        (Err(error), Ok(_)) => Err(error),
        (Err(error), ran) => {
            context.watch.error(&error.to_string());
            ran
        }
    }
}

/// Puts back the settings that an earlier petal changed for this sweep and left, as after `kill -9`.
fn put_back_before(
    planned: &Planned,
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
) -> Result<(), RunError> {
    let dir = planned.dir.as_path();
    let Some(first) = planned.cells.first().filter(|_| kept::is_one(dir)) else { return Ok(()) };
    let folder = &RecordFolder::held(dir)?;
    let open = || -> Result<_, RunError> {
        Ok(server_settings::read(folder)?.filter(|journal| journal.is_open()))
    };
    if open()?.is_none() {
        return Ok(());
    }
    let _lock = folder::hold(folder)?;
    let Some(mut journal) = open()? else { return Ok(()) };
    context.watch.note("an earlier petal left settings of this sweep at the server:");
    let (restart, watch) = (request.restart.as_ref(), context.watch);
    let server = ChangedServer { open: context.engines, settings: first, restart, folder, watch };
    let _settings_lock = server.lock()?;
    let put_back = server.put_back(&mut journal, ForeignValues::Refuse);
    put_back.map_err(|error| server.with_next_step(error, &journal))
}
