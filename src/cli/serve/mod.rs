//! `petal serve`: a folder of records in a browser. Pages are made of the records when they are asked
//! for; no file of the folder is handed out.

mod gate;
mod shelf;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Command};
use parking_lot::Mutex;

use petal_judge::compare::ComparedSide;
use petal_judge::petals::Petals;
use petal_model::numbers::counted;
use petal_model::record::observation::Observation;
use petal_model::record::{RecordFolder, calibration, costs, latency_log, sweep};
use petal_model::settings::printable::printable;
use petal_report::html;

use super::args::{self, value};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::gallery::FoundRecords;
use super::http::{self, HttpAnswer, HttpRequest};
use super::{compare, metrics, report, signals};
use gate::Gate;
use shelf::Shelf;

const EXAMPLES: &str = "\
Examples:
  petal serve petal-results                     prints a URL for a browser of this host
  petal serve petal-results --address 8080      at a port that stays
  petal serve /srv/nightly --address 0.0.0.0:8080

Lists every run, sweep, calibration and result of petal costs below DIR: search them, open
their reports, compare two, download CSV and workbooks. petal only reads DIR, and answers
only to its URL, until Ctrl-C. From another host, use ssh -L: HTTP is not encrypted.";

const HTML: &str = "text/html; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";
#[cfg(feature = "xlsx")]
const WORKBOOK: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
/// Records on one page of petals.
const PETALS_MAX: usize = 100;
/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Shortest time between two loads of the page of a run that goes on.
const LOAD_AGAIN: Duration = Duration::from_secs(5);

pub fn command() -> Command {
    Command::new("serve")
        .about("Look through a folder of records in a browser")
        .after_help(EXAMPLES)
        .arg(args::file("folder", "DIR", "A folder with records below it, or one record"))
        .arg(
            value(
                "address",
                "ADDRESS",
                "Port of this host, or address with a port; other hosts need one that they reach, \
                 such as 0.0.0.0:8080",
            )
            .default_value("0")
            .value_parser(metrics::address),
        )
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { return Ok(Exit::Usage) };
    let Some(address) = matches.get_one::<SocketAddr>("address") else { return Ok(Exit::Usage) };
    let shelf = Shelf::of(folder)?;
    let refused = |error: std::io::Error| {
        let next = "choose a free port of this host";
        CommandError::new(Exit::Environment, format!("--address {address}: {error}; {next}"))
    };
    let listener = TcpListener::bind(address).map_err(refused)?;
    let gate = Gate::new(listener.local_addr().map_err(refused)?)?;
    let url = gate.url();
    let site = Site { gate, shelf: Mutex::new(shelf), console: console.quieted() };
    let signals = signals::count()?;
    http::serve(listener, "serve", move |request| site.respond(request)).map_err(refused)?;
    if !address.ip().is_loopback() {
        console.warn(&format!(
            "every host that reaches {address} can read these records with the URL, and HTTP is not \
             encrypted"
        ));
    }
    console.result(&format!("{url}\n"));
    while signals.load(Ordering::Relaxed) == 0 {
        thread::sleep(LOOK);
    }
    Ok(Exit::Done)
}

struct Site {
    gate: Gate,
    /// Locked while a page is made: one at a time bounds memory and processors.
    shelf: Mutex<Shelf>,
    console: Console,
}

impl Site {
    fn respond(&self, request: &HttpRequest<'_>) -> HttpAnswer {
        let answer = self.gate.admit(request).and_then(|path| self.page(path, request.query));
        // The page's own policy, and no frame around it. Pages of one server share no referrer.
        let policy = format!("{}; frame-ancestors 'none'", html::policy(true));
        answer
            .unwrap_or_else(|refusal| refusal)
            .with_header("Content-Security-Policy", &policy)
            .with_header("X-Content-Type-Options", "nosniff")
            .with_header("Referrer-Policy", "no-referrer")
            .with_header("Cross-Origin-Resource-Policy", "same-origin")
            .with_header("Cache-Control", "no-store")
    }

    fn page(&self, path: &str, query: &str) -> Result<HttpAnswer, HttpAnswer> {
        let parts: Vec<&str> = path.split('/').collect();
        let mut shelf = self.shelf.lock();
        let record = |key: &str| {
            let path = shelf.path(key);
            path.ok_or_else(|| {
                HttpAnswer::not_found("this record is not in the list, or no longer there")
            })
        };
        match parts.as_slice() {
            [""] => {
                let listing = shelf.list();
                let folder = shelf.folder().display().to_string();
                page_of("the list", html::list(&folder, &listing.records, &listing.problems))
            }
            ["record", key, ""] => report_of(record(key)?),
            ["record", key, cell, html::NAME] => report_of(&cell_of(record(key)?, cell)?),
            ["record", key, "figures.csv"] => figures(record(key)?),
            #[cfg(feature = "xlsx")]
            ["record", key, "workbook.xlsx"] => workbook(record(key)?),
            ["compare"] => {
                let ticked = ticked(query).map(record).collect::<Result<Vec<_>, _>>()?;
                compared(&ticked)
            }
            ["petals"] => {
                let ticked = ticked(query).map(record).collect::<Result<Vec<_>, _>>()?;
                self.petals(&ticked)
            }
            _ => Err(HttpAnswer::not_found("petal has no such page")),
        }
    }

