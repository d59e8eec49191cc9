//! Promises about whole runs of petal's.

use std::sync::Arc;

use petal_engine::{Engine, Silent};
use petal_record::counters::CommonCounter;
use petal_record::{Rows, Run, SessionLost};
use petal_workload::row::COLUMNS;

use super::counting::{CountedFigure, CountedWork, Surroundings, of_all};
use super::data::{in_ranges, placement_words};
use super::{
    EXECUTE, Of as _, PromiseResult, Provable, SCAN_ROWS, TriedPromise, Unproved, figure, held,
    hold,
};

/// Most blocks that reads may clean, for each hundred rows.
const CLEANED_PCT_MAX: u64 = 1;

type RunParameters<'a> = &'a [(&'static str, &'a str)];

/// A run that ended well and visited the rows that were asked for.
fn run(subject: &dyn Provable, parameters: RunParameters<'_>) -> PromiseResult<Run> {
    let run = subject.run(parameters)?;
    if let Some(SessionLost { session, code, message, .. }) = run.summary.sessions_lost.first() {
        let seen = format!("session {session} was lost: {message} ({code})");
        return Err(Unproved::Failed { item: EXECUTE, code: code.clone(), seen });
    }
    if let Some((code, count)) = run.summary.errors.first_key_value() {
        let words = format!("{count} operations failed in a conflict with others: {code}");
        return Err(Unproved::Refused(words));
    }
    let (asked, rows) = (&run.summary.rows_asked, &run.summary.rows);
    let words = || match asked {
        Some(asked) => format!("{} of {} rows were visited", words(rows), words(asked)),
        None => "the rows that were asked for are unknown".to_owned(),
    };
    hold!(EXECUTE, asked.as_ref() == Some(rows), "{}", words());
    Ok(run)
}

fn words(rows: &Rows) -> String {
    format!("{} SELECT, {} UPDATE and {} scan", rows.select, rows.update, rows.scan)
}

/// petal's figures of a run, and the server's next to them.
fn both(run: &Run) -> String {
    let (ops, rows, io) = (&run.summary.ops, &run.summary.rows, &run.details.io);
    format!(
        "petal: {} operations, {} UPDATEs, {} rows; the server: {} commits, {} blocks visited, {} \
         read, {} bytes of redo",
        ops.total,
        ops.update,
        rows.select + rows.update + rows.scan,
        figure(io.commits),
        figure(io.logical_reads),
        figure(io.physical_read_blocks),
        figure(io.redo_bytes),
    )
}

/// The server to ask for others' work. A file that only petal opens stays closed, for the run.
fn engine_of_others(subject: &dyn Provable) -> PromiseResult<Option<Arc<dyn Engine>>> {
    (!subject.is_alone()).then(|| subject.open().of(EXECUTE)).transpose()
}

pub fn the_mix_and_fixed_work_are_exact(subject: &dyn Provable) -> PromiseResult {
    let engine = engine_of_others(subject)?;
    let around = Surroundings::look(subject, engine.as_deref())?;
    let ran = around.agree(|| {
        let ran = exact_run(subject)?;
        let seconds = ran.summary.elapsed_s;
        let (ops, io) = (&ran.summary.ops, &ran.details.io);
        let reads = ops.total - ops.update;
        let commits = around.commits("commits of a run", io.commits, ops.update, reads);
        Ok(CountedWork { result: ran, seconds, figures: vec![commits] })
    })?;
    held(both(&ran))
}

/// A run whose operations and rows are exactly as asked.
fn exact_run(subject: &dyn Provable) -> PromiseResult<Run> {
    let parameters = [
        ("THREADS_PER_SCHEMA", "2"),
        ("WORK_LOOP", "600"),
        ("UPDATE_PCT", "30"),
        ("SCAN_PCT", "5"),
        ("WORK_UNIT", "8"),
    ];
    // A server that sums over its sessions may miss one that ends meanwhile, as another's: a sum that
    // falls is unknown.
    let mut ran = run(subject, &parameters)?;
    for _ in 0..2 {
        if ran.details.io.commits.is_some() {
            break;
        }
        ran = run(subject, &parameters)?;
    }
    let (ops, rows) = (&ran.summary.ops, &ran.summary.rows);
    let is_mix = (ops.total, ops.update) == (2400, 720);
    hold!(EXECUTE, is_mix, "{} operations, {} UPDATEs of 2400 and 720", ops.total, ops.update);
    let is_rows = (rows.update, rows.select) == (720 * 8, ops.select * 8);
    hold!(
        EXECUTE,
        is_rows,
        "{} rows of {} SELECTs and {} UPDATEs",
        words(rows),
        ops.select,
        ops.update
    );
    // 420 SELECTs a session: four whole decks of a hundred with 5 each, and 20 of another.
    let are_scans = (80..=100).contains(&ops.scan) && rows.scan == ops.scan * SCAN_ROWS;
    hold!(EXECUTE, are_scans, "{} scans, {} rows", ops.scan, rows.scan);
    Ok(ran)
}

