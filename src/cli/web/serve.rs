//! `petal serve`: a folder of records in a browser. Pages are made of the records when they are asked
//! for; no file of the folder is handed out.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use clap::{ArgMatches, Command};
use parking_lot::Mutex;

use petal_engine::threads::Thread;
use petal_host::numbers::counted;
use petal_judge::compare::{ComparedSide, Rules, compare};
use petal_record::observation::Observation;
use petal_record::sweep;
use petal_report::html;

use petal_web::gate::Gate;
use petal_web::http::{self, HttpAnswer, HttpRequest};
use petal_web::list::list;

use super::feed::LiveFeed;
use super::pages::{self, cell_of, failed, page_of, report_of};
use super::record_index::RecordIndex;
use super::{gate, host_names, host_names_arg, unserved};
use crate::cli::args::{self, value};
use crate::cli::compare::load;
use crate::cli::console::Console;
use crate::cli::failure::{CommandError, Exit};
use crate::cli::gallery::FoundRecords;
use crate::cli::live::follow::is_at_work;
use crate::cli::live::{self, WorkSeen};
#[cfg(feature = "xlsx")]
use crate::cli::report;
use crate::cli::signals;

const EXAMPLES: &str = "\
Examples:
  petal serve petal-results                     prints a URL for a local browser
  petal serve petal-results --address 8080      at a port that stays
  petal serve /srv/nightly --address 0.0.0.0:8080 --host-name db1.example

Lists every run, sweep, calibration and result of petal costs below DIR: search
them, open their reports, compare two, download CSV and workbooks. petal only
reads DIR, and answers only to its URL, until Ctrl-C. From another host, use
ssh -L: HTTP is not encrypted.";

const CSV: &str = "text/csv; charset=utf-8";
#[cfg(feature = "xlsx")]
const WORKBOOK: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
/// Records on one page of petals.
const PETALS_MAX: usize = 100;
/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(100);

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
            .value_parser(live::address),
        )
        .arg(host_names_arg())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { return Ok(Exit::Usage) };
    let Some(address) = matches.get_one::<SocketAddr>("address") else { return Ok(Exit::Usage) };
    let index = RecordIndex::of(folder)?;
    let refused = unserved(format!("--address {address}"));
    let listener = TcpListener::bind(address).map_err(&refused)?;
    let gate = gate(listener.local_addr().map_err(&refused)?, host_names(matches))?;
    let url = gate.url();
    let warning = gate.warning();
    let (index, feeds) = (Mutex::new(index), Mutex::default());
    let site = Arc::new(Site { gate, index, feeds, console: console.quieted() });
    // The list is read before a browser asks for it. Without the thread it is read then.
    let early = Arc::clone(&site);
    let _ = Thread::named("serve").start(move || drop(early.index.lock().list()));
    let signals = signals::count()?;
    http::serve(listener, "serve", move |request| site.respond(request)).map_err(refused)?;
    warning.iter().for_each(|warning| console.warn(warning));
    console.result(&format!("{url}\n"));
    while signals.load(Ordering::Relaxed) == 0 {
        thread::sleep(LOOK);
    }
    Ok(Exit::Done)
}

struct Site {
    gate: Gate,
    /// Locked while a page is made: one at a time bounds memory and processors.
    index: Mutex<RecordIndex>,
    /// Records that browsers follow.
    feeds: Mutex<Vec<(PathBuf, Weak<LiveFeed>)>>,
    console: Console,
}

impl Site {
    fn respond(&self, request: &HttpRequest<'_>) -> HttpAnswer {
        let answer = self.gate.admit(request).and_then(|path| self.page(path, request.query));
        answer.unwrap_or_else(|refusal| refusal).guarded()
    }

    /// The events of a record, for all browsers that follow it.
    fn feed(&self, path: &Path) -> Arc<LiveFeed> {
        let mut feeds = self.feeds.lock();
        feeds.retain(|(_, feed)| feed.strong_count() > 0);
        let known = feeds.iter().find(|(of, _)| of == path);
        if let Some(feed) = known.and_then(|(_, feed)| feed.upgrade()) {
            return feed;
        }
        let (title, folder) = ("petal serve".to_owned(), Some(path.to_owned()));
        let work = WorkSeen { title, folder, ..WorkSeen::default() };
        let feed = LiveFeed::new(Box::new(move || work.clone()));
        feeds.push((path.to_owned(), Arc::downgrade(&feed)));
        feed
    }

