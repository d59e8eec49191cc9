//! `petal compare`: runs, sweeps or tables of figures set against each other; one alone is
//! analysed as petals.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, ValueEnum as _};

use petal_judge::and_more;
use petal_judge::break_point::{self, BreakPoint};
use petal_judge::compare::limits::{self, LimitResult};
use petal_judge::compare::{CompareError, ComparedSide, Comparison, Rules, compare};
use petal_judge::petals::Petals;
use petal_record::file_names::natural;
use petal_record::observation::Observation;
use petal_record::{self as record, RecordError, plain_csv, sweep};
use petal_report::bmf::Bmf;
use petal_report::html::HtmlError;
use petal_settings::limit::ChangeLimit;
use petal_settings::objective::Objective;
use petal_settings::printable::printable;

use super::args::{self, flag, value};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::format::{self, AnswerFormat};
use super::output;
use super::record_kinds;

/// Separator between two sides of several runs each.
const VERSUS: &str = "vs";

const EXAMPLES: &str = "\
Examples:
  petal compare results-before results-after   two sweeps, runs, folders of runs
  petal compare petal-results/*-before vs petal-results/*-after
  petal compare SWEEP --by db                two targets: paired by round
  petal compare table.csv --by compression   a published table with both sides
  petal compare table.csv                    one side alone: its petals
  petal compare petal-results/*-costs        two results of petal costs
  petal compare A B --fail-if 'piops < -5%'  for a script; several may be given
  petal compare A B --html page.html         a page with charts, one file
  petal compare A B --format markdown        a comment for a pull request";

const NOTES: &str = "\
An interval needs three runs on each side. Sides that were run in turn are
paired by round. Others are compared by Welch's test, and the difference
includes any drift between them. p is corrected for the number of cells (Holm).
A limit is judged against the change over all cells, and against each cell.
A table has a header, with the factor columns first. The name of a figure ends
in its unit (reads_s, read_us, read_ms, mb_s). _node1, _node2 are summed.

Exit codes: 0 done, every limit kept; 1 a limit failed (the whole interval over
all cells is past it, or a cell is proven past it); 2 usage; 3 environment;
4 inconclusive: the interval includes the limit or is missing, or a cell has no
complete run on a side. A side without a valid run is inconclusive, too.";

pub fn command() -> Command {
    let command = Command::new("compare")
        .about("Compare runs, sweeps or tables of figures, with intervals")
        .arg(
            Arg::new("side")
                .value_name("SIDE")
                .required(true)
                .num_args(1..)
                .help("A run's or sweep's folder, a folder of runs, or a CSV; `vs` between groups"),
        )
        .arg(value(
            "by",
            "FACTOR",
            "Make a side of each value of a factor (a column, an axis, a parameter)",
        ))
        .arg(
            value("baseline", "VALUE", "The value of --by to compare with [default: the first]")
                .requires("by"),
        )
        .arg(args::list(
            "factors",
            "NAME,...",
            "The factor columns of a CSV; all others are figures",
        ))
        .arg(args::list("metric", "NAME,...", "What to compare [default: the usual ones]"))
        .arg(args::limits("Fail when a whole interval is past it: 'piops < -5%', 'read_us > 10%'"))
        .arg(flag("in-turn", "The runs of a round were run in turn: pair them by round"))
        .arg(args::objective())
        .args(AnswerFormat::args())
        .arg(args::full())
        .arg(args::path("html", "FILE", "Also write the comparison as a page, one file"));
    args::one_screen(command, EXAMPLES, NOTES, &["baseline", "factors", "in-turn"])
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let format = AnswerFormat::of(matches)?;
    let arguments = matches.get_many::<String>("side").unwrap_or_default();
    let mut paths = arguments.clone().map(Path::new);
    if let Some(compare) = paths.find_map(record_kinds::comparison) {
        return compare(&arguments.collect::<Vec<_>>(), matches, console);
    }
    check_page(matches)?;
    let sides = sides(matches, console)?;
    if let [side] = sides.as_slice() {
        return show_one_side(side, format, matches, console);
    }
    let found = break_points(matches)?;
    if found.len() > 1 && format == AnswerFormat::Text {
        console.result(&console.laid_out(|| petal_report::replay::side_by_side(&found)));
    }
    let limits: Vec<&ChangeLimit> = matches.get_many("fail-if").unwrap_or_default().collect();
    let rules = rules(matches, &sides, &limits)?;
    let comparison = compare(&sides, &rules)?.with_costs(&sides, matches.get_one("objective"));
    let held: Vec<LimitResult> =
        limits.iter().map(|limit| limits::hold(limit, &comparison)).collect();
    write_page(matches, console, || petal_report::html::comparison(&comparison, &held))?;
    console.result(&shown(format, matches, console, &comparison, &held)?);
    Ok(Exit::of_comparison(comparison.verdict.as_ref(), &held))
}

/// Refuses the page that `--html` named before anything is read, if it cannot be written.
fn check_page(matches: &ArgMatches) -> Result<(), CommandError> {
    let Some(file) = matches.get_one::<PathBuf>("html") else { return Ok(()) };
    output::check_ending("--html", file, &["html"])?;
    let sides = matches.get_many::<String>("side").unwrap_or_default();
    let sides: Vec<PathBuf> = sides.map(PathBuf::from).collect();
    output::check("--html", file, &sides.iter().collect::<Vec<_>>())
}

/// Writes the page that `--html` named, if it did.
fn write_page(
    matches: &ArgMatches,
    console: &Console,
    make: impl FnOnce() -> Result<String, HtmlError>,
) -> Result<(), CommandError> {
    let Some(file) = matches.get_one::<PathBuf>("html") else { return Ok(()) };
    let page = make().map_err(CommandError::failed(format!("--html {}", file.display())))?;
    output::write("--html", file, printable(&page).as_bytes())?;
    console.warn(&format!("the page is {}", file.display()));
    Ok(())
}

/// The break point of every side that is a replay step by step.
fn break_points(matches: &ArgMatches) -> Result<Vec<(String, BreakPoint)>, CommandError> {
    let objective: Option<&Objective> = matches.get_one("objective");
    let mut found = Vec::new();
    for path in matches.get_many::<String>("side").unwrap_or_default() {
        if sweep::is_one(Path::new(path)) {
            let swept = record::sweep::load(Path::new(path))?;
            found.extend(break_point::of(&swept, objective).map(|found| (path.clone(), found)));
        }
    }
    Ok(found)
}

/// The metrics to compare: the requested or usual ones, and the ones with limits.
fn rules(
    matches: &ArgMatches,
    sides: &[ComparedSide],
    limits: &[&ChangeLimit],
) -> Result<Rules, CommandError> {
    let asked = matches.get_many::<String>("metric").unwrap_or_default();
    let mut metrics: Vec<String> = asked.map(|name| name.trim().to_lowercase()).collect();
    let in_turn = matches.get_flag("in-turn");
    if metrics.is_empty() && !limits.is_empty() {
        metrics = compare(sides, &Rules { metrics, in_turn })?.metrics;
    }
    for limit in limits {
        if !metrics.contains(&limit.metric) {
            metrics.push(limit.metric.clone());
        }
    }
    Ok(Rules { metrics, in_turn })
}

fn shown(
    format: AnswerFormat,
    matches: &ArgMatches,
    console: &Console,
    comparison: &Comparison,
    held: &[LimitResult],
) -> Result<String, CommandError> {
    let failed = "the comparison cannot be written";
    Ok(match format {
        AnswerFormat::Text => console.laid_out(|| match console.is_brief(matches) {
            true => petal_report::one_screen::of_comparison(comparison, held),
            false => petal_report::compare::render(comparison, held),
        }),
        AnswerFormat::Json => petal_report::json::with_limits(comparison, held)
            .map_err(CommandError::failed(failed))?,
        AnswerFormat::Csv => {
            // A table of figures has no place for it.
            comparison.verdict.iter().for_each(|verdict| console.warn(&verdict.words));
            petal_report::compare::csv(comparison).map_err(CommandError::failed(failed))?
        }
        AnswerFormat::Bmf => format::bmf(&Bmf::of_comparison(comparison), console)?,
        AnswerFormat::Junit => {
            petal_report::junit::junit("petal compare", comparison.verdict.as_ref(), held)
        }
        AnswerFormat::Markdown => petal_report::markdown::comparison(comparison, held),
    })
}

/// Shows the lines of a single side.
fn show_one_side(
    side: &ComparedSide,
    format: AnswerFormat,
    matches: &ArgMatches,
    console: &Console,
) -> Result<Exit, CommandError> {
    if let Some(limit) =
        matches.get_many::<ChangeLimit>("fail-if").and_then(|mut limits| limits.next())
    {
        return Err(CommandError::usage(format!(
            "{limit}: there is only {}, and nothing to compare it with; name a second side, or a \
             factor with --by",
            side.name
        )));
    }
    if !matches!(format, AnswerFormat::Text | AnswerFormat::Json) {
        let name = format.to_possible_value().map_or_else(String::new, |it| it.get_name().into());
        return Err(CommandError::usage(format!(
            "--format {name}: there is only {}, and nothing to compare it with; petal report of a sweep \
             leaves sweep.csv",
            side.name
        )));
    }
    let objective: Option<&Objective> = matches.get_one("objective");
    let petals = Petals::of(&side.observations).with_objective(objective);
    write_page(matches, console, || {
        petal_report::html::petals(&side.name, &petals, &side.observations)
    })?;
    let text = if format == AnswerFormat::Json {
        petal_report::json::petals(&petals)
            .map_err(CommandError::failed("the petals cannot be written"))?
    } else {
        console.laid_out(|| match console.is_brief(matches) {
            true => petal_report::sweep::of_petals(&side.name, &petals, objective),
            false => petal_report::petals_text::alone(&side.name, &petals, objective),
        })
    };
    console.result(&text);
    Ok(Exit::Done)
}

fn sides(matches: &ArgMatches, console: &Console) -> Result<Vec<ComparedSide>, CommandError> {
    let arguments: Vec<&String> = matches.get_many("side").unwrap_or_default().collect();
    let factors: Option<Vec<String>> =
        matches.get_many::<String>("factors").map(|names| names.cloned().collect());
    let groups: Vec<&[&String]> = if arguments.iter().any(|argument| *argument == VERSUS) {
        arguments.split(|argument| *argument == VERSUS).collect()
    } else {
        arguments.chunks(1).collect()
    };
    let mut sides = Vec::new();
    for group in groups {
        let [first, rest @ ..] = group else {
            return Err(CommandError::usage(format!(
                "`{VERSUS}` is between sides, not next to one"
            )));
        };
        let name = format!("{first}{}", and_more(" ", rest.len()));
        let mut side = ComparedSide { name, observations: Vec::new() };
        for path in group {
            side.observations.extend(load(Path::new(path.as_str()), factors.as_deref())?);
        }
        sides.push(side);
    }
    let by = matches.get_one::<String>("by").map(|name| name.trim().to_lowercase());
    let targets = || by_targets(&sides, console);
    let Some(by) = by.or_else(targets) else { return Ok(sides) };
    let names: Vec<String> = sides.iter().map(|side| side.name.clone()).collect();
    let all = sides.into_iter().flat_map(|side| side.observations).collect();
    let baseline = matches.get_one::<String>("baseline").map(String::as_str);
    ComparedSide::split(&names.join(", "), all, &by, baseline).map_err(CommandError::usage)
}

/// A sweep over several targets, alone, is a comparison of these.
fn by_targets(sides: &[ComparedSide], console: &Console) -> Option<String> {
    let [side] = sides else { return None };
    let targets = || side.observations.iter().map(|seen| seen.factor("db"));
    let first = targets().next()??;
    targets().any(|db| db.is_some_and(|db| db != first)).then(|| {
        console.warn("the targets of this sweep are compared (--by db)");
        "db".to_owned()
    })
}

/// The runs of a sweep, of one run's folder, of a folder of runs, or the rows of a table.
pub(super) fn load(
    path: &Path,
    factors: Option<&[String]>,
) -> Result<Vec<Observation>, CommandError> {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if path.is_file() && !is_json {
        return Ok(plain_csv::read(path, factors)?);
    }
    if sweep::is_one(path) {
        let swept = record::sweep::load(path)?;
        let numbers = swept.sweep.cells.iter().map(|cell| cell.number);
        let mut cells: Vec<(u32, Observation)> = numbers.zip(swept.observations()).collect();
        // In the order of the plan, so that the first target asked for is the baseline.
        cells.sort_by_key(|(number, seen)| (*number, seen.repeat));
        let named = cells.into_iter().map(|(_, seen)| {
            let source = path.join(&seen.source).display().to_string();
            Observation { source, ..seen }
        });
        return Ok(named.collect());
    }
    match petal_report::load(path) {
        Ok(run) => Ok(vec![Observation::of_run(&path.display().to_string(), Vec::new(), &run)]),
        Err(error @ RecordError::NotARecord { .. }) => {
            let runs = runs_within(path)?;
            if runs.is_empty() { Err(error.into()) } else { Ok(runs) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Every run of a folder of runs, in the order in which they began; one whose record cannot be read
/// is there as a run without figures.
fn runs_within(path: &Path) -> Result<Vec<Observation>, CommandError> {
    let entries =
        std::fs::read_dir(path).map_err(|source| RecordError::io("read", path, source))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| record::is_one(folder));
    let mut runs = Vec::new();
    for folder in folders {
        runs.push(match petal_report::load(&folder) {
            Ok(run) => Observation::of_run(&folder.display().to_string(), Vec::new(), &run),
            Err(error) if error.is_environment() => return Err(error.into()),
            Err(_) => Observation::of_damaged(&folder),
        });
    }
    runs.sort_by_cached_key(|run| (run.started(), natural(Path::new(&run.source))));
    Ok(runs)
}

impl From<CompareError> for CommandError {
    fn from(error: CompareError) -> Self {
        Self::usage(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::{RecordFolder, fixture};

    #[test]
    fn a_damaged_run_is_left_out_of_its_folder_and_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("20261120T020000Z-run", None), ("20261121T020000Z-run", Some("{"))] {
            let folder = RecordFolder::open(&dir.path().join(name));
            std::fs::create_dir(folder.path()).unwrap();
            match text {
                None => record::save(&folder, &fixture::mixed_run()),
                Some(text) => folder.write_atomically("run.json", text.as_bytes()),
            }
            .unwrap();
        }
        let mut seen = load(dir.path(), None).unwrap();
        seen.sort_by_key(|seen| seen.is_damaged);
        let [whole, damaged] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!((whole.why_unusable(), whole.metrics.is_empty()), (None, false));
        assert!(
            damaged.why_unusable().is_some() && damaged.source.ends_with("20261121T020000Z-run")
        );
        assert_eq!(damaged.started_at.as_deref(), Some("2026-11-21T02:00:00Z"));
    }
}
