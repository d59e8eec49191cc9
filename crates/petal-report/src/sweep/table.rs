//! The harness table of a sweep: a row per run, and the means of each cell.

use std::collections::BTreeMap;

use super::super::numbers::{micros, or_dash, rate};
use super::super::table::{Cell, Table, line};
use petal_judge::{by_key, not_storage, of_one_test};
use petal_record::Run;
use petal_record::observation::{Observation, metric};
use petal_record::sweep::Swept;

/// Factors that have a column of their own; all others head a table.
const IN_COLUMNS: [&str; 2] = ["sessions", "update_pct"];

pub struct SweepRow {
    pub seen: Observation,
    /// Position in the plan.
    pub number: u32,
    /// True if it counts in means.
    pub is_whole: bool,
}

/// The runs of a sweep, by cell and repeat.
pub struct SweepRows(pub Vec<SweepRow>);

pub struct CellRows<'a> {
    /// Runs that count in means.
    rows: Vec<&'a SweepRow>,
    first: &'a SweepRow,
}

impl SweepRows {
    pub fn of(swept: &Swept) -> Self {
        let cells = swept.sweep.cells.iter().zip(swept.observations());
        let mut rows: Vec<SweepRow> = cells
            .map(|(cell, seen)| SweepRow {
                number: cell.number,
                is_whole: seen.why_unusable().is_none(),
                seen,
            })
            .collect();
        rows.sort_by_key(|row| (row.number, row.seen.repeat));
        Self(rows)
    }

    pub fn of_runs(runs: &[&Run]) -> Self {
        // If targets differ, each heads its rows.
        let first = runs.first().map(|run| &run.summary.target.url);
        let differ = runs.iter().any(|run| Some(&run.summary.target.url) != first);
        let rows = (1..).zip(runs).map(|(number, run)| {
            let update_pct = or_dash(run.summary.setting("update_pct"), ToString::to_string);
            let mut factors = vec![
                ("update_pct".to_owned(), update_pct),
                ("sessions".to_owned(), run.summary.sessions.to_string()),
            ];
            if differ {
                factors.push(("db".to_owned(), run.summary.target.url.clone()));
            }
            let seen = Observation::of_run("", factors, run);
            SweepRow { number, is_whole: seen.why_unusable().is_none(), seen }
        });
        Self(rows.collect())
    }

    pub fn cells(&self) -> Vec<CellRows<'_>> {
        let mut cells: BTreeMap<u32, CellRows<'_>> = BTreeMap::new();
        for row in &self.0 {
            let cell = cells.entry(row.number).or_insert(CellRows { rows: Vec::new(), first: row });
            cell.rows.extend(Some(row).filter(|row| row.is_whole));
        }
        // The runs of the cell's point in the petals: a cell has one mean.
        for cell in cells.values_mut() {
            let seen: Vec<&Observation> = cell.rows.iter().map(|row| &row.seen).collect();
            let (kept, _) = of_one_test(&seen);
            cell.rows.retain(|row| kept.iter().any(|seen| std::ptr::eq(*seen, &row.seen)));
        }
        cells.into_values().collect()
    }
}

/// A figure of a run or a cell, struck out if it is no result.
fn figure(text: String, name: &str, is_storage: bool) -> Cell {
    Cell::figure(text, !is_storage && metric::is_of_storage(name))
}

impl CellRows<'_> {
    fn is_storage(&self) -> bool {
        self.rows.iter().all(|row| not_storage(&row.seen).is_none())
    }

    fn known(&self, name: &str) -> Vec<f64> {
        self.rows.iter().filter_map(|row| row.seen.metric(name)).collect()
    }

    /// Returns the mean over the repeats; None if one of them lacks the figure.
    pub fn mean(&self, name: &str) -> Option<f64> {
        let known = self.known(name);
        let is_whole = !known.is_empty() && known.len() == self.rows.len();
        is_whole.then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// Largest less smallest, in percent of the mean; None of one repeat.
    fn spread_pct(&self, name: &str) -> Option<f64> {
        let known = self.known(name);
        let mean = self.mean(name).filter(|mean| known.len() > 1 && *mean > 0.0)?;
        let largest = known.iter().copied().fold(f64::MIN, f64::max);
        let smallest = known.iter().copied().fold(f64::MAX, f64::min);
        Some((largest - smallest) / mean * 100.0)
    }
}

