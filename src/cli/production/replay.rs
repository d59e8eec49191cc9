//! `petal replay`: the load of a profile, driven on a platform; once, or step by step until it is
//! not held any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Command};

use petal_judge::break_point;
use petal_production::replay::fit::{self, ReplayRequest};
use petal_production::replay::{self, ReplayOptions, ReplayPlan, ReplayedPart};
use petal_record::Run;
use petal_record::profile::{self, Profile};
use petal_record::replay::ReplayOf;
use petal_record::server_work::WorkTime;
use petal_record::sweep_design::Design;
use petal_run::series::RunSeries;
use petal_run::{RunError, WorkContext};
use petal_settings::axes::SweepArguments;
use petal_settings::objective::Objective;
use petal_settings::read::{self, Sources};
use petal_settings::table::{self, CommandKind};
use petal_settings::{Settings, flags};
use petal_sweep::{self as sweep, Replayed, SweepRequest};

use crate::cli::args::{self, flag, value};
use crate::cli::console::Console;
use crate::cli::failure::{CommandError, Exit};
use crate::cli::{live, run as run_command, signals, source, sweep as sweep_command};

const EXAMPLES: &str = "\
Examples:
  petal replay prod.json --dry-run            how it becomes operations
  petal replay prod.json --db postgres://new/db --run-time 600
  petal replay prod.json --play all --run-time 3600   a day in an hour
  petal replay prod.json --scale 0.5..4 --run-time 120 --repeats 3 \\
    --max-latency read.avg=1ms                  will it fit, and with what room?
  petal compare old-array new-array           two such replays

petal profile makes the profile. The same command resumes steps that were
stopped or killed. Load data first (petal setup), larger than the target's
caches if storage served production's reads. docs/recipes/will-it-fit.md has an
example.";

/// Parameters that the profile sets: other sources must not set them.
const SAID_BY_PROFILE: [&str; 9] = [
    "UPDATE_PCT",
    "SCAN_PCT",
    "RATE",
    "SELECT_RATE",
    "UPDATE_RATE",
    "SCAN_RATE",
    "RATE_SCALE",
    "READERS",
    "WRITERS",
];
/// Default number of sessions: an open loop needs as many as operations in flight.
const SESSIONS_DEFAULT: u32 = 16;
const TRIAL_S_DEFAULT: u32 = 10;
const STEPS_MAX: usize = 50;

pub fn command() -> Command {
    let command = Command::new("replay")
        .about("Drive a profile's load here: will it fit, with how much room?")
        .after_help(EXAMPLES)
        .arg(args::file("profile", "PROFILE", "A profile that petal profile made"))
        .arg(
            value(
                "play",
                "busiest|all",
                "Its busiest interval all the time, or all in their order [default: busiest]",
            )
            .value_parser(["busiest", "all"]),
        )
        .arg(
            value(
                "scale",
                "FROM..TO[:STEP]|N,N,...",
                "Multiples of the load; several: step by step until one is not held",
            )
            .value_parser(scales),
        )
        .arg(
            value(
                "trial",
                "SECONDS",
                "Length of the trials that measure the cost of a row here; 0: none [default: 10]",
            )
            .value_parser(args::whole::<u32>(0, 86_400)),
        )
        .arg(args::objective())
        .arg(
            flag("production-latency", "Held only with single-block reads as fast as production's")
                .conflicts_with("objective"),
        )
        .arg(flag("dry-run", "Show how the profile becomes operations, without trial and run"))
        .arg(
            flag("fresh", "Begin the steps again; the present folder is kept under another name")
                .requires("scale"),
        )
        .args(args::run_output())
        .arg(args::os_data())
        .args(live::args())
        .args(live::metrics_arg())
        .arg(args::schemas("How many schemas [default: all that are loaded]"));
    // The profile's settings have no flags here, and `--scale` is the load's.
    let command = args::with_settings(command, CommandKind::Run)
        .mut_arg("SCALE", |arg| arg.long("data-scale"));
    SAID_BY_PROFILE
        .into_iter()
        .fold(command, |command, key| command.mut_arg(key, |arg| arg.hide(true)))
}

