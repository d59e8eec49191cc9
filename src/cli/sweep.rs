//! `petal sweep`: every combination of the values asked for, several times over, into one folder
//! that the same command finds again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgAction, ArgGroup, ArgMatches, Command};

use petal_judge::next_cell::runs_most;
use petal_judge::petals::Petals;
use petal_record::sweep::{Sweep, Swept};
use petal_record::sweep_design::Design;
use petal_report::numbers::{bytes, counted, span, whole};
use petal_report::sweep::design;
use petal_report::table::{line, on_a_screen, paragraph};
use petal_run::WorkContext;
use petal_run::peers::Together;
use petal_settings::axes::SweepArguments;
use petal_settings::objective::Objective;
use petal_settings::table::CommandKind;
use petal_sweep::{self as sweep, Fresh, Pace, Planned, SweepRequest, left, main_bytes, run_time};

use super::args::{self, flag, value};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{launch, live, restore_settings, source};

/// The share within which an adaptive sweep finds peak and knee by default.
const PRECISION: f64 = 0.02;
const EXAMPLES: &str = "\
Examples:
  petal sweep --sessions 1,2,4,8,16 --update-pct 0,20 --repeats 3 --run-time 60
  petal sweep --ladder                        peak and knee of 1 to 64 sessions
  petal sweep --sessions 8,16 --precision 2%  as many runs as it takes
  petal sweep --search --max-latency read.p99=2ms   the most sessions within it
  petal sweep --sessions 8,32 --redo-stress LITE,HEAVY --update-pct 100
  petal sweep --readers 0,16 --writers 0,4    readers, writers, and both
  petal sweep --sessions 8 --block-sz 4K,8K,16K --load -s 4 --scale 1G
  petal sweep --sessions 1,8 --db sqlite:/old/petal --db sqlite:/new/petal
  petal sweep --sessions 8 --server-setting shared_buffers=1GB,4GB \\
    --restart-server 'systemctl restart postgresql'   once for a block of cells
  petal sweep --sessions 1,2,4,8 --dry-run    cells, order and time, and no run
  mpiexec -n 4 petal sweep --sessions 4,8,16  driven by four hosts together";

const NOTES: &str = "\
A list of values makes an axis. Each combination of values is a cell. A round
runs each cell once, and each round has another order. --ladder and --adaptive
choose cells as they go; --sessions is then a range, such as 1-64. The same
command resumes a sweep that was stopped or killed, and reports a complete one.
--out DIR is the sweep's own folder [default: named after its plan].";

pub fn command() -> Command {
    let command = Command::new("sweep")
        .about("Run every combination of several values: petals")
        .before_help(
            "Example: petal sweep --sessions 1,2,4,8,16 --update-pct 0,20 --repeats 3",
        )
        .arg(value(
            "sessions",
            "N,N,...",
            "Sessions over all schemas together [default: schemas x threads]",
        ))
        .arg(
            flag("ladder", "Double the sessions, 1-64, and repeat only the cells at peak and knee")
                .conflicts_with("adaptive"),
        )
        .arg(flag("adaptive", "Choose each next cell where peak and knee are least known, 1-64"))
        .arg(
            flag("search", "Search the most sessions, 1-64, that keep within --max-latency")
                .requires("objective")
                .conflicts_with_all(["ladder", "adaptive", "precision", "server-setting"]),
        )
        .arg(
            value(
                "precision",
                "N%",
                "Repeat until PIOPS of each cell, with --adaptive peak and knee, are known within it \
                 [default with --adaptive: 2%]",
            )
            .value_parser(share)
            .conflicts_with("ladder"),
        )
        .arg(
            value("max-runs", "N", "The most runs of a cell with --precision, of a line with --adaptive")
                .default_value("16")
                .value_parser(args::whole::<u32>(3, 1000))
                .requires("by-figures"),
        )
        .group(ArgGroup::new("by-figures").args(["precision", "adaptive"]).multiple(true))
        .arg(flag("dry-run", "Show cells, order and time, and run nothing"))
        .arg(flag("load", "Load the schemas that are missing, before the first cell"))
        .arg(flag("fresh", "Begin again; the present folder is kept under another name"))
        .arg(flag("again-failed", "Do cells again in which no session reached the end"))
        .arg(flag("json", "Print plan and figures of every cell as JSON, and only it, on stdout"))
        .arg(
            value(
                "server-setting",
                "NAME=V,V,...",
                "Vary a setting of the server, and put it back afterwards; may be repeated",
            )
            .action(ArgAction::Append)
            .conflicts_with_all(["ladder", "adaptive", "precision"]),
        )
        .args(restore_settings::restart_args())
        .arg(args::full())
        .arg(args::objective())
        .arg(args::os_data())
        .args(live::args())
        .args(live::metrics_arg())
        .arg(args::schemas("How many schemas [default: all that are loaded]"));
    args::one_screen(args::with_settings(command, CommandKind::Sweep), EXAMPLES, NOTES, &[])
        .mut_arg("DB", |arg| arg.action(ArgAction::Append))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let mut flags = petal_settings::flags::given(matches, CommandKind::Sweep);
    let dir = flags.get("OUT").filter(|out| !out.is_empty()).map(PathBuf::from);
    if dir.is_some() {
        flags.remove("OUT");
    }
    let is_given = matches.value_source("DB") == Some(clap::parser::ValueSource::CommandLine);
    let targets = matches.get_many::<String>("DB").filter(|_| is_given).unwrap_or_default();
    let design = asked_design(matches);
    if design.ends_by_figures() && flags.contains_key("REPEATS") {
        return Err(CommandError::usage(
            "--repeats: with --precision or --adaptive the figures decide how often petal repeats; name \
             the most runs by --max-runs",
        ));
    }
    let sessions = matches.get_one("sessions").map(String::as_str);
    let sessions = design.sessions(sessions).map_err(|why| {
        CommandError::usage(format!("--sessions: {why}; write a range or a list"))
    })?;
    let request = SweepRequest {
        design,
        asked: SweepArguments {
            flags,
            sessions,
            targets: targets.cloned().collect(),
            server_settings: matches
                .get_many::<String>("server-setting")
                .unwrap_or_default()
                .cloned()
                .collect(),
        },
        sources: source::sources(
            matches,
            CommandKind::Sweep,
            Default::default(),
            matches.get_one("schemas").copied(),
        ),
        dir,
        load: matches.get_flag("load"),
        fresh: fresh(matches),
        name: "sweep",
        peak_run_s: 0,
        again_failed: matches.get_flag("again-failed"),
        os_data: matches.get_one("os-data").cloned(),
        objective: matches.get_one("objective").cloned(),
        is_noted: true,
        restart: restore_settings::restart(matches),
        replay: None,
    };
    launch::with_hosts(console, |context, console| match context.hosts {
        Some(hosts) if !hosts.is_first() => match matches.get_flag("dry-run") {
            true => Ok(Exit::Done),
            false => follow(&request, context, hosts),
        },
        _ => run_request(&request, matches, context, console),
    })
}

