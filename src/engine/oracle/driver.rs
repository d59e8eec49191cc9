//! Links over `oracledb`, Oracle's own driver in Rust: no client library is needed.
//!
//! Done here is what it does not do. A peer that accepts a connection and is silent gets no time
//! limit, one that does not speak Oracle's protocol may make it panic: so connecting has a thread
//! of its own, which is left behind. Its limit of a call holds twice (again for the answer to its
//! break), and neither while it writes nor when it closes: others wait for links on another thread
//! (`timeouts`, `session`). Its errors name no host, implement no `Error` and show a backtrace in
//! `{:?}`: they become [`LinkError`]s. Its TLS wants one provider of the process; this build has
//! two.

use std::borrow::Cow;
use std::time::Duration;

use oracledb::{AUTH_MODE_SYSDBA, BindParameters, Config, Connection, ErrorKind, ToDbValue};

use super::link::{
    BindValue, Connector, Destination, Link, LinkError, LinkErrorKind, NamedValue, Result, Row,
};
use super::options::{Login, Options, OracleService};
use crate::engine::server::detached_worker::{Unanswered, within};

/// Rows that a query fetches at once.
const FETCH_ROWS: u32 = 500;
const CONNECTING: &str = "petal connects";
/// Where the driver panics when a server accepts a connection with native encryption alone.
const NATIVE_ENCRYPTION: &str = "messages/connect.rs:100";

pub struct Driver {
    options: Options,
}

impl Driver {
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    fn log_on(&self, login: &Login, place: &OracleService, purpose: &str) -> Result<Box<dyn Link>> {
        let limit = self.options.connect_timeout;
        let mut config = Config::default();
        if let Some(folder) = &self.options.tns_admin {
            config = config.set_config_dir(folder);
        }
        let password = login.password.as_ref().map_or("", |password| password.expose());
        config = config
            .set_credentials(&login.user, password)
            .set_transport_connect_timeout(Some(limit))
            .set_program("petal")
            .and_then(|config| config.set_connect_string(&place.connect_string))
            .map_err(link_error)?;
        if login.is_sysdba {
            config = config.set_auth_mode(AUTH_MODE_SYSDBA);
        }
        if let Some(wallet) = &self.options.wallet {
            config = config.set_wallet_location(&wallet.folder);
            if let Some(password) = &wallet.password {
                config = config.set_wallet_password(password.expose());
            }
        }
        let purpose = purpose.to_owned();
        let connected = within(CONNECTING, limit, move || {
            let connection = oracledb::connect(config)?;
            connection.set_module(&purpose)?;
            // Numbers as petal reads them, whatever the user's locale.
            connection.execute("ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,'", &[])?;
            Ok(connection)
        });
        match connected {
            Ok(connected) => {
                Ok(Box::new(DriverSession { connection: connected.map_err(link_error)? }))
            }
            Err(unanswered) => Err(LinkError::connection(match unanswered {
                Unanswered::NoThread(error) => error.to_string(),
                Unanswered::TooLate => {
                    format!("no answer within {} s, though it may have accepted", limit.as_secs())
                }
                Unanswered::Failed(words) => failed(&words),
            })),
        }
    }
}

impl Connector for Driver {
    fn connect(&self, to: Destination, purpose: &str) -> Result<Box<dyn Link>> {
        let Options { endpoints, user, admin, admin_place, .. } = &self.options;
        match to {
            Destination::Admin => self.log_on(admin, admin_place, purpose),
            Destination::Endpoint(at) => match endpoints.get(at % endpoints.len().max(1)) {
                Some(place) => self.log_on(user, place, purpose),
                None => Err(LinkError::connection("no service is named")),
            },
        }
    }
}

/// Why connecting ended in a panic of the driver.
fn failed(words: &str) -> String {
    match words.contains(NATIVE_ENCRYPTION) {
        true => {
            "the server requires native network encryption or checksums, which the driver does \
                 not have"
                .to_owned()
        }
        false => format!("what answers there does not speak Oracle's protocol ({words})"),
    }
}