/// Parses a list, or a range with a step, 0.5 by default.
fn scales(text: &str) -> Result<Vec<f64>, String> {
    let wrong = || format!("{text:?}: write 2, 0.5,1,2 or 0.5..4, with a step 0.5..4:0.25");
    let number = |text: &str| {
        text.trim().parse::<f64>().ok().filter(|n| *n > 0.0 && *n <= 1e6).ok_or_else(wrong)
    };
    let steps = match text.split_once("..") {
        None => text.split(',').map(number).collect::<Result<Vec<f64>, String>>()?,
        Some((from, rest)) => {
            let (to, step) = rest.split_once(':').unwrap_or((rest, "0.5"));
            let (from, to, step) = (number(from)?, number(to)?, number(step)?);
            let count = ((to - from) / step + 1e-9).floor();
            if !(0.0..STEPS_MAX as f64).contains(&count) {
                return Err(format!("{text:?}: is not from 1 to {STEPS_MAX} steps upwards"));
            }
            // Without the last bits of floats.
            (0..=count as u32)
                .map(|at| ((from + f64::from(at) * step) * 1e6).round() / 1e6)
                .collect()
        }
    };
    let is_upwards = steps.windows(2).all(|two| two[0] < two[1]);
    (is_upwards && steps.len() <= STEPS_MAX).then_some(steps).ok_or_else(wrong)
}

/// A command line, read.
struct ReplayArguments<'a> {
    matches: &'a ArgMatches,
    profile: Profile,
    flags: BTreeMap<&'static str, String>,
}

impl ReplayArguments<'_> {
    fn sources(&self, flags: BTreeMap<&'static str, String>) -> Sources<'static> {
        let schemas = self.matches.get_one("schemas").copied();
        source::sources(self.matches, CommandKind::Run, flags, schemas)
    }

    /// The multiples of the load, if the flag names any.
    fn scales(&self) -> Option<&[f64]> {
        self.matches.get_one::<Vec<f64>>("scale").map(Vec::as_slice)
    }

    /// The flags, and the plan's; the profile's parameters have no other source.
    fn flags(&self, plan: Option<&ReplayPlan>) -> BTreeMap<&'static str, String> {
        let mut all: BTreeMap<&'static str, String> =
            SAID_BY_PROFILE.into_iter().map(|key| (key, String::new())).collect();
        all.extend(plan.map(ReplayPlan::parameters).unwrap_or_default());
        all.extend(self.flags.clone());
        all
    }
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let mut given = given(matches)?;
    let mut unplanned = given.flags(None);
    // Some rate, so that ARRIVALS has one: the plan's rates are not known yet.
    unplanned.insert("SELECT_RATE", "1".to_owned());
    let base = read::read(&given.sources(unplanned))?;
    base.conf_file
        .iter()
        .for_each(|file| console.warn(&format!("settings from {}", file.display())));
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let (ground, schemas) = fit::ground(&base, &context)?;
    if !base.is_given("THREADS_PER_SCHEMA") {
        let threads = SESSIONS_DEFAULT.div_ceil(schemas.max(1));
        given.flags.insert("THREADS_PER_SCHEMA", threads.to_string());
    }
    let is_dry = matches.get_flag("dry-run");
    let trial_s = matches.get_one::<u32>("trial").copied().unwrap_or(TRIAL_S_DEFAULT);
    let is_stepped = given.scales().is_some_and(|scales| scales.len() > 1);
    let with_plan = |plan: &ReplayPlan| -> Result<Settings, RunError> {
        let mut settings = read::read(&given.sources(given.flags(Some(plan))))?;
        if is_stepped && given.flags.contains_key("OUT") {
            // The folder is the sweep's own.
            settings.out.as_mut_os_string().push("-trials");
        }
        Ok(settings)
    };
    let request = ReplayRequest {
        profile: &given.profile,
        played: match matches.get_one::<String>("play").map(String::as_str) {
            Some("all") => ReplayedPart::All,
            _ => ReplayedPart::Busiest,
        },
        asked: ReplayOptions {
            work_unit: Some(base.work_unit).filter(|_| base.is_given("WORK_UNIT")),
            update_work_unit: Some(base.update_work_unit)
                .filter(|_| base.is_given("UPDATE_WORK_UNIT")),
            redo_stress: Some(base.redo_stress).filter(|_| base.is_given("REDO_STRESS")),
        },
        trial: Duration::from_secs(if is_dry { 0 } else { trial_s.into() }),
        settings: &base,
        with_plan: &with_plan,
    };
    let asked = fit::untried(&request, &ground)?;
    let objective = objective(matches, &asked)?;
    let dir = steps_dir(&given, &base, &asked);
    let goes_on = dir.as_ref().filter(|_| !is_dry && !matches.get_flag("fresh"));
    let kept = match goes_on {
        Some(dir) => fit::kept(&asked, dir, objective.as_ref())?,
        None => None,
    };
    let plan = match kept {
        Some(plan) => {
            console.warn("these steps were begun before: their trials are not made again");
            plan
        }
        None => fit::fit(&request, &ground, &context)?,
    };
    match matches.get_flag("json") && !is_dry {
        true => replay::text::plan(&plan).lines().for_each(|line| console.warn(line)),
        false => console.report(|| replay::text::plan(&plan)),
    }
    if is_dry {
        return Ok(Exit::Done);
    }
    match given.scales().unwrap_or(&[1.0]) {
        [scale] => run_once(&given, (&plan, *scale, objective), &context, console),
        scales => step_by_step(&given, (&plan, scales, dir), objective, console),
    }
}

