//! Connections, and what failures mean: every error names the server, the database's own words and
//! code, and a way out; never the password.

use std::error::Error as _;
use std::time::Duration;

use postgres::error::{DbError, SqlState};
use postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::{Address, Options, SslMode};
use super::tls;
use crate::engine::EngineError;

/// The oldest server that has all that petal uses.
pub const VERSION_MIN: u32 = 120_000;

const KEEPALIVE: Duration = Duration::from_secs(10);

/// One server of the run.
#[derive(Clone)]
pub struct Endpoint {
    pub address: Address,
    /// `host:port`.
    pub name: String,
    config: Config,
    /// Why a password file was left alone, if one was.
    notes: Vec<String>,
    pub tls: MakeRustlsConnect,
}

impl Endpoint {
    pub fn all(options: &Options) -> Result<Vec<Self>, EngineError> {
        let tls = tls::connector(&options.tls)?;
        let addresses = options.addresses.iter().zip(&options.passwords);
        let endpoints = addresses.map(|(address, password)| {
            let mut config = Config::new();
            config
                .host(&address.host)
                .port(address.port)
                .user(&options.user)
                .dbname(&options.database)
                .connect_timeout(options.connect_timeout)
                // A server that vanishes without a word is found out within half a minute.
                .keepalives_idle(KEEPALIVE)
                .keepalives_interval(KEEPALIVE / 2)
                .keepalives_retries(3)
                .tcp_user_timeout(KEEPALIVE * 3)
                .ssl_mode(match options.tls.mode {
                    SslMode::Disable => postgres::config::SslMode::Disable,
                    SslMode::Prefer => postgres::config::SslMode::Prefer,
                    _ => postgres::config::SslMode::Require,
                });
            if address.is_socket() {
                // Nobody is in between; servers do not speak TLS on sockets.
                config.ssl_mode(postgres::config::SslMode::Disable);
            }
            if let Some(password) = password {
                config.password(password.expose());
            }
            Self {
                address: address.clone(),
                name: address.name(),
                config,
                notes: options.notes.clone(),
                tls: tls.clone(),
            }
        });
        Ok(endpoints.collect())
    }

    /// Connects under a name that the server's views show.
    pub fn connect(&self, application: &str) -> Result<Client, EngineError> {
        let mut config = self.config.clone();
        config.application_name(application);
        let mut client = config.connect(self.tls.clone()).map_err(|error| self.refusal(&error))?;
        client
            .batch_execute("SET client_min_messages = error")
            .map_err(|error| engine_error(&self.name, "connecting", &error))?;
        Ok(client)
    }

    fn refusal(&self, error: &Error) -> EngineError {
        match (engine_error(&self.name, "connecting", error), self.notes.as_slice()) {
            (EngineError::Environment(text), [note, ..]) => {
                EngineError::Environment(format!("{text} ({note})"))
            }
            (other, _) => other,
        }
    }

    /// Whether the server is on this host as far as the address tells.
    pub fn is_on_this_host(&self) -> bool {
        let host = self.address.host.as_str();
        self.address.is_socket()
            || host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// An error in the kind on which a caller acts.
pub fn engine_error(server: &str, doing: &str, error: &Error) -> EngineError {
    let text = format!("{server}: {doing}: {}; {}", words(error), way_out(error));
    match error.code() {
        None => EngineError::Environment(text),
        Some(code) => match code.code().get(..2) {
            // Authentication, database, resources, operator, system, privilege, read-only.
            Some("08" | "28" | "3D" | "53" | "57" | "58") => EngineError::Environment(text),
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION =>
            {
                EngineError::Environment(text)
            }
            Some("XX") => EngineError::Data(text),
            _ => EngineError::Database(text),
        },
    }
}

/// What the server or the system said.
pub fn words(error: &Error) -> String {
    if let Some(database) = error.as_db_error() {
        return database_words(database);
    }
    if is_cut_short(error) {
        return "connection closed".to_owned();
    }
    // The outermost words only say which step failed; causes say why.
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

fn database_words(error: &DbError) -> String {
    let mut text = format!("{} ({})", error.message(), error.code().code());
    for more in [error.detail(), error.hint()].into_iter().flatten() {
        text.push_str(", ");
        text.push_str(more.trim_end_matches('.'));
    }
    text
}

/// The other side went away without a word, as a server that is killed does. Under TLS that is
/// another error than without.
fn is_cut_short(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let io = inner.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = inner.source();
    }
    false
}

pub fn way_out(error: &Error) -> &'static str {
    error.code().map_or_else(
        || {
            let text = words(error);
            if text.contains("password missing") {
                "the server wants a password: PGPASSWORD, ~/.pgpass or the URL gives one"
            } else if is_cut_short(error) || error.is_closed() {
                "the server ended the connection: see its log"
            } else if text.contains("UnsupportedCertVersion") {
                "the certificate is of X.509 version 1, which petal cannot verify: make it anew with \
                 subjectAltName (openssl x509 -extfile), or use sslmode=require without a root \
                 certificate"
            } else if text.contains("certificate") || text.contains("TLS") {
                "check sslmode and sslrootcert, or the server's certificate"
            } else {
                "check host, port and that the server runs and listens there"
            }
        },
        |code| way_out_of(code.code()),
    )
}

/// What to try, by SQLSTATE.
pub fn way_out_of(code: &str) -> &'static str {
    match code {
        "28P01" | "28000" => "check user, password and the server's pg_hba.conf",
        "3D000" => "name an existing database: postgres://user@host/DATABASE",
        "42501" => "grant the role that privilege; docs/engines/postgres.md lists what petal needs",
        "25006" => "the server is read-only, as a standby is: name the primary",
        "53100" => "make room on the server's disk",
        "53300" => "raise max_connections or use fewer sessions",
        "53200" => "the server is short of memory: use fewer sessions or smaller settings",
        "57014" => {
            "a timeout or somebody cancelled it: check the role's statement_timeout (ALTER ROLE \
             ... SET statement_timeout = 0)"
        }
        "57P01" | "57P02" | "57P03" => "the server stops or starts, or an administrator ended it",
        "57P05" => {
            "the role's idle_session_timeout ended it while it waited: ALTER ROLE ... SET \
             idle_session_timeout = 0"
        }
        "25P03" => "the role's idle_in_transaction_session_timeout ended it: set it to 0",
        "42704" => "name what exists, such as a tablespace of this server",
        "42883" | "42P01" | "3F000" => "load the data anew: petal setup --replace",
        _ => "see the server's log",
    }
}

/// An identifier as SQL wants it.
pub fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}
