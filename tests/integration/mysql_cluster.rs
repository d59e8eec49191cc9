//! Clusters of three nodes on this host, Galera and MySQL's Group Replication: their nodes are endpoints,
//! conflicts between them cost an operation each, and a node that dies its own sessions.

use crate::engine_postgres::ROWS;
use crate::mysql::load;
use crate::server_mysql::{Replication, cluster_url};
use crate::support::{Workplace, count, number};

#[test]
fn nodes_of_a_cluster_are_endpoints_and_conflicts_and_a_lost_node_cost_no_other_session() {
    endpoints_conflicts_and_a_lost_node(Replication::Galera);
}

#[test]
#[ignore = "needs MySQL with Group Replication: see CONTRIBUTING.md"]
fn members_of_a_group_are_endpoints_and_conflicts_and_a_lost_one_cost_no_other_session() {
    endpoints_conflicts_and_a_lost_node(Replication::Group);
}

fn endpoints_conflicts_and_a_lost_node(kind: Replication) {
    let Some(mut nodes) = kind.nodes() else { return };
    let url = cluster_url(&nodes, "spread");
    load(&url, 3);
    for node in &nodes {
        let sql = format!("{}; SELECT COUNT(*) FROM petal3_cf1", kind.see_all());
        assert_eq!(node.sql("spread", &sql), [[ROWS.to_string()]]);
    }
    let work = Workplace::new();
    let run = |args: &[&str]| work.petal([&["run", "--db", &url, "--json"], args].concat());
    // Each node has a schema of its own.
    let apart = ["-s", "3", "--work-loop", "100", "--update-pct", "30"];
    let apart = run(&apart).exits(0).json();
    assert_eq!((count(&apart, "/ops/total"), count(&apart, "/ops/update")), (300, 90));
    assert_eq!(apart["errors"].as_object().unwrap().len(), 0);
    assert_eq!(apart["endpoints"].as_array().unwrap().len(), 3);
    // All nodes change the rows of one schema.
    for side in ["server", "client"] {
        let one = ["-s", "1", "-t", "6", "--update-pct", "100", "--run-time", "4"];
        let one = run(&[&one[..], &["--loop", side]].concat()).exits(0).json();
        assert!(count(&one, "/errors/cluster-conflict") > 0, "{side}: {}", one["errors"]);
        if matches!(kind, Replication::Galera) {
            assert!(number(&one, "/counters/wsrep_local_cert_failures") > 0.0);
        }
    }
    let mut reading = run(&["-s", "3", "--update-pct", "0", "--run-time", "5"]).start();
    let calls = || {
        let calls = nodes[2].sql("", "SHOW GLOBAL STATUS LIKE 'Com_call_procedure'");
        calls[0][1].parse::<u64>().unwrap()
    };
    let before = calls();
    reading.until("sessions on the third node", || calls() > before + 5);
    nodes[2].stop("KILL");
    let lost = reading.ends().exited(1).json();
    assert_eq!(lost["sessions_lost"].as_array().unwrap().len(), 1);
    assert_eq!(lost["sessions_lost"][0]["session"], 3);
}
