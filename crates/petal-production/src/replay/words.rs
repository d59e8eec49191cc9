//! A plan in words: how a profile becomes operations, and the parts that they leave out.

use super::measured::TrialMeasurements;
use super::{ReplayPlan, ReplayTarget, ReplayedPart, redo_per_commit};
use petal_host::numbers::{bytes, counted, decimal, rate, whole};
use petal_record::profile::Profile;
use petal_record::replay::ReplayOf;
use petal_record::server_work::WorkCount;
use petal_settings::RedoStress;

/// Differences below this share count as imitated.
const SHARE_MAX: f64 = 0.05;

pub fn time(profile: &Profile, played: ReplayedPart) -> String {
    match (played, profile.busiest()) {
        (ReplayedPart::Busiest, Some(interval)) => format!(
            "busiest interval, from {}, {} s",
            interval.begin.as_deref().unwrap_or("an unknown time"),
            decimal(interval.length_s, 0)
        ),
        _ => format!(
            "{}, {} s together",
            counted(profile.intervals.len() as u64, "interval"),
            decimal(profile.length_s(), 0)
        ),
    }
}

/// A line for each figure that became operations.
pub fn how(plan: &ReplayPlan, selects: f64, trial: Option<&TrialMeasurements>) -> Vec<String> {
    let of = &plan.of;
    let commits = of.rate(WorkCount::Commits);
    let mut lines = Vec::new();
    if let Some(reads) = of.rate(WorkCount::SingleBlockReads) {
        let corrected =
            trial.and_then(TrialMeasurements::usable_reads).map_or_else(String::new, |cost| {
                format!(
                    "; in a trial the target read {:.2} blocks for each of them and {:.2} more for \
                 each operation",
                    cost.per_row, cost.per_operation
                )
            });
        lines.push(format!(
            "{reads} single-block reads/s: {selects} SELECTs/s of {}, and the \
             blocks that UPDATEs read{corrected}",
            counted(plan.work_unit, "random block"),
            reads = decimal(reads, 1),
            selects = rate(selects)
        ));
    }
    if let Some(commits) = commits {
        lines.push(format!(
            "{commits} commits/s: as many UPDATEs, each with its own commit",
            commits = rate(commits)
        ));
    }
    let writes = of.rate(WorkCount::BlockWrites);
    if let Some((writes, commits)) = writes.zip(commits.filter(|n| *n > 0.0)) {
        let per_row = trial.and_then(TrialMeasurements::usable_writes_per_row);
        let corrected = per_row.map_or_else(String::new, |per_row| {
            format!(", each of which the target wrote {per_row:.2} times in a trial")
        });
        lines.push(format!(
            "{writes} block writes/s, {:.2} per commit: UPDATEs of {}{corrected}",
            writes / commits,
            counted(plan.update_work_unit, "random block"),
            writes = decimal(writes, 1)
        ));
    }
    if let Some(redo) = redo_per_commit(of) {
        let changed = match plan.redo_stress {
            RedoStress::Lite => "LITE, two columns",
            RedoStress::Heavy => "HEAVY, all columns",
        };
        lines.push(format!(
            "{redo} bytes of redo per commit: REDO_STRESS {changed}",
            redo = decimal(redo, 0)
        ));
    }
    if let Some(blocks) = of.rate(WorkCount::MultiBlockReadBlocks).filter(|blocks| *blocks > 0.0)
        && !plan.scan_rate.is_zero()
    {
        lines.push(format!(
            "{blocks} blocks/s of multi-block reads: scans of the scan table, by bytes",
            blocks = decimal(blocks, 1)
        ));
    }
    lines
}

