//! Host of a sweep that is not the first one: does its share of the cells that the first one names,
//! in its own folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use time::OffsetDateTime;

use super::SweepRequest;
use super::cells::drive;
use super::plan::{Planned, plan};
use super::together::{SweepMessage, check_hosts, or_call_off};
use petal_record::RecordFolder;
use petal_record::sweep::{CellRun, SweepPlan};
use petal_run::peers::Together;
use petal_run::{RunError, WorkContext};
use petal_settings::Settings;
use petal_workload::share::Share;

/// Maximum wait before the first cell, or after the last one: the first host may load, or merge and
/// write.
const PLAN_LIMIT: Duration = Duration::from_secs(1800);
const LOAD_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Does this host's share of the cells that the first host names.
pub fn follow(
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
    hosts: &Together,
) -> Result<(), RunError> {
    let limit = if request.load { LOAD_LIMIT } else { PLAN_LIMIT };
    let SweepMessage::Plan { petal_version, plan: first } = hosts.receive_next(limit)? else {
        hosts.is_over();
        return Ok(());
    };
    let planned = or_call_off(context, same_plan(request, context, &petal_version, &first))?;
    hosts.agree(Ok(()))?;
    let dir = own_dir(&planned.dir, hosts.share());
    while let SweepMessage::Cell(cell) = hosts.receive_next(PLAN_LIMIT)? {
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

/// Checks that this host's plan is the first one's.
fn same_plan(
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
    petal_version: &str,
    first: &SweepPlan,
) -> Result<Planned, RunError> {
    let planned = plan(request, context)?.noted(context);
    // These settings may differ between hosts.
    let comparable = |plan: &SweepPlan| {
        let mut plan = SweepPlan { seed: first.seed, ..plan.clone() };
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

/// Returns a folder next to the sweep's own, which the first host keeps.
fn own_dir(dir: &Path, share: Share) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!("{name}-share{}of{}", share.number, share.of))
}

/// Runs this host's sessions of a cell. Returns failures that affect no figure.
fn share_of(
    cell: CellRun,
    planned: &Planned,
    first: &SweepPlan,
    dir: &Path,
    context: &WorkContext<'_>,
) -> Result<Option<RunError>, RunError> {
    let factors = first.cells().into_iter().nth((cell.number as usize).wrapping_sub(1));
    let (Some(settings), Some(factors)) = (planned.settings(cell.number), factors) else {
        return Err(RunError::Setting(format!("this plan has no cell {}", cell.number)));
    };
    let settings = Settings { seed: Some(first.seed), repeats: first.repeats, ..settings.clone() };
    let name = first.folder_name(cell.number, &factors, cell.repeat);
    let begin = || RecordFolder::create(dir, &name, OffsetDateTime::now_utc());
    Ok(drive(planned, settings, (cell, &BTreeMap::new()), begin, context)?.failure)
}
