//! Messages between the hosts of one sweep: the first one decides each cell and keeps the sweep's
//! folder, the others follow it ([`super::follow`]).

use serde::{Deserialize, Serialize};

use petal_record::sweep::{CellRun, Sweep, SweepPlan};
use petal_record::sweep_order::left;
use petal_run::peers::Together;
use petal_run::{RunError, WorkContext};

/// Message of the first host to the others.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SweepMessage {
    Plan { petal_version: String, plan: Box<SweepPlan> },
    Cell(CellRun),
    End,
}

/// Sends the sweep's plan to the other hosts. A host with a different plan calls the sweep off.
pub(super) fn send_plan(sweep: &Sweep, context: &WorkContext<'_>) -> Result<(), RunError> {
    let Some(hosts) =
        context.hosts.filter(|_| !sweep.plan.design.is_grid() || !left(sweep).is_empty())
    else {
        return Ok(());
    };
    let (petal_version, plan) = (sweep.petal_version.clone(), Box::new(sweep.plan.clone()));
    hosts.send_next(&SweepMessage::Plan { petal_version, plan })?;
    Ok(hosts.agree(Ok(()))?)
}

/// Sends the next cell to the other hosts.
pub(super) fn send_cell(cell: CellRun, context: &WorkContext<'_>) -> Result<(), RunError> {
    Ok(context.hosts.map_or(Ok(()), |hosts| hosts.send_next(&SweepMessage::Cell(cell)))?)
}

/// Sends the end of the cells to the other hosts.
pub(super) fn end(context: &WorkContext<'_>) {
    if let Some(hosts) = context.hosts {
        // A host that does not receive it times out, and reports that.
        let _ = hosts.send_next(&SweepMessage::End);
        hosts.is_over();
    }
}

/// Sends the reason to the others if a host cannot continue and they wait for it.
pub(super) fn or_call_off<T>(
    context: &WorkContext<'_>,
    done: Result<T, RunError>,
) -> Result<T, RunError> {
    if let (Some(hosts), Err(error)) = (context.hosts, &done) {
        hosts.call_off(&error.to_string());
    }
    done
}

/// Fails if a host has not answered: its next step is unknown, and petal does not wait for it in
/// every further cell.
pub(super) fn check_hosts(context: &WorkContext<'_>) -> Result<(), RunError> {
    match context.hosts.is_some_and(Together::is_lost) {
        false => Ok(()),
        true => Err(RunError::Environment(
            "a host of this sweep did not answer: the sweep stops here, and the same command goes \
             on with it"
                .to_owned(),
        )),
    }
}
