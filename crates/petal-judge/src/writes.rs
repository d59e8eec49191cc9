//! Were the writes paid for: durable commits, whole checkpoint cycles, updates in place, a log of
//! a sensible size.
//!
//! Checkpoints are judged by [`CommonCounter::Checkpoints`], which an engine fills with the
//! checkpoints that ended within the run. As a run begins settled, right after a checkpoint, one
//! that ended means one whole cycle.

use petal_host::numbers::{decimal, whole};
use serde_json::json;

use super::judgement::{
    FindingParts, Judgement, NoFinding::Clear, advised, clear_if, info, known, unknown, warning,
};
use petal_host::numbers::bytes as size;
use petal_record::counters::{CommonCounter, WaitClass};
use petal_record::{Run, Second, figures};

/// Share of updated rows from which on moving them was a part of the work.
const ROWS_MOVED_SHARE_MAX: f64 = 0.01;
/// Share of visited rows from which on rows were followed: a database's own dictionary has such
/// too.
const FOLLOWED_SHARE_MAX: f64 = 0.01;
/// Blocks that a run of SELECTs may change, as a share of its rows.
const CLEANED_SHARE_MAX: f64 = 0.01;
const CHECKPOINT_EVERY_S_MIN: f64 = 30.0;
/// Waits for a free block that each UPDATE may have.
const FREE_BLOCK_WAITS_SHARE_MAX: f64 = 0.01;
/// Old versions that may be kept at the run's end: of so many transactions, or of this share.
const UNPURGED_MAX: u64 = 10_000;
const UNPURGED_SHARE_MAX: f64 = 0.10;
const LOG_WAIT_SHARE_MAX: f64 = 0.01;
const COMMITS_PER_SYNC_MIN: f64 = 1.05;

pub(super) fn checkpoints(run: &Run) -> Option<u64> {
    run.summary.counter(CommonCounter::Checkpoints)
}

pub(super) fn not_durable(run: &Run) -> Judgement {
    let durability = run.details.target.durability.as_ref();
    let durability = known(durability, "the engine does not report its durability setting")?;
    clear_if(durability.durable)?;
    warning(
        format!("a commit may be lost in a power cut: {}", durability.setting),
        "Set it back before comparing commit rates or redo with anything.",
    )
    .with(json!({ "setting": durability.setting }))
}

/// Sessions that write: WRITERS if set, else all of them.
fn writing_sessions(run: &Run) -> u64 {
    match run.summary.setting("writers").and_then(|value| value.as_u64()) {
        Some(writers) if writers > 0 => writers,
        _ => u64::from(run.summary.sessions),
    }
}

pub(super) fn more_commits_than_syncs(run: &Run) -> Judgement {
    let commits = run.summary.ops.update;
    let syncs = known(run.details.io.log_syncs, "how often the log was synced is not known")?;
    let writers = writing_sessions(run);
    let unwaited_pct = |waited: u64| (1.0 - waited as f64 / commits as f64) * 100.0;
    if run.details.target.sync_per_commit && syncs.saturating_add(writers) < commits {
        return warning(
            format!(
                "{:.1} % of {commits} commits returned before their log was flushed: the database \
                 counts {syncs} commits that waited for a flush",
                unwaited_pct(syncs),
                commits = whole(commits),
                syncs = whole(syncs)
            ),
            advised(
                &run.details.target.advice.wait_for_commits,
                "Have each commit wait until its log is on storage.",
            ),
        )
        .with(json!({
            "commits": commits, "log_syncs": syncs, "unwaited_pct": unwaited_pct(syncs),
        }));
    }
    // A sync on its way at either bound may cover one more commit of each session.
    let covered = syncs.saturating_add(1).saturating_mul(writers);
    if commits > covered {
        return warning(
            format!(
                "{commits} commits with {syncs} log syncs by {writers} writing sessions: one sync \
                 covers at most one commit of each session, so at least {:.1} % of the commits were \
                 not waited for",
                unwaited_pct(covered), commits = whole(commits), syncs = whole(syncs), writers = whole(writers)),
            "Look for asynchronous commit, a delayed flush, or a log on memory.",
        )
        .with(json!({
            "commits": commits, "log_syncs": syncs, "unwaited_pct": unwaited_pct(covered),
            "writing_sessions": writers,
        }));
    }
    let each = commits as f64 / syncs.max(1) as f64;
    clear_if(each <= COMMITS_PER_SYNC_MIN)?;
    info(
        format!("{} commits per log sync: sessions share their syncs", decimal(each, 1)),
        "Nothing to do: compare commit rates only at equal session counts.",
    )
    .named("group-commit")
    .with(json!({ "commits": commits, "log_syncs": syncs }))
}

