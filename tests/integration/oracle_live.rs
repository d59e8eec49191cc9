//! The first run on a live Oracle Database, check by check: what each proves is printed as it ends, and
//! at the end stands a text to send back, without host names and passwords. `make test-oracle` begins
//! with it; `make test` tries it on the stand-in, and that a check that fails is reported as such.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use petal_model::settings::url::TargetUrl;
use serde_json::Value;

use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::server_oracle;
use crate::support::{Ended, Workplace, count, findings, record};

/// Holds the rows of schema 1 against others until it is dropped.
type HoldRows<'a> = &'a dyn Fn() -> Box<dyn std::any::Any>;

/// What the checks need besides petal.
struct Beside<'a> {
    hold_rows: HoldRows<'a>,
    /// An administrator in the root container, as a URL.
    root: Option<String>,
    /// PASSWORD_VERSIONS of petal's account, as that administrator sees it.
    password_versions: &'a dyn Fn() -> String,
}

/// The run of all checks at one database.
struct CheckList {
    work: Workplace,
    /// Without the password, which goes through the environment.
    url: String,
    password: String,
    /// The text to send back.
    report: String,
    failed: u32,
    /// Shows a line to who waits.
    show: fn(&str),
}

impl CheckList {
    fn petal(&self, args: &str) -> Ended {
        self.petal_at("", args)
    }

    /// petal with more options in its URL.
    fn petal_at(&self, options: &str, args: &str) -> Ended {
        let url = match (options, self.url.contains('?')) {
            ("", _) => self.url.clone(),
            (_, false) => format!("{}?{options}", self.url),
            (_, true) => format!("{}&{options}", self.url),
        };
        let petal = self.work.petal(args.split(' ').chain(["--db", &url]).collect::<Vec<_>>());
        petal.env("ORACLE_PASSWORD", &self.password).ends()
    }

    /// Does a check; what it saw stands behind what it proves.
    fn check(&mut self, proves: &str, check: impl FnOnce(&Self) -> String) {
        let begin = Instant::now();
        let (verdict, seen) = match catch_unwind(AssertUnwindSafe(|| check(self))) {
            Ok(seen) => ("PROVED", seen),
            Err(panic) => {
                self.failed += 1;
                let text = panic.downcast_ref::<String>().map(String::as_str);
                ("FAILED", text.or(panic.downcast_ref().copied()).unwrap_or("?").to_owned())
            }
        };
        let mut line = format!("{verdict} {:5.1} s  {proves}", begin.elapsed().as_secs_f64());
        for seen in seen.lines().filter(|seen| !seen.trim().is_empty()) {
            write!(line, "\n                {seen}").unwrap();
        }
        (self.show)(&line);
        writeln!(self.report, "{}", self.hide(&line)).unwrap();
    }

    /// petal with the statistics of the administrator `root`, in the root container.
    fn petal_in_root(&self, root: &str, args: &str) -> Ended {
        let root = TargetUrl::parse(root).unwrap();
        let server = root.server().unwrap();
        let host = &server.hosts[0];
        let service = format!("//{}:{}/{}", host.host, host.port.unwrap_or(1521), server.name);
        let password = root.password.map(|password| password.expose().to_owned());
        self.work
            .petal(args.split(' ').chain(["--db", &self.url]).collect::<Vec<_>>())
            .env("ORACLE_PASSWORD", &self.password)
            .env("ADMIN_SQLNET_SERVICE", &service)
            .env("DBA_PRIV_USER", server.user.unwrap())
            .env("SYSDBA_PASSWD", password.unwrap())
            .ends()
    }

    /// A text without where the database is.
    fn hide(&self, text: &str) -> String {
        let place = self.place();
        let host = place.split([':', '/', ',']).next().unwrap_or_default();
        text.replace(place, "HOST").replace(host, "HOST").replace(&self.password, "PASSWORD")
    }

    /// Hosts and service.
    fn place(&self) -> &str {
        self.url.rsplit('@').next().and_then(|place| place.split('?').next()).unwrap()
    }

    /// A run that must end well, with what is worth knowing of it.
    fn run(&self, args: &str) -> (Value, String) {
        let run = went_well(self.petal(&format!("run --json {args}"))).json();
        assert_eq!(run["rows"], run["rows_asked"], "rows visited, and rows asked");
        assert_eq!(run["sessions_lost"], Value::Array(Vec::new()));
        let seen = format!(
            "{} {}; {} operations; findings: {}",
            run["target"]["product"].as_str().unwrap_or("-"),
            run["target"]["version"].as_str().unwrap_or("-"),
            count(&run, "/ops/total"),
            findings(&run).join(" ")
        );
        (run, seen)
    }
}

