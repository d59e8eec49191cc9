//! `petal predict`: PIOPS and read latency at numbers of sessions that were not measured, and a run
//! with other resources.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use petal_judge::petals::Petals;
use petal_judge::predict::{DeviceCurves, PredictedLine, predict};
use petal_predict::{AskedChanges, WhatIf, text, what_if};
use petal_record::calibration::{self, Calibration};
use petal_record::{self as record, sweep};
use petal_report::table::on_a_screen;

use super::args::{self, flag, list, value};
use super::compare::load;
use super::console::Console;
use super::failure::{CommandError, Exit};

const EXAMPLES: &str = "\
Examples:
  petal predict petal-results/sweep-sqlite-1a2b3c4d --sessions 12,24
  petal predict table.csv               held-out errors of a published table
  petal predict DIR --calibration petal-results/20261120T134207Z-calibrate
  petal predict RUN --processors 2x --sessions 16     one run, other resources";

const NOTES: &str = "\
Families of curves predict each cell of a sweep from the others: interpolation
in log sessions, the universal scalability law (USL), a closed network of queues
that all UPDATE_PCTs share, and the curve of a calibration. The one with the
least error is used. A line is refused if all are off by over 20 %.

For a run, each resource bounds the operations per second, by the run's own
counts. A change is refused if the record contradicts its assumption.

Exit codes: 0 done; 2 usage; 3 environment; 4 a line, a change or a session count
of --sessions is not predicted; the others are, with the reason for each.";

/// Options that multiply a run's own values.
const FACTORS: [(&str, &str); 6] = [
    ("processors", "A run with N times the processors, or the control group's quota"),
    ("io-limit", "A run with N times the control group's limit of I/O"),
    ("rate", "A run with N times its RATE"),
    ("read-latency", "A run whose reads take N times as long at the device"),
    ("log-latency", "A run whose log writes take N times as long"),
    ("cache", "A run with N times the database's cache"),
];

pub fn command() -> Command {
    let factor = |(name, help)| value(name, "Nx", help).value_parser(factor);
    let command = Command::new("predict")
        .about("Predict unmeasured session counts, or other resources")
        .arg(args::paths("record", "RECORD", "Sweeps, folders of runs, tables; or runs"))
        .arg(
            list("sessions", "N,N", "Session counts to predict, next to the measured ones")
                .value_parser(args::whole::<u32>(1, 65_536)),
        )
        .arg(args::path("calibration", "PATH", "A calibration of the device under the data"))
        .args(FACTORS.map(factor).map(|arg: Arg| arg.help_heading("What if")))
        .arg(
            value("update-pct", "N", "A run with N percent of UPDATEs")
                .value_parser(args::whole::<u8>(0, 100))
                .help_heading("What if"),
        )
        .arg(flag("json", "Print the prediction as JSON"))
        .arg(args::full());
    args::one_screen(command, EXAMPLES, NOTES, &[])
}

/// Reads a factor such as `2x` or `0.5x`.
fn factor(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or_default().parse::<f64>().ok();
    number
        .filter(|factor| (0.001..=1000.0).contains(factor))
        .ok_or_else(|| "must be a factor from 0.001x to 1000x, such as 2x or 0.5x".to_owned())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let records: Vec<&PathBuf> = matches.get_many("record").unwrap_or_default().collect();
    let asked = matches.get_many::<u32>("sessions").unwrap_or_default();
    let asked: Vec<u32> = asked.copied().collect();
    let path: Option<&PathBuf> = matches.get_one("calibration");
    let device = path.map(|path| calibration::load(path)).transpose()?;
    if let Some(changes) = changes(matches, &records, &asked)? {
        return of_runs(&records, &changes, device.as_ref(), matches, console);
    }
    let curves = device.as_ref().and_then(DeviceCurves::of);
    let mut lines = Vec::new();
    // Cells of several records are never one line: they may be of several platforms.
    for path in &records {
        let of_record = predict(&Petals::of(&load(path, None)?), &asked, curves.as_ref());
        lines.extend(of_record.into_iter().map(|line| match records.len() {
            1 => line,
            _ => PredictedLine { name: format!("{}, {}", path.display(), line.name), ..line },
        }));
    }
    if lines.is_empty() {
        return Err(CommandError::new(
            Exit::Environment,
            "no run with figures; name a sweep, runs or a table",
        ));
    }
    let is_unknown = |line: &PredictedLine| {
        let mut cells = line.predicted.iter();
        line.refused.is_some()
            || cells.any(|cell| {
                let is_known = cell.piops.is_some() || cell.measured_piops.is_some();
                !is_known && asked.contains(&cell.sessions)
            })
    };
    console.show(matches, &lines, || text::brief(&lines), || text::render(&lines))?;
    // A script must not take a refusal for a prediction.
    let is_refused = lines.iter().any(is_unknown);
    Ok(if is_refused { Exit::Inconclusive } else { Exit::Done })
}

/// The changes of single runs; None if no change is asked for, and for sweeps.
fn changes(
    matches: &ArgMatches,
    records: &[&PathBuf],
    sessions: &[u32],
) -> Result<Option<AskedChanges>, CommandError> {
    let factor = |name| matches.get_one::<f64>(name).copied();
    let changes = AskedChanges {
        processors: factor("processors"),
        io_limit: factor("io-limit"),
        rate: factor("rate"),
        read_latency: factor("read-latency"),
        log_latency: factor("log-latency"),
        cache: factor("cache"),
        sessions: sessions.first().copied(),
        update_pct: matches.get_one::<u8>("update-pct").map(|&percent| percent.into()),
    };
    let is_run = |path: &PathBuf| record::is_one(path) && !sweep::is_one(path);
    let other = records.iter().find(|path| !is_run(path));
    let with_resources = AskedChanges { sessions: None, ..changes.clone() }.words();
    match (other, with_resources.first()) {
        (Some(path), Some(change)) => Err(CommandError::usage(format!(
            "--{change}: {} is not a run, and only a run counts its resources; name the folder of a \
             run, such as a cell of the sweep",
            path.display()
        ))),
        (None, _) if sessions.len() > 1 => Err(CommandError::usage(
            "--sessions: a run is predicted at one number of sessions; name one",
        )),
        (None, _) if !changes.words().is_empty() => Ok(Some(changes)),
        _ => Ok(None),
    }
}

fn of_runs(
    records: &[&PathBuf],
    changes: &AskedChanges,
    device: Option<&Calibration>,
    matches: &ArgMatches,
    console: &Console,
) -> Result<Exit, CommandError> {
    let mut found: Vec<WhatIf> = Vec::new();
    for path in records {
        let mut run = petal_report::load(path)?;
        if let Some(device) = device {
            run.details.calibrated = petal_judge::calibration::share(&run, &device.path, device);
        }
        found.push(what_if(&path.display().to_string(), &run, changes));
    }
    let all = || found.iter().map(text::what_if).collect::<Vec<_>>().join("\n");
    console.show(matches, &found, || on_a_screen(&all()), all)?;
    let is_refused = found.iter().any(|one| !one.refused.is_empty());
    Ok(if is_refused { Exit::Inconclusive } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_ends_in_x() {
        assert_eq!((factor("2x"), factor("0.5x")), (Ok(2.0), Ok(0.5)));
        for text in ["2", "x", "0x", "-1x", "nanx", "1e9x", "2xx"] {
            assert!(factor(text).is_err(), "{text}");
        }
    }
}
