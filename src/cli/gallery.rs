//! `petal gallery`: many records on one page.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

use petal_record::{self as record, Run, sweep};
use petal_report::html;
use petal_report::records::{ShownRecord, of_runs};
use petal_settings::objective::Objective;
use petal_settings::printable::printable;

use super::args;
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::output;
use super::record_folders::{DEPTH_MAX, records_below};

const EXAMPLES: &str = "\
Examples:
  petal gallery petal-results --out gallery     each sweep and run of a folder
  petal gallery nas/* local/* --out /var/www/petal
  petal gallery petal-results --out gallery --max-latency op.p99=2ms

Writes FOLDER/index.html: one page that fetches nothing. A sweep is a record;
runs that differ in sessions and mix alone are one record, too. PRICE_PER_MONTH
of the settings gives the price of 1,000 delivered I/O requests per second.";

const INDEX: &str = "index.html";

pub fn command() -> Command {
    Command::new("gallery")
        .about("Show many sweeps and runs on a page: table, petals, prices")
        .after_help(EXAMPLES)
        .arg(args::paths("folder", "DIR", "Sweeps, runs, or folders to look for them in"))
        .arg(args::path("out", "FOLDER", "Folder that gets the page").required(true))
        .arg(args::objective())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let objective: Option<&Objective> = matches.get_one("objective");
    let mut found = FoundRecords::default();
    for path in matches.get_many::<PathBuf>("folder").unwrap_or_default() {
        found.look(path, DEPTH_MAX, objective, console);
    }
    let left_out = found.left_out();
    let shown = found.shown(objective);
    if shown.is_empty() {
        let found = match left_out.len() {
            0 => String::new(),
            _ => format!("; left out: {}", left_out.join("; ")),
        };
        return Err(CommandError::new(
            Exit::Environment,
            format!(
                "there is no sweep and no run with figures below these folders{found}: name those that petal \
                 run or petal sweep wrote"
            ),
        ));
    }
    let Some(out) = matches.get_one::<PathBuf>("out") else { return Ok(Exit::Usage) };
    let folder = output::folder(out)?;
    let page_of = |record: &str| page_of(record, out);
    let page = html::gallery(&shown, &left_out, objective, &page_of);
    let page = page.map_err(CommandError::failed("the gallery"))?;
    let path = folder.write_atomically(INDEX, printable(&page).as_bytes())?;
    console.report(|| petal_report::records::screen(&shown));
    left_out.iter().for_each(|run| console.warn(&format!("left out: {run}")));
    console.result(&format!("\n{}\n", path.display()));
    Ok(Exit::Done)
}

/// The address of a record's page, from the folder of the gallery; None if it has no page.
fn page_of(record: &str, from: &Path) -> Option<String> {
    let page = Path::new(record).join(html::NAME).canonicalize().ok().filter(|it| it.is_file())?;
    let from = from.canonicalize().ok()?;
    let shared = page.iter().zip(from.iter()).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(shared).map(|_| OsStr::new(".."));
    let path: PathBuf = up.chain(page.iter().skip(shared)).collect();
    Some(html::link(path.to_str()?))
}

/// Results found below the folders: sweeps, and runs outside of sweeps.
#[derive(Default)]
pub(super) struct FoundRecords {
    sweeps: Vec<ShownRecord>,
    pub(super) runs: Vec<(String, Run)>,
}

impl FoundRecords {
    /// Adds the records there; an unreadable one is reported and passed over.
    pub(super) fn look(
        &mut self,
        path: &Path,
        depth: usize,
        objective: Option<&Objective>,
        console: &Console,
    ) {
        let mut skip = |why| console.warn(&format!("skipped: {why}"));
        for path in records_below(path, depth, &mut skip) {
            let name = path.display().to_string();
            if sweep::is_one(&path) {
                match record::sweep::load(&path) {
                    Ok(swept) => self.sweeps.push(ShownRecord::of_sweep(name, &swept, objective)),
                    Err(error) => skip(error.to_string()),
                }
            } else if record::is_one(&path) {
                match petal_report::load(&path) {
                    Ok(run) => self.runs.push((name, run)),
                    Err(error) => skip(error.to_string()),
                }
            }
        }
    }

    /// Sweeps without a line and runs without figures that count, each with the reason.
    pub(super) fn left_out(&self) -> Vec<String> {
        let empty = self.sweeps.iter().filter(|record| record.petals.lines.is_empty());
        let sweeps = empty.map(|record| match record.petals.tested.as_str() {
            "" => format!("{} (it has no run)", record.name),
            tested => format!("{} ({tested})", record.name),
        });
        sweeps.chain(petal_report::records::left_out(&self.runs)).collect()
    }

    /// All of it, without sweeps that have no line.
    pub(super) fn shown(self, objective: Option<&Objective>) -> Vec<ShownRecord> {
        let mut shown = self.sweeps;
        shown.extend(of_runs(&self.runs, objective));
        shown.retain(|record| !record.petals.lines.is_empty());
        shown
    }
}
