//! The server's errors by their numbers: the kind on which a caller acts, and what to try.

use std::error::Error as _;

use mysql_async::prelude::FromRow;

use super::client::{Client, Error, LOCK_TIMEOUT, QUERY_INTERRUPTED};
use petal_engine::server::answer::bounded;
use petal_engine::server::failure::StatementErrorKind;
use petal_engine::server::password::PASSWORD_HINT;
use petal_engine::server::peer::PEER_HINT;
use petal_engine::{EngineError, Result};

pub const NO_SUCH_TABLE: u16 = 1146;
/// A setting that this server does not have.
pub const NO_SUCH_VARIABLE: u16 = 1193;
const DEADLOCK: u16 = 1213;
/// Group Replication refused a commit: another member had changed the same rows.
pub const COMMIT_REFUSED: u16 = 3101;
/// A commit failed, and the message says why.
const COMMIT_FAILED: u16 = 1180;
/// A row changed between its read and its lock, if the server checks that.
const RECORD_CHANGED: u16 = 1020;

/// The meaning of an error number to a session.
pub fn kind_of(code: u16) -> StatementErrorKind {
    match code {
        QUERY_INTERRUPTED => StatementErrorKind::Cancelled,
        LOCK_TIMEOUT | DEADLOCK | RECORD_CHANGED | COMMIT_REFUSED => StatementErrorKind::Transient,
        _ => StatementErrorKind::Other,
    }
}

/// Returns the number of an error by its meaning: a commit that failed because a transaction from
/// another member took its locks (error 149 of the storage engine) was refused.
pub fn number_of(code: u16, message: &str) -> u16 {
    match code {
        COMMIT_FAILED if message.contains("error 149 ") => COMMIT_REFUSED,
        _ => code,
    }
}

/// Turns an [`Error`] into the kind on which a caller acts.
pub trait AtServer<T> {
    fn at(self, server: &str, doing: &str) -> Result<T>;
}

impl<T> AtServer<T> for Result<T, Error> {
    fn at(self, server: &str, doing: &str) -> Result<T> {
        self.map_err(|error| engine_error(server, doing, &error))
    }
}

/// Questions and statements; an error names the step of petal that failed.
impl Client {
    pub fn ask<T: FromRow + Send + 'static>(&mut self, doing: &str, sql: &str) -> Result<Vec<T>> {
        self.query(sql).map_err(|error| self.error(doing, &error))
    }

    pub fn ask_row<T: FromRow + Send + 'static>(&mut self, doing: &str, sql: &str) -> Result<T> {
        self.query_one(sql).map_err(|error| self.error(doing, &error))
    }

    pub fn send(&mut self, doing: &str, sql: &str) -> Result<()> {
        self.run(sql).map_err(|error| self.error(doing, &error))
    }

    pub fn error(&self, doing: &str, error: &Error) -> EngineError {
        engine_error(&self.server, doing, error)
    }
}

/// An error in the kind on which a caller acts.
pub fn engine_error(server: &str, doing: &str, error: &Error) -> EngineError {
    if matches!(error, Error::Interrupted) {
        return EngineError::Interrupted;
    }
    let text = format!("{server}: {doing}: {}; {}", words(error), hint(error));
    match error.code() {
        None if matches!(error, Error::WrongServer(_)) => EngineError::WrongServer(text),
        None => EngineError::Environment(text),
        Some(code) if is_environment(code) => EngineError::Environment(text),
        Some(126 | 127 | 144 | 145 | 1034 | 1194 | 1712 | 1877 | 1932) => EngineError::Data(text),
        Some(_) => EngineError::Database(text),
    }
}

/// True for a number of the surroundings: files that cannot be written, connections, privileges, full,
/// read-only, locks, going away.
pub fn is_environment(code: u16) -> bool {
    matches!(
        code,
        3 | 20
            | 1021
            | 1028
            | 1040
            | 1044
            | 1045
            | 1047
            | 1049
            | 1053
            | 1114
            | 1129
            | 1130
            | 1142
            | 1143
            | 1203
            | 1205
            | 1226
            | 1227
            | 1290
            | 1370
            | 1698
            | 1792
            | 1836
            | 1927
            | 3098
            | 3118
            | 4151
    )
}

/// True for an answer about the question: a missing right, table, column or routine.
pub fn is_refusal(error: &Error) -> bool {
    let refused = [1044, 1054, 1109, 1142, 1143, 1146, 1227, 1235, 1305, 1370];
    error.server_error().is_some_and(|server| refused.contains(&server.code))
}

