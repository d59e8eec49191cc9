//! A sweep as text: the request, the petals in characters, the means of each cell, and the harness
//! table, a row per run. [`csv`] holds the same for a spreadsheet or R.

mod bare_device;
mod brief;
pub mod chart;
mod commits;
pub mod csv;
pub mod design;
pub mod findings;
pub mod peak_run;
pub mod table;

use super::table::{SCREEN_LINES, command, fitting, line, paragraph, rest};
use super::text::{bullets, section};
pub(crate) use brief::{answer, highest, load_unit, verdict};
pub use brief::{brief, of_petals};
use petal_host::numbers::counted;
use petal_judge::petals::Petals;
use petal_record::observation::Observation;
use petal_record::sweep::{Axis, Swept};
use petal_record::target::Target;
use petal_record::{Run, Status};
use petal_settings::objective::Objective;
use table::SweepRows;

/// The whole report, at most 100 columns wide but for long names, without colors.
pub fn render(swept: &Swept, petals: &Petals, objective: Option<&Objective>) -> String {
    let mut out = String::new();
    head(&mut out, swept, petals);
    if let Some(run) = &swept.peak_run {
        section(&mut out, "what limits it", "the last run, at the peak");
        for (name, words) in peak_run::lines(run) {
            out.push_str(&paragraph(name, "  ", &words));
        }
        let (table, notes) = peak_run::experiments(run);
        out.push_str(&format!("\n{}", table.render()));
        bullets(&mut out, notes);
    }
    let rows = SweepRows::of(swept);
    section(
        &mut out,
        "petals: PIOPS against single-block read",
        "the engine's counts, means of repeats",
    );
    out.push_str(&chart::petals(petals));
    out.push_str(&super::petals_text::lines(petals, objective));
    bullets(&mut out, design::found(swept));
    super::petals_text::writer_costs(&mut out, petals);
    findings::render(&mut out, swept, petals);
    let layer = "the engine's counts and petal's, of the counted window";
    section(&mut out, "means of each cell", layer);
    out.push_str(&table::means(&rows));
    section(&mut out, "every run", layer);
    out.push_str(&table::runs(&rows, &[]));
    footnotes(&mut out, swept);
    out
}

/// Reports several runs outside of a sweep, each with a name and a row. Incomplete runs are named,
/// and databases are compared with the bare device if it ran with the same parameters.
pub fn of_runs(named: &[(&str, &Run)]) -> String {
    let runs: Vec<&Run> = named.iter().map(|(_, run)| *run).collect();
    let mut shown = rows_of_runs(named, &runs, &[]);
    let found = findings::of_rows(&runs);
    if !found.is_empty() {
        shown.push('\n');
        bullets(&mut shown, found);
    }
    shown
}

/// Columns of runs that a narrower terminal has no room for.
const OPTIONAL: [&str; 7] =
    ["idle%", "MB/s", "redo", "upd p50", "sel p50", "commit wait s", "per log sync"];
/// Lines of petals with a verdict above a table of runs.
const VERDICTS_MAX: usize = 3;

/// Lays out several runs on one screen: a verdict for each mix, as many rows as fit, and the gravest
/// findings.
pub fn brief_of_runs(named: &[(&str, &Run)]) -> String {
    let runs: Vec<&Run> = named.iter().map(|(_, run)| *run).collect();
    let found = findings::of_rows(&runs);
    let seen = named.iter().map(|(name, run)| Observation::of_run(name, Vec::new(), run));
    let petals = Petals::of(&seen.collect::<Vec<_>>());
    let verdicts = petals.lines.iter().take(VERDICTS_MAX);
    let begin: String =
        verdicts.map(|line| paragraph("", "  ", &brief::verdict(line, None))).collect();
    let begin = begin + "\n";
    let few = named.len().min(2);
    let of_two = rows_of_runs(&named[..few], &runs[..few], &OPTIONAL);
    let room = SCREEN_LINES.saturating_sub(begin.lines().count() + of_two.lines().count() + 2);
    let end = format!("\n{}", brief::gravest(&found, room, "with --full"));
    let text = |count: usize| {
        let more = rest(named.len() - count, "run", "with --full");
        rows_of_runs(&named[..count], &runs[..count], &OPTIONAL) + &more
    };
    let lines = SCREEN_LINES.saturating_sub(begin.lines().count() + end.lines().count());
    begin + &fitting(named.len(), lines, text) + &end
}