/// Format of a figure: its column, its name, and its words.
type FigureColumn = (&'static str, &'static str, fn(f64) -> String);

const IDLE: FigureColumn = ("idle%", metric::CPU_IDLE, |pct| format!("{pct:.1}"));

const OF_RUNS: [FigureColumn; 10] = [
    ("read/s", metric::READS, rate),
    ("write/s", metric::WRITES, rate),
    ("MB/s", metric::MB, rate),
    ("read us", metric::READ_US, micros),
    ("sel p50", "select_p50_us", micros),
    ("sel p99", "select_p99_us", micros),
    ("upd p50", "update_p50_us", micros),
    ("upd p99", "update_p99_us", micros),
    ("redo", metric::REDO_MB, rate),
    IDLE,
];

/// Figures of means; percentiles are left out, because they cannot be averaged.
const OF_MEANS: [FigureColumn; 8] = [
    ("PIOPS", metric::PIOPS, rate),
    ("read/s", metric::READS, rate),
    ("write/s", metric::WRITES, rate),
    ("MB/s", metric::MB, rate),
    ("read us", metric::READ_US, micros),
    ("ops/s", metric::OPS, rate),
    ("redo", metric::REDO_MB, rate),
    IDLE,
];

pub fn runs(rows: &SweepRows, optional: &[&str]) -> String {
    let heading = format!("sess | upd% | rep | {}", OF_RUNS.map(|(name, ..)| name).join(" | "));
    let shown = rows.0.iter().map(|SweepRow { seen, .. }| {
        let repeat = or_dash(seen.repeat, |repeat| repeat.to_string());
        let is_storage = not_storage(seen).is_none();
        let figures = OF_RUNS
            .map(|(_, name, show)| figure(or_dash(seen.metric(name), show), name, is_storage));
        (title(seen), [sessions_and_mix(seen), vec![repeat.into()], figures.to_vec()].concat())
    });
    grouped(&heading, shown, optional)
}

/// A row per cell: the means of its repeats, how many they are, and how far PIOPS spread.
pub fn means(rows: &SweepRows) -> String {
    let names = OF_MEANS.map(|(name, ..)| name).join(" | ");
    let cells = rows.cells();
    let shown = cells.iter().map(|cell| {
        let spread = or_dash(cell.spread_pct(metric::PIOPS), |pct| format!("{pct:.1}%"));
        let figures = OF_MEANS
            .map(|(_, name, show)| figure(or_dash(cell.mean(name), show), name, cell.is_storage()));
        let count = cell.rows.len().to_string();
        let seen = &cell.first.seen;
        let spread = figure(spread, metric::PIOPS, cell.is_storage());
        let row = [sessions_and_mix(seen), vec![count.into(), spread], figures.to_vec()].concat();
        (title(seen), row)
    });
    grouped(&format!("sess | upd% | n | spread | {names}"), shown, &[])
}

fn sessions_and_mix(seen: &Observation) -> Vec<Cell> {
    ["sessions", "update_pct"].map(|key| or_dash(seen.factor(key), str::to_owned).into()).to_vec()
}

