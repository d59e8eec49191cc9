//! `petal demo`: a small data set on the embedded default, and a short series over sessions and
//! UPDATE_PCT.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use time::OffsetDateTime;

use crate::driver::load;
use crate::engine::{self, Engine, Stop};
use crate::record::{Folder, Run};
use crate::report;
use crate::settings::Settings;
use crate::settings::size::Extent;

use super::console::Console;
use super::failure::{Exit, Failure};
use super::run::{Series, draw_seed};
use super::signals;

const SCHEMAS: u32 = 2;
const SCALE: Extent = Extent::Bytes(64 << 20);
const THREADS_PER_SCHEMA: [u32; 4] = [1, 2, 4, 8];
const UPDATE_PCT: [u8; 3] = [0, 20, 50];
const SECONDS_DEFAULT: u64 = 5;

pub fn command() -> Command {
    Command::new("demo")
        .about("A first look: a small data set on SQLite, a short series, a report")
        .after_help(
            "Loads two schemas of 64 MiB into ./petal-data (unless petal's data is there), runs \
             2 to 16 sessions at UPDATE_PCT 0, 20 and 50 for a few seconds each, and leaves a \
             report in ./petal-results. A real test runs for minutes: petal run --help.",
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("SECONDS")
                .default_value("5")
                .value_parser(value_parser!(u64).range(1..=3600))
                .help("Length of each run"),
        )
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or(SECONDS_DEFAULT);
    let settings = Settings { run_time: Duration::from_secs(seconds), ..Settings::default() };
    let engine = engine::open(&settings)?;
    let signals = signals::count();
    load_unless_there(engine.as_ref(), &settings, &signals, console)?;
    let now = OffsetDateTime::now_utc();
    let folder = Folder::create(&settings.out, "demo", now)?;
    let (runs, exit) = run_series(&engine, &settings, folder.path().into(), &signals, console)?;
    let text = report::series::table(&runs.iter().collect::<Vec<_>>());
    console.result(&text);
    let path = folder.write_atomically("report.txt", text.as_bytes())?;
    console.result(&format!(
        "\nreport: {}\na whole report of each run stands in the folders beside it\n",
        path.display()
    ));
    Ok(exit)
}

fn load_unless_there(
    engine: &dyn Engine,
    settings: &Settings,
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<(), Failure> {
    if !engine.loaded()?.is_empty() {
        return Ok(());
    }
    let settings = Settings { schemas: Some(SCHEMAS), scale: Some(SCALE), ..settings.clone() };
    let setup = load::plan(engine, &settings, draw_seed()?, false)?;
    load::load(engine, &setup.plan, console, &Stop::unlimited(signals.clone()))?;
    Ok(())
}

/// Every UPDATE_PCT by every number of sessions; Ctrl-C keeps what was run so far.
fn run_series(
    engine: &Arc<dyn Engine>,
    settings: &Settings,
    out: PathBuf,
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<(Vec<Run>, Exit), Failure> {
    let seed = draw_seed()?;
    let cells: Vec<(u8, u32)> = UPDATE_PCT
        .iter()
        .flat_map(|&pct| THREADS_PER_SCHEMA.map(|threads| (pct, threads)))
        .collect();
    let mut runs = Vec::new();
    for (at, &(update_pct, threads_per_schema)) in cells.iter().enumerate() {
        let left_s = (cells.len() - at) as u64 * (settings.run_time.as_secs() + 1);
        console.warn(&format!(
            "run {} of {}: UPDATE_PCT {update_pct}, {threads_per_schema} threads per schema, about {left_s} s left",
            at + 1,
            cells.len(),
        ));
        let settings = Settings {
            update_pct,
            threads_per_schema,
            seed: Some(seed + at as u64),
            out: out.clone(),
            ..settings.clone()
        };
        let kept =
            Series::new(engine.clone(), settings, signals.clone())?.run_once(1, None, console)?;
        let exit = kept.exit();
        runs.push(kept.run);
        if let Some(failure) = kept.failure {
            return Err(failure);
        }
        if exit != Exit::Done || signals.load(Ordering::Relaxed) > 0 {
            return Ok((runs, exit));
        }
    }
    Ok((runs, Exit::Done))
}