fn rows_of_runs(named: &[(&str, &Run)], runs: &[&Run], optional: &[&str]) -> String {
    let mut shown = table::runs(&SweepRows::of_runs(runs), optional);
    shown.push_str(&format!("\n{}", commits::table(named, optional)));
    for (position, run) in runs.iter().enumerate() {
        if run.summary.status != Status::Complete {
            shown.push_str(&format!("row {}: {}\n", position + 1, run.summary.status.name()));
        }
    }
    for line in bare_device::lines(runs) {
        shown.push_str(&paragraph("", "  ", &line));
    }
    shown
}

fn head(out: &mut String, swept: &Swept, petals: &Petals) {
    let sweep = &swept.sweep;
    let plan = &sweep.plan;
    out.push_str(&line(&format!("petal {} sweep report", sweep.petal_version)));
    out.push('\n');
    if let Some(answer) = answer(swept, petals) {
        fact(out, "verdict", &answer);
    }
    if !petals.next.is_empty() {
        out.push_str(&command(&format!("{:<17} ", "next"), &petals.next));
    }
    fact(out, "status", &design::state(swept));
    let targets =
        targets(swept, |target| format!("{} {}, {}", target.product, target.version, target.url));
    match targets.as_slice() {
        [] => fact(out, "target", &sweep.engine),
        [target] => fact(out, "target", target),
        several => fact(out, "targets", &format!("{}: {}", several.len(), several.join("; "))),
    }
    if let Some(run) = swept.runs.first() {
        let active = super::numbers::bytes(run.summary.active_bytes);
        let schemas = counted(run.summary.schemas, "schema");
        let same = |other: &Run| other.summary.active_bytes == run.summary.active_bytes;
        let which = if swept.runs.iter().all(same) { "" } else { ", in the first run" };
        fact(out, "active data set", &format!("{active} in {schemas}{which}"));
    }
    for Axis { key, values } in &plan.axes {
        fact(out, key, &values.join(", "));
    }
    match plan.design.is_grid() {
        true => fact(out, "repeats", &format!("{}, interleaved", plan.repeats)),
        false => fact(out, "runs", &design::repeats(plan)),
    }
    fact(out, "seed", &plan.seed.to_string());
    fact(out, "started", &sweep.started_at);
    let reported = ["run_time", "work_loop", "work_unit", "redo_stress", "direct_io"];
    let settings = reported.iter().filter_map(|key| {
        let value = plan.settings.get(*key).filter(|value| !value.is_null())?;
        Some(format!("{}={}", key.to_ascii_uppercase(), value.to_string().trim_matches('"')))
    });
    fact(out, "settings", &settings.collect::<Vec<_>>().join(", "));
}

/// Lists one text of each target of the runs, each once.
pub(super) fn targets(swept: &Swept, shown: fn(&Target) -> String) -> Vec<String> {
    super::distinct(swept.runs.iter().map(|run| shown(&run.summary.target)))
}

fn fact(out: &mut String, name: &str, value: &str) {
    out.push_str(&paragraph(&format!("{name:<17} "), &" ".repeat(18), value));
}

/// Cells that are in no mean, or measured nothing, or lost sessions.
pub(super) fn not_in_means(swept: &Swept) -> Vec<String> {
    let cells = swept.sweep.cells.iter().zip(swept.observations()).filter_map(|(cell, seen)| {
        let why = seen.why_unusable()?;
        Some(format!("{}: {why}; it is in no mean.", cell.folder))
    });
    let failures = swept.sweep.failures.iter().map(|failure| {
        let (number, repeat) = (failure.number, failure.repeat);
        format!("cell {number} of round {repeat} has no figures: {}", failure.message)
    });
    cells.chain(failures).collect()
}

