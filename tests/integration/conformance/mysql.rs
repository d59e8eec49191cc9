//! MySQL and MariaDB: InnoDB with the loop on either side, clusters.

use std::collections::BTreeMap;

use petal_settings::{LoopSide, RedoStress, Settings};

use super::{Target, nobody_waits, own_database};
use crate::server_mysql::{self, Replication};
use crate::support::Workplace;

fn mysql_look(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let sql = format!("SELECT custid, c2 FROM petal{schema}_cf1");
    let rows = server_mysql::shared().sql(&own_database(work), &sql);
    rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect()
}

pub const MYSQL: Target = Target {
    turn: nobody_waits,
    is_there: server_mysql::is_there,
    url: |work| server_mysql::shared().url(&own_database(work)),
    flags: &[],
    settings: Settings::default,
    block_size: 16384,
    commits: ("Handler_commit", true),
    look: mysql_look,
    delete_half: Some(|work| {
        let sql = "DELETE FROM petal1_cf1 WHERE custid % 2 = 0";
        server_mysql::shared().sql(&own_database(work), sql);
    }),
    broken: |_| {
        // A port that nobody listens at.
        ("mysql://petal:s3cret@127.0.0.1:1/x".to_owned(), "127.0.0.1:1".to_owned())
    },
    data: None,
    is_traced: false,
    log: None,
    order: Some(|work, schema| {
        let sql = format!("SELECT custid FROM petal{schema}_cf1 ORDER BY pos");
        let rows = server_mysql::shared().sql(&own_database(work), &sql);
        rows.into_iter().map(|row| row[0].parse().unwrap()).collect()
    }),
    hold: None,
};

pub const MYSQL_CLIENT: Target = Target {
    flags: &["--loop", "client", "--redo-stress", "HEAVY"],
    settings: || Settings {
        loop_side: Some(LoopSide::Client),
        redo_stress: RedoStress::Heavy,
        ..Settings::default()
    },
    ..MYSQL
};

/// A cluster of three nodes, each of them an endpoint.
pub const MYSQL_CLUSTER: Target = Target {
    is_there: || Replication::Galera.shared().is_some(),
    url: |work| cluster_url(Replication::Galera, work),
    order: None,
    look: |work, schema| cluster_look(Replication::Galera, work, schema),
    delete_half: Some(|work| delete_half_of_cluster(Replication::Galera, work)),
    ..MYSQL
};

/// Three members of a MySQL group, each of them an endpoint.
pub const MYSQL_GROUP: Target = Target {
    is_there: || Replication::Group.shared().is_some(),
    url: |work| cluster_url(Replication::Group, work),
    order: None,
    look: |work, schema| cluster_look(Replication::Group, work, schema),
    delete_half: Some(|work| delete_half_of_cluster(Replication::Group, work)),
    ..MYSQL
};

fn cluster_nodes(kind: Replication) -> &'static [server_mysql::Server] {
    kind.shared().expect("a cluster is there")
}

fn cluster_url(kind: Replication, work: &Workplace) -> String {
    server_mysql::cluster_url(cluster_nodes(kind), &own_database(work))
}

/// From another node than the one that petal loads on.
fn cluster_look(kind: Replication, work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let sql = format!("{}; SELECT custid, c2 FROM petal{schema}_cf1", kind.see_all());
    let rows = cluster_nodes(kind)[1].sql(&own_database(work), &sql);
    rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect()
}

fn delete_half_of_cluster(kind: Replication, work: &Workplace) {
    let sql = "DELETE FROM petal1_cf1 WHERE custid % 2 = 0";
    cluster_nodes(kind)[0].sql(&own_database(work), sql);
}
