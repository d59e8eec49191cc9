//! `petal-powercut`: cuts the power of a virtual machine in which petal runs, and has the recovered
//! machine look for each acknowledged commit. It is a separate tool: petal's users need it seldom,
//! and it needs qemu.

#![allow(clippy::disallowed_methods, reason = "a tool for developers")]

mod archive;
mod cuts;
mod disk;
mod engines;
mod error;
mod found;
mod guest;
mod nbd;
mod request;
mod text;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use cuts::Watch;
use disk::DiskKind;
use engines::GuestEngine;
use error::{CutError, failed};
use found::{Cut, Trial};
use request::{Accelerator, PowerCutRequest};

const EXAMPLES: &str = "\
Examples:
  petal-powercut --cuts 20                                SQLite, and 3 cuts of each control
  petal-powercut postgres --cuts 200 --json >cuts.json    PostgreSQL of this host's package
  petal-powercut --disk lying --controls 0                a disk that only says that it flushed
  petal-powercut postgres --set fsync=off --keep cuts     each cut's ledger and disk are kept

Needs qemu-system-x86 and e2fsprogs, and a kernel and busybox for the guest: see --guest. KVM
makes it fast; without it qemu emulates. Ctrl-C ends it and shows the cuts so far. Exit codes: 0
nothing lost; 1 commits lost, or rows torn or wrong; 3 no verdict, as something is missing.
Controls are meant to lose.";

fn command() -> Command {
    Command::new("petal-powercut")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Cut the power of a virtual machine at random moments, and verify each time")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("engine")
                .value_name("ENGINE")
                .default_value("sqlite")
                .value_parser(GuestEngine::parse)
                .help("The database in the guest: sqlite or postgres"),
        )
        .arg(
            value("cuts", "N", "How many cuts")
                .default_value("5")
                .value_parser(value_parser!(u32).range(1..=100_000)),
        )
        .arg(
            value(
                "disk",
                "KIND",
                "honest: writes its cache on a flush; lying: only acknowledges the flush",
            )
            .default_value("honest")
            .value_parser(DiskKind::parse),
        )
        .arg(
            value("set", "NAME=VALUE", "A setting of the guest's database, such as fsync=off")
                .action(ArgAction::Append)
                .value_parser(setting),
        )
        .arg(
            value(
                "controls",
                "N",
                "Cuts of each control between these: a lying disk, and settings that do not wait for \
                 the disk. They show that losses are found, and the cost of durability",
            )
            .default_value("3")
            .value_parser(value_parser!(u32).range(0..=100_000)),
        )
        .arg(
            value("within", "SECONDS", "The longest time from the first commits to the cut")
                .default_value("5")
                .value_parser(value_parser!(u32).range(1..=3600)),
        )
        .arg(
            value("accel", "NAME", "kvm or tcg (emulation) [default: kvm if the processor can]")
                .value_parser(Accelerator::parse),
        )
        .arg(path("petal", "FILE", "The petal that runs in the guest [default: next to this program]"))
        .arg(path(
            "guest",
            "DIR",
            "Folder with Debian's unpacked kernel and busybox [default: ./petal-guest, then /]",
        ))
        .arg(path("keep", "DIR", "Keep each cut's ledger, and its disk after recovery"))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print only the results, as JSON, on stdout"),
        )
}

/// Defines an option `--name VALUE`.
fn value(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    self::value(name, value, help).value_parser(value_parser!(PathBuf))
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    run(&matches).unwrap_or_else(|error| {
        say(&error.to_string());
        ExitCode::from(match error {
            CutError::Interrupted => 130,
            CutError::Failed(_) | CutError::Ledger(_) => 3,
        })
    })
}

fn run(matches: &ArgMatches) -> Result<ExitCode, CutError> {
    let request = request(matches)?;
    let watch = Progress { interrupted: Arc::default(), began: Instant::now(), cuts: 0.into() };
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, watch.interrupted.clone())
            .map_err(failed("catching signals"))?;
    }
    let (found, error) = cuts::run(&request, &watch)?;
    let shown = match matches.get_flag("json") {
        false => text::text(&found),
        true => petal_report::json::pretty(&found)
            .map_err(|error| CutError::Failed(format!("the cuts are no JSON: {error}")))?,
    };
    std::io::stdout().write_all(shown.as_bytes()).map_err(failed("writing to stdout"))?;
    match error {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(u8::from(!found.is_kept()))),
    }
}

fn request(matches: &ArgMatches) -> Result<PowerCutRequest, CutError> {
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(0);
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let beside = || -> Result<PathBuf, CutError> {
        let own = std::env::current_exe().map_err(failed("finding this program's folder"))?;
        Ok(own.with_file_name("petal"))
    };
    Ok(PowerCutRequest {
        engine: matches.get_one("engine").copied().unwrap_or(GuestEngine::Sqlite),
        cuts: number("cuts"),
        disk: matches.get_one("disk").copied().unwrap_or(DiskKind::Honest),
        settings: matches.get_many("set").unwrap_or_default().cloned().collect(),
        controls: number("controls"),
        within: Duration::from_secs(number("within").into()),
        accelerator: matches.get_one("accel").copied(),
        petal: path("petal").map_or_else(beside, Ok)?,
        guest: path("guest"),
        keep: path("keep"),
    })
}

/// Writes a line to stderr; a failed write is ignored.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "petal-powercut: {text}");
}

/// Shows the progress on stderr, and handles Ctrl-C.
struct Progress {
    interrupted: Arc<AtomicBool>,
    began: Instant,
    cuts: AtomicU32,
}

impl Watch for Progress {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn begins(&self, what: &str) {
        say(what);
    }

    fn cut(&self, trial: &Trial, cut: &Cut, of: u32) {
        let done = self.cuts.fetch_add(1, Ordering::Relaxed) + 1;
        let each = self.began.elapsed() / done;
        let left = each * of.saturating_sub(done);
        say(&format!("{}; {done} of {of}, about {} s left", text::cut(trial, cut), left.as_secs()));
    }
}

/// Finds the one of two values that has this name.
fn by_name<T: Copy>(all: [T; 2], name: fn(T) -> &'static str, text: &str) -> Result<T, String> {
    let [one, other] = all.map(name);
    let found = all.into_iter().find(|known| name(*known) == text);
    found.ok_or_else(|| format!("must be {one} or {other}"))
}

/// Checks a setting: the guest's shell inserts it unquoted.
fn setting(text: &str) -> Result<String, String> {
    let is_plain = |part: &str, more: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        !part.is_empty() && part.chars().all(is_allowed)
    };
    match text.split_once('=') {
        Some((name, value)) if is_plain(name, "_.") && is_plain(value, "_.-") => {
            Ok(text.to_owned())
        }
        _ => Err("must be NAME=VALUE of letters, digits, _, . and -".to_owned()),
    }
}
