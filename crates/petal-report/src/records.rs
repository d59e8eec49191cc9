//! Records as a gallery and a card show them: a sweep as it is; runs outside of a sweep are grouped
//! if they differ in sessions and mix alone.

use std::collections::BTreeMap;

use super::distinct;
use super::numbers::{micros, or_dash, rate};
use super::table::{Cell, SCREEN_LINES, Table, fitting, paragraph, rest};
use petal_judge::petals::{PetalLine, Petals};
use petal_record::observation::{Observation, metric};
use petal_record::sweep::Swept;
use petal_record::{Run, as_text};
use petal_settings::objective::Objective;

/// A record, or several runs as one.
pub struct ShownRecord {
    /// Path of the record.
    pub name: String,
    /// True for several runs, each with a name.
    pub is_of_runs: bool,
    pub petals: Petals,
    pub database: String,
    pub device: String,
    pub host: String,
    /// The day on which it began.
    pub measured: String,
    pub runs: usize,
    pub petal_version: String,
}

/// Settings that may differ between runs of one line, or of lines of one group.
const VARIED: [&str; 6] =
    ["update_pct", "threads_per_schema", "readers", "writers", "run_time", "calibrations"];

impl ShownRecord {
    fn of(name: String, seen: &[Observation], objective: Option<&Objective>) -> Self {
        let all = |key: &str| {
            let reported = seen.iter().filter_map(|seen| seen.context.get(key));
            distinct(reported.map(String::as_str)).join(", ")
        };
        let first = seen.iter().filter_map(|seen| seen.started_at.as_deref()).min();
        let day = first.and_then(|moment| moment.split('T').next()).unwrap_or_default();
        Self {
            name,
            is_of_runs: false,
            petals: Petals::of(seen).with_objective(objective),
            database: all("database"),
            device: all("device"),
            host: all("host"),
            measured: day.to_owned(),
            runs: seen.len(),
            petal_version: all("petal"),
        }
    }

    pub fn of_sweep(name: String, swept: &Swept, objective: Option<&Objective>) -> Self {
        Self::of(name, &swept.observations(), objective)
    }

    /// A run alone, whether its figures count or not.
    pub fn of_run(name: String, run: &Run) -> Self {
        Self::of(name.clone(), &[observation(&name, run)], None)
    }

    /// The records of a line: of several runs those on the line, the one at its peak first.
    fn records_of<'a>(&'a self, line: &'a PetalLine) -> Vec<&'a str> {
        let peak = line.peak.or(line.struck_out).and_then(|at| line.points.get(at));
        let all = line.points.iter().flat_map(|point| &point.sources);
        let sources = peak.into_iter().flat_map(|point| &point.sources).chain(all);
        let of_runs = sources.map(String::as_str).filter(|_| self.is_of_runs);
        let names = distinct(of_runs);
        if names.is_empty() { vec![&self.name] } else { names }
    }

    /// The record of a line, or the one at its peak with the number of the others.
    pub fn name_of(&self, line: &PetalLine) -> String {
        let names = self.records_of(line);
        first_of(names[0], names.len())
    }

    /// The record at the peak of a line.
    pub fn record_of<'a>(&'a self, line: &'a PetalLine) -> &'a str {
        self.records_of(line)[0]
    }

    fn lines(&self) -> impl Iterator<Item = &PetalLine> {
        self.petals.lines.iter()
    }

    /// Returns the database and its host, in one line.
    pub fn title(&self) -> String {
        let known = [&self.database, &self.device, &self.host].into_iter();
        let known = known.filter(|text| !text.is_empty()).map(String::as_str);
        known.collect::<Vec<_>>().join(", ")
    }
}

/// The first of several names, with the number of the others.
fn first_of(first: &str, all: usize) -> String {
    match all {
        0 | 1 => first.to_owned(),
        all => format!("{first} and {} more", all - 1),
    }
}

/// Runs without figures that count, each with the reason: they are in no line.
pub fn left_out(named: &[(String, Run)]) -> Vec<String> {
    let of_run = |(name, run): &(String, Run)| {
        let why = Observation::of_run(name, Vec::new(), run).why_unusable()?;
        Some(format!("{name} ({why})"))
    };
    named.iter().filter_map(of_run).collect()
}