pub fn readers_read_and_writers_write(subject: &dyn Provable) -> PromiseResult {
    let ran = run(subject, &[("READERS", "3"), ("WRITERS", "2"), ("WORK_LOOP", "40")])?;
    let (ops, sessions) = (&ran.summary.ops, ran.summary.sessions);
    let is_right = (ops.select, ops.update, sessions) == (120, 80, 5);
    hold!(EXECUTE, is_right, "{} SELECTs, {} UPDATEs, {sessions} sessions", ops.select, ops.update);
    held(both(&ran))
}

pub fn both_loops_do_the_same_work(subject: &dyn Provable) -> PromiseResult {
    let mut seen = Vec::new();
    for (side, redo) in [("server", "LITE"), ("client", "HEAVY")] {
        let ran = run(
            subject,
            &[
                ("LOOP", side),
                ("REDO_STRESS", redo),
                ("WORK_LOOP", "100"),
                ("UPDATE_PCT", "40"),
                ("SCAN_PCT", "5"),
            ],
        )?;
        let ops = &ran.summary.ops;
        let is_right = (ops.total, ops.update) == (200, 80);
        hold!(EXECUTE, is_right, "LOOP={side}: {} operations, {} UPDATEs", ops.total, ops.update);
        seen.push(format!("LOOP={side}, {redo}: {}", both(&ran)));
    }
    held(seen.join("\n"))
}

pub fn reads_after_a_load_write_nothing(subject: &dyn Provable) -> PromiseResult {
    let ran = run(subject, &[("WORK_LOOP", "200"), ("UPDATE_PCT", "0")])?;
    let Some(cleaned) = ran.summary.counter(CommonCounter::BlocksCleaned) else {
        return Ok(TriedPromise::NotTried(
            "the server does not count blocks that reads clean".to_owned(),
        ));
    };
    let rows = ran.summary.rows.select;
    let is_clean = cleaned * 100 <= rows * CLEANED_PCT_MAX;
    hold!(EXECUTE, is_clean, "{cleaned} blocks cleaned for {rows} rows");
    held(format!("{cleaned} blocks cleaned; {}", both(&ran)))
}

/// Begins and ends without data.
pub fn random_texts_load_in_ranges(subject: &dyn Provable) -> PromiseResult {
    const LOAD: &str = "Engine::load";
    let engine = subject.open().of(LOAD)?;
    let loaded = engine.load(&in_ranges(subject.plan(1)), &Silent, &subject.stop()).of(LOAD)?;
    let placement = loaded.schemas.first().map(|schema| schema.placement.clone());
    let is_placed = placement.as_ref().is_some_and(|placed| placed.is_one_row_per_block());
    let words = placement.as_ref().map_or("no schema".to_owned(), placement_words);
    hold!(LOAD, is_placed, "{words}");
    let row_bytes = engine.column_bytes(subject.plan(1).block_size) * COLUMNS;
    drop(engine);
    let parameters =
        [("SCHEMAS", "1"), ("WORK_LOOP", "100"), ("UPDATE_PCT", "100"), ("REDO_STRESS", "HEAVY")];
    let engine = engine_of_others(subject)?;
    let around = Surroundings::look(subject, engine.as_deref())?;
    let server = engine.as_ref().and_then(|engine| engine.server());
    let ran = around.agree(|| {
        let ran = run(subject, &parameters)?;
        let (updates, rows) = (ran.summary.ops.update, ran.summary.rows.update);
        let redo =
            server.and_then(|server| server.redo_of_updates(updates, rows * row_bytes as u64));
        let figures = ran.details.io.redo_bytes.zip(redo).map(|(is, redo)| CountedFigure {
            what: format!("bytes of redo for {updates} UPDATEs of {rows} rows"),
            figure: of_all(|io| io.redo_bytes),
            is: Some(is),
            least: *redo.start(),
            most: *redo.end(),
        });
        let (seconds, figures) = (ran.summary.elapsed_s, figures.into_iter().collect());
        Ok(CountedWork { result: ran, seconds, figures })
    })?;
    subject.open().of(LOAD)?.drop_data().of("Engine::drop_data")?;
    held(both(&ran))
}
