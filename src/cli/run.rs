//! `petal run`: one run, or REPEATS of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use petal_judge::steady::proof;
use petal_record::Run;
use petal_record::moment::exact;
use petal_run::WorkContext;
use petal_run::experiments;
use petal_run::merge::RunWithFolder;
use petal_run::peers::Together;
use petal_run::series::RunSeries;
use petal_run::start;
use petal_settings::SCHEMAS_MAX;
use petal_settings::size::parse_bytes;
use petal_settings::table::CommandKind;
use petal_settings::{Reconnect, Settings, UntilSteady};
use petal_workload::share::Share;

use super::args::{self, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{launch, live, report, source};

const EXAMPLES: &str = "\
Examples:
  petal run -s 4 -t 8                        settings of slob.conf, 32 sessions
  petal run --update-pct 0 --run-time 60     physical reads only
  petal run 4 --work-loop 100 --update-pct 20  400 operations, 80 commits
  petal run -s 4 --readers 6 --writers 2     whole sessions of one kind
  petal run -t 8 --run-time 60 --elasticity  30 s measured, then 30 s of
                                             experiments: what limits it?
  petal run -s 4 --rate 500                  open loop: response times, counted
                                             from when each operation was due
  petal run -s 4 --json | jq .steady.per_second   figures for a script";

const NOTES: &str = "\
More examples:
  petal run --update-pct 30 --run-time 14400 --until-steady=200G
  petal run --update-pct 100 --ledger /elsewhere/1.ledger   cut the power, then
                                             petal verify
  petal run --rate 2000 --on-disconnect retry --ledger /elsewhere/1.ledger
                                             an outage and its lost commits
  petal run -s 8 -t 8 --share 2/4 --start-at 2026-11-20T14:05:00Z
                                             one of four driver hosts

The record is left in petal-results/<UTC stamp>-<name>/. Ctrl-C once stops
cleanly and reports; twice stops at once. If petal is killed, use
petal report DIR.";

pub fn command() -> Command {
    let number = whole::<u32>(0, SCHEMAS_MAX.into());
    let command = Command::new("run")
        .about("Run the method: settle, connect, trigger, run, record, report")
        .before_help(
            "Example: petal run -s 4 -t 8 --update-pct 20 --run-time 300 --db sqlite:/data",
        )
        .arg(
            Arg::new("form")
                .value_name("N")
                .num_args(0..=2)
                .value_parser(move |text: &str| {
                    args::no_setting(text).and_then(|text| number(&text))
                })
                .help("SLOB's own form of -s"),
        )
        .args(args::run_output())
        .arg(value("name", "NAME", "Names the run's folder"))
        .arg(
            value(
                "until-steady",
                "VOLUME",
                "End as soon as the rate is proven steady; RUN_TIME is the limit. With UPDATEs \
                 only after VOLUME (20G) was written [default: the active data set]",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("")
            .value_parser(until_steady),
        )
        .arg(args::flag(
            "elasticity",
            "Spend the second half of RUN_TIME on experiments that show what limits the run: slower \
             and repeated reads, slower commits, burnt processor time, fewer sessions",
        ))
        .arg(
            value(
                "on-disconnect",
                "ACTION",
                "A session that loses its connection is lost (lose), or connects again to the server \
                 that takes its work (retry)",
            )
            .value_parser(["lose", "retry"])
            .default_value("lose"),
        )
        .arg(
            value(
                "answer-within",
                "SECONDS",
                "With retry, give a connection up that has not answered for so long [default: 10]",
            )
            .value_parser(clap::value_parser!(u64).range(1..=3600)),
        )
        .arg(
            value(
                "share",
                "K/N",
                "Drive every Nth session from the Kth on: this host's part of a run on N hosts; \
                 petal merge makes one record of all",
            )
            .requires("start-at")
            .value_parser(|text: &str| text.parse::<Share>()),
        )
        .arg(
            value(
                "start-at",
                "TIME",
                "Connect, then begin at this moment by the database's clock: RFC 3339 or @SECONDS \
                 since 1970; the same on all hosts",
            )
            .value_parser(start_at),
        )
        .arg(args::path(
            "ledger",
            "FILE",
            "Record each acknowledged commit in FILE, for petal verify. FILE is on another machine \
             than the one that is cut, or a pipe to ssh",
        ))
        .arg(args::os_data())
        .args(live::args())
        .args(live::metrics_arg())
        .arg(args::schemas("How many schemas [default: all that are loaded]"));
    let command = args::with_settings(command, CommandKind::Run);
    args::one_screen(command, EXAMPLES, &args::of_targets(NOTES), &[])
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    launch::with_hosts(console, |context, console| run_share(matches, context, console))
}

/// Work of this host in a run: all, a share, or its part among connected hosts.
fn run_share(
    matches: &ArgMatches,
    context: &WorkContext<'_>,
    console: &Console,
) -> Result<Exit, CommandError> {
    let hosts = context.hosts;
    let schemas = schemas(matches)?;
    let mut settings = source::read(matches, CommandKind::Run, schemas, console)?;
    settings.until_steady = matches.get_one("until-steady").copied();
    check_until_steady(&settings)?;
    settings.elasticity = matches.get_flag("elasticity");
    let share = matches.get_one::<Share>("share").copied();
    let start = matches.get_one::<OffsetDateTime>("start-at").copied();
    check_start(&settings, start)?;
    check_hosts(&settings, start, hosts)?;
    let is_shared = hosts.is_some() || share.is_some();
    check_elasticity(&settings, is_shared)?;
    settings.reconnect = reconnect(matches, &settings, is_shared)?;
    let share = hosts.map(Together::share).or(share).unwrap_or_default();
    settings.is_shared = !share.is_whole();
    if let Some(at) = start {
        // The same on every host, and another one for another start.
        settings.seed.get_or_insert_with(|| start::seed(at));
    }
    let mut series = RunSeries::new(context.open(&settings)?, settings, context)?;
    if let Some(at) = start {
        series.share_from(share, at);
    }
    if let Some(hosts) = hosts {
        series.join(hosts)?;
    }
    series.os_data = matches.get_one::<PathBuf>("os-data").cloned();
    series.ledger = matches.get_one::<PathBuf>("ledger").cloned();
    check_ledger(&series, hosts)?;
    let name = matches.get_one::<String>("name").map(String::as_str);
    // The first host shows the work of all.
    let is_shown = hosts.is_none() || share.is_first();
    let brief: BriefReport<'_> = &petal_report::text::brief;
    let is_one_screen = is_shown && !matches.get_flag("json") && console.is_brief(matches);
    let in_table = is_one_screen && series.settings.repeats > 1;
    run_repeats(&series, name, matches, console, is_shown.then_some(brief), in_table)
}

/// The text of a run and the place of its record, for a person who reads it at once.
type BriefReport<'a> = &'a dyn Fn(&Run, &str) -> String;

/// Runs as often as REPEATS says, and shows each run, or all of them in a table at the end; without
/// `brief` it shows none.
pub fn run_repeats(
    series: &RunSeries<'_>,
    name: Option<&str>,
    matches: &ArgMatches,
    console: &Console,
    brief: Option<BriefReport<'_>>,
    in_table: bool,
) -> Result<Exit, CommandError> {
    let repeats = series.settings.repeats;
    let (mut exit, mut failure, mut runs) = (Exit::Done, None, Vec::new());
    for repeat in 1..=repeats {
        let kept = series.run_once(repeat, name)?;
        exit = exit.max(Exit::of_run(&kept.run));
        if in_table && kept.is_written() {
            let place = kept.folder.path().display().to_string();
            let verdict = petal_judge::headline(&kept.run);
            console.warn(&format!("run {repeat} of {repeats}: {verdict}; {place}"));
            runs.push((report::folder_name(kept.folder.path()), kept.run));
        } else {
            show(&kept, matches, console, brief)?;
        }
        failure = kept.failure;
        if failure.is_some() || exit == Exit::Interrupted {
            break;
        }
    }
    if !runs.is_empty() {
        let named: Vec<(&str, &Run)> = runs.iter().map(|(at, run)| (at.as_str(), run)).collect();
        console.report(|| petal_report::sweep::brief_of_runs(&named));
        console.warn("report.txt and report.html in each run's folder hold the whole report");
    }
    failure.map_or(Ok(exit), |failure| Err(failure.into()))
}

/// Shows a run in the form that the flags ask for; without `brief` only the place of its record.
pub fn show(
    kept: &RunWithFolder,
    matches: &ArgMatches,
    console: &Console,
    brief: Option<BriefReport<'_>>,
) -> Result<(), CommandError> {
    let place = kept.folder.path().display().to_string();
    match brief {
        None => {}
        Some(_) if matches.get_flag("json") => console.result(&report::json(&kept.run)?),
        Some(brief) if console.is_brief(matches) => {
            console.report(|| brief(&kept.run, &place));
            if kept.is_written() {
                return Ok(()); // The screen names the place.
            }
        }
        Some(_) => console.report(|| petal_report::text::render(&kept.run)),
    }
    let what = match kept.is_written() {
        true => "the record is",
        false => "the record could not be written; the measurements are",
    };
    console.warn(&format!("{what} in {place}"));
    Ok(())
}

/// Number of schemas: `-s N`, or SLOB's own `petal run N`.
fn schemas(matches: &ArgMatches) -> Result<Option<u32>, CommandError> {
    let flag = matches.get_one::<u32>("schemas").copied();
    let form: Vec<u32> = matches.get_many("form").unwrap_or_default().copied().collect();
    match (flag, form.as_slice()) {
        (flag, []) => Ok(flag),
        (_, [writers, readers, ..]) => Err(CommandError::usage(format!(
            "{writers} {readers}: two numbers are the first SLOB's form of writers and readers; \
             write: petal run --writers {writers} --readers {readers}"
        ))),
        (Some(_), [form]) => Err(CommandError::usage(format!(
            "-s and N={form} both say how many schemas: give one of them"
        ))),
        (None, [0]) => Err(CommandError::usage(format!(
            "N=0: the number of schemas is a whole number from 1 to {SCHEMAS_MAX}; for instance \
             `petal run 4`"
        ))),
        (None, &[form]) => Ok(Some(form)),
    }
}

fn until_steady(volume: &str) -> Result<UntilSteady, String> {
    let volume_bytes = match volume {
        "" => None,
        volume => Some(parse_bytes(volume).map_err(|why| {
            format!("{why}; write a volume such as --until-steady=20G, or none at all")
        })?),
    };
    Ok(UntilSteady::after(volume_bytes))
}

fn start_at(text: &str) -> Result<OffsetDateTime, String> {
    let at = match text.strip_prefix('@') {
        Some(seconds) => {
            let seconds = seconds.parse::<f64>().ok().filter(|s| (0.0..1e11).contains(s));
            seconds.map(|s| OffsetDateTime::UNIX_EPOCH + time::Duration::seconds_f64(s))
        }
        None => OffsetDateTime::parse(text, &Rfc3339).ok(),
    };
    at.ok_or_else(|| {
        "must be a moment such as 2026-11-20T14:05:00Z, or @1795183500; for instance \
         --start-at \"$(date -u -d '+2 min' +%FT%TZ)\""
            .to_owned()
    })
}

/// Checks that a run with a common start has one cell and a fixed time.
fn check_start(settings: &Settings, start: Option<OffsetDateTime>) -> Result<(), CommandError> {
    let Some(at) = start else { return Ok(()) };
    let now = OffsetDateTime::now_utc();
    let refused = |why: &str| Err(CommandError::usage(format!("--start-at {}: {why}", exact(at))));
    if settings.repeats > 1 {
        return refused(&format!(
            "REPEATS={}: one moment begins one run; call petal once for each repeat, with a moment \
             for each",
            settings.repeats
        ));
    }
    if settings.until_steady.is_some() {
        return refused("--until-steady ends each host at another moment; leave it out");
    }
    if at < now {
        return refused(&format!(
            "that has passed: it is {} now; leave hosts the time to connect and to settle",
            exact(now)
        ));
    }
    Ok(())
}

/// Refuses flags that a run of ranks does not take.
fn check_hosts(
    settings: &Settings,
    start: Option<OffsetDateTime>,
    hosts: Option<&Together>,
) -> Result<(), CommandError> {
    let Some(hosts) = hosts else { return Ok(()) };
    let refused = |what: &str, why: &str| {
        let of = hosts.share().of;
        Err(CommandError::usage(format!(
            "{what}: an MPI launcher started petal as one of {of}, {why}; leave it out"
        )))
    };
    match (start, &settings.until_steady) {
        (Some(_), _) => refused("--start-at", "and these begin by a barrier"),
        (None, Some(_)) => refused("--until-steady", "of which each would end at another moment"),
        (None, None) => Ok(()),
    }
}

/// Host and file of `HOST:FILE`, as scp takes it: a path with a slash before the colon is of this
/// host.
fn on_another_host(path: &Path) -> Option<(&str, &str)> {
    let (host, file) = path.to_str()?.split_once(':')?;
    (!host.is_empty() && !file.is_empty() && !host.contains('/')).then_some((host, file))
}

/// A ledger is of one run, which writes, on one host.
fn check_ledger(series: &RunSeries<'_>, hosts: Option<&Together>) -> Result<(), CommandError> {
    let Some(path) = &series.ledger else { return Ok(()) };
    let refused =
        |why: &str| Err(CommandError::usage(format!("--ledger {}: {why}", path.display())));
    if let Some((host, file)) = on_another_host(path) {
        return refused(&format!(
            "a file on another host is written through a pipe, whose writes petal bounds: mkfifo \
             ledger.pipe; ssh {host} 'cat >{file} && sync' <ledger.pipe &  then --ledger \
             ledger.pipe; for a file of this name on this host: --ledger ./{}",
            path.display()
        ));
    }
    if hosts.is_some() {
        return refused(
            "an MPI launcher started petal; drive the run by --share and --start-at, with a ledger \
             for each host",
        );
    }
    if series.settings.repeats > 1 {
        let repeats = series.settings.repeats;
        return refused(&format!(
            "REPEATS={repeats}: a ledger is of one run; call petal once for each, with a file for \
             each"
        ));
    }
    if series.settings.only_reads() {
        return refused("the run only reads and commits nothing; raise UPDATE_PCT");
    }
    Ok(())
}

/// A run too short for the proof would end by RUN_TIME every time.
fn check_until_steady(settings: &Settings) -> Result<(), CommandError> {
    let Some(asked) = &settings.until_steady else { return Ok(()) };
    let needed_s = proof::shortest_s(settings.warm_up_s(), asked.window.as_secs_f64());
    let run_time_s = settings.run_time.as_secs_f64();
    if run_time_s >= needed_s {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "--until-steady with RUN_TIME={run_time_s:.0}: the proof takes at least {needed_s:.0} s, so \
         the run would always end by RUN_TIME. Raise RUN_TIME, which is the limit, to several \
         times that, or leave out --until-steady."
    )))
}

