//! Several PostgreSQL servers that serve one run: a primary and its standbys.

use std::collections::BTreeSet;

use crate::engine_postgres::{load, open};
use crate::server_postgres::{Server, is_there};
use crate::support::{Workplace, count, number};

#[test]
fn standbys_read_and_the_primary_writes() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("scaled");
    load(&url, 3);
    let standbys = [primary.standby(), primary.standby()];
    let ports = [standbys[0].port, primary.port, standbys[1].port];
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let work = Workplace::new();
    let url = format!("postgres://petal@{hosts}/scaled");
    let args = ["run", "--db", &url, "--update-pct", "20", "--work-loop", "100", "--json"];
    let run = work.petal(args).exits(0).json();
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (240, 60));
    let endpoints = run["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 3);
    for (endpoint, port) in endpoints.iter().zip(ports) {
        assert_eq!(endpoint["endpoint"], format!("127.0.0.1:{port}"));
        assert_eq!(endpoint["sessions"], 1);
        assert!(count(endpoint, "/io/logical_reads") >= 80 * 64, "{endpoint}");
        let writes = count(endpoint, "/io/redo_bytes") > 0;
        assert_eq!(writes, port == primary.port, "{endpoint}");
        // A standby began with an empty cache: it read, and timed it.
        assert!(port == primary.port || number(endpoint, "/read_us") > 0.0, "{endpoint}");
    }
    // All three run on this host: none of them is somebody else's work.
    let servers = open(&url).server().unwrap().server_processes();
    let parents: BTreeSet<u32> = servers.iter().map(|server| server.parent).collect();
    assert_eq!(parents.len(), 3, "{servers:?}");
    let log_writers = servers.iter().filter(|server| server.log_writer.is_some()).count();
    assert_eq!(log_writers, 1, "{servers:?}");
}

#[test]
fn numbered_services_are_the_endpoints_and_the_admin_service_is_for_setup() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    primary.database("served");
    let work = Workplace::new();
    let own = |name: &str, port: u16| format!("[{name}]\nhost=127.0.0.1\nport={port}\n");
    let services = work.path("services.conf");
    std::fs::write(&services, own("boss", primary.port)).unwrap();
    let file = services.display().to_string();
    let url = "postgres://petal@/served";
    let petal = |args: &[&str]| {
        let named = ["--db", url, "--admin-sqlnet-service", "boss"];
        work.petal([args, &named].concat()).env("PGSERVICEFILE", &file)
    };
    petal(&["setup", "-s", "2", "--scale", "1024"]).exits(0);
    let standbys = [primary.standby(), primary.standby()];
    let text = own("boss", primary.port)
        + &own("read1", standbys[0].port)
        + &own("read2", standbys[1].port);
    std::fs::write(&services, text).unwrap();
    // Sessions on both standbys; their UPDATEs go to the only primary, which is no endpoint of
    // theirs, and is counted.
    let args = ["run", "--work-loop", "100", "--update-pct", "20", "--json"];
    let base = ["--sqlnet-service-base", "read", "--sqlnet-service-max", "2"];
    let run = petal(&[&args[..], &base].concat()).exits(0).json();
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (160, 40));
    let endpoints: Vec<_> = run["endpoints"].as_array().unwrap().iter().collect();
    let reported = |endpoint: &serde_json::Value| {
        (endpoint["endpoint"].as_str().unwrap().to_owned(), count(endpoint, "/sessions"))
    };
    let expected = [(standbys[0].port, 1), (standbys[1].port, 1), (primary.port, 0)]
        .map(|(port, sessions)| (format!("127.0.0.1:{port}"), sessions));
    assert_eq!(endpoints.iter().map(|endpoint| reported(endpoint)).collect::<Vec<_>>(), expected);
    assert!(count(endpoints[2], "/io/redo_bytes") > 0);
    // One service of the base alone, no number.
    let args = ["run", "--work-loop", "10", "--update-pct", "0", "--json"];
    let run = petal(&[&args[..], &["--sqlnet-service-base", "read1"]].concat()).exits(0).json();
    assert_eq!(run["endpoints"].as_array().unwrap().len(), 1);
    // A name in no file is a host's, and is reported as one.
    petal(&["run", "--sqlnet-service-base", "nowhere.invalid"])
        .exits(3)
        .telling(&["nowhere.invalid:5432"]);
}