/// Lays out the gallery's table on one screen: a row for each line, with the source of its reads and
/// its warnings next to the figure.
pub fn screen(shown: &[ShownRecord]) -> String {
    let rows = lines(shown);
    let text = |count: usize| {
        let mut table = Table::headed("PIOPS: | read us:");
        let mut places = vec!["of".to_owned(), "--".to_owned()];
        for (record, line) in rows.iter().take(count) {
            let point = line.peak.or(line.struck_out).and_then(|at| line.points.get(at));
            let is_struck = line.struck_out.is_some();
            let figure = |name: &str, show: fn(f64) -> String| {
                or_dash(point.and_then(|point| point.figure(name)), show)
            };
            let figures = [figure(metric::PIOPS, rate), figure(metric::READ_US, micros)];
            table.row(figures.map(|figure| Cell::figure(figure, is_struck)));
            places.push(format!("{}, {}: {}", record.name_of(line), line.name, line.trust()));
        }
        let table = table.render();
        let lines = table.lines().zip(&places).map(|(figures, place)| {
            paragraph(&format!("{figures}  "), &" ".repeat(figures.len() + 2), place)
        });
        lines.collect::<String>() + &rest(rows.len() - count, "line", "on the page")
    };
    fitting(rows.len(), SCREEN_LINES - 2, text)
}

/// Every line with its record; those that are no storage test come last.
pub(super) fn lines(shown: &[ShownRecord]) -> Vec<(&ShownRecord, &PetalLine)> {
    let of = |record| ShownRecord::lines(record).map(move |line| (record, line));
    let mut all: Vec<(&ShownRecord, &PetalLine)> = shown.iter().flat_map(of).collect();
    all.sort_by_key(|(_, line)| line.struck_out.is_some());
    all
}

fn observation(name: &str, run: &Run) -> Observation {
    let pct = or_dash(run.summary.setting("update_pct"), |pct| as_text(pct, "-"));
    let sessions = run.summary.sessions.to_string();
    let factors = [("update_pct", pct), ("sessions", sessions)];
    let factors = factors.map(|(key, value)| (key.to_owned(), value)).into();
    Observation::of_run(name, factors, run)
}

/// Groups runs, named by their folders, that differ only in the settings of [`VARIED`]. Runs without figures that
/// count are in none.
pub fn of_runs(named: &[(String, Run)], objective: Option<&Objective>) -> Vec<ShownRecord> {
    let mut groups: BTreeMap<Vec<(String, String)>, Vec<Observation>> = BTreeMap::new();
    for (name, run) in named {
        let seen = observation(name, run);
        if seen.why_unusable().is_some() {
            continue;
        }
        let alike = seen.context.iter().filter(|(key, _)| !VARIED.contains(&key.as_str()));
        let alike = alike.map(|(key, value)| (key.clone(), value.clone())).collect();
        groups.entry(alike).or_default().push(seen);
    }
    let shown = groups.into_values().map(|seen| {
        let name = first_of(&seen[0].source, seen.len());
        ShownRecord { is_of_runs: true, ..ShownRecord::of(name, &seen, objective) }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn a_run_whose_figures_do_not_count_is_in_no_line_and_is_named() {
        let mut runs = [("a", fixture::mixed_run()), ("b", fixture::mixed_run())];
        runs[1].1.summary.status = petal_record::Status::Failed;
        let runs = runs.map(|(name, run)| (name.to_owned(), run));
        assert_eq!(left_out(&runs), ["b (it failed)"]);
        let shown = of_runs(&runs, None);
        assert_eq!((shown.len(), shown[0].name.as_str(), shown[0].runs), (1, "a", 1));
    }

    #[test]
    fn a_mix_that_rates_decide_is_unknown_and_not_null() {
        let mut run = fixture::mixed_run();
        let factors = |run: &Run| {
            let shown = of_runs(&[("run".to_owned(), run.clone())], None);
            shown[0].petals.lines[0].name.clone()
        };
        assert_eq!(factors(&run), "UPDATE_PCT 20");
        run.summary.settings.insert("update_pct".to_owned(), serde_json::Value::Null);
        assert_eq!(factors(&run), "UPDATE_PCT -");
    }

    #[test]
    fn a_line_of_several_runs_is_named_by_its_own_runs() {
        let mut runs = [("redo", 100), ("other", 20), ("third", 20)].map(|(name, pct)| {
            let mut run = fixture::mixed_run();
            run.summary.settings.insert("update_pct".to_owned(), pct.into());
            (name.to_owned(), run)
        });
        runs[2].1.summary.sessions += 1;
        let shown = of_runs(&runs, None);
        assert_eq!((shown.len(), shown[0].petals.lines.len()), (1, 2));
        let name = |line: &str| {
            let mut lines = shown[0].petals.lines.iter();
            shown[0].name_of(lines.find(|it| it.name.contains(line)).unwrap())
        };
        assert_eq!(name("UPDATE_PCT 100"), "redo");
        assert!(["other and 1 more", "third and 1 more"].contains(&name("UPDATE_PCT 20").as_str()));
        assert!(screen(&shown).contains("redo, UPDATE_PCT 100: "), "{}", screen(&shown));
    }
}