fn asked_design(matches: &ArgMatches) -> Design {
    let runs_max = matches.get_one("max-runs").copied().unwrap_or(16);
    let precision = matches.get_one("precision").copied();
    if let Some(objective) = matches.get_one::<Objective>("objective")
        && matches.get_flag("search")
    {
        return Design::Search { within: objective.to_string() };
    }
    match (matches.get_flag("ladder"), matches.get_flag("adaptive"), precision) {
        (true, ..) => Design::Ladder,
        (_, true, precision) => {
            Design::Adaptive { precision: precision.unwrap_or(PRECISION), runs_max }
        }
        (.., Some(precision)) => Design::Repeated { precision, runs_max },
        _ => Design::Grid,
    }
}

/// Reads `--fresh`.
pub fn fresh(matches: &ArgMatches) -> Fresh {
    if matches.get_flag("fresh") { Fresh::Always } else { Fresh::Never }
}

/// A share of 0.1 to 50 %, after the name of the figure if it is given: `2%` and `piops 2%`.
fn share(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = text.strip_prefix("piops ").unwrap_or(text).trim();
    let percent = number.strip_suffix('%').and_then(|text| text.trim().parse().ok());
    percent
        .filter(|percent| (0.1..=50.0).contains(percent))
        .map(|percent: f64| percent / 100.0)
        .ok_or_else(|| "write a share of PIOPS from 0.1% to 50%, such as 2%".to_owned())
}

/// Shows the plan, or does the sweep and shows its result.
fn run_request(
    request: &SweepRequest<'_>,
    matches: &ArgMatches,
    context: &WorkContext<'_>,
    console: &Console,
) -> Result<Exit, CommandError> {
    if matches.get_flag("dry-run") {
        let planned = sweep::plan(request, &source::context(&Default::default(), console))?;
        let before = sweep::done_before(&planned)?;
        let text = console.laid_out(|| shown(&planned, before.as_ref()));
        console.result(&if console.is_brief(matches) { on_a_screen(&text) } else { text });
        return Ok(Exit::Done);
    }
    let (swept, exit, folder) = sweep_into(request, context)?;
    let objective = request.objective.as_ref();
    match matches.get_flag("json") {
        true => console.result(&json(&swept, objective)?),
        false => show(&swept, &folder, objective, matches, console),
    }
    Ok(exit)
}

