//! What watching the operating system costs a run: a sample of all that the kernel counts, and the
//! line that keeps it, each second. And what each process of a server adds, and each request that
//! the kernel's programs time.
//!
//! `cargo bench --bench watching` prints microseconds, medians of interleaved rounds.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use aya::programs::{BtfTracePoint, loaded_programs};
use aya::{Btf, Ebpf};

use petal_host::devices::{self, DataDevices};
use petal_host::os::{DatabaseLocation, Probe, ServerProcesses};
use petal_record::RecordFolder;
use petal_record::os_log::{OsLog, OsLogHeader};

const ROUNDS: usize = 7;
const SAMPLES: u32 = 200;
const CHILDREN: usize = 100;
const BLOCK: usize = 4096;
const BLOCKS: u64 = 16384;
const READING: Duration = Duration::from_secs(3);
const READERS: u64 = 16;
/// Programs of the kernel that a request runs, at most.
const TRACEPOINTS: [&str; 3] = ["insert", "issue", "complete"];

fn main() {
    let folder = std::env::current_dir().unwrap();
    let found = devices::find(std::slice::from_ref(&folder));
    let path = folder.join(format!("watching-{}.ndjson.gz", std::process::id()));
    let mut log = OsLog::begin(
        &RecordFolder::containing(&path),
        path.file_name().unwrap(),
        &OsLogHeader::default(),
    )
    .unwrap();
    let alone = Probe::watching(&found, DatabaseLocation::InPetal, false);
    let network = Probe::watching(&found, DatabaseLocation::InPetal, true);
    let mut children: Vec<Child> =
        (0..CHILDREN).map(|_| Command::new("sleep").arg("600").spawn().unwrap()).collect();
    let server = ServerProcesses { parent: std::process::id(), log_writer: None };
    let server =
        Probe::watching(&DataDevices::default(), DatabaseLocation::In(vec![server]), false);
    let bare = Probe::watching(&DataDevices::default(), DatabaseLocation::InPetal, false);
    let timed = match petal_latency::requests::watch(&found, &DatabaseLocation::InPetal) {
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
    if timed.is_some() {
        requests(&folder);
    }
}

/// Prints the time of the kernel's programs for each request, by the kernel's own statistics. These
/// cost time, too: that of a program that does nothing, which is subtracted.
fn requests(folder: &Path) {
    let kernel = Btf::from_sys_fs().unwrap();
    let mut object = Ebpf::load(petal_latency::requests::OBJECT).unwrap();
    let nothing: &mut BtfTracePoint = object.program_mut("nothing").unwrap().try_into().unwrap();
    nothing.load("block_rq_complete", &kernel).unwrap();
    nothing.attach().unwrap();
    let _statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime).unwrap();
    let path = folder.join(format!("watching-{}.data", std::process::id()));
    let mut memory = vec![7; BLOCK * 2];
    let from = memory.as_ptr().align_offset(BLOCK);
    let buffer = &mut memory[from..from + BLOCK];
    let file = File::create(&path).unwrap();
    (0..BLOCKS).for_each(|at| file.write_all_at(buffer, at * BLOCK as u64).unwrap());
    file.sync_all().unwrap();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    let before = TRACEPOINTS.map(runs);
    let floor_before = runs("nothing");
    let began = Instant::now();
    let reader = |number: u64| {
        let mut memory = vec![7; BLOCK * 2];
        let from = memory.as_ptr().align_offset(BLOCK);
        let mut reads = 0;
        while began.elapsed() < READING {
            let at = (number + reads * 397) % BLOCKS * BLOCK as u64;
            file.read_exact_at(&mut memory[from..from + BLOCK], at).unwrap();
            reads += 1;
        }
        reads
    };
    let reads: u64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..READERS).map(|number| scope.spawn(move || reader(number))).collect();
        all.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    let rate = reads as f64 / began.elapsed().as_secs_f64();
    println!("{READERS} readers                     {rate:>8.0} reads/s");
    let mean = |before: (f64, f64), now: (f64, f64)| (now.0 - before.0) / (now.1 - before.1);
    let floor_ns = mean(floor_before, runs("nothing"));
    let _ = std::fs::remove_file(&path);
    let mut sum_ns = 0.0;
    for (name, before) in TRACEPOINTS.into_iter().zip(before) {
        let now = runs(name);
        // A queue without a scheduler takes requests without an insertion.
        let per_request = (now.1 - before.1) / reads as f64;
        if per_request > 0.5 {
            let ns = mean(before, now) - floor_ns;
            println!("each request, block_rq_{name:<9}{ns:>6.0} ns, measured by {floor_ns:.0} ns");
            sum_ns += ns;
        }
    }
    let share = sum_ns * 50_000.0 / 1e7;
    println!("50,000 requests a second       {share:>8.2} % of a processor");
}

/// Nanoseconds and runs of the kernel's programs with this name.
fn runs(name: &str) -> (f64, f64) {
    let all = loaded_programs().filter_map(Result::ok);
    let named = all.filter(|program| program.name_as_str() == Some(name));
    named.fold((0.0, 0.0), |(ns, runs), program| {
        (ns + program.run_time().as_nanos() as f64, runs + program.run_count() as f64)
    })
}

fn each(work: impl FnMut()) -> f64 {
    let mut work = work;
    let began = Instant::now();
    (0..SAMPLES).for_each(|_| work());
    began.elapsed().as_secs_f64() * 1e6 / f64::from(SAMPLES)
}