fn link_error(error: oracledb::Error) -> LinkError {
    let (code, kind) = match error.kind() {
        ErrorKind::DbError(error) => (u32::try_from(error.code()).ok(), LinkErrorKind::Database),
        // The second where the answer to its break does not come in as long again, as where the
        // database is busy: the connection is gone, and why is the same.
        ErrorKind::CallTimeoutExceeded | ErrorKind::UnableToRecover => {
            (None, LinkErrorKind::TimedOut)
        }
        ErrorKind::InvalidServiceName(..) => (Some(12514), LinkErrorKind::Connection),
        ErrorKind::InvalidSid(..) => (Some(12505), LinkErrorKind::Connection),
        ErrorKind::ListenerRefusedConnection(_, _, _, code) => {
            (u32::try_from(*code).ok(), LinkErrorKind::Connection)
        }
        ErrorKind::NoDataFound
        | ErrorKind::UnsupportedConversion(..)
        | ErrorKind::WrongNumPositionalBinds(..) => (None, LinkErrorKind::Database),
        _ => (None, LinkErrorKind::Connection),
    };
    // What the database says ends in a line feed.
    LinkError { code, message: error.to_string().trim().replace('\n', " "), kind }
}

/// One session over the driver.
struct DriverSession {
    connection: Connection,
}

impl DriverSession {
    fn with_binds<T>(
        binds: &[BindValue<'_>],
        run: impl FnOnce(&[&dyn ToDbValue]) -> Result<T, oracledb::Error>,
    ) -> Result<T> {
        let bound: Vec<&dyn ToDbValue> = binds.iter().map(as_db_value).collect();
        run(&bound).map_err(link_error)
    }
}

/// A value as the driver borrows it.
fn as_db_value<'v>(value: &'v BindValue<'_>) -> &'v (dyn ToDbValue + 'v) {
    match value {
        BindValue::Text(Cow::Borrowed(text)) => text,
        BindValue::Text(Cow::Owned(text)) => text,
        BindValue::Number(number) => number,
    }
}

impl Link for DriverSession {
    fn execute(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<u64> {
        Self::with_binds(binds, |binds| self.connection.execute(sql, binds))
            .map(|result| result.rows_affected())
    }

    fn query(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>> {
        Self::with_binds(binds, |binds| {
            let statement = self.connection.statement(sql)?.fetch_array_size(FETCH_ROWS).build()?;
            statement
                .query(binds)?
                .map(|row| {
                    let row = row?;
                    (0..row.columns().len()).map(|at| row.get::<Option<String>>(at)).collect()
                })
                .collect()
        })
    }

    fn execute_many(&mut self, sql: &str, rows: &[Vec<BindValue<'_>>]) -> Result<u64> {
        let bound: Vec<Vec<&dyn ToDbValue>> =
            rows.iter().map(|row| row.iter().map(as_db_value).collect()).collect();
        let bound: Vec<&[&dyn ToDbValue]> = bound.iter().map(Vec::as_slice).collect();
        self.connection
            .execute_batch(sql, BindParameters::Slice(&bound))
            .map(|result| result.rows_affected())
            .map_err(link_error)
    }

    fn call(&mut self, block: &str, ins: &[NamedValue<'_>], outs: &[&'static str]) -> Result<Row> {
        let mut named: Vec<(&str, &dyn ToDbValue)> =
            ins.iter().map(|(name, value)| (*name, as_db_value(value))).collect();
        named.extend(outs.iter().map(|name| (*name, &oracledb::DB_TYPE_VARCHAR as &dyn ToDbValue)));
        let mut result = self.connection.execute_named(block, &named).map_err(link_error)?;
        let row = result.out_bind_data();
        outs.iter().map(|name| row.get::<Option<String>>(*name).map_err(link_error)).collect()
    }

    fn commit(&mut self) -> Result<()> {
        self.connection.commit().map_err(link_error)
    }

    fn limit(&mut self, longest: Option<Duration>) -> Result<()> {
        self.connection.set_call_timeout(longest).map_err(link_error)
    }

    fn identity(&self) -> (u64, u64) {
        let number = |number: Result<usize, oracledb::Error>| number.map_or(0, |n| n as u64);
        (number(self.connection.session_id()), number(self.connection.serial_num()))
    }
}