pub(super) fn deferred_writes(run: &Run) -> Judgement {
    let checkpoints = known(checkpoints(run), "the engine does not count checkpoints")?;
    clear_if(checkpoints > 0)?;
    let how = run.details.target.checkpoint.as_deref().unwrap_or("how is not known");
    warning(
        format!(
            "no checkpoint ended within the run (checkpoints: {how}): the changed blocks were \
             left to be written after it"
        ),
        "Run longer, until at least one whole checkpoint cycle lies in the run.",
    )
    .with(json!({
        "checkpoints": checkpoints, "elapsed_s": run.summary.elapsed_s,
        "physical_write_bytes": run.details.io.physical_write_bytes,
    }))
}

/// Images of whole blocks in the log: many after a checkpoint, few before the next one.
pub(super) fn block_images(run: &Run) -> Judgement {
    let images = run.summary.counter(CommonCounter::BlockImages);
    let (Some(images @ 1..), Some(0)) = (images, checkpoints(run)) else {
        return Err(Clear); // Whole cycles have their mean of them, and not all engines log any.
    };
    let rows = run.summary.rows.update;
    let share = |images: u64, rows: u64| images as f64 * 100.0 / rows.max(1) as f64;
    let timeline = &run.details.timeline;
    // The last, short second has no figures.
    let known = timeline.iter().rfind(|second| second.block_images.is_some());
    let known_s = known.map_or(0.0, Second::end_s);
    let part = (known_s / 10.0).ceil();
    let of = |from_s: f64, to_s: f64| {
        let seconds = figures::seconds_within(timeline, from_s, to_s);
        let images: Option<u64> = seconds.iter().map(|second| second.block_images).sum();
        Some(share(images?, seconds.iter().map(|second| second.rows.update).sum()))
    };
    let (first, last) = (of(0.0, part), of(known_s - part, known_s));
    let fell = first.zip(last).map_or_else(String::new, |(first, last)| {
        format!(
            ": {first} in the first {part} s, {last} in the last {part} s",
            first = decimal(first, 1),
            last = decimal(last, 1)
        )
    });
    warning(
        format!(
            "the run lies within one checkpoint cycle, which begins with a checkpoint before it: \
             the log holds {images} images of whole blocks, {} for each 100 updated rows{fell}",
            decimal(share(images, rows), 1), images = whole(images)),
        "Log volume and log latency are those of a cycle's begin. Run for a whole checkpoint cycle.",
    )
    .with(json!({
        (CommonCounter::BlockImages.name()): images, "rows_updated": rows,
        "per_100_rows_first": first, "per_100_rows_last": last,
    }))
}

/// A database that does not time its waits for the log.
pub(super) fn log_untimed(run: &Run) -> Judgement {
    clear_if(!run.is_log_untimed())?;
    let syncs = run.details.io.log_syncs;
    info(
        "the database does not time its waits for the log: how long commits waited is unknown, and \
         is in the remainder of DB time, with CPU",
        "Judge commits by the latency of UPDATEs, and the log's device by the device's own figures.",
    )
    .with(json!({ "log_syncs": syncs }))
}

