//! `--metrics`, as Debian's Prometheus sees it: scraped while a run goes on, and asked every question
//! of the dashboard.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Workplace, free_port, skip, until};

/// The head and the body of an answer; None while nobody listens.
fn get(port: u16, path: &str) -> Option<(String, String)> {
    let mut peer = TcpStream::connect(("127.0.0.1", port)).ok()?;
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(peer, "GET {path} HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    peer.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

struct Prometheus {
    process: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// One that scrapes that port of this host each second; None where it is not installed.
    fn start(work: &Workplace, scraped: u16) -> Option<Self> {
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: petal\n    \
             static_configs:\n      - targets: ['127.0.0.1:{scraped}']\n"
        );
        let config = work.write("prometheus.yml", config);
        let port = free_port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", work.path("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            skip("prometheus is not installed");
            return None;
        };
        let prometheus = Self { process, port };
        until("Prometheus is ready", || {
            get(port, "/-/ready").is_some_and(|(head, _)| head.contains("200"))
        });
        Some(prometheus)
    }

    /// The series that an expression has now.
    fn ask(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (_, body) = get(self.port, &format!("/api/v1/query?query={encoded}")).unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {body}");
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

/// Every expression of the dashboard's panels, for all runs.
fn dashboard() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/grafana/petal.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let filled = |text: &str| text.replace("$run", ".*").replace("$__rate_interval", "30s");
    expressions.map(filled).collect()
}

#[test]
fn prometheus_scrapes_a_run_and_every_query_of_the_dashboard_has_data() {
    let work = Workplace::loaded(2, "8M");
    let port = free_port();
    let Some(prometheus) = Prometheus::start(&work, port) else { return };
    let address = port.to_string();
    // Two cells: the second one shows what was found of the first until it begins itself.
    let args = ["sweep", "--sessions", "2,4", "--run-time", "5", "--update-pct", "20"];
    let args = [&args[..], &["--metrics", &address]].concat();
    let mut sweep = work.petal(args).watching().start();
    let mut missing = dashboard();
    // Errors are there only where operations fail, findings only between two runs.
    missing.retain(|query| !query.contains("_errors_total") && !query.contains("petal_finding"));
    assert!(missing.len() > 8, "{missing:?}");
    while !sweep.has_ended() && !missing.is_empty() {
        missing.retain(|query| prometheus.ask(query).is_empty());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(missing.is_empty(), "no data: {missing:#?}");
    let operations = prometheus.ask("petal_operations_total");
    let labels = &operations[0]["metric"];
    assert_eq!(
        (labels["engine"].as_str(), labels["job"].as_str()),
        (Some("sqlite"), Some("petal"))
    );
    assert!(["1", "2"].contains(&labels["cell"].as_str().unwrap()), "{labels}");
    assert!(!labels["run"].as_str().unwrap().contains("unfinished"), "{labels}");
    sweep.ends();
}

#[test]
fn the_page_is_of_this_host_and_holds_no_secret() {
    let work = Workplace::loaded(1, "8M");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut run = work.petal(["run", "--run-time", "600", "--metrics", &listen]).start();
    run.until("the page is there", || get(port, "/metrics").is_some());
    run.until("a second is over", || {
        get(port, "/metrics").unwrap().1.contains("petal_operations_total")
    });
    let (head, body) = get(port, "/metrics").unwrap();
    assert!(head.contains("200 OK") && head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n") && !body.contains("sqlite:"), "{body}");
    assert!(get(port, "/").unwrap().0.contains("404"));
    // A peer that says nothing, or nonsense, harms nobody.
    let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut nonsense = TcpStream::connect(("127.0.0.1", port)).unwrap();
    nonsense.write_all(b"\x16\x03\x01\r\n\r\n").unwrap();
    assert!(get(port, "/metrics").unwrap().0.contains("200 OK"));
    drop((silent, nonsense));
    // The port is taken now.
    let other = work.petal(["run", "--run-time", "1", "--metrics", &listen]);
    other.exits(3).telling(&["--metrics", &listen, "in use", "free port"]);
    run.signal(rustix::process::Signal::INT);
    run.ends();
}

#[test]
fn a_connection_that_cannot_be_accepted_costs_no_processor() {
    if let Err(why) = crate::support::run("strace", &["-qq", "-o", "/dev/null", "true"]) {
        return skip(&format!("system calls cannot be traced here: {why}"));
    }
    let work = Workplace::loaded(1, "8M");
    let (log, address) = (work.path("strace.log"), format!("127.0.0.1:{}", free_port()));
    let inject = "inject=accept4:error=EMFILE";
    let log_path = log.to_str().unwrap();
    let strace = ["-f", "-qq", "-e", "trace=accept4", "-e", inject, "-o", log_path, "--"];
    let run = ["run", "--run-time", "2", "--metrics", &address];
    work.petal(run).under("strace", &strace).exits(0);
    let tried = std::fs::read_to_string(&log).unwrap().matches("EMFILE").count();
    assert!((1..200).contains(&tried), "{tried} times");
}
