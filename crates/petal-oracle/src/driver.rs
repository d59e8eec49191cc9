//! Links over `oracledb`, Oracle's own driver in Rust, which needs no client library.
//!
//! This module works around the driver's limits. The driver sets no timeout for a peer that accepts
//! a connection and stays silent, and it may panic on a peer that does not speak Oracle's protocol.
//! Therefore connecting uses a separate thread, which petal abandons if necessary. A panic of the
//! driver in an answer ends the thread. `Statement::drop` unwraps the connection's lock, and a panic
//! poisons it: a statement is leaked then, or `Statement::query`, which owns its statement, is called
//! so that nothing is poisoned. A connection is leaked, too: closing it would read more answers. The
//! driver's call timeout counts twice (again for the answer to its break), and applies neither to
//! writes nor to closing: petal waits for links on another thread (`timeouts`, `session`). The
//! driver's errors name no host, implement no `Error` and show a backtrace in `{:?}`: they become
//! [`LinkError`]s. Its TLS needs one provider for the process; this build has two.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;
use std::thread::panicking;
use std::time::{Duration, Instant};

use oracledb::{
    AUTH_MODE_SYSDBA, BindParameters, Config, Connection, ErrorKind, Statement, ToDbValue,
};
use parking_lot::{Condvar, Mutex};

use super::link::{
    BindValue, Connector, Destination, Link, LinkError, LinkErrorKind, NamedValue, Result, Row,
};
use super::options::{Login, Options, OracleService};
use super::received::{ReceiveWatch, Watched};
use petal_engine::server::answer::{AnswerSize, TOO_LONG, bounded};
use petal_engine::server::detached_worker::{NoAnswer, within};
use petal_engine::server::driver_panic::{leaked_by_panic, without_poison};
use petal_engine::server::password::PasswordCommand;
use petal_settings::url::Secret;

/// Rows per fetch of a query.
const FETCH_ROWS: u32 = 500;
const CONNECTING: &str = "petal connects";
/// Number of simultaneous log-ons: a listener starts a server process for each.
const LOG_ONS_AT_ONCE: usize = 16;
/// ORA numbers of a listener that has no free handler, or could not hand the connection to one; a
/// retry may succeed.
const NO_HANDLER: [u32; 5] = [12516, 12518, 12519, 12520, 12528];
/// ORA number of a wrong user or password.
const REFUSED: u32 = 1017;
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_LONGEST: Duration = Duration::from_secs(4);
/// Text of a driver's panic on a protocol feature that it does not implement: for a server that
/// requires native encryption, and for packets of an unknown type.
const NOT_IMPLEMENTED: &str = "not yet implemented";

pub struct Driver {
    options: Options,
    log_ons: LogOns,
    receive_watch: Arc<ReceiveWatch>,
}

/// Limit on simultaneous log-ons.
#[derive(Default)]
struct LogOns {
    under_way: Mutex<usize>,
    ended: Condvar,
}

impl LogOns {
    /// Runs a log-on as soon as the limit permits.
    fn paced<R>(&self, log_on: impl FnOnce() -> R) -> R {
        let mut under_way = self.under_way.lock();
        while *under_way >= LOG_ONS_AT_ONCE {
            self.ended.wait(&mut under_way);
        }
        *under_way += 1;
        drop(under_way);
        let result = log_on();
        *self.under_way.lock() -= 1;
        self.ended.notify_one();
        result
    }
}

