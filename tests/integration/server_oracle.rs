//! A live Oracle Database for the conformance suite's ignored cases, where somebody has one:
//! `PETAL_TEST_ORACLE=oracle://user:password@host:1521/service make test-oracle`. The user's own
//! petal schemas are dropped; its tablespace has blocks of 8 KiB. No test of its own.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use petal_model::settings::Settings;
use petal_model::settings::url::TargetUrl;

const VARIABLE: &str = "PETAL_TEST_ORACLE";

pub fn url() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| panic!("{VARIABLE} names no Oracle Database"))
}

/// There is one set of petal's schemas at a server: one test at a time, and each finds none.
pub fn turn() -> Box<dyn Any> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let db = TargetUrl::parse(&url()).unwrap();
    petal::engines::open(&Settings { db, ..Settings::default() }).unwrap().drop_data().unwrap();
    Box::new(turn)
}

/// A connection past petal.
fn connect() -> oracledb::Connection {
    let url = TargetUrl::parse(&url()).unwrap();
    let server = url.server().unwrap();
    let host = &server.hosts[0];
    let place = format!("{}:{}/{}", host.host, host.port.unwrap_or(1521), server.name);
    let password = url.password.map(|password| password.expose().to_owned());
    let config = oracledb::Config::default()
        .set_credentials(&server.user.unwrap(), &password.unwrap_or_default())
        .set_connect_string(&place)
        .unwrap_or_else(|error| panic!("{error}"));
    oracledb::connect(config).unwrap_or_else(|error| panic!("{error}"))
}

/// Keys of a schema with the text of c2, past petal.
pub fn rows(schema: u32) -> BTreeMap<u64, String> {
    let connection = connect();
    let sql = format!("SELECT custid, c2 FROM petal{schema}_cf1");
    let cursor = connection.query(&sql, &[]).unwrap_or_else(|error| panic!("{error}"));
    cursor
        .map(|row| {
            let row = row.unwrap_or_else(|error| panic!("{error}"));
            let text = |at: usize| row.get::<String>(at).unwrap_or_else(|error| panic!("{error}"));
            (text(0).parse().unwrap(), text(1))
        })
        .collect()
}

/// Changes every row of schema 1 without a commit, until what is returned is dropped.
pub fn hold_rows() -> Box<dyn Any> {
    let connection = connect();
    let sql = "UPDATE petal1_cf1 SET c2 = c2";
    connection.execute(sql, &[]).unwrap_or_else(|error| panic!("{error}"));
    Box::new(connection)
}
