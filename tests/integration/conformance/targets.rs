//! The targets of the conformance suite: how each is made, and looked at past petal.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use petal_device::{
    block,
    layout::{TargetContent, TargetHeader},
};
use petal_model::settings::{LoopSide, RedoStress, Settings, Verify};

use crate::oracle_wire;
use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::server_mysql::{self, Replication};
use crate::server_oracle;
use crate::server_postgres;
use crate::support::Workplace;

use super::Target;

/// Each case has a target of its own.
fn nobody_waits() -> Box<dyn Any> {
    Box::new(())
}

fn sqlite_look(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    // No operation is under way: closing a connection drops the locks of this process.
    let path = work.path(format!("petal-data/petal{schema}.db"));
    let reader = rusqlite::Connection::open(path).unwrap();
    let mut rows = reader.prepare("SELECT custid, c2 FROM cf1").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

pub const SQLITE: Target = Target {
    turn: nobody_waits,
    is_there: || true,
    url: |work| format!("sqlite:{}", work.path("petal-data").display()),
    flags: &["--direct-io", "TRUE"],
    settings: || Settings { direct_io: Some(true), ..Settings::default() },
    block_size: 8192,
    commits: ("commits", false),
    look: sqlite_look,
    delete_half: Some(|work| {
        let path = work.path("petal-data/petal1.db");
        let writer = rusqlite::Connection::open(path).unwrap();
        writer.execute("DELETE FROM cf1 WHERE custid % 2 = 0", []).unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("sqlite:{path}"), path)
    },
};

pub const SQLITE_BUFFERED: Target = Target {
    flags: &["--direct-io", "FALSE"],
    settings: || Settings { direct_io: Some(false), ..Settings::default() },
    block_size: 4096,
    ..SQLITE
};

/// A database for each workplace.
fn own_database(work: &Workplace) -> String {
    let name = work.path("").file_name().unwrap().to_str().unwrap().to_lowercase();
    name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' }).collect()
}

fn postgres_look(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let mut client = server_postgres::shared().client(&own_database(work));
    let rows = client.query(&format!("SELECT custid, c2 FROM petal{schema}.cf1"), &[]).unwrap();
    rows.iter().map(|row| (row.get::<_, i64>(0) as u64, row.get(1))).collect()
}

pub const POSTGRES: Target = Target {
    turn: nobody_waits,
    is_there: server_postgres::is_there,
    url: |work| server_postgres::shared().url(&own_database(work)),
    flags: &[],
    settings: Settings::default,
    block_size: 8192,
    commits: ("pg_stat_database.xact_commit", true),
    look: postgres_look,
    delete_half: Some(|work| {
        let mut client = server_postgres::shared().client(&own_database(work));
        client.execute("DELETE FROM petal1.cf1 WHERE custid % 2 = 0", &[]).unwrap();
    }),
    broken: |_| {
        // A port that nobody listens at.
        ("postgres://petal:s3cret@127.0.0.1:1/x".to_owned(), "127.0.0.1:1".to_owned())
    },
};

pub const POSTGRES_CLIENT: Target = Target {
    flags: &["--loop", "client", "--redo-stress", "HEAVY"],
    settings: || Settings {
        loop_side: Some(LoopSide::Client),
        redo_stress: RedoStress::Heavy,
        ..Settings::default()
    },
    ..POSTGRES
};

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

pub const MYSQL_ROCKSDB: Target = Target {
    is_there: server_mysql::has_rocksdb,
    url: |work| server_mysql::rocksdb_url(&own_database(work)),
    block_size: 8192,
    look: |work, schema| {
        let sql = format!("SELECT custid, c2 FROM petal{schema}_cf1");
        let rows = server_mysql::shared_rocksdb().sql(&own_database(work), &sql);
        rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect()
    },
    delete_half: Some(|work| {
        // Marks of deleted rows would share blocks with rows of other tests.
        let sql = "UPDATE petal1_cf1 SET custid = NULL WHERE custid % 2 = 0";
        server_mysql::shared_rocksdb().sql(&own_database(work), sql);
    }),
    ..MYSQL
};

/// A cluster of three nodes, each of them an endpoint.
pub const MYSQL_CLUSTER: Target = Target {
    is_there: || Replication::Galera.shared().is_some(),
    url: |work| cluster_url(Replication::Galera, work),
    look: |work, schema| cluster_look(Replication::Galera, work, schema),
    delete_half: Some(|work| delete_half_of_cluster(Replication::Galera, work)),
    ..MYSQL
};

/// Three members of a MySQL group, each of them an endpoint.
pub const MYSQL_GROUP: Target = Target {
    is_there: || Replication::Group.shared().is_some(),
    url: |work| cluster_url(Replication::Group, work),
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

/// Reads the blocks again and again until two looks agree: background writers may still be at work.
fn device_look(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let mut last = device_rows(work, schema);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        let now = device_rows(work, schema);
        if now == last {
            break;
        }
        last = now;
    }
    last
}

fn device_rows(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let bytes = std::fs::read(work.path("petal.dat")).unwrap();
    let TargetContent::Petal(header) = TargetHeader::find(&bytes) else {
        panic!("no header of petal's")
    };
    let area = header.schema(schema).unwrap();
    let main = &bytes[area.main_offset as usize..];
    let blocks = main.chunks_exact(header.block_bytes as usize).take(area.rows as usize);
    let row = |block: &[u8]| {
        let c2 = block::column(block, 0).iter().map(|byte| char::from(*byte)).collect();
        (block::key(block), c2)
    };
    blocks.map(row).collect()
}

pub const DEVICE: Target = Target {
    url: |work| format!("device:{}?log=2M", work.path("petal.dat").display()),
    flags: &["--io-depth", "8", "--verify", "checksum"],
    settings: || Settings { io_depth: 8, verify: Verify::Checksum, ..Settings::default() },
    block_size: 8192,
    turn: nobody_waits,
    is_there: || true,
    commits: ("commits", false),
    look: device_look,
    // A block that is not what was written there is an error of its own.
    delete_half: None,
    broken: |work| {
        let path = work.write("in-the-way/x", "a folder").parent().unwrap().display().to_string();
        (format!("device:{path}"), path)
    },
};

pub const DEVICE_PREAD: Target = Target {
    url: |work| format!("device:{}?log=2M&io=pread", work.path("petal.dat").display()),
    flags: &["--direct-io", "FALSE"],
    settings: || Settings { direct_io: Some(false), ..Settings::default() },
    block_size: 4096,
    ..DEVICE
};

pub const ORACLE: Target = Target {
    is_there: || true,
    turn: server_oracle::turn,
    url: |_| server_oracle::url(),
    flags: &[],
    settings: Settings::default,
    block_size: 8192,
    commits: ("user commits", true),
    look: |_, schema| server_oracle::rows(schema),
    delete_half: None,
    broken: |_| {
        // A port that nobody listens at.
        ("oracle://petal:s3cret@127.0.0.1:1/x".to_owned(), "127.0.0.1:1".to_owned())
    },
};

pub const ORACLE_CLIENT: Target = Target {
    flags: &["--loop", "client", "--redo-stress", "HEAVY"],
    settings: || Settings {
        loop_side: Some(LoopSide::Client),
        redo_stress: RedoStress::Heavy,
        ..Settings::default()
    },
    ..ORACLE
};

fn delete_half(stand_in: &StandIn) {
    let mut world = stand_in.shared.world();
    world.tables.get_mut("PETAL1_CF1").unwrap().rows.retain(|key, _| key % 2 == 1);
}

/// No database, but its protocol: a test of the wire and of what petal sends.
pub const ORACLE_WIRE: Target = Target {
    turn: nobody_waits,
    url: |work| oracle_wire::of(work, Release::Free23).url(),
    look: |work, schema| oracle_wire::of(work, Release::Free23).rows(schema),
    delete_half: Some(|work| delete_half(&oracle_wire::of(work, Release::Free23))),
    ..ORACLE
};

pub const ORACLE_WIRE_CLIENT: Target = Target {
    turn: nobody_waits,
    url: |work| oracle_wire::of(work, Release::Xe18).url(),
    look: |work, schema| oracle_wire::of(work, Release::Xe18).rows(schema),
    delete_half: Some(|work| delete_half(&oracle_wire::of(work, Release::Xe18))),
    ..ORACLE_CLIENT
};

/// The stamps of its rows, read from the file past petal.
fn scripted_rows(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let bytes = std::fs::read(work.path(format!("petal-data/petal{schema}.rows"))).unwrap();
    let rows = bytes[32..].chunks_exact(8);
    (1..)
        .zip(rows.map(|row| format!("{:016x}", u64::from_le_bytes(row.try_into().unwrap()))))
        .collect()
}

pub const SCRIPTED: Target = Target {
    url: |work| {
        let times = "select_us=20&scan_us=50&update_us=40&load_us=50";
        format!("scripted:{}?{times}", work.path("petal-data").display())
    },
    flags: &[],
    settings: Settings::default,
    look: scripted_rows,
    delete_half: Some(|work| {
        let path = work.path("petal-data/petal1.rows");
        let mut bytes = std::fs::read(&path).unwrap();
        for row in bytes[32..].chunks_exact_mut(8).skip(1).step_by(2) {
            row.fill(0xff);
        }
        std::fs::write(&path, bytes).unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("scripted:{path}"), path)
    },
    ..SQLITE
};
