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

/// An administrator in the root container: `oracle://system:password@host:1521/FREE`.
pub fn root() -> Option<String> {
    std::env::var("PETAL_TEST_ORACLE_ROOT").ok().filter(|url| !url.is_empty())
}

/// The password verifiers of petal's account, if the root's administrator is named.
pub fn password_versions() -> String {
    let Some(root) = root() else {
        return "it logs on; its PASSWORD_VERSIONS take PETAL_TEST_ORACLE_ROOT".to_owned();
    };
    let user = TargetUrl::parse(&url()).unwrap().server().unwrap().user.unwrap();
    let sql = format!(
        "SELECT password_versions FROM sys.cdb_users WHERE username = '{}'",
        user.to_uppercase()
    );
    let connection = connect(&root);
    let cursor = connection.query(&sql, &[]).unwrap_or_else(|error| panic!("{error}"));
    let versions: Vec<String> = cursor
        .map(|row| row.unwrap_or_else(|error| panic!("{error}")))
        .map(|row| row.get::<String>(0).unwrap_or_else(|error| panic!("{error}")))
        .collect();
    assert!(versions.iter().any(|versions| versions.contains("12C")), "{versions:?}");
    format!("PASSWORD_VERSIONS: {}", versions.join(", "))
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
fn connect(url: &str) -> oracledb::Connection {
    let url = TargetUrl::parse(url).unwrap();
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
    let connection = connect(&url());
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
    let connection = connect(&url());
    let sql = "UPDATE petal1_cf1 SET c2 = c2";
    connection.execute(sql, &[]).unwrap_or_else(|error| panic!("{error}"));
    Box::new(connection)
}
