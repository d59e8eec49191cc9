//! The recipe of tests/oracle as far as it can be tried without a container engine: its file is parsed, its
//! scripts run with their commands faked, from a clone that only its owner can read.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Workplace, skip};

/// The recipe in a clone under umask 077, and programs of the given names that say what they were given.
fn private_clone(fakes: &[(&str, &str)]) -> Workplace {
    let work = Workplace::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recipe = ["compose.yaml", "grants.sh", "up.sh"].map(|name| format!("tests/oracle/{name}"));
    for file in recipe.iter().map(String::as_str).chain(["docs/engines/oracle-grants.sql"]) {
        let copy = work.write(&format!("clone/{file}"), std::fs::read(here.join(file)).unwrap());
        std::fs::set_permissions(copy, PermissionsExt::from_mode(0o600)).unwrap();
    }
    for (name, script) in fakes {
        let fake = work.write(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(fake, PermissionsExt::from_mode(0o755)).unwrap();
    }
    work
}

fn command(work: &Workplace, shell: &str, script: &str, variables: &[(&str, &str)]) -> Command {
    let path = format!("{}:{}", work.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell);
    command.arg(work.path(format!("clone/tests/oracle/{script}"))).env("PATH", path);
    command.env("TMPDIR", work.path("")).envs(variables.iter().copied());
    command
}

fn runs(work: &Workplace, shell: &str, script: &str, variables: &[(&str, &str)]) -> Output {
    let ran = command(work, shell, script, variables).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran
}

/// The compose file as JSON, with its anchors merged; None without Python's parser.
fn compose() -> Option<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/compose.yaml");
    let script = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let runs = |python: &str, args: &[&str]| Command::new(python).args(args).output().ok();
    let has_parser = |python: &&str| {
        runs(python, &["-c", "import yaml"]).is_some_and(|imported| imported.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_parser) else {
        skip("python3-yaml is not installed");
        return None;
    };
    let parsed = runs(python, &["-c", script, file]).unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    Some(serde_json::from_slice(&parsed.stdout).unwrap())
}

#[test]
fn each_service_has_an_image_with_a_tag_a_port_and_a_check() {
    let Some(compose) = compose() else { return };
    let services = compose["services"].as_object().unwrap();
    // Tags that the pages of the images list. Without an engine nothing is pulled here.
    let images = [
        ("free", "docker.io/gvenzl/oracle-free:slim"),
        ("free23", "docker.io/gvenzl/oracle-free:23-slim"),
        ("xe21", "docker.io/gvenzl/oracle-xe:21-slim"),
    ];
    let named =
        services.iter().map(|(name, service)| (&**name, service["image"].as_str().unwrap()));
    assert_eq!(named.collect::<Vec<_>>(), images);
    for (name, service) in services {
        assert_eq!(service["ports"][0], "${PETAL_ORACLE_PORT:-1521}:1521", "{name}");
        assert!(service["healthcheck"]["test"][1].as_str().unwrap().contains("petal-granted"));
        let volumes = service["volumes"].as_array().unwrap();
        assert!(volumes.iter().all(|volume| volume.as_str().unwrap().ends_with(":ro,z")), "{name}");
        assert_eq!(service["environment"]["APP_USER"], "petal", "{name}");
        assert!(service["environment"]["PETAL_PDB"].is_string(), "{name}");
    }
}

#[test]
fn the_recipe_starts_from_a_private_clone_and_past_a_taken_port() {
    // What the container's user, one of nobody here, may read.
    let seen = "echo \"$@ port=$PETAL_ORACLE_PORT\"; stat -c '%a %n' \"$PETAL_ORACLE_FILES\" \
                \"$PETAL_ORACLE_FILES\"/*";
    let work = private_clone(&[("docker", seen)]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ran = runs(&work, "sh", "up.sh", &[("PETAL_ORACLE_PORT", &port.to_string())]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("compose -f compose.yaml up -d --wait --wait-timeout"), "{said}");
    let used: u16 =
        said.split("port=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(used > port, "{said}");
    assert!(said.contains(&format!("petal prove --db oracle://petal@localhost:{used}/FREEPDB1")));
    let mode = |name: &str| said.lines().find(|line| line.ends_with(name)).unwrap()[..3].to_owned();
    assert_eq!((mode("/grants.sh"), mode("/oracle-grants.sql")), ("755".into(), "644".into()));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("is taken"));
}

#[test]
fn a_wrong_name_or_port_is_refused_and_nothing_is_left() {
    let work = private_clone(&[("docker", "exit 1")]);
    let up = |database: &str, port: &str| {
        let ran = command(&work, "sh", "up.sh", &[("PETAL_ORACLE_PORT", port)])
            .arg(database)
            .output()
            .unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    for (database, port, words) in [
        ("free24", "1521", "free24: there is no such database"),
        ("free", "oracle", "PETAL_ORACLE_PORT=oracle: is no port"),
        ("free", "1521; true", "is no port"),
        ("free", "99999", "no port is free"),
    ] {
        let (code, said) = up(database, port);
        assert!(code == Some(2) && said.contains(words), "{code:?} {said}");
    }
    // The engine fails: no folder of each call is left.
    assert_eq!(up("free", "47113").0, Some(1));
    assert_eq!(up("free", "47113").0, Some(1));
    let mut left: Vec<_> = std::fs::read_dir(work.path("")).unwrap().collect();
    left.retain(|entry| {
        !["bin", "clone"].map(Into::into).contains(&entry.as_ref().unwrap().file_name())
    });
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_grants_are_those_of_the_page_and_say_when_they_are_there() {
    let work = private_clone(&[("sqlplus", "cat > sent.sql")]);
    let grants = work.path("clone/docs/engines/oracle-grants.sql").display().to_string();
    let granted = work.path("granted").display().to_string();
    let sent = work.path("bin/sqlplus");
    std::fs::write(&sent, format!("#!/bin/sh\ncat > {}\n", work.path("sent.sql").display()))
        .unwrap();
    let variables =
        [("PETAL_PDB", "FREEPDB1"), ("PETAL_GRANTS", &*grants), ("PETAL_GRANTED", &*granted)];
    runs(&work, "bash", "grants.sh", &variables);
    assert!(Path::new(&granted).exists());
    let sql = std::fs::read_to_string(work.path("sent.sql")).unwrap();
    let first: Vec<&str> = sql.lines().take(2).collect();
    assert_eq!(
        first,
        ["WHENEVER SQLERROR EXIT FAILURE", "ALTER SESSION SET CONTAINER = FREEPDB1;"]
    );
    for grant in ["GRANT ALTER SYSTEM TO petal;", "GRANT SELECT ON sys.gv_$sysstat TO petal;"] {
        assert!(sql.lines().any(|line| line == grant), "{grant}: {sql}");
    }
    assert!(sql.lines().skip(3).all(|line| line.ends_with(" TO petal;")), "{sql}");
}