/// The title of a row's table.
fn title(seen: &Observation) -> String {
    let reported = seen.factors.iter().filter(|(key, _)| !IN_COLUMNS.contains(&key.as_str()));
    reported
        .map(|(key, value)| format!("{} {value}", key.to_ascii_uppercase()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A table for each title of a row, in the order in which titles come; without some of the optional
/// columns on a narrower terminal.
fn grouped(
    heading: &str,
    rows: impl Iterator<Item = (String, Vec<Cell>)>,
    optional: &[&str],
) -> String {
    let shown = by_key(rows).into_iter().map(|(title, rows)| {
        let table = Table::of_figures(heading).with_rows(rows).render_without(optional).0;
        if title.is_empty() { table } else { format!("{}\n{table}", line(&title)) }
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::within;
    use petal_record::fixture;

    #[test]
    fn runs_without_a_sweep_have_a_row_each() {
        let mixed = fixture::mixed_run();
        let mut reads = fixture::mixed_run();
        reads.summary.sessions = 16;
        reads.summary.settings.insert("update_pct".into(), 0.into());
        reads.summary.latency_us.remove("update");
        reads.summary.per_second.redo_bytes = None;
        reads.summary.cpu = None;
        let shown = runs(&SweepRows::of_runs(&[&mixed, &reads]), &[]);
        assert!(
            shown.lines().all(|line| line.chars().count() <= super::super::super::table::WIDTH)
        );
        insta::assert_snapshot!(shown, @r"
        sess  upd%  rep  read/s  write/s  MB/s  read us  sel p50  sel p99  upd p50  upd p99  redo  idle%
        ----  ----  ---  ------  -------  ----  -------  -------  -------  -------  -------  ----  -----
        8       20    1  59,432   10,000   569     84.3    7,377   10,002   12,698   16,351  96.2   25.0
        16       0    1  59,432   10,000   569     84.3    7,377   10,002        -        -     -      -
        ");
    }

    #[test]
    fn a_cell_has_the_mean_of_its_petals() {
        use petal_record::headline::Tested;
        let swept = super::super::tests::swept();
        let mut rows = SweepRows::of(&swept);
        let verdict = |row: &mut SweepRow, tested| {
            row.seen.headline.get_or_insert_default().verdict.tested = tested;
        };
        let first = rows.0[0].number;
        let of_cell = rows.0.iter_mut().filter(|row| row.number == first);
        let mut of_cell: Vec<_> = of_cell.collect();
        assert!(of_cell.len() > 1);
        of_cell.iter_mut().for_each(|row| verdict(row, Tested::Device));
        verdict(of_cell[0], Tested::SharedProcessors);
        of_cell[0].seen.metrics.insert(metric::PIOPS.to_owned(), 1e6);
        let seen: Vec<Observation> = rows.0.iter().map(|row| row.seen.clone()).collect();
        let petals = petal_judge::petals::Petals::of(&seen);
        let point = petals.lines.iter().flat_map(|line| &line.points).find(|it| it.left_out > 0);
        let mean = rows.cells()[0].mean(metric::PIOPS);
        assert_eq!(mean, point.unwrap().figure(metric::PIOPS));
    }

    #[test]
    fn a_narrow_table_of_runs_leaves_out_columns_rather_than_split() {
        let run = fixture::mixed_run();
        let rows = SweepRows::of_runs(&[&run, &run]);
        let shown = within(80, || runs(&rows, &["idle%", "MB/s", "redo", "upd p50", "sel p50"]));
        let names: Vec<&str> = shown.lines().next().unwrap().split("  ").map(str::trim).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let kept = ["sess", "upd%", "rep", "read/s", "write/s", "read us", "sel p99", "upd p99"];
        assert!(kept.iter().all(|name| names.contains(name)), "{shown}");
        assert_eq!(shown.lines().count(), 4, "{shown}");
    }

    #[test]
    fn runs_on_several_targets_are_below_their_names() {
        let here = fixture::mixed_run();
        let mut there = fixture::mixed_run();
        there.summary.target.url = "device:/data/petal.dat".into();
        let shown = runs(&SweepRows::of_runs(&[&here, &there, &here]), &[]);
        let headings: Vec<&str> = shown.lines().filter(|line| line.starts_with("DB ")).collect();
        assert_eq!(headings, ["DB sqlite:petal-data", "DB device:/data/petal.dat"]);
    }

    #[test]
    fn a_mean_is_unknown_where_one_repeat_does_not_know() {
        let mut swept = super::super::tests::swept();
        let at = swept.sweep.cells.iter().position(|cell| cell.number == 4).unwrap();
        swept.runs[at].summary.cpu = None;
        let rows = SweepRows::of(&swept);
        let cell = &rows.cells()[3];
        assert_eq!(cell.mean(metric::CPU_IDLE), None);
        assert_eq!(cell.mean(metric::READS), Some(3260.0));
        // Runs of 3240 and 3280 with a fifth of writes: 48 of 3912.
        assert!((cell.spread_pct(metric::PIOPS).unwrap() - 100.0 * 48.0 / 3912.0).abs() < 1e-9);
    }

    #[test]
    fn further_factors_head_tables_of_their_own() {
        let mut swept = super::super::tests::swept();
        for cell in &mut swept.sweep.cells {
            let loop_side = if cell.number % 2 == 0 { "client" } else { "server" };
            cell.factors.insert(0, ("loop".to_owned(), loop_side.to_owned()));
        }
        let shown = means(&SweepRows::of(&swept));
        let headings: Vec<&str> = shown.lines().filter(|line| line.starts_with("LOOP")).collect();
        assert_eq!(headings, ["LOOP server", "LOOP client"]);
        assert_eq!(shown.matches("read us").count(), 2);
    }
}
