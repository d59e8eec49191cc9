//! `petal demo`: a small data set on the embedded default, a short sweep over sessions and
//! UPDATE_PCT, and a last run at the peak that shows what limits it.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};

use petal_record::sweep_design::Design;
use petal_settings::axes::SweepArguments;
use petal_settings::read::Sources;
use petal_settings::table::CommandKind;
use petal_sweep::{Fresh, SweepRequest};

use super::args::{self, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::sweep::{show, sweep_into};
use super::{live, signals, source};

const SCHEMAS: u32 = 2;
const SCALE: &str = "64M";
const SESSIONS: &str = "1,2,4,8,16";
const UPDATE_PCT: &str = "0,20";
const REPEATS: &str = "3";
const PEAK_RUN_S: u64 = 60;

pub fn command() -> Command {
    Command::new("demo")
        .about("A first look: a small data set on SQLite, a sweep, petals")
        .after_help(
            "Loads two schemas of 64 MiB into ./petal-data, unless petal's data is there. Sweeps \
             1 to 16 sessions at UPDATE_PCT 0 and 20, three times for a few seconds each. A last \
             run of a minute at the peak shows by experiments what limits it, and as root where \
             its time goes. All of it takes about three minutes, up to six on a busy machine. The \
             report is in ./petal-results. The same command goes on with an interrupted demo. A \
             real test runs for minutes: petal sweep --help.",
        )
        .arg(
            value("seconds", "SECONDS", "Length of each run")
                .default_value("3")
                .value_parser(whole::<u64>(1, 3600)),
        )
        .args(live::args())
        .arg(args::full())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or(3);
    let flags = [
        ("RUN_TIME", seconds.to_string()),
        ("UPDATE_PCT", UPDATE_PCT.to_owned()),
        ("REPEATS", REPEATS.to_owned()),
        ("SCALE", SCALE.to_owned()),
    ];
    let request = SweepRequest {
        design: Design::Grid,
        asked: SweepArguments {
            flags: BTreeMap::from(flags),
            sessions: Some(SESSIONS.to_owned()),
            ..SweepArguments::default()
        },
        // Whatever else is set here, the demo is the same everywhere.
        sources: Sources {
            command: CommandKind::Sweep,
            flags: BTreeMap::new(),
            environment: &|_| None,
            variables: &Vec::new,
            conf: None,
            directory: None,
            schemas: Some(SCHEMAS),
        },
        dir: None,
        name: "demo",
        peak_run_s: PEAK_RUN_S,
        load: true,
        fresh: Fresh::UnlessUnfinished,
        again_failed: false,
        restart: None,
        os_data: None,
        objective: None,
        is_noted: false,
        replay: None,
    };
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let (swept, exit, place) = sweep_into(&request, &context)?;
    show(&swept, &place, None, matches, console);
    let page = place.join(petal_report::HTML_NAME);
    // A path from the root: it can be opened from anywhere, and a terminal can make a link of it.
    let page = std::path::absolute(&page).unwrap_or(page);
    console.result(&format!("open in a browser: file://{}\n", page.display(),));
    Ok(exit)
}
