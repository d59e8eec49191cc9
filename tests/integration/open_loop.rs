//! The open loop on the bare device, next to fio's at the same random arrivals.

#![allow(clippy::print_stdout, reason = "the ratios are the result")]

use std::path::Path;
use std::time::Duration;

use crate::fuse::Fuse;
use crate::support::{ALONE, Workplace, number, say, skip};

const SESSIONS: &str = "16";

/// p50 and p99 of the response times, in microseconds.
type Times = [f64; 2];

/// Random reads at a rate, for so many seconds. petal reports no p99 of under a thousand.
#[derive(Clone, Copy)]
struct Load<'a> {
    name: &'a str,
    file: &'a Path,
    rate: &'a str,
    seconds: &'a str,
}

fn of_petal(work: &Workplace, load: Load<'_>) -> Times {
    let url = format!("device:{}", load.file.display());
    let args = ["run", "--db", &url, "--update-pct", "0", "--work-unit", "1", "--json"];
    let more = ["-t", SESSIONS, "--rate", load.rate, "--run-time", load.seconds];
    let run = work.petal([&args[..], &more].concat()).exits(0).json();
    ["p50", "p99"].map(|name| number(&run, &format!("/latency_us/select_response/{name}")))
}

/// fio 3.33 sometimes hangs with threads of its own for submission; it is then called again.
fn of_fio(load: Load<'_>) -> Times {
    let options = [
        "--name=reads --rw=randread --bs=8k --direct=1 --ioengine=psync --thread --time_based",
        "--io_submit_mode=offload --rate_process=poisson --lat_percentiles=1 --clat_percentiles=0",
        "--percentile_list=50:99 --output-format=json",
    ];
    let file = format!("--filename={}", load.file.display());
    let (depth, rate) = (format!("--iodepth={SESSIONS}"), format!("--rate_iops={}", load.rate));
    let length = format!("--runtime={}", load.seconds);
    let limited = ["-s", "KILL", "60", "fio", &file, &depth, &rate, &length];
    let options = options.iter().flat_map(|words| words.split(' '));
    let all: Vec<&str> = limited.into_iter().chain(options).collect();
    let shown = (0..20).find_map(|_| say("timeout", &all).ok()).expect("fio ends");
    let shown = shown.get(shown.find('{').expect("a report")..).unwrap();
    let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
    let of = |name| number(&shown, &format!("/jobs/0/read/lat_ns/percentile/{name}")) / 1000.0;
    ["50.000000", "99.000000"].map(of)
}

/// The geometric mean over rounds in turn of petal's times over fio's, with its standard error.
fn compared(work: &Workplace, load: Load<'_>, rounds: u32) -> [(f64, f64); 2] {
    let rounds: u32 = std::env::var("ROUNDS").ok().map_or(rounds, |count| count.parse().unwrap());
    let name = load.name;
    let mut logs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let (petal, fio) = (of_petal(work, load), of_fio(load));
        println!("{name}: petal {petal:.0?} us, fio {fio:.0?} us");
        let ratios = logs.iter_mut().zip(petal.into_iter().zip(fio));
        ratios.for_each(|(logs, (petal, fio))| logs.push((petal / fio).ln()));
    }
    let ratios = logs.map(|logs| {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        (mean.exp(), (squares / (count - 1.0) / count).sqrt())
    });
    let [p50, p99] = ratios;
    println!(
        "{name}, {rounds} rounds: petal over fio p50 {:.3} +- {:.3}, p99 {:.3} +- {:.3}",
        p50.0, p50.1, p99.0, p99.1
    );
    ratios
}

/// `ROUNDS=9 cargo test --release --test integration open_loop -- --ignored --nocapture`. A device
/// that takes longer than the tools wait for a processor shows the arrivals and the queue; the file
/// shows the tools, too.
#[test]
#[ignore = "a comparison of times, which needs fio and a quiet machine"]
fn response_times_of_an_open_loop_agree_with_fios() {
    say("fio", &["--version"]).expect("fio is installed");
    let _alone = ALONE.lock();
    let work = Workplace::new();
    let setup = |file: &Path| {
        let url = format!("device:{}", file.display());
        work.petal(["setup", "--db", &url, "--scale", "64M", "--scan-table-sz", "0"]).exits(0);
    };
    let file = work.path("device");
    setup(&file);
    let name = "a file, 1,000 reads/s";
    compared(&work, Load { name, file: &file, rate: "1000", seconds: "8" }, 5);
    let fuse = match Fuse::mounted() {
        Ok(fuse) => fuse,
        Err(why) => return skip(&why),
    };
    let file = fuse.path("device");
    setup(&file);
    fuse.delay_reads(Duration::from_millis(5));
    let name = "a device with one read of 5 ms at a time, 40 reads/s";
    let ratios = compared(&work, Load { name, file: &file, rate: "40", seconds: "30" }, 3);
    fuse.delay_reads(Duration::ZERO);
    // Beyond what the rounds' own spread explains.
    let is_near = |(ratio, error): (f64, f64)| (ratio - 1.0).abs() < 0.05 + 2.0 * error;
    assert!(ratios.into_iter().all(is_near), "{ratios:?}");
}