    fn page(&self, path: &str, query: &str) -> Result<HttpAnswer, HttpAnswer> {
        let parts: Vec<&str> = path.split('/').collect();
        let mut index = self.index.lock();
        let record = |key: &str| {
            let path = index.path(key);
            path.ok_or_else(|| {
                HttpAnswer::not_found("this record is not in the list, or no longer there")
            })
        };
        match parts.as_slice() {
            [""] => {
                let listing = index.list();
                let folder = index.folder().display().to_string();
                page_of("the list", list(&folder, &listing.records, &listing.problems))
            }
            ["record", key, ""] => match record(key)? {
                path if is_at_work(path) => pages::live(&path.display().to_string()),
                path => report_of(path),
            },
            ["record", key, "events"] => Ok(self.feed(record(key)?).events()),
            ["record", key, cell, html::NAME] => report_of(&cell_of(record(key)?, cell)?),
            ["record", key, "figures.csv"] => figures(record(key)?),
            #[cfg(feature = "xlsx")]
            ["record", key, "workbook.xlsx"] => workbook(record(key)?),
            ["compare"] => {
                let ticked = ticked(query).map(record).collect::<Result<Vec<_>, _>>()?;
                compared(&ticked)
            }
            ["petals"] => {
                let named = |key| Ok((key, record(key)?));
                self.petals(&ticked(query).map(named).collect::<Result<Vec<_>, _>>()?)
            }
            _ => Err(HttpAnswer::not_found("petal has no such page")),
        }
    }

    fn petals(&self, ticked: &[(&str, &Path)]) -> Result<HttpAnswer, HttpAnswer> {
        let mut found = FoundRecords::default();
        ticked.iter().for_each(|(_, path)| found.look(path, 0, None, &self.console));
        let left_out = found.left_out();
        let shown = found.shown(None);
        if shown.is_empty() {
            return Err(bad("tick runs or sweeps with figures: none of these has petals"));
        }
        let address = |name: &str| {
            let of = ticked.iter().find(|(_, path)| path.display().to_string() == name);
            of.map(|(key, _)| format!("record/{key}/"))
        };
        page_of("the petals", html::gallery(&shown, &left_out, None, &address))
    }
}

fn bad(reason: &str) -> HttpAnswer {
    HttpAnswer::refusal("400 Bad Request", reason)
}

/// The keys that a list's form sends: `of=1&of=2`.
fn ticked(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter_map(|pair| pair.strip_prefix("of=")).take(PETALS_MAX)
}

fn figures(path: &Path) -> Result<HttpAnswer, HttpAnswer> {
    let made = || -> Result<String, CommandError> {
        let csv = match sweep::is_one(path) {
            true => petal_report::sweep::csv::sweep(&sweep::load(path)?).csv(),
            false => petal_report::csv::timeline(&petal_report::load_each_second(path)?).csv(),
        };
        csv.map_err(CommandError::failed("cannot write CSV"))
    };
    Ok(download(CSV, "csv", made().map_err(failed)?))
}

#[cfg(feature = "xlsx")]
fn workbook(path: &Path) -> Result<HttpAnswer, HttpAnswer> {
    let made = || -> Result<Vec<u8>, CommandError> {
        let made = match sweep::is_one(path) {
            true => report::workbook_of_sweep(&sweep::load(path)?),
            false => report::workbook_of_runs(&[("run", &petal_report::load_each_second(path)?)]),
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
        Ok(ComparedSide { name: path.display().to_string(), observations: load(path, None)? })
    };
    let page = || {
        let mut sides = [side(one)?, side(two)?];
        sides.sort_by_key(|side| side.observations.iter().filter_map(Observation::started).min());
        let rules = Rules { metrics: Vec::new(), in_turn: false };
        let comparison = compare(&sides, &rules)?.with_costs(&sides, None);
        Ok(html::comparison(&comparison, &[]))
    };
    page_of("the comparison", page().map_err(failed)?)
}
