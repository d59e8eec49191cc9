//! Other clients of Oracle at the stand-in: node-oracledb, python-oracledb, go-ora and Oracle's own JDBC
//! driver log on, select, and execute petal's block. So the stand-in does not agree with petal's driver
//! alone. `make strangers` installs them in target/strangers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::oracle_wire::model::Value;
use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::support::Workplace;

/// Where `make strangers` installed the clients.
fn installed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/strangers")
}

/// The command of each client.
fn clients() -> Vec<(&'static str, Command)> {
    let folder = installed();
    let command = |program: &str, args: &[PathBuf]| {
        let mut command = Command::new(program);
        command.args(args);
        command
    };
    let python = folder.join("python/bin/python").display().to_string();
    let go = folder.join("go-ora").display().to_string();
    let classes = format!("{}:{}", folder.display(), folder.join("ojdbc11.jar").display());
    vec![
        ("python-oracledb", command(&python, &[folder.join("client.py")])),
        ("node-oracledb", command("node", &[folder.join("client.mjs")])),
        ("go-ora", command(&go, &[])),
        ("ojdbc11", command("java", &["-cp".into(), classes.into(), "Client".into()])),
    ]
}

/// A stand-in with data, and a folder with a block of petal's and its binds.
fn with_block(release: Release) -> (StandIn, Workplace, usize) {
    let (stand_in, work) = (StandIn::start(release), Workplace::new());
    let petal = |args: &str| {
        let url = stand_in.url();
        work.petal(args.split(' ').chain(["--db", &url]).collect::<Vec<_>>()).exits(0);
    };
    petal("setup -s 1 --scale 8M");
    petal("run --work-loop 60 --update-pct 50");
    let call = stand_in.calls().into_iter().max_by_key(|call| call.ended.len()).unwrap();
    work.write("block.sql", &call.text);
    let bind =
        |(name, value): (&String, &Value)| format!("{}={}\n", name.to_lowercase(), value.text());
    let ins = call.binds.iter().filter(|(name, _)| !["ENDED", "ERRORS"].contains(&name.as_str()));
    work.write("binds", ins.map(bind).collect::<String>());
    (stand_in, work, call.ended.matches(';').count())
}

#[test]
#[ignore = "needs clients of several registries: make strangers"]
fn other_clients_log_on_select_and_execute_the_block() {
    let only = std::env::var("PETAL_TEST_STRANGER").ok();
    for release in [Release::Xe18, Release::Free23] {
        let (stand_in, work, operations) = with_block(release);
        stand_in.has_a_servers_verifier();
        for (name, mut client) in clients() {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let ran = client.arg(stand_in.port.to_string()).arg(work.path("")).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            let error = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{name} {release:?}: {said}{error}");
            stand_in.understood_all();
            for row in ["db_block_size=8192", "processes=300", "sga_target=0"] {
                assert!(said.lines().any(|line| line == row), "{name}: {row}: {said}");
            }
            let ended: Vec<&str> =
                said.lines().filter_map(|line| line.strip_prefix("ended ")).collect();
            assert_eq!(ended.len(), 2, "{name}: {said}");
            for ended in ended {
                let (ended, errors) = ended.split_once(" errors ").unwrap_or((ended, ""));
                let done = ended.matches(';').count();
                assert_eq!((done, errors), (operations, ""), "{name} {release:?}: {said}");
            }
        }
    }
}