fn footnotes(out: &mut String, swept: &Swept) {
    section(out, "how to read this", "");
    let mut notes = not_in_means(swept);
    notes.extend(
        [
            "`-` is unknown. It is never a zero. us are microseconds, MB millions of bytes.",
            "Figures are of each run's counted window: all surviving sessions ran, and the warm-up \
             was over. The finding whole-run names runs that do not know theirs.",
            "read us is the mean single-block read as the engine timed it; sel and upd are \
             whole operations on petal's clock, in us. The two are never mixed.",
            "redo is MB/s of log; idle% the processors' idle time.",
            "spread is the largest less the smallest PIOPS of the repeats, in percent of their \
             mean.",
            "Each run's own report is in its folder; sweep.csv has every figure.",
        ]
        .map(str::to_owned),
    );
    bullets(out, notes);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use petal_record::fixture;
    use petal_record::sweep::{FORMAT, Sweep, SweepCell, SweepPlan};

    /// Two lines of three session counts, two repeats, one cell of them missing.
    pub(crate) fn swept() -> Swept {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let mut plan = SweepPlan {
            axes: vec![axis("update_pct", &["0", "20"]), axis("sessions", &["1", "4", "16"])],
            repeats: 2,
            seed: 7,
            ..SweepPlan::default()
        };
        plan.settings.insert("run_time".into(), 60.into());
        let plan = petal_record::sweep_order::with_order(plan);
        let factors = plan.cells();
        let (mut cells, mut runs) = (Vec::new(), Vec::new());
        for turn in petal_record::sweep_order::cell_runs(&plan) {
            if (turn.number, turn.repeat) == (5, 2) {
                continue;
            }
            let factors = factors[turn.number as usize - 1].clone();
            let folder = plan.folder_name(turn.number, &factors, turn.repeat);
            let mut run = fixture::mixed_run();
            let at = f64::from((turn.number - 1) % 3);
            let writes = if turn.number > 3 { 0.2 } else { 0.0 };
            let reads = 4000.0 * (1.0 + at) * (1.0 - writes) + 40.0 * f64::from(turn.repeat);
            run.summary.per_second.physical_read_requests = Some(reads);
            run.summary.per_second.physical_write_requests = Some(reads * writes);
            run.summary.io_latency_us.get_mut("read").unwrap().mean =
                Some(100.0 + 60.0 * at * at + 40.0 * writes);
            if turn.number <= 3 {
                run.summary.latency_us.remove("update");
                run.summary.per_second.redo_bytes = None;
            }
            run.details.repeat = turn.repeat;
            cells.push(SweepCell {
                number: turn.number,
                repeat: turn.repeat,
                factors,
                folder,
                status: Status::Complete,
            });
            runs.push(run);
        }
        let sweep = Sweep {
            format: FORMAT.to_owned(),
            petal_version: "0.1.0".to_owned(),
            engine: "sqlite".to_owned(),
            started_at: "2026-11-20T13:42:07Z".to_owned(),
            status: Status::Interrupted,
            plan,
            cells,
            failures: Vec::new(),
            skipped: Vec::new(),
            replay: None,
        };
        Swept { sweep, runs, peak_run: None, is_at_work: false }
    }

    #[test]
    fn a_sweep_with_a_cell_missing() {
        let petals = Petals::of(&swept().observations());
        let shown = render(&swept(), &petals, None);
        for line in shown.lines() {
            assert!(line.chars().count() <= super::super::table::WIDTH, "{line}");
            assert_eq!(line, line.trim_end());
        }
        // Another test covers the look of the chart.
        let shown = shown.replace(&chart::petals(&petals), "(the chart)\n");
        insta::assert_snapshot!(shown, @"
        petal 0.1.0 sweep report

        verdict           not judged by petal; peak 12,060 PIOPS at UPDATE_PCT 0 with 16 sessions
        status            11 of 12 runs done; not complete: the same command goes on with it
        target            SQLite 3.54.1, sqlite:petal-data
        active data set   256 MiB in 4 schemas
        update_pct        0, 20
        sessions          1, 4, 16
        repeats           2, interleaved
        seed              7
        started           2026-11-20T13:42:07Z
        settings          RUN_TIME=60

        PETALS: PIOPS AGAINST SINGLE-BLOCK READ                      [the engine's counts, means of repeats]
        ====================================================================================================
        (the chart)
        - UPDATE_PCT 0: peak 16 sessions (12,060 PIOPS, 340.0 us)
        - UPDATE_PCT 20: peak 16 sessions (11,592 PIOPS, 348.0 us)

        FINDINGS                                                       [all runs together, then single runs]
        ====================================================================================================
        - whole-run: figures are of the whole run and not of its counted window in every run (the counted
          window's counters are not known)

        MEANS OF EACH CELL                          [the engine's counts and petal's, of the counted window]
        ====================================================================================================
        sess  upd%  n  spread   PIOPS  read/s  write/s  MB/s  read us  ops/s  redo  idle%
        ----  ----  -  ------  ------  ------  -------  ----  -------  -----  ----  -----
        1        0  2    1.0%   4,060   4,060     0.00   569    100.0    914     -   25.0
        4        0  2    0.5%   8,060   8,060     0.00   569    160.0    914     -   25.0
        16       0  2    0.3%  12,060  12,060     0.00   569    340.0    914     -   25.0
        1       20  2    1.2%   3,912   3,260      652   569    108.0    914  96.2   25.0
        4       20  1       -   7,728   6,440    1,288   569    168.0    914  96.2   25.0
        16      20  2    0.4%  11,592   9,660    1,932   569    348.0    914  96.2   25.0

        EVERY RUN                                   [the engine's counts and petal's, of the counted window]
        ====================================================================================================
        sess  upd%  rep  read/s  write/s  MB/s  read us  sel p50  sel p99  upd p50  upd p99  redo  idle%
        ----  ----  ---  ------  -------  ----  -------  -------  -------  -------  -------  ----  -----
        1        0    1   4,040     0.00   569    100.0    7,377   10,002        -        -     -   25.0
        1        0    2   4,080     0.00   569    100.0    7,377   10,002        -        -     -   25.0
        4        0    1   8,040     0.00   569    160.0    7,377   10,002        -        -     -   25.0
        4        0    2   8,080     0.00   569    160.0    7,377   10,002        -        -     -   25.0
        16       0    1  12,040     0.00   569    340.0    7,377   10,002        -        -     -   25.0
        16       0    2  12,080     0.00   569    340.0    7,377   10,002        -        -     -   25.0
        1       20    1   3,240      648   569    108.0    7,377   10,002   12,698   16,351  96.2   25.0
        1       20    2   3,280      656   569    108.0    7,377   10,002   12,698   16,351  96.2   25.0
        4       20    1   6,440    1,288   569    168.0    7,377   10,002   12,698   16,351  96.2   25.0
        16      20    1   9,640    1,928   569    348.0    7,377   10,002   12,698   16,351  96.2   25.0
        16      20    2   9,680    1,936   569    348.0    7,377   10,002   12,698   16,351  96.2   25.0

        HOW TO READ THIS
        ====================================================================================================
        - `-` is unknown. It is never a zero. us are microseconds, MB millions of bytes.
        - Figures are of each run's counted window: all surviving sessions ran, and the warm-up was over.
          The finding whole-run names runs that do not know theirs.
        - read us is the mean single-block read as the engine timed it; sel and upd are whole operations on
          petal's clock, in us. The two are never mixed.
        - redo is MB/s of log; idle% the processors' idle time.
        - spread is the largest less the smallest PIOPS of the repeats, in percent of their mean.
        - Each run's own report is in its folder; sweep.csv has every figure.
        ");
    }

    #[test]
    fn every_target_is_named() {
        let mut swept = swept();
        swept.runs[1].summary.target.url = "sqlite:other".to_owned();
        let shown = render(&swept, &Petals::of(&swept.observations()), None);
        let targets =
            "targets           2: SQLite 3.54.1, sqlite:petal-data; SQLite 3.54.1, sqlite:other\n";
        assert!(shown.contains(targets), "{shown}");
    }

    #[test]
    fn runs_that_are_not_complete_are_named() {
        let (whole, mut cut) = (fixture::mixed_run(), fixture::mixed_run());
        cut.summary.status = Status::Interrupted;
        assert!(of_runs(&[("whole", &whole), ("cut", &cut)]).ends_with("row 2: interrupted\n"));
    }

    #[test]
    fn a_sweep_whose_cells_all_failed_begins_with_the_first_reason() {
        let mut swept = swept();
        (swept.sweep.cells, swept.runs) = Default::default();
        let message = "petal1.db: another petal run uses this file".to_owned();
        swept.sweep.failures =
            vec![petal_record::sweep::CellFailure { number: 1, repeat: 1, message }];
        let petals = Petals::of(&swept.observations());
        let words = "no run has figures: petal1.db: another petal run uses this file";
        let shown = render(&swept, &petals, None);
        let second = shown.lines().nth(2).unwrap();
        assert!(second.starts_with("verdict") && second.ends_with(words), "{shown}");
        assert!(brief(&swept, &petals, None, "x").starts_with(&words[..18]));
    }

    #[test]
    fn failed_runs_are_named_and_in_no_mean() {
        let mut swept = swept();
        let at = swept.sweep.cells.iter().position(|cell| cell.number == 1).unwrap();
        swept.runs[at].summary.status = Status::Failed;
        swept.sweep.failures.push(petal_record::sweep::CellFailure {
            number: 5,
            repeat: 2,
            message: "the server went away".to_owned(),
        });
        let shown = render(&swept, &Petals::of(&swept.observations()), None);
        assert!(
            shown.contains("cell001-update_pct0-sessions1-r1: it failed; it is in no mean."),
            "{shown}"
        );
        assert!(shown.contains("cell 5 of round 2 has no figures: the server went away"));
        let means = table::means(&SweepRows::of(&swept));
        let first = means.lines().nth(2).unwrap();
        assert_eq!(first.split_whitespace().nth(2), Some("1"), "{first}");
    }
}
