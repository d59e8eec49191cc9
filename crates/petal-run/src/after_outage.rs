//! Questions after a run whose sessions lost connections: were commits in doubt committed, and did
//! the acknowledged ones survive?

use std::path::Path;

use petal_engine::Result;
use petal_judge::outages::InDoubtResolver;
use petal_record::Run;
use petal_record::connections::DoubtfulCommit;
use petal_record::ledger::{self, Ledger};
use petal_workload::version::RunStamps;

use super::job::Job;
use super::{WorkContext, verify};

/// Reads rows back, and adds the answers to the record. An answer that fails is a gap.
pub fn ask(job: &Job<'_>, run: &mut Run, context: &WorkContext<'_>) {
    let Some(seen) = &mut run.details.connections else { return };
    if seen.losses.is_empty() || job.is_interrupted() {
        return;
    }
    let gaps = &mut run.details.gaps;
    let is_file = |path: &Path| std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let ledger = job.ledger.and_then(|file| {
        if !is_file(file.path()) {
            let path = file.path().display();
            gaps.push(format!("lost commits are not known: {path} is no file; run petal verify"));
            return None;
        }
        let ledger = ledger::read(file.path());
        ledger.map_err(|why| gaps.push(format!("lost commits are not known: {why}"))).ok()
    });
    let doubts = seen.losses.iter_mut().filter_map(|loss| loss.in_doubt.as_mut());
    if let Err(why) = decide(job, doubts, ledger.as_ref()) {
        gaps.push(format!("commits in doubt are not decided: {why}"));
    }
    let Some(ledger) = &ledger else { return };
    let last_s = seen.losses.iter().map(|loss| loss.at_s).fold(0.0, f64::max);
    let outage_ns = Some((last_s * 1e9) as u64);
    match verify::verify_at(job.engine, ledger, job.settings, (context, outage_ns)) {
        Ok(found) => run.details.verification = Some(found),
        Err(why) => gaps.push(format!("lost commits are not known: {why}")),
    }
}

fn decide<'a>(
    job: &Job<'_>,
    doubts: impl Iterator<Item = &'a mut DoubtfulCommit>,
    ledger: Option<&Ledger>,
) -> Result<()> {
    let judge = InDoubtResolver::new(RunStamps::of(&job.workload), job.plan.len() as u32, ledger);
    let mut found = Vec::new();
    for doubt in doubts {
        found.clear();
        let mut reader = job.engine.row_reader(doubt.schema)?;
        let last = doubt.first + u64::from(doubt.rows).saturating_sub(1);
        reader.read(doubt.first, last, &mut found)?;
        let stamps: Vec<u64> =
            found.iter().filter_map(|row| Some(row.stamps.as_ref().ok()?.row)).collect();
        doubt.outcome = judge.outcome(doubt, &stamps);
    }
    Ok(())
}