/// The folder of a replay step by step: the named one, else one named after the request;
/// None of a single multiple.
fn steps_dir(given: &ReplayArguments<'_>, base: &Settings, asked: &ReplayPlan) -> Option<PathBuf> {
    let scales = given.scales().filter(|scales| scales.len() > 1)?;
    if let Some(out) = given.flags.get("OUT").filter(|out| !out.is_empty()) {
        return Some(out.into());
    }
    Some(sweep::steps_dir(base, &asked.of, scales))
}

fn given(matches: &ArgMatches) -> Result<ReplayArguments<'_>, CommandError> {
    let flags = flags::given(matches, CommandKind::Run);
    let contradicts = SAID_BY_PROFILE.into_iter().find(|key| flags.contains_key(key));
    if let Some(parameter) = contradicts.and_then(table::find) {
        let instead = if parameter.key == "RATE_SCALE" { "use --scale" } else { "leave it out" };
        return Err(CommandError::usage(format!(
            "--{}: the profile says it; {instead}",
            parameter.flag()
        )));
    }
    let path = matches.get_one::<PathBuf>("profile").cloned().unwrap_or_default();
    let profile = petal_judge::profile::resummarise(profile::load(&path)?);
    Ok(ReplayArguments { matches, profile, flags })
}

/// The stated objective, or production's own latency.
fn objective(matches: &ArgMatches, plan: &ReplayPlan) -> Result<Option<Objective>, CommandError> {
    if !matches.get_flag("production-latency") {
        return Ok(matches.get_one::<Objective>("objective").cloned());
    }
    if matches.get_one::<String>("play").is_some_and(|play| play == "all") {
        return Err(CommandError::usage(
            "--production-latency: is from the busiest interval, and --play all drives all of them; \
             state one with --max-latency read.avg=1ms",
        ));
    }
    let Some(read_us) = plan.of.latency_us.get(&WorkTime::SingleBlockRead) else {
        return Err(CommandError::usage(
            "--production-latency: the profile does not hold the time of single-block reads; \
             state one with --max-latency read.avg=1ms",
        ));
    };
    format!("read.avg={read_us:.1}us").parse().map(Some).map_err(CommandError::usage)
}