/// Lists the parts that the operations do not imitate, with their size.
pub fn not_imitated(
    plan: &ReplayPlan,
    profile: &Profile,
    ground: &ReplayTarget,
    trial: Option<&TrialMeasurements>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for figure in WorkCount::ALL {
        if let Some(ratio) = plan.ratio(figure).filter(|ratio| (ratio - 1.0).abs() > SHARE_MAX) {
            lines.push(format!(
                "{}: {}x of production's{}",
                figure.words(),
                decimal(ratio, 2),
                why(figure, plan, trial)
            ));
        }
    }
    lines.extend(unknown_figures(&plan.of));
    let multi_blocks = plan.of.rate(WorkCount::MultiBlockReadBlocks);
    if let Some(blocks) = multi_blocks.filter(|blocks| *blocks > 0.0) {
        if plan.scan_rate.is_zero() {
            lines.push(format!(
                "multi-block reads, {blocks} blocks/s, are left out: there is no scan table \
                 (petal setup --scan-table-sz), or their rate is under a thousandth of a scan",
                blocks = decimal(blocks, 1)
            ));
        } else if ground.cache_bytes.is_some_and(|cache| ground.scan_bytes < cache) {
            lines.push(format!(
                "multi-block reads, {blocks} blocks/s: the scan tables ({}) fit in the target's \
                 cache, which will serve them; load larger ones",
                bytes(ground.scan_bytes),
                blocks = decimal(blocks, 1)
            ));
        }
    }
    match profile.block_bytes {
        Some(size) if size != ground.block_bytes => lines.push(format!(
            "bytes of single-block reads and writes: {:.2}x of production's, whose blocks have {} \
             bytes and the target's {}",
            f64::from(ground.block_bytes) / f64::from(size),
            whole(size.into()),
            whole(ground.block_bytes.into())
        )),
        Some(_) => {}
        None => {
            lines.push("production's block size is not known: the target's is taken for it".into())
        }
    }
    lines.extend(assumed(plan, trial.is_some()));
    lines
}

fn why(figure: WorkCount, plan: &ReplayPlan, trial: Option<&TrialMeasurements>) -> String {
    match figure {
        WorkCount::SingleBlockReads if plan.select_rate.is_zero() => {
            ": UPDATEs read the blocks that they change, and no SELECT is left to leave out"
                .to_owned()
        }
        WorkCount::SingleBlockReads => {
            let found = trial.and_then(|trial| trial.reads).map_or(1.0, |cost| cost.per_row);
            format!(
                ": {:.1} % of the rows were read from storage, the rest from a cache",
                found * 100.0
            )
        }
        WorkCount::BlockWrites => match trial
            .is_some_and(|it| it.writes_per_row.is_some() && it.usable_writes_per_row().is_none())
        {
            true => ": in the trial the target put writes off, which a longer run pays".to_owned(),
            false => {
                format!(": each UPDATE changes a whole number of blocks, {}", plan.update_work_unit)
            }
        },
        WorkCount::RedoBytes if plan.assumed.contains(&figure) => {
            ": guessed by the width of the columns that UPDATEs change".to_owned()
        }
        WorkCount::RedoBytes => ": the target logs so much for the same changes".to_owned(),
        _ => String::new(),
    }
}

fn unknown_figures(of: &ReplayOf) -> Vec<String> {
    let left_out = [
        (
            WorkCount::SingleBlockReads,
            "single-block reads are not in the profile: only UPDATEs read",
        ),
        (
            WorkCount::Commits,
            "commits are not in the profile: no UPDATE is done, and nothing is written",
        ),
        (
            WorkCount::BlockWrites,
            "block writes are not in the profile: each UPDATE changes one block",
        ),
        (WorkCount::RedoBytes, "redo is not in the profile: UPDATEs change two columns"),
        (
            WorkCount::MultiBlockReadBlocks,
            "multi-block reads are not in the profile: no scan is done",
        ),
    ];
    let unknown = left_out.into_iter().filter(|(figure, _)| of.rate(*figure).is_none());
    let mut lines: Vec<String> = unknown.map(|(_, line)| line.to_owned()).collect();
    if of.rate(WorkCount::Commits) == Some(0.0) && of.rate(WorkCount::BlockWrites) > Some(0.0) {
        let line =
            "production wrote blocks and committed nothing: without commits no UPDATE is done";
        lines.push(line.to_owned());
    }
    lines
}

/// Describes the assumptions for figures that no trial measured.
fn assumed(plan: &ReplayPlan, was_tried: bool) -> Option<String> {
    let figures: Vec<&str> = plan.assumed.iter().map(|figure| figure.words()).collect();
    let why = match was_tried {
        true => "the trial was too small to measure",
        false => "no trial measured",
    };
    (!figures.is_empty()).then(|| {
        format!(
            "{why} {}: petal expects one block read and written for each row, and redo by the \
             width of the columns that UPDATEs change",
            figures.join(", ")
        )
    })
}