    fn petals(&self, ticked: &[&Path]) -> Result<HttpAnswer, HttpAnswer> {
        let mut found = FoundRecords::default();
        ticked.iter().for_each(|path| found.look(path, 0, None, &self.console));
        let shown = found.shown(None);
        if shown.is_empty() {
            return Err(bad("tick runs or sweeps with figures: none of these has petals"));
        }
        page_of("the petals", html::gallery(&shown, None))
    }
}

fn bad(reason: &str) -> HttpAnswer {
    HttpAnswer::refusal("400 Bad Request", reason)
}

fn failed(error: CommandError) -> HttpAnswer {
    HttpAnswer::refusal("500 Internal Server Error", &printable(&error.message))
}

fn page_of(what: &str, page: Result<String, html::HtmlError>) -> Result<HttpAnswer, HttpAnswer> {
    let page = page.map_err(|error| failed(CommandError::failed(what)(error)))?;
    Ok(HttpAnswer::new(HTML, printable(&page).as_bytes()))
}

/// The keys that a list's form sends: `of=1&of=2`.
fn ticked(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter_map(|pair| pair.strip_prefix("of=")).take(PETALS_MAX)
}

/// The folder of a sweep's cell, by the name that its index has.
fn cell_of(sweep: &Path, name: &str) -> Result<PathBuf, HttpAnswer> {
    let index = sweep::index(sweep).map_err(|error| failed(error.into()))?;
    let found = index.cells.iter().find(|cell| cell.folder == name);
    let cell = found.ok_or_else(|| HttpAnswer::not_found("the sweep has no such cell"))?;
    Ok(sweep.join(&cell.folder))
}

/// The page that `report.html` of the record is.
fn report_of(path: &Path) -> Result<HttpAnswer, HttpAnswer> {
    let began = Instant::now();
    let is_live = RecordFolder::open(path).is_live();
    let made = || -> Result<_, CommandError> {
        Ok(if sweep::is_one(path) {
            let swept = sweep::load(path)?;
            html::sweep(&swept, &Petals::of(&swept.observations()))
        } else if calibration::is_one(path) {
            html::calibration(&calibration::load(path)?)
        } else if costs::is_one(path) {
            html::costs(&costs::load(path)?)
        } else {
            html::run(&petal_report::load(path)?, &latency_log::spreads(path))
        })
    };
    let answer = page_of("the report", made().map_err(failed)?)?;
    // A record that grows: its page is loaded again, and costs a hundredth of a processor at most.
    let pause = LOAD_AGAIN.max(began.elapsed() * 100);
    Ok(match is_live {
        true => answer.with_header("Refresh", &pause.as_secs().to_string()),
        false => answer,
    })
}

fn figures(path: &Path) -> Result<HttpAnswer, HttpAnswer> {
    let made = || -> Result<String, CommandError> {
        let csv = match sweep::is_one(path) {
            true => petal_report::sweep::csv::sweep(&sweep::load(path)?).csv(),
            false => petal_report::csv::timeline(&petal_report::load(path)?).csv(),
        };
        csv.map_err(CommandError::failed("the figures are no CSV"))
    };
    Ok(download(CSV, "csv", made().map_err(failed)?))
}

#[cfg(feature = "xlsx")]
fn workbook(path: &Path) -> Result<HttpAnswer, HttpAnswer> {
    let made = || -> Result<Vec<u8>, CommandError> {
        let made = match sweep::is_one(path) {
            true => report::workbook_of_sweep(&sweep::load(path)?),
            false => report::workbook_of_runs(&[("run", &petal_report::load(path)?)]),
        };
        made.map_err(CommandError::failed("the workbook"))
    };
    Ok(download(WORKBOOK, "xlsx", made().map_err(failed)?))
}

fn download(kind: &'static str, ending: &str, body: impl Into<Vec<u8>>) -> HttpAnswer {
    let name = format!("attachment; filename=\"petal.{ending}\"");
    HttpAnswer::new(kind, body).with_header("Content-Disposition", &name)
}

/// The page of `petal compare A B --html`; A is the older one.
fn compared(ticked: &[&Path]) -> Result<HttpAnswer, HttpAnswer> {
    let [one, two] = ticked else {
        let count = counted(ticked.len() as u64, "record");
        return Err(bad(&format!("{count} ticked: go back, and tick two")));
    };
    let side = |path: &Path| -> Result<ComparedSide, CommandError> {
        Ok(ComparedSide {
            name: path.display().to_string(),
            observations: compare::load(path, None)?,
        })
    };
    let page = || {
        let mut sides = [side(one)?, side(two)?];
        sides.sort_by_key(|side| side.observations.iter().filter_map(Observation::started).min());
        compare::page(&sides)
    };
    page_of("the comparison", page().map_err(failed)?)
}
