//! The waterfall of an operation, proved by interventions: what is made slower is the part that
//! grows. `cargo test --test integration waterfall -- --nocapture` prints the figures.

use std::fs::Permissions;
use std::io::{Write as _, stderr};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::fuse::Fuse;
use crate::proxy::Proxy;
use crate::support::{Mount, Workplace, number, record, run, skip};
use crate::{server_mysql, server_postgres};

const PARTS: [&str; 10] = [
    "petal",
    "wire",
    "processor",
    "run_queue",
    "file_system",
    "block_queue",
    "device",
    "reads",
    "writes",
    "other",
];

/// Means of one run, in us.
struct Divided {
    operation: f64,
    parts: Vec<(String, Option<f64>)>,
    record: Value,
    /// The report, as one line.
    shown: String,
}

impl Divided {
    /// None if threads cannot be timed here: a skip.
    fn by(work: &Workplace, name: &str, url: &str, args: &[&str]) -> Option<Self> {
        let fixed = ["run", "--waterfall", "TRUE", "--work-unit", "1", "--db", url];
        let shown = work.petal(fixed.iter().chain(args)).watching().exits(0).stdout;
        let record = record(&work.runs().pop().unwrap());
        let all = &record["waterfall"];
        if let Some(why) = all["why_unknown"].as_str() {
            skip(&format!("threads cannot be timed: {why}"));
            return None;
        }
        let parts = all["parts"].as_array().unwrap().iter();
        let parts =
            parts.map(|part| (part["part"].as_str().unwrap().to_owned(), part["us"].as_f64()));
        let divided = Self {
            operation: number(all, "/operation_us"),
            parts: parts.collect(),
            record: record.clone(),
            shown: shown.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        divided.print(name);
        Some(divided)
    }

    fn print(&self, name: &str) {
        let cells: Vec<String> = PARTS
            .iter()
            .map(|part| self.known(part).map_or_else(|| "-".to_owned(), |us| format!("{us:.1}")))
            .collect();
        let row = (cells.join(" | "), self.gap(), self.operation);
        let _ = writeln!(stderr(), "| {name} | {} | {:.1} | {:.1} |", row.0, row.1, row.2);
    }

    fn known(&self, part: &str) -> Option<f64> {
        self.parts.iter().find(|(name, _)| name == part).and_then(|(_, us)| *us)
    }

    fn us(&self, part: &str) -> f64 {
        self.known(part).unwrap_or_else(|| panic!("no {part} in {:?}", self.parts))
    }

    fn gap(&self) -> f64 {
        number(&self.record, "/waterfall/gap_us")
    }

    /// The parts add up to the time that another clock measured.
    fn adds_up(&self) {
        self.adds_up_within(0.05);
    }

    fn adds_up_within(&self, share: f64) {
        let (gap, allowed) = (self.gap(), self.operation * share);
        assert!(gap.abs() < allowed, "{gap} over {allowed}: {:?}", self.parts);
        let sum: f64 = self.parts.iter().filter_map(|(_, us)| *us).sum();
        assert!((sum + self.gap() - self.operation).abs() < 0.001 * self.operation);
    }

    /// The report divides the time once, its longest part first, and the read with it.
    fn is_shown_once(&self, longest: &str) {
        let time =
            self.shown.split("time of an operation ").nth(1).expect("the time of an operation");
        assert!(time.split(" us: # ").nth(1).unwrap().starts_with(longest), "{}", &time[..200]);
        let top = self.shown.split(" served by: ").next().unwrap();
        assert!(top.contains(" us (device ") && !self.shown.contains(" CPU + other "), "{top}");
    }

    /// A part has the given share, or more, of the time that this run's operations took longer, but
    /// for the queue for processors: others use these, too.
    fn has_grown(&self, before: &Self, part: &str, share: f64) {
        let grown = self.us(part) - before.us(part);
        let of = |run: &Self| run.operation - run.us("run_queue");
        let all = of(self) - of(before);
        assert!(grown > share * all, "{part} grew by {grown} of {all}: {:?}", self.parts);
    }
}

/// Processes that keep all processors busy, until dropped.
struct Spinning(Vec<Child>);

impl Spinning {
    fn begin() -> Self {
        let processors = std::thread::available_parallelism().unwrap().get();
        let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..3 * processors).map(|_| spin()).collect())
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const READS: [&str; 4] = ["--update-pct", "0", "--run-time", "4"];

#[test]
fn the_device_is_the_part_that_grows_if_it_answers_late() {
    const DELAY: Duration = Duration::from_millis(4);
    let fuse = match Fuse::mounted() {
        Ok(fuse) => fuse,
        Err(why) => return skip(&why),
    };
    let Some(disk) = Mount::ext4_at(&fuse.path("image"), 64) else { return };
    if let Err(why) = run("losetup", &["--direct-io=on", &disk.device()]) {
        return skip(&why);
    }
    let (work, url) = (Workplace::new(), disk.url("data"));
    work.petal(["setup", "--scale", "24M", "--db", &url]).exits(0);
    let Some(before) = Divided::by(&work, "SQLite", &url, &READS) else { return };
    fuse.delay_reads(DELAY);
    let late = Divided::by(&work, "SQLite, device 4 ms later", &url, &READS);
    fuse.delay_reads(Duration::ZERO);
    let Some(late) = late else { return };
    before.adds_up();
    late.adds_up();
    late.has_grown(&before, "device", 0.9);
    late.is_shown_once("device");
    let reads = number(&late.record, "/per_second/physical_read_requests")
        / number(&late.record, "/per_second/ops");
    let delayed_us = DELAY.as_secs_f64() * 1e6 * reads;
    assert!(late.us("device") > 0.95 * delayed_us, "{delayed_us} us: {:?}", late.parts);
}

#[test]
fn waiting_for_a_processor_grows_if_others_keep_the_processors_busy() {
    let work = Workplace::new();
    let url = format!("sqlite:{}", work.path("data").display());
    work.petal(["setup", "--scale", "16M", "--db", &url]).exits(0);
    let Some(before) = Divided::by(&work, "SQLite", &url, &READS) else { return };
    let busy = {
        let _spinning = Spinning::begin();
        Divided::by(&work, "SQLite, processors busy", &url, &READS)
    };
    let Some(busy) = busy else { return };
    before.adds_up();
    busy.adds_up();
    assert!(busy.us("run_queue") > 0.4 * busy.operation, "{:?}", busy.parts);
    let limited = busy.record["limited_by"]["by"].as_str().unwrap();
    assert!(["processors", "others_work"].contains(&limited), "{limited}");
    // Is it the array or my host?
    busy.is_shown_once("waiting for a processor");
    let words = busy.shown.split("limited by: ").nth(1).unwrap();
    assert!(words.split(" | ").next().unwrap().contains("others used "), "{words}");
}

#[test]
fn the_wire_grows_by_the_delay_of_a_relay_and_operations_of_a_server_add_up() {
    if !server_postgres::is_there() {
        return;
    }
    // The relay is at another address of this host.
    let mut allowed = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    allowed.write_all(b"local all all trust\nhost all all 127.0.0.0/8 trust\n").unwrap();
    allowed.as_file().set_permissions(Permissions::from_mode(0o644)).unwrap();
    let hba = format!("hba_file={}", allowed.path().display());
    let server = server_postgres::Server::start(&["shared_buffers=2MB", &hba]);
    server.database("waterfall");
    let work = Workplace::new();
    let at = |host: &str| format!("postgres://petal@{host}:{}/waterfall", server.port);
    let url = at("127.0.0.1");
    work.petal(["setup", "--scale", "16M", "--db", &url]).exits(0);
    let client = [&READS[..], &["--loop", "client"]].concat();
    let Some(before) = Divided::by(&work, "PostgreSQL", &url, &client) else { return };
    before.adds_up();
    let in_server = Divided::by(&work, "PostgreSQL, LOOP=server", &url, &READS).unwrap();
    // The server also waits for a processor around the operations that it times.
    in_server.adds_up_within(0.1);
    assert_eq!(in_server.known("wire"), None);
    let proxy = Proxy::with_ports_of(server.port);
    proxy.delay(Duration::from_millis(2));
    let far = Divided::by(&work, "PostgreSQL, relay of 2 ms", &at("127.0.0.2"), &client);
    let Some(far) = far else { return };
    let (held_s, passed) = proxy.held();
    far.adds_up();
    far.has_grown(&before, "wire", 0.7);
    // There and back, as long as the relay itself held them.
    let delay_us = 2.0 * held_s * 1e6 / passed as f64;
    let _ = writeln!(stderr(), "the relay held an operation for {delay_us:.1} us");
    // It also waits for a processor, which is in the wire.
    let grown = far.us("wire") - before.us("wire");
    assert!(grown > 0.9 * delay_us, "{grown} of {delay_us} us: {:?}", far.parts);
    // Whatever others do, the way to the server and back limits.
    assert_eq!(far.record["limited_by"]["by"], "network", "{}", far.record["limited_by"]);
    let report = std::fs::read_to_string(work.runs().pop().unwrap().join("report.txt")).unwrap();
    assert!(report.contains("WATERFALL OF AN OPERATION"), "{report}");
}

#[test]
fn updates_of_mariadb_add_up() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::Server::start(&["innodb-buffer-pool-size=8M"]);
    let (work, url) = (Workplace::new(), server.url("waterfall"));
    work.petal(["setup", "--scale", "24M", "--db", &url]).exits(0);
    let args = ["--update-pct", "20", "--run-time", "4", "--loop", "client"];
    let Some(divided) = Divided::by(&work, "MariaDB, 20 % UPDATEs", &url, &args) else { return };
    divided.adds_up();
    assert!(divided.us("writes") > 0.0, "{:?}", divided.parts);
}

