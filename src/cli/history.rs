//! `petal history`: a figure over days, versions or settings.

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use petal_judge::compare::history::{DAY, history};
use petal_judge::compare::limits::LimitResult;
use petal_report::bmf::Bmf;
use petal_settings::limit::ChangeLimit;

use super::args::{self, value};
use super::compare::load;
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::format::{self, AnswerFormat};

const EXAMPLES: &str = "\
Examples:
  petal history nightly/*                     each figure, a row for each day
  petal history nightly --metric piops,op_p99_us --fail-if 'piops < -5%'
  petal history nightly/* --format bmf        for bencher.dev: the newest group
  petal history results/* --by petal          over petal's versions; also
                                              database, kernel, host, a setting

Groups are in the order of their first runs. petal finds lasting changes of
level: changes that are large next to the variation between groups. For two or
three groups use petal compare.

Exit codes: 0 done, every limit kept; 1 the newest change, or the change from
first to newest, is past a limit with its whole interval; 2 usage;
3 environment; 4 inconclusive: the interval of the newest change or groups
includes the limit or is unknown, or a cell has no complete run.";

pub fn command() -> Command {
    Command::new("history")
        .about("Follow a figure over days, versions or settings; find changes")
        .after_help(EXAMPLES)
        .arg(args::paths("folder", "DIR", "Runs, sweeps, folders of runs, or tables of figures"))
        .arg(
            value(
                "by",
                "KEY",
                "Key of a group: day, run, name, petal, database, kernel, a setting",
            )
            .default_value(DAY),
        )
        .arg(args::list(
            "metric",
            "NAME,...",
            "What to follow [default: the limits', or the usual ones]",
        ))
        .arg(args::limits("Fail when the newest change, or that from first to newest, is past it"))
        .args(AnswerFormat::args())
        .arg(args::full())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let format = AnswerFormat::of(matches)?;
    let mut seen = Vec::new();
    for path in matches.get_many::<PathBuf>("folder").unwrap_or_default() {
        seen.extend(load(path, None)?);
    }
    let limits: Vec<&ChangeLimit> = matches.get_many("fail-if").unwrap_or_default().collect();
    let asked = matches.get_many::<String>("metric").unwrap_or_default();
    let mut metrics: Vec<String> = asked.map(|name| name.trim().to_lowercase()).collect();
    for limit in &limits {
        if !metrics.contains(&limit.metric) {
            metrics.push(limit.metric.clone());
        }
    }
    let by = matches.get_one::<String>("by").map_or(DAY.to_owned(), |by| by.trim().to_lowercase());
    let reported = history(&seen, &by, &metrics)?;
    let held: Vec<LimitResult> = limits.iter().map(|limit| reported.hold(limit)).collect();
    let failed = "the history cannot be written";
    let text = match format {
        AnswerFormat::Text => console.laid_out(|| match console.is_brief(matches) {
            true => petal_report::one_screen::of_history(&reported, &held),
            false => petal_report::history::render(&reported, &held),
        }),
        AnswerFormat::Json => petal_report::json::with_limits(&reported, &held)
            .map_err(CommandError::failed(failed))?,
        AnswerFormat::Csv => {
            petal_report::history::csv(&reported).map_err(CommandError::failed(failed))?
        }
        AnswerFormat::Bmf => format::bmf(&Bmf::of_history(&reported), console)?,
        AnswerFormat::Junit => {
            petal_report::junit::junit("petal history", reported.verdict.as_ref(), &held)
        }
        AnswerFormat::Markdown => petal_report::markdown::history(&reported, &held),
    };
    console.result(&text);
    Ok(Exit::of_comparison(reported.verdict.as_ref(), &held))
}
