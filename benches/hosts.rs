//! Measures what several driver hosts cost: how far apart the shares of a run begin, and the time and
//! memory of their merge, by the number of hosts. Hosts are threads here; each runs 64 sessions on the
//! scripted engine, whose operations take half a second.
//!
//! `cargo bench --bench hosts`: time and memory are to grow as the hosts do.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use petal_engine::{Caller, Silent};
use petal_run::WorkContext;
use petal_run::job::Start;
use petal_run::merge::merge;
use petal_run::series::RunSeries;
use petal_scripted::{Script, Scripted};
use petal_settings::Settings;
use petal_workload::share::Share;
use time::OffsetDateTime;

const SESSIONS: u32 = 64;
const RUN_TIME: Duration = Duration::from_secs(20);
/// Threads that start on few processors take their time.
const CONNECT: Duration = Duration::from_secs(10);

fn main() {
    println!("hosts  sessions  began within ms  merge s  ms a host  peak MiB  KiB a host");
    for hosts in [1, 8, 16, 32, 64] {
        let dir = tempfile::tempdir().unwrap();
        let folders = drive(hosts, dir.path());
        // The peak of this process from now on.
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let (before, began) = (kib("VmHWM:"), Instant::now());
        let merged = merge(&folders, dir.path(), "merged").unwrap().run;
        let (took, peak) = (began.elapsed().as_secs_f64(), kib("VmHWM:") - before);
        assert_eq!(merged.summary.sessions, hosts * SESSIONS);
        let late = merged.summary.hosts.iter().filter_map(|host| host.triggered_after_s);
        println!(
            "{hosts:>5}  {:>8}  {:>15.1}  {took:>7.2}  {:>9.1}  {:>8.1}  {:>10.0}",
            merged.summary.sessions,
            late.fold(0.0, f64::max) * 1e3,
            took * 1e3 / f64::from(hosts),
            peak / 1024.0,
            peak / f64::from(hosts),
        );
    }
}

/// Runs all shares at once, and returns their folders.
fn drive(of: u32, out: &Path) -> Vec<PathBuf> {
    let at = OffsetDateTime::now_utc() + CONNECT;
    let settings = Settings {
        schemas: Some(1),
        threads_per_schema: SESSIONS * of,
        update_pct: 20,
        run_time: RUN_TIME,
        os_perf_data: false,
        seed: Some(1),
        is_shared: true,
        out: out.to_owned(),
        ..Settings::default()
    };
    let one = |number: u32| {
        let caller = Caller { signals: Arc::default(), note: Arc::new(|_| ()) };
        let engines = petal::engines::open;
        let context = WorkContext { caller, engines, watch: &Silent, hosts: None };
        let latency = [Duration::from_millis(500); 3];
        let engine = Arc::new(Scripted::in_memory(Script { latency, ..Script::default() }, 10_000));
        let mut series = RunSeries::new(engine, settings.clone(), &context).unwrap();
        (series.share, series.start) = (Share { number, of }, Start::At(at));
        series.run_once(1, Some(&format!("share{number}"))).unwrap().folder.path().to_owned()
    };
    thread::scope(|scope| {
        let one = &one;
        let all: Vec<_> = (1..=of).map(|number| scope.spawn(move || one(number))).collect();
        all.into_iter().map(|host| host.join().unwrap()).collect()
    })
}

/// A figure of this process, in KiB.
fn kib(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