#[test]
fn without_rights_or_request_the_report_names_the_reason_or_nothing() {
    let without = ["--bounding-set=-all", "--inh-caps=-all"];
    if run("setpriv", &[without[0], without[1], "true"]).is_err() {
        return skip("rights cannot be dropped: setpriv");
    }
    let report = |asked: &str| {
        let work = Workplace::loaded(1, "8M");
        let args = ["run", "--run-time", "2", "--waterfall", asked];
        work.petal(args).under("setpriv", &without).watching().exits(0);
        let folder = work.run_folder();
        assert!(record(&folder)["waterfall"]["parts"].as_array().is_none_or(Vec::is_empty));
        std::fs::read_to_string(folder.join("report.txt")).unwrap()
    };
    let plain = report("FALSE");
    assert!(!plain.to_lowercase().contains("waterfall of"), "{plain}");
    let asked = report("TRUE");
    assert!(asked.contains("waterfall: - (it needs root"), "{asked}");
}

/// Petal's process group may be outside its PID namespace, where it has the number 0.
#[test]
fn in_another_pid_namespace_sessions_end_well_and_the_report_names_the_reason() {
    let namespace = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    if run("unshare", &[&namespace[..], &["true"]].concat()).is_err() {
        return skip("no PID namespace can be made: unshare");
    }
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "--run-time", "2", "--waterfall", "TRUE"];
    work.petal(args).under("unshare", &namespace).watching().exits(0);
    let report = std::fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(report.contains("waterfall: - ("), "{report}");
}