pub(super) fn moved_rows(run: &Run) -> Judgement {
    let sizes = run.details.data_bytes_before.zip(run.details.data_bytes_after);
    let moved = run.summary.counter(CommonCounter::RowsMoved);
    if let Some(rows @ 1..) = moved {
        return counted_moves(run, rows, sizes);
    }
    clear_if(run.details.data_vanished.is_some())?; // What is gone has not grown.
    if let Some((before, after)) = sizes.filter(|(before, after)| before != after) {
        return warning(
            format!(
                "the data changed its size in the run, from {before} to {after} bytes: updates did \
                 not stay in place",
                before = whole(before),
                after = whole(after)
            ),
            "Check the placement with petal check and load again: one row per block is lost.",
        )
        .with(json!({ "data_bytes_before": before, "data_bytes_after": after }));
    }
    match run.summary.counter(CommonCounter::RowsFollowed) {
        Some(followed) => followed_rows(run, followed),
        None if moved.is_some() || sizes.is_some() => Err(Clear),
        None => unknown("the size of the data before or after the run is not known"),
    }
}

fn followed_rows(run: &Run, followed: u64) -> Judgement {
    let rows = run.summary.rows.total();
    clear_if(followed as f64 <= rows as f64 * FOLLOWED_SHARE_MAX)?;
    warning(
        format!(
            "the database followed {followed} rows into a second block while {rows} were visited: \
             rows have moved, or are longer than a block",
            followed = whole(followed),
            rows = whole(rows)
        ),
        "Load again: a row that moved costs a second read. Other work on the instance counts here \
         too.",
    )
    .with(json!({ (CommonCounter::RowsFollowed.name()): followed, "rows": rows }))
}

/// Reads that wrote: blocks whose last writer's commit was noted only when they were read.
pub(super) fn reads_wrote(run: &Run) -> Judgement {
    // Only one engine's blocks are finished by their readers.
    let cleaned = run.summary.counter(CommonCounter::BlocksCleaned).ok_or(Clear)?;
    let rows = run.summary.rows.total();
    clear_if(run.summary.rows.update > 0 || cleaned as f64 <= rows as f64 * CLEANED_SHARE_MAX)?;
    warning(
        format!(
            "reads changed {cleaned} blocks while {rows} rows were visited, to note commits of an \
             earlier load or run: this run of SELECTs wrote blocks and log",
            rows = whole(rows),
            cleaned = whole(cleaned)
        ),
        "Run it again: each block is finished once. If it stays, other sessions write meanwhile.",
    )
    .with(json!({ (CommonCounter::BlocksCleaned.name()): cleaned, "rows": rows }))
}

fn counted_moves(run: &Run, rows: u64, sizes: Option<(u64, u64)>) -> Judgement {
    let updated = run.summary.rows.update;
    let share = rows as f64 / updated.max(rows) as f64;
    let message = format!(
        "{rows} of {updated} updated rows ({:.2} %) moved to another block: theirs was full of \
         versions that somebody might still have seen",
        share * 100.0,
        rows = whole(rows),
        updated = whole(updated)
    );
    let found = if share < ROWS_MOVED_SHARE_MAX {
        info(
            message,
            "Little data that many sessions update at once does that; more blocks for each session \
             (SCALE) keep every row in place.",
        )
    } else {
        warning(
            message,
            "Look for a transaction that stays open for long in any database of the server, or give \
             each session more blocks (SCALE); then load again.",
        )
    };
    found.with(json!({
        "rows_moved": rows, "rows_updated": updated,
        "data_bytes_before": sizes.map(|sizes| sizes.0),
        "data_bytes_after": sizes.map(|sizes| sizes.1),
    }))
}

pub(super) fn small_log_waits(run: &Run) -> Judgement {
    if !run.is_counted() {
        return unknown("the waits of the sessions are not known");
    }
    let waits = run.summary.waits.iter().filter(|w| w.class == WaitClass::Configuration);
    let time_s: f64 = waits.map(|wait| wait.time_us).sum::<f64>() / 1e6;
    let share = known(
        run.share_of_db_time(time_s * 1e6),
        "DB time is not known, or waits for several blocks at once overlap in it",
    )?;
    clear_if(share <= LOG_WAIT_SHARE_MAX)?;
    warning(
        format!("{:.1} % of DB time waited for room in the log or a buffer", share * 100.0),
        "Make the log larger, so that switches and checkpoints keep up.",
    )
    .with(json!({ "configuration_wait_s": time_s, "db_time_s": run.details.db_time_s }))
}

