//! `petal calibrate`: measures the device alone.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use petal_calibrate::bounds::LatencyBound;
use petal_calibrate::{CALIBRATION, Calibrated, CalibrationPlan, run_once};
use petal_device::calibration_target::WantedStretch;
use petal_engine::Stop;
use petal_record::Status;
use petal_run::series::draw_seed;
use petal_settings::Settings;
use petal_settings::read;
use petal_settings::size::parse_bytes;
use petal_settings::table::CommandKind;
use petal_settings::url::{TargetUrl, redact_refused};

use super::args::{self, flag, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::record_kinds;
use super::{live, signals, source};

const EXAMPLES: &str = "\
Examples:
  petal calibrate /data/petal-calibrate.dat   petal makes and removes it
  petal calibrate /dev/nvme1n1 --destroy-data /dev/nvme1n1
  petal calibrate /data/x.dat --max-latency read.p99=10ms \\
    --max-latency log.p99=5ms
  petal calibrate /data/x.dat --depths 1,16,64 --seconds 60 --json | jq .best";

const NOTES: &str = "\
The result is in petal-results/<UTC stamp>-calibrate/. A copy in the folder of
--calibrations serves later runs on the same device. Ctrl-C keeps the
measurements until then.";

const DEPTH_MAX: u32 = 4096;
/// Parameters that a flag of this command sets; others of the file and the environment
/// belong to runs.
const FLAGS: [&str; 5] = ["BLOCK_SZ", "STORAGE_CACHE", "DIRECT_IO", "OUT", "CALIBRATIONS"];

/// Options that `-h` leaves out.
const RARE: [&str; 8] =
    ["mix", "threads", "storage-cache", "direct-io", "out", "calibrations", "live", "metrics"];

pub fn command() -> Command {
    let command = Command::new("calibrate")
        .about("Measure the device alone: requests and latency at every depth")
        .arg(
            Arg::new("path").value_name("PATH").required(true).help(
                "A file that is not there yet, one of an earlier calibration, or a block device",
            ),
        )
        .arg(
            value("block-size", "SIZE", "Bytes of a random request [default: BLOCK_SZ, else 8K]")
                .alias("block-sz"),
        )
        .arg(value(
            "size",
            "SIZE",
            "Bytes to measure on [default: 8G, four times STORAGE_CACHE if that is more, at most \
             half of the free space]",
        ))
        .arg(
            value("seconds", "N", "Time for all measurements together; filling comes before")
                .value_parser(whole::<u64>(1, u64::MAX))
                .default_value("180"),
        )
        .arg(
            value("depths", "N,N...", "Requests in flight")
                .value_parser(whole::<u32>(1, DEPTH_MAX.into()))
                .value_delimiter(',')
                .default_value("1,2,4,8,16,32,64,128,256"),
        )
        .arg(
            value("mix", "PERCENT", "Reads in the mixed curve, percent")
                .value_parser(whole::<u8>(1, 99))
                .default_value("70"),
        )
        .arg(
            value("threads", "N", "Threads that share the depth [default: one for each 64]")
                .value_parser(whole::<u32>(1, 1024)),
        )
        .arg(
            value(
                "max-latency",
                "BOUND",
                "Find the most requests per second under it: read.p99=10ms, log.p99=5ms",
            )
            .action(ArgAction::Append),
        )
        .arg(flag("keep", "Leave the file that was made, for the next calibration"))
        .arg(flag("json", "Print the calibration as JSON, and only it, on stdout"))
        .arg(args::full())
        .arg(value("storage-cache", "SIZE", "The storage's cache as you know it [default: none]"))
        .arg(value("direct-io", "TRUE|FALSE", "Past the page cache [default: TRUE if it works]"))
        .arg(value(
            "out",
            "PATH",
            "Folder that gets a folder for each result [default: petal-results]",
        ))
        .arg(value(
            "calibrations",
            "PATH",
            "Folder where later runs look [default: petal/calibrations in XDG_DATA_HOME]",
        ))
        .arg(args::destroy_data())
        .args(live::args())
        .args(live::metrics_arg());
    args::one_screen(command, EXAMPLES, NOTES, &RARE)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let settings = settings(matches)?;
    let plan = plan(matches, &settings)?;
    plan.rounds()?; // Refused before anything is made.
    let size = matches.get_one::<String>("size").map(|text| {
        parse_bytes(text).map_err(|error| {
            CommandError::usage(format!("--size {text}: {error}; give a size such as 1G or 500M"))
        })
    });
    let wanted = WantedStretch {
        bytes: size.transpose()?,
        storage_cache: settings.storage_cache,
        keep: matches.get_flag("keep"),
    };
    let stop = Stop::unlimited(signals::count()?);
    let written = run_once(&settings, &wanted, &plan, console, &stop)?;
    let Calibrated { calibration: measured, failure } = written.calibrated;
    // Minutes were spent on it: it is printed whatever could be written.
    record_kinds::show(&CALIBRATION, &measured, (matches, console))?;
    let path = written.saved?.display().to_string();
    let mut exit = Exit::Done;
    match written.drawn {
        Ok(_) => console
            .warn(&format!("the calibration is in {path}, with report.html in the same folder")),
        Err(error) => {
            console.error(&format!("the calibration is in {path}; {error}"));
            exit = Exit::Environment;
        }
    }
    if let Some(kept) = written.kept? {
        console.warn(&format!("later runs on this device are compared with {}", kept.display()));
    }
    match failure {
        Some(error) => Err(error.into()),
        None if measured.status == Status::Complete => Ok(exit),
        None => Ok(Exit::Interrupted),
    }
}

/// The settings of the directory, read as a run there would; the target is the path.
fn settings(matches: &ArgMatches) -> Result<Settings, CommandError> {
    let given = |key: &'static str| {
        let flag = match key {
            "BLOCK_SZ" => "block-size".to_owned(),
            key => key.to_ascii_lowercase().replace('_', "-"),
        };
        Some((key, matches.get_one::<String>(&flag)?.clone()))
    };
    let flags = FLAGS.into_iter().filter_map(given).collect();
    let mut settings = read::read(&source::sources(matches, CommandKind::Target, flags, None))?;
    let path = matches.get_one::<String>("path").cloned().unwrap_or_default();
    let url = if path.starts_with("device:") { path } else { format!("device:{path}") };
    settings.db = TargetUrl::parse(&url).map_err(|error| {
        let shown = redact_refused(&url);
        CommandError::usage(format!("{shown}: it {}; {}", error.rule, error.hint))
    })?;
    settings.destroy_data = matches.get_one::<PathBuf>("destroy-data").cloned();
    Ok(settings)
}

fn plan(matches: &ArgMatches, settings: &Settings) -> Result<CalibrationPlan, CommandError> {
    let mut depths: Vec<u32> = matches.get_many("depths").unwrap_or_default().copied().collect();
    depths.sort_unstable();
    depths.dedup();
    let bounds: Result<Vec<LatencyBound>, CommandError> = matches
        .get_many::<String>("max-latency")
        .unwrap_or_default()
        .map(|text| {
            LatencyBound::parse(text).map_err(|rule| {
                CommandError::usage(format!(
                    "--max-latency {text}: {rule}; write for instance read.p99=10ms"
                ))
            })
        })
        .collect();
    Ok(CalibrationPlan {
        block_bytes: settings.block_sz.unwrap_or(8192),
        depths,
        mix_read_pct: matches.get_one("mix").copied().unwrap_or(70),
        length: Duration::from_secs(matches.get_one("seconds").copied().unwrap_or(180)),
        threads: matches.get_one("threads").copied(),
        storage_cache: settings.storage_cache,
        bounds: bounds?,
        seed: draw_seed()?,
    })
}