/// Retries, with increasing pauses, while the listener has no free handler.
fn while_no_handler<R>(
    limit: Duration,
    first_pause: Duration,
    mut log_on: impl FnMut() -> Result<R>,
) -> Result<R> {
    let begin = Instant::now();
    let mut pause = first_pause;
    loop {
        let error = match log_on() {
            Err(error) if error.code.is_some_and(|code| NO_HANDLER.contains(&code)) => error,
            result => return result,
        };
        if begin.elapsed() + pause > limit {
            let waited = begin.elapsed().as_secs();
            let message = format!("{}, for {waited} s and several attempts", error.message);
            return Err(LinkError { message, ..error });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(RETRY_LONGEST);
    }
}

impl Driver {
    pub fn new(options: Options) -> Self {
        Self { options, log_ons: LogOns::default(), receive_watch: Arc::default() }
    }

    fn log_on(&self, login: &Login, place: &OracleService, purpose: &str) -> Result<Box<dyn Link>> {
        let open = |printed: Option<&Secret>| {
            while_no_handler(self.options.connect_timeout, RETRY_FIRST, || {
                self.log_ons.paced(|| self.log_on_once(login, printed, place, purpose))
            })
        };
        let command = login.password_command.as_deref();
        let no_password = |why| LinkError::connection(why);
        PasswordCommand::open(command, no_password, |error| error.code == Some(REFUSED), open)
    }

    fn log_on_once(
        &self,
        login: &Login,
        printed: Option<&Secret>,
        place: &OracleService,
        purpose: &str,
    ) -> Result<Box<dyn Link>> {
        let limit = self.options.connect_timeout;
        let mut config = Config::default();
        let password = printed.or(login.password.as_ref());
        let password = password.map_or("", |password| password.expose());
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
        let watched = self.receive_watch.begin();
        let watched = watched.map_err(|error| LinkError::connection(error.to_string()))?;
        let connected = within(CONNECTING, limit, move || {
            let connected = oracledb::connect(config).map_err(|error| error_of(&watched, error));
            let connection = Arc::new(connected?);
            watched.found_by(|limit| connection.set_call_timeout(limit)).map_err(link_error)?;
            let mut session = DriverSession { connection, watched };
            session.connection.set_module(&purpose).map_err(link_error)?;
            // Number format that petal reads, whatever the user's locale.
            session.execute("ALTER SESSION SET NLS_NUMERIC_CHARACTERS = '.,'", &[])?;
            Ok(session)
        });
        match connected {
            Ok(session) => Ok(Box::new(session?)),
            Err(unanswered) => Err(LinkError::connection(match unanswered {
                NoAnswer::NoThread(error) => error.to_string(),
                NoAnswer::TooLate => {
                    format!("no answer within {} s, though it may have accepted", limit.as_secs())
                }
                NoAnswer::Failed(words) => failed(&words),
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

/// Returns the reason why connecting ended in a panic of the driver.
fn failed(words: &str) -> String {
    if words.contains(NOT_IMPLEMENTED) {
        "the server requires native network encryption or checksums, which the driver does not \
         have, or does not speak Oracle's protocol"
            .to_owned()
    } else {
        format!(
            "the account has no 12C password verifier, which the driver needs, or the program that \
             answers there does not speak Oracle's protocol ({words})"
        )
    }
}

fn link_error(error: oracledb::Error) -> LinkError {
    let (code, kind) = match error.kind() {
        ErrorKind::DbError(error) => (u32::try_from(error.code()).ok(), LinkErrorKind::Database),
        // The second kind if the answer to its break takes as long again, for example because the
        // database is busy: the connection is lost for the same reason.
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
    // The database's messages end in a line feed.
    let message = bounded(error.to_string().trim()).replace('\n', " ");
    LinkError { code, message, kind }
}

/// Returns an error of a connection, or the reason why petal closed it.
fn error_of(watched: &Watched, error: oracledb::Error) -> LinkError {
    watched.reason().map_or_else(|| link_error(error), LinkError::connection)
}

/// A session over the driver.
struct DriverSession {
    connection: Arc<Connection>,
    watched: Arc<Watched>,
}

impl Drop for DriverSession {
    fn drop(&mut self) {
        if panicking() {
            // The value lives as long as this reference to it.
            mem::forget(Arc::clone(&self.connection));
        }
    }
}

impl DriverSession {
    /// Executes a statement, which a panic leaks.
    fn with_statement<T>(
        &self,
        sql: &str,
        execute: impl FnOnce(&mut Statement) -> Result<T, oracledb::Error>,
    ) -> Result<T> {
        self.watched.begin_call();
        let statement = self.connection.statement(sql).and_then(|statement| statement.build());
        let result = statement.and_then(|statement| leaked_by_panic(statement, execute));
        result.map_err(|error| error_of(&self.watched, error))
    }
}

/// Collects the rows of an answer, which a false database may not end.
fn all(rows: impl Iterator<Item = Result<Row>>) -> Result<Vec<Row>> {
    let mut size = AnswerSize::default();
    let within_limits = |row: Result<Row>| {
        let row = row?;
        match size.add(row.iter().flatten().map(String::len).sum()) {
            true => Ok(row),
            false => Err(LinkError::connection(TOO_LONG)),
        }
    };
    rows.map(within_limits).collect()
}

/// Converts a row of the driver, which a panic leaks.
fn texts(row: oracledb::Row) -> Result<Row, oracledb::Error> {
    leaked_by_panic(row, |row| (0..row.columns().len()).map(|at| row.get(at)).collect())
}

/// Converts a value to the driver's borrowed form.
fn as_db_value<'v>(value: &'v BindValue<'_>) -> &'v (dyn ToDbValue + 'v) {
    match value {
        BindValue::Text(Cow::Borrowed(text)) => text,
        BindValue::Text(Cow::Owned(text)) => text,
        BindValue::Number(number) => number,
    }
}

impl Link for DriverSession {
    fn execute(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<u64> {
        let binds: Vec<_> = binds.iter().map(as_db_value).collect();
        let result = self.with_statement(sql, |statement| statement.execute(&binds))?;
        Ok(result.rows_affected())
    }

    fn query(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>> {
        let binds: Vec<_> = binds.iter().map(as_db_value).collect();
        let statement = self.connection.statement(sql).map_err(link_error)?;
        let statement = statement.fetch_array_size(FETCH_ROWS).build().map_err(link_error)?;
        self.watched.begin_call();
        let error = |error| error_of(&self.watched, error);
        let cursor = without_poison(|| statement.query(&binds)).map_err(error)?;
        leaked_by_panic(cursor, |cursor| all(cursor.map(|row| row.and_then(texts).map_err(error))))
    }

    fn execute_many(&mut self, sql: &str, rows: &[Vec<BindValue<'_>>]) -> Result<u64> {
        let bound: Vec<Vec<&dyn ToDbValue>> =
            rows.iter().map(|row| row.iter().map(as_db_value).collect()).collect();
        let bound: Vec<&[&dyn ToDbValue]> = bound.iter().map(Vec::as_slice).collect();
        let rows = BindParameters::Slice(&bound);
        let result = self.with_statement(sql, |statement| statement.execute_batch(rows))?;
        Ok(result.rows_affected())
    }

    fn call(&mut self, block: &str, ins: &[NamedValue<'_>], outs: &[&'static str]) -> Result<Row> {
        let mut named: Vec<(&str, &dyn ToDbValue)> =
            ins.iter().map(|(name, value)| (*name, as_db_value(value))).collect();
        named.extend(outs.iter().map(|name| (*name, &oracledb::DB_TYPE_VARCHAR as &dyn ToDbValue)));
        let mut result = self.with_statement(block, |block| block.execute_named(&named))?;
        let row = result.out_bind_data();
        outs.iter().map(|name| row.get::<Option<String>>(*name).map_err(link_error)).collect()
    }

    fn commit(&mut self) -> Result<()> {
        self.watched.begin_call();
        self.connection.commit().map_err(|error| error_of(&self.watched, error))
    }

    fn limit(&mut self, longest: Option<Duration>) -> Result<()> {
        self.connection.set_call_timeout(longest).map_err(link_error)
    }

    fn identity(&self) -> (u64, u64) {
        let number = |number: Result<usize, oracledb::Error>| number.map_or(0, |n| n as u64);
        (number(self.connection.session_id()), number(self.connection.serial_num()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u32) -> LinkError {
        let message = format!("the listener refused (ORA-{code})");
        LinkError { code: Some(code), message, kind: LinkErrorKind::Connection }
    }

    #[test]
    fn a_listener_without_a_free_handler_is_asked_again_until_the_limit() {
        let pause = Duration::from_millis(1);
        for code in NO_HANDLER {
            let mut refusals = vec![refused(code); 3];
            let log_on = || refusals.pop().map_or(Ok(()), Err);
            assert!(while_no_handler(Duration::from_secs(60), pause, log_on).is_ok());
            let mut attempts = 0;
            let error = while_no_handler(Duration::from_millis(20), pause, || {
                attempts += 1;
                Err::<(), _>(refused(code))
            });
            let error = error.unwrap_err();
            assert!(attempts > 2 && error.code == Some(code), "{attempts}");
            assert!(error.message.contains("several attempts"), "{}", error.message);
        }
        let mut attempts = 0;
        let wrong_password = while_no_handler(Duration::from_secs(60), pause, || {
            attempts += 1;
            Err::<(), _>(refused(1017))
        });
        assert!(wrong_password.is_err() && attempts == 1, "an account is not locked by retries");
    }

    #[test]
    fn an_answer_without_end_is_left() {
        let rows = |most| all(std::iter::repeat_with(|| Ok(vec![None])).take(most));
        assert_eq!(rows(1000).unwrap().len(), 1000);
        assert_eq!(rows(1 << 21).unwrap_err(), LinkError::connection(TOO_LONG));
    }

    #[test]
    fn log_ons_go_a_few_at_once() {
        let log_ons = LogOns::default();
        let (at_once, most) = (Mutex::new(0_usize), Mutex::new(0_usize));
        std::thread::scope(|scope| {
            for _ in 0..3 * LOG_ONS_AT_ONCE {
                scope.spawn(|| {
                    log_ons.paced(|| {
                        let now = {
                            let mut now = at_once.lock();
                            *now += 1;
                            *now
                        };
                        let mut most = most.lock();
                        *most = now.max(*most);
                        drop(most);
                        std::thread::sleep(Duration::from_millis(1));
                        *at_once.lock() -= 1;
                    });
                });
            }
        });
        assert!(*most.lock() <= LOG_ONS_AT_ONCE && *at_once.lock() == 0);
    }
}
