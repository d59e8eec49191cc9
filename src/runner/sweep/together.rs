//! A sweep of several driver hosts: the first one decides each cell and keeps the sweep's folder; the
//! others do their share of the cells that it names, each in a folder of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::super::peers::Together;
use super::super::{Context, RunError};
use super::cells::drive;
use super::order::CellRun;
use super::plan::{Planned, plan};
use super::{Request, left};
use crate::record::Folder;
use crate::record::sweep::{Plan, Sweep};
use crate::settings::Settings;
use crate::workload::share::Share;

/// What the first host says to the others.
#[derive(Debug, Serialize, Deserialize)]
enum Next {
    Plan { petal_version: String, plan: Box<Plan> },
    Cell(CellRun),
    End,
}

/// Before the first cell, or after the last one before it: so long the first host may load, or merge
/// and write.
const PLAN_LIMIT: Duration = Duration::from_secs(1800);
const LOAD_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Tells the other hosts what the sweep is. One that would do another one calls it off.
pub(super) fn tell_plan(sweep: &Sweep, context: &Context<'_>) -> Result<(), RunError> {
    let Some(hosts) = context.hosts.filter(|_| !left(sweep).is_empty()) else { return Ok(()) };
    let (petal_version, plan) = (sweep.petal_version.clone(), Box::new(sweep.plan.clone()));
    hosts.tell_next(&Next::Plan { petal_version, plan })?;
    Ok(hosts.agree(Ok(()))?)
}

/// Tells the other hosts which cell comes.
pub(super) fn tell_cell(cell: CellRun, context: &Context<'_>) -> Result<(), RunError> {
    Ok(context.hosts.map_or(Ok(()), |hosts| hosts.tell_next(&Next::Cell(cell)))?)
}

/// Tells the other hosts that there are no more cells, or that there were none.
pub(super) fn end(context: &Context<'_>) {
    if let Some(hosts) = context.hosts {
        // One that does not hear it waits in vain, and says so.
        let _ = hosts.tell_next(&Next::End);
        hosts.is_over();
    }
}

/// Where a host cannot go on, the others learn why, if they wait for it.
pub(super) fn or_call_off<T>(
    context: &Context<'_>,
    done: Result<T, RunError>,
) -> Result<T, RunError> {
    if let (Some(hosts), Err(error)) = (context.hosts, &done) {
        hosts.call_off(&error.to_string());
    }
    done
}

/// An error when a host has not answered: what it does next is not known, and it is not waited for
/// in every further cell.
pub(super) fn check_hosts(context: &Context<'_>) -> Result<(), RunError> {
    match context.hosts.is_some_and(Together::is_lost) {
        false => Ok(()),
        true => Err(RunError::Environment(
            "a host of this sweep did not answer: the sweep stops here, and the same command goes \
             on with it"
                .to_owned(),
        )),
    }
}

/// On every host but the first: does its share of the cells that the first one names.
pub fn follow(
    request: &Request<'_>,
    context: &Context<'_>,
    hosts: &Together,
) -> Result<(), RunError> {
    let limit = if request.load { LOAD_LIMIT } else { PLAN_LIMIT };
    let Next::Plan { petal_version, plan: first } = hosts.hear_next(limit)? else {
        hosts.is_over();
        return Ok(());
    };
    let planned = or_call_off(context, same_plan(request, context, &petal_version, &first))?;
    hosts.agree(Ok(()))?;
    let dir = own_dir(&planned.dir, hosts.share());
    while let Next::Cell(cell) = hosts.hear_next(PLAN_LIMIT)? {
        let done = or_call_off(context, share_of(cell, &planned, &first, &dir, context));
        let failed = done.and_then(|failure| failure.map_or(Ok(()), Err));
        check_hosts(context)?;
        if let Err(error) = failed {
            context.watch.error(&error.to_string());
        }
    }
    hosts.is_over();
    Ok(())
}

/// This host's plan, which must be the first one's.
fn same_plan(
    request: &Request<'_>,
    context: &Context<'_>,
    petal_version: &str,
    first: &Plan,
) -> Result<Planned, RunError> {
    let planned = plan(request, context)?;
    // Each host may have its own.
    let comparable = |plan: &Plan| {
        let mut plan = Plan { seed: first.seed, ..plan.clone() };
        plan.settings.remove("calibrations");
        plan
    };
    let mut differences = comparable(&planned.plan).differences(&comparable(first));
    if petal_version != env!("CARGO_PKG_VERSION") {
        differences.push(format!("petal: {}, not {petal_version}", env!("CARGO_PKG_VERSION")));
    }
    match differences.is_empty() {
        true => Ok(planned),
        false => Err(RunError::Setting(format!(
            "this host would do another sweep than the first one: {}",
            differences.join(", "),
        ))),
    }
}

/// Beside the sweep's own folder, which the first host keeps.
fn own_dir(dir: &Path, share: Share) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!("{name}-share{}of{}", share.number, share.of))
}

/// This host's sessions of a cell. Returns what went wrong beside the figures.
fn share_of(
    cell: CellRun,
    planned: &Planned,
    first: &Plan,
    dir: &Path,
    context: &Context<'_>,
) -> Result<Option<RunError>, RunError> {
    let factors = first.cells().into_iter().nth((cell.number as usize).wrapping_sub(1));
    let (Some(settings), Some(factors)) = (planned.settings(cell.number), factors) else {
        return Err(RunError::Setting(format!("this plan has no cell {}", cell.number)));
    };
    let settings = Settings { seed: Some(first.seed), repeats: first.repeats, ..settings.clone() };
    let name = first.folder_name(cell.number, &factors, cell.repeat);
    let begin = || Folder::create(dir, &name, OffsetDateTime::now_utc());
    Ok(drive(planned, settings, cell, begin, context)?.failure)
}
