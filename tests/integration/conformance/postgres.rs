//! PostgreSQL, with the loop in the server and in petal.

use std::collections::BTreeMap;
use std::sync::Mutex;

use petal_settings::{LoopSide, RedoStress, Settings};

use petal_prove::{TriedPromise, Unproved};

use super::{Place, Target, nobody_waits, own_database};
use crate::idle_proxies::{self, HaProxy};
use crate::server_postgres;
use crate::support::Workplace;

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
    data: None,
    is_traced: false,
    log: None,
    order: Some(|work, schema| {
        let mut client = server_postgres::shared().client(&own_database(work));
        let sql = format!("SELECT custid FROM petal{schema}.cf1 ORDER BY ctid");
        let rows = client.query(&sql, &[]).unwrap();
        rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect()
    }),
    hold: None,
};

/// Behind HAProxy, which closes connections that are idle for five seconds.
pub const POSTGRES_BEHIND_PROXY: Target = Target {
    is_there: || idle_proxies::is_there() && server_postgres::is_there(),
    url: |work| {
        // A case that is alone has another server.
        static PROXIES: Mutex<BTreeMap<u16, HaProxy>> = Mutex::new(BTreeMap::new());
        let server = server_postgres::shared();
        let mut proxies = PROXIES.lock().unwrap();
        let proxy = proxies.entry(server.port).or_insert_with(|| HaProxy::before(server.port));
        let direct = format!(":{}/", server.port);
        server.tcp_url(&own_database(work)).replace(&direct, &format!(":{}/", proxy.port))
    },
    ..POSTGRES
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

/// A snapshot such as the server's own ANALYZE holds, and has given back when petal asks who held it.
#[test]
fn a_snapshot_that_ends_during_the_updates_breaks_no_promise() {
    if !server_postgres::is_there() {
        return;
    }
    let _alone = server_postgres::alone();
    let (work, engine) = POSTGRES.loaded(2);
    drop(engine);
    let database = own_database(&work);
    let mut other = server_postgres::shared().client(&database);
    let mut seen = server_postgres::shared().client(&database);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM petal1.cf1";
    other.batch_execute(begin).unwrap();
    // A longer table means that a row has moved.
    let size = "SELECT pg_relation_size('petal1.cf1')";
    let mut size = move || seen.query_one(size, &[]).unwrap().get::<_, i64>(0);
    let loaded = size();
    let ended = std::thread::spawn(move || {
        while size() == loaded {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        other.batch_execute("COMMIT").unwrap();
    });
    let place = Place { target: &POSTGRES, work };
    match petal_prove::n_rows_are_n_blocks(&place) {
        Ok(TriedPromise::Held(seen)) => assert!(seen.contains("; once "), "{seen}"),
        other => panic!("{other:?}"),
    }
    ended.join().unwrap();
}

#[test]
fn an_old_snapshot_of_somebody_else_breaks_no_promise() {
    if !server_postgres::is_there() {
        return;
    }
    let _alone = server_postgres::alone();
    let (work, engine) = POSTGRES.loaded(2);
    drop(engine);
    let mut other = server_postgres::shared().client(&own_database(&work));
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM petal1.cf1";
    other.batch_execute(begin).unwrap();
    let place = Place { target: &POSTGRES, work };
    match petal_prove::n_rows_are_n_blocks(&place) {
        Err(Unproved::Refused(why)) => {
            assert!(why.starts_with("process ") && why.contains("holds a snapshot"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}