/// Checkpoints that the log's size forced: counted by a server; all checkpoints if petal itself
/// checkpoints by that size.
pub(super) fn small_log_cadence(run: &Run) -> Judgement {
    let advice = &run.details.target.advice;
    let counted = run.summary.counter(CommonCounter::CheckpointsByLogSize);
    let forced = match counted {
        None if run.details.target.in_process => checkpoints(run),
        None => return unknown("which checkpoints the log's size forced is not known"),
        counted => counted,
    };
    let checkpoints = forced.filter(|&checkpoints| checkpoints >= 2).ok_or(Clear)?;
    let every_s = run.summary.elapsed_s / checkpoints as f64;
    clear_if(every_s >= CHECKPOINT_EVERY_S_MIN)?;
    let message = format!("the log filled and forced a checkpoint every {} s", decimal(every_s, 1));
    let finding = match counted {
        Some(_) => warning(
            message,
            advised(&advice.enlarge_log, "Make the log larger, so that time and not size decides."),
        ),
        None => info(
            message,
            advised(
                &advice.checkpoints_by_log_size,
                "A larger log would write blocks that are changed twice only once.",
            ),
        ),
    };
    finding.with(json!({ "checkpoints": checkpoints, "elapsed_s": run.summary.elapsed_s }))
}

pub(super) fn free_block_waits(run: &Run) -> Judgement {
    // Other engines have no such wait, or time it as a wait event.
    let waits = run.summary.counter(CommonCounter::FreeBlockWaits).ok_or(Clear)?;
    let updated = run.summary.ops.update;
    clear_if(waits as f64 <= updated as f64 * FREE_BLOCK_WAITS_SHARE_MAX)?;
    warning(
        format!(
            "sessions waited {waits} times for a free block in the database's cache, in {updated} \
             UPDATEs: changed blocks are not written as fast as others are read",
            updated = whole(updated),
            waits = whole(waits)
        ),
        advised(&run.details.target.advice.write_faster, "Let changed blocks be written faster."),
    )
    .with(json!({ (CommonCounter::FreeBlockWaits.name()): waits, "updates": updated }))
}

pub(super) fn purge_lags(run: &Run) -> Judgement {
    // Only some databases keep old versions apart.
    let more = run.summary.counter(CommonCounter::UnpurgedTransactions).ok_or(Clear)?;
    let updates = run.summary.ops.update;
    let most = (updates as f64 * UNPURGED_SHARE_MAX).max(UNPURGED_MAX as f64);
    clear_if(more as f64 <= most)?;
    warning(
        format!(
            "the old versions of {more} more transactions were kept at the run's end than at its \
             begin, of {updates} UPDATEs: their removal, and its I/O, is left for later",
            more = whole(more),
            updates = whole(updates)
        ),
        advised(&run.details.target.advice.purge_faster, "Run longer, or update less."),
    )
    .with(json!({ (CommonCounter::UnpurgedTransactions.name()): more, "updates": updates }))
}

pub(super) fn log_not_reset(run: &Run) -> Judgement {
    let failures = run.summary.counter(CommonCounter::LogResetFailures).filter(|&count| count > 0);
    let failures = failures.ok_or(Clear)?;
    let largest = run.summary.counter(CommonCounter::LogBytesMax);
    let grown = largest.map_or(String::new(), |bytes| format!("; it grew to {}", size(bytes)));
    warning(
        format!(
            "readers kept the log from being reset {failures} times{grown}",
            failures = whole(failures)
        ),
        "Expect slower reads late in the run; use fewer readers or a smaller WORK_UNIT.",
    )
    .with(json!({
        (CommonCounter::LogResetFailures.name()): failures,
        (CommonCounter::LogBytesMax.name()): largest,
    }))
}

pub(super) fn vacuum(run: &Run) -> Judgement {
    match run.summary.counter(CommonCounter::Vacuums) {
        Some(0) => Err(Clear),
        Some(vacuums) => info(
            format!("{} vacuums ran within the run and took part of the I/O", whole(vacuums)),
            "Let them end before the run, or keep every compared run the same.",
        )
        .with(json!({ "vacuums": vacuums })),
        None if run.details.target.in_process => Err(Clear),
        None => unknown("the database does not count vacuums"),
    }
}