fn run_once(
    given: &ReplayArguments<'_>,
    (plan, scale, objective): (&ReplayPlan, f64, Option<Objective>),
    context: &WorkContext<'_>,
    console: &Console,
) -> Result<Exit, CommandError> {
    let mut flags = given.flags(Some(plan));
    flags.insert("RATE_SCALE", scale.to_string());
    let settings = read::read(&given.sources(flags))?;
    settings.notes.iter().for_each(|note| console.warn(note));
    let mut series = RunSeries::new(context.open(&settings)?, settings, context)?;
    series.os_data = given.matches.get_one::<PathBuf>("os-data").cloned();
    series.replay = Some(judged_by(&plan.of, objective.as_ref()));
    let brief = |run: &Run, place: &str| {
        let imitated = petal_report::replay::replayed_load(run).unwrap_or_default();
        petal_report::text::brief_with(run, place, &imitated)
    };
    run_command::run_repeats(&series, Some("replay"), given.matches, console, Some(&brief), false)
}

fn judged_by(of: &ReplayOf, objective: Option<&Objective>) -> ReplayOf {
    ReplayOf { objective: objective.map(ToString::to_string), ..of.clone() }
}

fn step_by_step(
    given: &ReplayArguments<'_>,
    (plan, scales, dir): (&ReplayPlan, &[f64], Option<PathBuf>),
    objective: Option<Objective>,
    console: &Console,
) -> Result<Exit, CommandError> {
    let mut flags = given.flags(Some(plan));
    let scales: Vec<String> = scales.iter().map(f64::to_string).collect();
    flags.insert("RATE_SCALE", scales.join(","));
    flags.remove("OUT");
    let targets: Vec<String> = flags.remove("DB").into_iter().collect();
    let request = SweepRequest {
        design: Design::Grid,
        asked: SweepArguments { flags, targets, ..SweepArguments::default() },
        sources: Sources { command: CommandKind::Sweep, ..given.sources(BTreeMap::new()) },
        dir,
        load: false,
        fresh: sweep_command::fresh(given.matches),
        name: "replay",
        peak_run_s: 0,
        again_failed: false,
        restart: None,
        os_data: given.matches.get_one("os-data").cloned(),
        objective: objective.clone(),
        is_noted: true,
        replay: Some(Replayed {
            of: judged_by(&plan.of, objective.as_ref()),
            profile: &given.profile,
        }),
    };
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let (swept, exit, folder) = sweep_command::sweep_into(&request, &context)?;
    match break_point::of(&swept, objective.as_ref()) {
        Some(found) if !given.matches.get_flag("json") => {
            let page = folder.join(petal_report::FIT_HTML_NAME);
            console.warn(&format!("the answer as a page is {}", page.display()));
            console.report(|| match console.is_brief(given.matches) {
                true => petal_report::replay::brief(&found),
                false => petal_report::replay::break_point(&found),
            });
        }
        _ => console.result(&sweep_command::json(&swept, objective.as_ref())?),
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_are_lists_or_ranges_upwards() {
        assert_eq!(scales("2"), Ok(vec![2.0]));
        assert_eq!(scales("0.5,1,4"), Ok(vec![0.5, 1.0, 4.0]));
        assert_eq!(scales("0.5..2"), Ok(vec![0.5, 1.0, 1.5, 2.0]));
        assert_eq!(scales("0.1..0.4:0.1"), Ok(vec![0.1, 0.2, 0.3, 0.4]));
        for text in ["", "0", "-1", "2,1", "4..1", "1..x", "0.1..100:0.1", "1..2:0"] {
            assert!(scales(text).is_err(), "{text}");
        }
    }
}