/// The words of the server or the system.
pub fn words(error: &Error) -> String {
    if let Some(server) = error.server_error() {
        let said = format!("{} ({})", bounded(&server.message), server.code);
        return match error {
            Error::Blocked(_) => format!("{said} after {error}"),
            _ => said,
        };
    }
    // The outermost words only say which layer failed; causes say why.
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

pub fn hint(error: &Error) -> &'static str {
    let Some(code) = error.code() else {
        let text = words(error);
        return if matches!(error, Error::Silent(_)) {
            "see whether the server is stopped, or something on the network path holds its packets \
             back"
        } else if matches!(error, Error::WrongServer(_)) {
            PEER_HINT
        } else if matches!(error, Error::NoPassword(_)) {
            PASSWORD_HINT
        } else if matches!(error, Error::Pooler { .. }) {
            "connect to the server itself: its own host and port"
        } else if error.is_clear_text() {
            "petal gives the password in clear text only to a verified server: \
             ssl_mode=VERIFY_IDENTITY with ssl_ca"
        } else if error.is_other_log_on() {
            "use an account of one of the plugins that petal has: mysql_native_password, ed25519, \
             parsec, caching_sha2_password, or unix_socket or auth_socket on the server's socket"
        } else if matches!(error, Error::DriverPanicked) {
            "give the account's password; if it has one, please report this with the account's \
             plugin"
        } else if text.contains("not valid for name") {
            "name the host as its certificate does (ssl_ca is known; the driver verifies the name for \
             VERIFY_CA, too), or use ssl_mode=REQUIRED, which verifies nothing"
        } else if text.contains("CaUsedAsEndEntity") {
            "the server's certificate is itself an authority, which the driver does not take: sign a \
             certificate for the server by it, or use ssl_mode=REQUIRED, which verifies nothing"
        } else if error.is_without_tls() {
            "the server has no TLS, which ssl_mode, ssl_ca or a password ask for: use TLS or the \
             server's socket; get_server_public_key=1 gives the password without"
        } else if text.contains("ertificate") || text.contains("TLS") || text.contains("SSL") {
            "check ssl_mode and ssl_ca, or the server's certificate"
        } else if text.contains("closed") || text.contains("reset") || text.contains("eof") {
            "the server, or a proxy before it, ended the connection: see their logs, and \
                 the proxy's limit of idle connections and long statements"
        } else {
            "check host, port or socket, and that the server runs and listens there"
        };
    };
    hint_of(code)
}

/// Advice by error number.
pub fn hint_of(code: u16) -> &'static str {
    match code {
        1040 | 1203 | 1226 => {
            "raise max_connections (or the user's own limit) or use fewer sessions"
        }
        1044 | 1142 | 1143 | 1227 | 1370 => {
            "grant the user that privilege; docs/engines/mysql.md lists petal's privileges"
        }
        1045 => {
            "check user, password and from which hosts that user may connect; an account with ed25519 \
             is denied once in 256 times by a fault of the driver: try again"
        }
        1130 | 1698 | 3118 | 4151 => {
            "check user, password and from which hosts that user may connect"
        }
        1047 => "the cluster's node takes no statements: see wsrep_cluster_status and its log",
        1049 => "name an existing database: mysql://user@host/DATABASE",
        1053 | 1927 => "the server stops, or an administrator ended the connection: see its log",
        3 | 20 | 1021 | 1114 => "make room on the server's disk, or let its tablespace grow",
        1129 => {
            "too many failed connections: TRUNCATE TABLE performance_schema.host_cache on the server \
                 (MariaDB: FLUSH HOSTS)"
        }
        1205 => {
            "somebody else's transaction holds the lock: end it (KILL ID, see SHOW PROCESSLIST) or \
             wait until it is over"
        }
        1290 | 1792 | 1836 => "the server only reads, as a replica does: name the primary",
        1317 | 1969 | 3024 => {
            "somebody or a timeout (max_statement_time, max_execution_time) ended it: see the \
             user's settings"
        }
        1153 => "raise max_allowed_packet of the server to 16M or more",
        1146 | 1305 => "load the data again: petal setup --replace",
        1665 => "set binlog_format=ROW or MIXED: READ COMMITTED cannot be logged as statements",
        _ => "see the server's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_lost_its_locks_was_refused_and_another_that_failed_was_not() {
        let kind = |message| kind_of(number_of(1180, message));
        let lost = kind("Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT");
        assert_eq!(lost, StatementErrorKind::Transient);
        let full = kind("Got error 28 - 'No space left on device' during COMMIT");
        assert_eq!(full, StatementErrorKind::Other);
    }
}