/// Shows a sweep: on a terminal on one screen, unless `--full` asks for the whole report.
pub fn show(
    swept: &Swept,
    folder: &Path,
    objective: Option<&Objective>,
    matches: &ArgMatches,
    console: &Console,
) {
    let petals = Petals::of(&swept.observations()).with_objective(objective);
    let place = folder.display().to_string();
    let is_brief = console.is_brief(matches);
    console.report(|| match is_brief {
        true => petal_report::sweep::brief(swept, &petals, objective, &place),
        false => petal_report::sweep::render(swept, &petals, objective),
    });
    if !is_brief {
        let report = folder.join(petal_report::TEXT_NAME);
        console.warn(&format!("the report is {}", report.display()));
    }
}

/// Does this host's share of the cells that the first one names, which also sends the sweep's
/// outcome.
fn follow(
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
    hosts: &Together,
) -> Result<Exit, CommandError> {
    sweep::follow(request, context, hosts)?;
    Ok(if context.caller.is_interrupted() { Exit::Interrupted } else { Exit::Done })
}

/// A sweep for a pipe.
pub fn json(swept: &Swept, objective: Option<&Objective>) -> Result<String, CommandError> {
    petal_report::json::sweep(swept, objective)
        .map_err(CommandError::failed("the sweep is no JSON"))
}

/// Runs a sweep. Returns the sweep's results, its exit code and its folder.
pub fn sweep_into(
    request: &SweepRequest<'_>,
    context: &WorkContext<'_>,
) -> Result<(Swept, Exit, PathBuf), CommandError> {
    let done = sweep::run(request, context)?;
    let runs = done.swept.runs.iter().map(Exit::of_run);
    let failures = done.failures.iter().map(Exit::of_error);
    let mut exit = runs.chain(failures).fold(Exit::Done, Exit::max);
    if !done.is_complete() {
        exit = exit.max(Exit::Failed);
    }
    if context.caller.is_interrupted() {
        exit = Exit::Interrupted;
    }
    Ok((done.swept, exit, done.folder))
}

/// The plan for a person, with the finished part.
fn shown(planned: &Planned, before: Option<&Sweep>) -> String {
    let plan = before.map_or(&planned.plan, |sweep| &sweep.plan);
    let cells = planned.plan.cells();
    let is_grid = plan.design.is_grid();
    let runs = runs_most(plan);
    let run_time = run_time(planned);
    let size = format!(
        "{}, {}: {}",
        counted(cells.len() as u64, "cell"),
        if is_grid { counted(plan.repeats, "repeat") } else { design::repeats(plan) },
        if is_grid { counted(runs as u64, "run") } else { format!("about {runs} runs") }
    );
    let mut text = paragraph("", "  ", &size) + "\n";
    for target in &planned.targets {
        let Some(data) = &target.data else { continue };
        let in_use = bytes(main_bytes(data));
        text.push_str(&line(&format!(
            "target   {}: {}, {in_use} in use",
            target.url,
            counted(data.schemas, "schema")
        )));
    }
    for axis in &plan.axes {
        let axis = format!("{}: {}", axis.key, axis.values.join(", "));
        text.push_str(&paragraph("axis     ", "         ", &axis));
    }
    text.push_str(&line(&format!("folder   {}", planned.dir.display())));
    let left = before.map_or(runs, |sweep| match is_grid {
        true => left(sweep).len(),
        false => runs.saturating_sub(sweep.cells.len()),
    });
    if left < runs {
        let _ = writeln!(text, "done     {} of {runs} runs", runs - left);
    }
    let pace = Pace::default();
    let at_most = if planned.cells.iter().any(|cell| cell.work_loop > 0) { "at most " } else { "" };
    let time = format!(
        "{at_most}{} of runs; {} with settling and connecting, guessed at {} s a cell",
        span(run_time * left as u32),
        span(pace.left(left, run_time)),
        pace.overhead().as_secs(),
    );
    text.push_str(&paragraph("time     ", "         ", &time));
    for note in &planned.notes {
        text.push_str(&paragraph("warning  ", "         ", note));
    }
    text.push_str("\ncells\n");
    for (number, factors) in (1..).zip(&cells) {
        let values: Vec<String> =
            factors.iter().map(|(key, value)| format!("{key} {value}")).collect();
        text.push_str(&line(&format!("{:>5}  {}", whole(number), values.join(", "))));
    }
    text.push_str("\norder\n");
    if !is_grid {
        text.push_str("  each next cell is chosen from the figures so far\n");
        return text;
    }
    if before.is_none() && !planned.seed_is_given {
        text.push_str("  drawn when the sweep begins; --seed N makes it known before\n");
        return text;
    }
    let ordered = sweep::with_order(plan.clone());
    for (round, order) in (1..).zip(&ordered.order) {
        let order: Vec<String> = order.iter().map(u32::to_string).collect();
        let _ = writeln!(text, "  round {round}: {}", order.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_may_name_piops_and_nothing_else() {
        assert_eq!(share("2%"), Ok(0.02));
        assert_eq!(share("piops 2.5 %"), Ok(0.025));
        for wrong in ["2", "ops 2%", "piops", "60%", "piops piops 2%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