impl CheckList {
    /// Notes of the last run on the database, a line each, and on what it could not see.
    fn about_database(&self) -> String {
        let runs = std::fs::read_dir(self.work.path("petal-results")).unwrap();
        let folder =
            runs.map(|run| run.unwrap().path()).find(|path| path.join("run.json").exists());
        let details = &record(&folder.unwrap())["details"];
        let settings = details["target"]["settings"].as_array().unwrap().iter();
        let mut lines: Vec<String> =
            settings.map(|pair| format!("{}: {}", pair[0], pair[1]).replace('"', "")).collect();
        lines.push(format!("plan: {}", details["target"]["plan"]));
        lines.push(format!("gaps: {}", details["gaps"]));
        lines.join("\n")
    }
}

/// Counters of a run, each with its name; `-` if it is unknown, and the container's own if there is one.
fn shown(run: &Value, names: &[&str]) -> String {
    let counter = |name: &str| run["counters"][name].as_u64();
    let one = |name: &&str| {
        let whole = counter(name).map_or("-".to_owned(), |count| count.to_string());
        match counter(&format!("container: {name}")) {
            Some(own) => format!("{name} {whole} (the container's own: {own})"),
            None => format!("{name} {whole}"),
        }
    };
    names.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Exit code 0, or what petal said instead.
fn went_well(ended: Ended) -> Ended {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

/// Past the test harness's capture.
fn show(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Does all checks; how many failed, and the text to send back.
fn check_all(url: String, beside: &Beside<'_>, show: fn(&str)) -> (u32, String) {
    let password = TargetUrl::parse(&url).unwrap().password.expect("a password in the URL");
    let password = password.expose().to_owned();
    let (login, place) = url.split_once('@').unwrap();
    let url = format!("{}@{place}", login.rsplit_once(':').unwrap().0);
    let mut list =
        CheckList { work: Workplace::new(), url, password, report: String::new(), failed: 0, show };
    let proof = |ended: Ended| went_well(ended).stdout;
    list.check("it connects, and nothing of an earlier petal is left", |list| {
        proof(list.petal("drop"))
    });
    list.check("petal's account has a 12C password verifier", |_| (beside.password_versions)());
    list.check("check tests the tablespace before a load, and leaves nothing", |list| {
        let said = list.petal("check -s 2").stdout;
        assert!(said.contains("501 rows of a test table in 501 blocks, up to 1 in one"), "{said}");
        let from = said.lines().skip_while(|line| !line.contains("one row per block"));
        from.take_while(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
    });
    list.check("two schemas load by direct path, one row in each block", |list| {
        proof(list.petal("setup -s 2 --scale 8M --load-parallel-degree 2"))
    });
    list.check("every row is found by its key", |list| {
        let said = list.petal("check").stdout;
        assert_eq!(said.matches("each looked for by its key: all there").count(), 2, "{said}");
        String::new()
    });
    for which in ["first", "second"] {
        let proves = format!("the {which} run of SELECTs after a load cleans no blocks out");
        list.check(&proves, |list| {
            let (run, seen) = list.run("--work-loop 200 --update-pct 0");
            let cleaned = count(&run, "/counters/cleanouts only - consistent read gets");
            assert!(cleaned * 100 <= count(&run, "/rows/select"), "{cleaned} blocks cleaned out");
            let names = [
                "cleanouts only - consistent read gets",
                "immediate (CR) block cleanout applications",
                "physical writes",
                "redo size",
            ];
            format!("{seen}\n{}", shown(&run, &names))
        });
    }
    let work = "--work-loop 200 --update-pct 40 --scan-pct 5";
    list.check("LOOP=server visits the rows asked, counters are known, UPDATEs commit", |list| {
        let (run, seen) = list.run(work);
        let known = |name: &str| count(&run, &format!("/counters/{name}"));
        assert!(known("user commits") >= count(&run, "/ops/update"), "{}", run["counters"]);
        let other = ["session logical reads", "redo size", "redo synch writes"].map(known);
        format!(
            "{seen}\nlogical reads, redo bytes, log syncs: {other:?}\n{}",
            list.about_database()
        )
    });
    list.check("LOOP=client does the same", |list| list.run(&format!("{work} --loop client")).1);
    list.check("parses per operation are known, of each LOOP", |list| {
        let of = |side: &str| {
            let run = list.run(&format!("--work-loop 500 --update-pct 0 --loop {side}")).0;
            let parses = count(&run, "/counters/parse count (total)") as f64;
            let per_operation = parses / count(&run, "/ops/total") as f64;
            let names = ["parse count (total)", "parse count (hard)", "execute count"];
            format!("LOOP={side}: {per_operation:.2} per operation; {}", shown(&run, &names))
        };
        format!("{}\n{}", of("server"), of("client"))
    });
    list.check("counters of the pluggable database and of the root, one after the other", |list| {
        let Some(root) = &beside.root else {
            return "not tried: name the root by PETAL_TEST_ORACLE_ROOT".to_owned();
        };
        let names =
            ["physical writes", "redo size", "redo writes", "DBWR checkpoint buffers written"];
        let args = format!("run --json {work}");
        let own = went_well(list.petal(&args)).json();
        let whole = went_well(list.petal_in_root(root, &args)).json();
        assert!(whole["counters"]["physical writes"].is_u64(), "{}", whole["counters"]);
        format!("as petal: {}\nin the root: {}", shown(&own, &names), shown(&whole, &names))
    });
    list.check(
        "an operation that waits for a lock is cut after the end, its session kept",
        |list| {
            let held = (beside.hold_rows)();
            let run = list.petal("run --json --run-time 1 --update-pct 100 --work-unit 512").json();
            drop(held);
            assert!(count(&run, "/ops/cut") > 0, "{}", run["ops"]);
            assert_eq!(run["sessions_lost"], Value::Array(Vec::new()));
            String::new()
        },
    );
    list.check("one schema loads in four ranges at once, of random text", |list| {
        let setup = "setup --replace -s 1 --scale 8M --load-parallel-degree 4";
        proof(list.petal(&format!("{setup} --obfuscate-columns true")))
    });
    list.check("texts of 32,000 characters go into the block: HEAVY UPDATEs", |list| {
        list.run("-s 1 --work-loop 100 --update-pct 100 --redo-stress heavy").1
    });
    list.check("further schemas are copied in the database", |list| {
        proof(list.petal_at("further_schemas=copy", "setup --replace -s 3 --scale 8M"))
    });
    list.check("a wrong password is refused and not shown", |list| {
        let petal = list.work.petal(["run", "--db", &list.url]);
        let ended = petal.env("ORACLE_PASSWORD", "wrong_Pw0").exits(3);
        assert!(ended.stderr.contains("ORA-01017") && !ended.stderr.contains("wrong_Pw0"));
        String::new()
    });
    list.check("drop leaves nothing", |list| {
        went_well(list.petal("drop"));
        went_well(list.petal("drop")).stdout
    });
    (list.failed, list.report)
}

#[test]
#[ignore = "needs a live Oracle Database: make test-oracle"]
fn a_live_database_passes_the_check_list() {
    let beside = Beside {
        hold_rows: &server_oracle::hold_rows,
        root: server_oracle::root(),
        password_versions: &server_oracle::password_versions,
    };
    let (failed, report) = check_all(server_oracle::url(), &beside, show);
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/oracle-checks.txt");
    let head =
        format!("petal {} with Oracle Database: {failed} failed\n", env!("CARGO_PKG_VERSION"));
    std::fs::write(&file, head + &report).unwrap();
    show(&format!("Please send back {}: no host, no password is in it.", file.display()));
    assert_eq!(failed, 0);
}

/// The check list itself, where one check must fail: nothing holds the rows.
#[test]
fn the_check_list_names_passed_and_failed_checks() {
    let stand_in = StandIn::start(Release::Free23);
    let hold = || -> Box<dyn std::any::Any> { Box::new(()) };
    let beside = Beside {
        hold_rows: &hold,
        root: Some(stand_in.url()),
        password_versions: &|| "12C".to_owned(),
    };
    let (failed, report) = check_all(stand_in.url(), &beside, |_| ());
    let verdicts = |verdict| report.lines().filter(|line| line.starts_with(verdict)).count();
    assert_eq!((failed, verdicts("FAILED"), verdicts("PROVED")), (1, 1, 16), "{report}");
    assert!(
        report.contains("s  an operation that waits") && report.contains("\"cut\":0"),
        "{report}"
    );
    assert!(!report.contains("127.0.0.1") && !report.contains("s3cret"), "{report}");
    stand_in.understood_all();
}
