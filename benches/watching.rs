//! What watching the operating system costs a run: a sample of all that the kernel counts, and the
//! line that keeps it, each second. And what each process of a server adds.
//!
//! `cargo bench --bench watching` prints microseconds, medians of interleaved rounds.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::process::{Child, Command};
use std::time::Instant;

use petal_model::record::os_log::{OsLog, OsLogHeader};
use petal_model::stats::devices::{self, DataDevices};
use petal_model::stats::os::{DatabaseLocation, Probe, ServerProcesses};

const ROUNDS: usize = 7;
const SAMPLES: u32 = 200;
const CHILDREN: usize = 100;

fn main() {
    let folder = std::env::current_dir().unwrap();
    let found = devices::find(std::slice::from_ref(&folder));
    let path = folder.join(format!("watching-{}.ndjson", std::process::id()));
    let mut log = OsLog::begin(&path, &OsLogHeader::default()).unwrap();
    let alone = Probe::watching(&found, DatabaseLocation::InPetal, false);
    let network = Probe::watching(&found, DatabaseLocation::InPetal, true);
    let mut children: Vec<Child> =
        (0..CHILDREN).map(|_| Command::new("sleep").arg("600").spawn().unwrap()).collect();
    let server = ServerProcesses { parent: std::process::id(), log_writer: None };
    let server =
        Probe::watching(&DataDevices::default(), DatabaseLocation::In(vec![server]), false);
    let bare = Probe::watching(&DataDevices::default(), DatabaseLocation::InPetal, false);
    let timed = match petal_latency::watch(&found, &DatabaseLocation::InPetal) {
        Ok(source) => Some(Probe::new(&found).with_requests(Some(source))),
        Err(why) => {
            println!("times of requests: - ({why})");
            None
        }
    };
    let mut us = [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        us[0].push(each(|| drop(alone.sample())));
        us[1].push(each(|| drop(network.sample())));
        us[2].push(each(|| drop(bare.sample())));
        us[3].push(each(|| drop(server.sample())));
        if let Some(timed) = &timed {
            us[5].push(each(|| drop(timed.sample())));
        }
        let mut earlier = alone.sample();
        us[4].push(each(|| {
            let now = alone.sample();
            log.append_now(Some(1.0), &now.since(&earlier)).unwrap();
            earlier = now;
        }));
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    let lines = f64::from(SAMPLES) * ROUNDS as f64;
    let bytes = std::fs::metadata(&path).unwrap().len() as f64 / lines;
    let _ = std::fs::remove_file(&path);
    let median = |at: usize| {
        let mut all = us[at].clone();
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2]
    };
    println!("a sample                       {:>8.0} us", median(0));
    println!("with the network               {:>8.0} us", median(1));
    if timed.is_some() {
        println!("with times of requests         {:>8.0} us", median(5));
    }
    println!("a sample, and its line         {:>8.0} us, {bytes:.0} bytes", median(4));
    let child = (median(3) - median(2)) / CHILDREN as f64;
    println!("each process of a server       {child:>8.1} us");
}

fn each(work: impl FnMut()) -> f64 {
    let mut work = work;
    let began = Instant::now();
    (0..SAMPLES).for_each(|_| work());
    began.elapsed().as_secs_f64() * 1e6 / f64::from(SAMPLES)
}
