//! `petal costs`: measures the accesses that an optimizer has prices for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Command};

use petal_costs::record::COSTS;
use petal_costs::{CostPlan, compare, compare_text, run_once};
use petal_record::Status;
use petal_run::series::draw_seed;
use petal_settings::size::Extent;
use petal_settings::table::CommandKind;

use super::args::{self, flag, path, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::format::AnswerFormat;
use super::record_kinds;
use super::{live, signals, source};

const EXAMPLES: &str = "\
Examples:
  petal costs --db postgres://user@host/db      what to set, and how sure it is
  petal costs --db postgres://user@host/db --cached 0 --sessions 16
  petal costs --db postgres://user@host/db --json | jq .statements

Measures on schemas 1 and 2 (petal setup -s 2), or loads two tables and drops
them afterwards. petal changes no setting. The result is in
petal-results/<UTC stamp>-costs/. Ctrl-C keeps whole rounds.";

pub fn command() -> Command {
    let command = Command::new("costs")
        .about("Measure the optimizer's prices: random_page_cost and others")
        .after_help(EXAMPLES)
        .arg(
            value("seconds", "N", "Time for all rounds together; loading comes before")
                .value_parser(whole::<u64>(1, 86_400))
                .default_value("300"),
        )
        .arg(
            value("sessions", "N", "Sessions of the measurements with several; 1 leaves them out")
                .value_parser(whole::<u32>(1, 1000))
                .default_value("8"),
        )
        .arg(
            value("cached", "PERCENT", "Share of cached blocks that the statements are for")
                .value_parser(["0", "50", "90", "100"])
                .default_value("90"),
        )
        .arg(value(
            "scale",
            "SIZE",
            "Size of each table that petal loads by itself [default: 512M, or three times the \
             database's cache]",
        ))
        .arg(flag("json", "Print the costs as JSON, and only it, on stdout"))
        .arg(path(
            "out",
            "PATH",
            "Folder that gets a folder for each result [default: petal-results]",
        ))
        .args(live::args())
        .args(live::metrics_arg());
    args::with_settings(command, CommandKind::Target)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let mut settings = source::read(matches, CommandKind::Target, None, console)?;
    if let Some(out) = matches.get_one::<PathBuf>("out") {
        settings.out.clone_from(out);
    }
    let plan = plan(matches)?;
    let signals = signals::count()?;
    let written = run_once(&settings, &plan, &source::context(&signals, console))?;
    // Minutes were spent on it: it is printed whatever could be written.
    record_kinds::show(&COSTS, &written.costs, (matches, console))?;
    let saved = written.saved?.display().to_string();
    let mut exit = match written.costs.status {
        Status::Interrupted => Exit::Interrupted,
        _ => Exit::Done,
    };
    match written.drawn {
        Ok(_) => console.warn(&format!("the costs are in {saved}")),
        Err(error) => {
            console.error(&format!("the costs are in {saved}; {error}"));
            exit = Exit::Environment;
        }
    }
    match written.failure {
        Some(error) => Err(error.into()),
        None => Ok(exit),
    }
}

/// Compares two records of an optimizer's prices.
pub fn compare_costs(
    sides: &[&String],
    matches: &ArgMatches,
    console: &Console,
) -> Result<Exit, CommandError> {
    let [before, after] = sides else {
        return Err(CommandError::usage(
            "records of petal costs are compared two at a time: petal compare BEFORE AFTER",
        ));
    };
    let of_runs = ["by", "baseline", "factors", "metric", "fail-if", "objective", "html"];
    if let Some(option) = of_runs.iter().find(|option| matches.contains_id(option)) {
        return Err(CommandError::usage(format!(
            "--{option}: it is of runs and tables, not of records of petal costs; leave it out"
        )));
    }
    let [one, two] = [before, after].map(|path| {
        let found = (COSTS.load)(Path::new(path));
        found.map_err(|error| {
            CommandError::usage(format!(
                "{path}: records of petal costs are compared with each other only: {error}"
            ))
        })
    });
    let (one, two) = (one?, two?);
    let found = compare::compare(&one, &two);
    match AnswerFormat::of(matches)? {
        AnswerFormat::Text => console.result(&console.laid_out(|| {
            compare_text::render([before.as_str(), after.as_str()], &one, &two, &found)
        })),
        AnswerFormat::Json => {
            let text = petal_report::json::pretty(&found);
            console.result(&text.map_err(CommandError::failed("the comparison is no JSON"))?);
        }
        _ => {
            return Err(CommandError::usage(
                "records of petal costs are compared as text or with --json only",
            ));
        }
    }
    Ok(Exit::Done)
}

fn plan(matches: &ArgMatches) -> Result<CostPlan, CommandError> {
    let scale = matches.get_one::<String>("scale").map(|text| {
        Extent::parse(text).map_err(|error| {
            CommandError::usage(format!("--scale {text}: {error}; give a size such as 1G or 500M"))
        })
    });
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(1);
    let cached: Option<&String> = matches.get_one("cached");
    Ok(CostPlan {
        sessions: number("sessions"),
        length: Duration::from_secs(matches.get_one("seconds").copied().unwrap_or(300)),
        assumed_pct: cached.and_then(|text| text.parse().ok()).unwrap_or(90),
        scale: scale.transpose()?,
        seed: draw_seed()?,
    })
}
