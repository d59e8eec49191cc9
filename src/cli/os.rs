//! `petal os`: records the operating system's counters on a database's host, for a petal that
//! drives it from another one.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, ArgMatches, Command};
use time::OffsetDateTime;

use petal_host::clock::ClockState;
use petal_host::devices::{self, DataDevices, Roots};
use petal_host::host::HostFacts;
use petal_host::os::{DatabaseLocation, Probe, ServerProcesses};
use petal_record::RecordFolder;
use petal_record::moment::stamp;
use petal_record::os_log::{OsLog, OsLogHeader};
use petal_run::os;

use super::args::{self, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::signals;

/// A recorder that somebody forgot ends after a day.
const SECONDS_DEFAULT: u64 = 86_400;

const EXAMPLES: &str = "\
Examples:
  petal os --out dbhost.ndjson --path /var/lib/postgresql --server 812
  petal os --out dbhost.ndjson --devices nvme0n1,nvme1n1 --seconds 900

On the host that drives:
  petal run --db postgres://dbhost/... --os-data dbhost.ndjson
or, if the file is copied later:
  petal report DIR --os-data dbhost.ndjson

petal writes and flushes a line each second: if it is killed, no line is lost.";

pub fn command() -> Command {
    Command::new("os")
        .about("Record this host's counters for a run driven from another")
        .after_help(EXAMPLES)
        .arg(
            args::path("out", "FILE", "File to record into; a file that is not there yet")
                .required(true),
        )
        .arg(
            value("seconds", "N", "End after so long [default: Ctrl-C, or a day]")
                .value_parser(whole::<u64>(1, SECONDS_DEFAULT * 31)),
        )
        .arg(
            args::path(
                "path",
                "PATH",
                "Files or folders of the database: their devices are added up",
            )
            .action(ArgAction::Append),
        )
        .arg(
            value(
                "devices",
                "NAMES",
                "Devices to add up, by name [default: every disk that is there]",
            )
            .value_delimiter(',')
            .action(ArgAction::Append),
        )
        .arg(
            value(
                "server",
                "PID",
                "The database server's first process: its time, and its children's, is recorded",
            )
            .value_parser(whole::<u32>(1, u64::MAX)),
        )
        .arg(
            value(
                "log-writer",
                "PID",
                "Of them, the one that writes the log (PostgreSQL: walwriter)",
            )
            .requires("server")
            .value_parser(whole::<u32>(1, u64::MAX)),
        )
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let devices = find_devices(matches)?;
    devices.unseen.iter().for_each(|reason| console.warn(&format!("not seen: {reason}")));
    let server = server(matches)?;
    let database =
        server.map_or(DatabaseLocation::Unseen, |server| DatabaseLocation::In(vec![server]));
    let requests = petal_latency::requests::watch(&devices, &database)
        .inspect_err(|why| console.warn(&format!("no times of single requests: {why}")))
        .ok();
    let probe = Probe::watching(&devices, database, true).with_requests(requests);
    let path = matches.get_one::<PathBuf>("out").cloned().unwrap_or_default();
    let header = OsLogHeader {
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: stamp(OffsetDateTime::now_utc()),
        host: HostFacts::collect(Some(&devices)),
        devices: devices.names(),
        allowed_cpus: probe.allowed().map(<[u32]>::to_vec),
        group_quota: probe.group_limit().map(|limit| limit.processors),
        clock: ClockState::ask(),
        format: String::new(),
    };
    let (folder, name) = (RecordFolder::containing(&path), path.file_name().unwrap_or_default());
    let log = OsLog::begin(&folder, name, &header)?;
    console.warn(&format!("the clock of this host: {}", clock(header.clock.as_ref())));
    let seconds = matches.get_one("seconds").copied().unwrap_or(SECONDS_DEFAULT);
    let names = devices.names();
    console.warn(&format!(
        "recording to {} until Ctrl-C, at most {seconds} s; devices: {}",
        path.display(),
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    ));
    // Before the first second: who starts it may stop it at once.
    let signals = signals::count()?;
    let written = os::record(&probe, log, Duration::from_secs(seconds), &signals)?;
    console.warn(&format!("{written} intervals are in {}", path.display()));
    Ok(Exit::Done)
}

fn clock(state: Option<&ClockState>) -> String {
    let Some(ClockState { told_by, synchronised, error_s }) = state else {
        return "unknown: neither chrony nor systemd runs".to_owned();
    };
    match (synchronised, error_s) {
        (true, Some(s)) => format!("synchronised to {:.3} ms ({told_by})", s * 1e3),
        (true, None) => format!("synchronised ({told_by})"),
        (false, _) => {
            format!("not synchronised ({told_by}): the record may be merged with the wrong seconds")
        }
    }
}

/// The devices to add up: those of paths, those that are named, or every disk.
fn find_devices(matches: &ArgMatches) -> Result<DataDevices, CommandError> {
    let mut files: Vec<PathBuf> =
        matches.get_many::<PathBuf>("path").unwrap_or_default().cloned().collect();
    if let Some(missing) = files.iter().find(|file| !file.exists()) {
        return Err(CommandError::usage(format!(
            "--path {}: it is not there, or this user may not see it",
            missing.display()
        )));
    }
    for name in matches.get_many::<String>("devices").unwrap_or_default() {
        let device = Path::new("/dev").join(name);
        let is_block =
            std::fs::metadata(&device).is_ok_and(|about| about.file_type().is_block_device());
        if !is_block {
            let all = devices::all_disks(Roots::default()).names().join(", ");
            return Err(CommandError::usage(format!(
                "--devices {name}: {} is no block device; disks here: {all}",
                device.display()
            )));
        }
        files.push(device);
    }
    Ok(if files.is_empty() { devices::all_disks(Roots::default()) } else { devices::find(&files) })
}

fn server(matches: &ArgMatches) -> Result<Option<ServerProcesses>, CommandError> {
    let process = |name: &str| match matches.get_one::<u32>(name).copied() {
        Some(pid) if !Path::new("/proc").join(pid.to_string()).exists() => {
            Err(CommandError::usage(format!("--{name} {pid}: no such process is here")))
        }
        pid => Ok(pid),
    };
    let (parent, log_writer) = (process("server")?, process("log-writer")?);
    Ok(parent.map(|parent| ServerProcesses { parent, log_writer }))
}