/// Time without an answer after which a connection is given up.
const ANSWER_WITHIN_S: u64 = 10;

/// Reads how sessions that lose their connection go on.
fn reconnect(
    matches: &ArgMatches,
    settings: &Settings,
    is_shared: bool,
) -> Result<Option<Reconnect>, CommandError> {
    let action = matches.get_one::<String>("on-disconnect").map_or("lose", String::as_str);
    let answer_within = matches.get_one::<u64>("answer-within").copied();
    if action == "lose" {
        return match answer_within {
            None => Ok(None),
            Some(limit) => Err(CommandError::usage(format!(
                "--answer-within {limit}: is for sessions that connect again; use --on-disconnect \
                 retry as well"
            ))),
        };
    }
    if settings.db.server().is_none() {
        return Err(CommandError::usage(format!(
            "--on-disconnect retry: DB={} is in petal's own process, which has no connection to \
             lose; name a server, such as --db postgres://primary,standby/petal",
            settings.db.redacted()
        )));
    }
    if is_shared {
        return Err(CommandError::usage(
            "--on-disconnect retry with several driver hosts: their outages are not merged; drive \
             the run from one host",
        ));
    }
    let answer_limit = Duration::from_secs(answer_within.unwrap_or(ANSWER_WITHIN_S));
    Ok(Some(Reconnect { answer_limit }))
}

/// Experiments need time, and all sessions of the run.
fn check_elasticity(settings: &Settings, is_shared: bool) -> Result<(), CommandError> {
    let refused = |why: String| Err(CommandError::usage(format!("--elasticity {why}")));
    let run_time_s = settings.run_time.as_secs_f64();
    let needed_s = settings.warm_up_s() + experiments::SHORTEST_S;
    match settings {
        _ if !settings.elasticity => Ok(()),
        _ if is_shared => refused(
            "with several driver hosts: it changes one host's sessions only; leave it out"
                .to_owned(),
        ),
        Settings { until_steady: Some(_), .. } => refused(
            "with --until-steady, which may end before the experiments; leave one out".to_owned(),
        ),
        Settings { work_loop: 1.., .. } => refused(format!(
            "with WORK_LOOP={}, of which the end is not known; use RUN_TIME",
            settings.work_loop
        )),
        _ if run_time_s < needed_s => refused(format!(
            "with RUN_TIME={run_time_s:.0}: the half for experiments is too short; use at least \
             {needed_s:.0}"
        )),
        _ => Ok(()),
    }
}
