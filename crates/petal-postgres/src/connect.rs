//! Connections; errors, which name server, the database's words and code, and what to do.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::ChannelBinding;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{Config, Row, SimpleQueryMessage, Statement, ToStatement};

use super::answer::{ColumnValue, Columns as _};
use super::client::{CancelToken, Client, Error, Parameters};
use super::libpq::Address;
use super::login_watch::LoginRules;
use super::options::Options;
use super::stream::ServerConnector;
use super::{locks, tls};
use petal_engine::server::answer::{bounded, statement_name};
use petal_engine::server::endpoint::{
    BRIEF, CLEAN_UP_LIMIT, EndpointState, LOCK_LIMIT, LOOK_LOCK_LIMIT, is_this_host,
};
use petal_engine::server::liveness::{SILENCE, ServerState, TimeoutPolicy};
use petal_engine::server::login::{FirstLogins, KnownLogin};
use petal_engine::server::password::{PASSWORD_HINT, PasswordCommand};
use petal_engine::server::peer::PEER_HINT;
use petal_engine::server::wait_monitor::{LockWait, WaitMonitor};
use petal_engine::{Caller, EngineError, Result};
use petal_settings::url::Secret;

/// The oldest server that has all that petal uses.
const VERSION_MIN: u32 = 120_000;
/// The first server whose sessions report their statistics when asked.
pub const FLUSH_VERSION_MIN: u32 = 150_000;

/// Addresses that a name may have, each with its own timeout.
const ADDRESSES: u32 = 2;

/// The first question on every connection: nothing is set before it is known who answers.
const FIRST_QUESTION: &str = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(), \
     pg_catalog.current_setting('transaction_read_only')";

/// The settings of every connection. First of all petal sets where names are looked up: other
/// roles may have made functions and tables of the same names in other schemas. The temporary schema
/// comes first unless it is named. A shorter lock_timeout of the role's stays. The coordinator of a
/// long load and sessions before a run are idle for longer than a role's limits may allow. The server does not
/// compile questions (jit): that takes longer than the answer. It refuses nothing with the end of the session, and
/// VACUUM does not rest. A database without an encoding refuses names of another one, unless petal has none, too.
fn first_settings(lock_limit: Duration) -> String {
    format!(
        "SET search_path = pg_catalog, pg_temp; SET quote_all_identifiers = off; \
         SET client_min_messages = error; \
         SELECT limit_ms, pg_catalog.set_config('lock_timeout', limit_ms::pg_catalog.text, false) \
         FROM (SELECT least(nullif(extract(epoch FROM \
         pg_catalog.current_setting('lock_timeout')::interval) * 1000, 0), {}) \
         ::bigint AS limit_ms) AS limits; \
         SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
         WHERE name IN ('idle_session_timeout', 'idle_in_transaction_session_timeout', \
         'transaction_timeout', 'exit_on_error', 'vacuum_cost_delay', 'jit'); \
         SELECT pg_catalog.set_config('client_encoding', setting, false) FROM pg_catalog.pg_settings \
         WHERE name = 'server_encoding' AND setting = 'SQL_ASCII'",
        lock_limit.as_millis()
    )
}

/// A server of the run.
#[derive(Clone)]
pub struct Endpoint {
    pub address: Address,
    /// `host:port`.
    pub name: String,
    config: Config,
    /// Program that prints the password, if the configuration has none.
    password: Option<Arc<PasswordCommand>>,
    options: Arc<Options>,
    pub state: EndpointState,
    connector: ServerConnector,
}

/// A connection, and the server's name of it.
pub struct OpenedConnection {
    pub client: Client,
    /// The server's process.
    pub process: i32,
    /// Timeout for locks.
    lock_limit: Duration,
}

impl Endpoint {
    /// The URL's servers; later logins are compared with the first of `logins`.
    pub fn all(
        options: Options,
        command: Option<&Path>,
        logins: &FirstLogins,
    ) -> Result<Vec<Self>> {
        let options = Arc::new(options);
        let (tls, is_verified) = tls::connector(&options.tls)?;
        let addresses = options.addresses.iter().zip(&options.passwords);
        let endpoints = addresses.map(|(address, password)| {
            let mut config = ServerConnector::config();
            config
                .user(&options.user)
                .dbname(&options.database)
                .channel_binding(options.channel_binding);
            if let Some(session_options) = &options.session_options {
                config.options(session_options.as_str());
            }
            let command = command.map(|program| {
                let (host, port) = (&address.host, address.port);
                Arc::new(PasswordCommand::new(program, host, port, &options.user))
            });
            if let Some(password) = password.as_ref().filter(|_| command.is_none()) {
                config.password(password.expose());
            }
            let rules = LoginRules {
                peer: options.peer.clone(),
                required: options.required_auth.clone(),
                known: match address.is_socket() {
                    true => KnownLogin::default(),
                    false => logins.at(&address.name()),
                },
                gives_password: password.is_some() || command.is_some(),
                is_verified,
                binds: options.channel_binding != ChannelBinding::Disable,
            };
            let (limit, mode) = (options.connect_timeout, options.tls.mode);
            Self {
                address: address.clone(),
                name: address.name(),
                config,
                password: command,
                options: Arc::clone(&options),
                state: EndpointState::new(limit * ADDRESSES),
                connector: ServerConnector::new(tls.clone(), mode, address.clone(), limit, rules),
            }
        });
        Ok(endpoints.collect())
    }

    /// Connects for work that may be long, under a name that the server's views show.
    pub fn connect(&self, application: &str) -> Result<Client> {
        self.open(application).map(|opened| opened.client)
    }

    /// Connects for short questions, which no signal ends: closing figures are read after one.
    pub fn connect_to_look(&self, application: &str) -> Result<Client> {
        let opened = self.reach(application, self.state.connect_limit(), LOOK_LOCK_LIMIT, None);
        let mut client = opened.map_err(|error| self.refusal(&error))?.client;
        client.set_policy(TimeoutPolicy::AnswerSoon);
        Ok(client)
    }

    /// Connects to remove an interrupted load's remains. No signal ends it, but each statement has a
    /// limit, and waits for no lock and no standby.
    pub fn connect_to_clean_up(&self, application: &str) -> Result<Client> {
        let opened = self.reach(application, BRIEF, LOOK_LOCK_LIMIT, None);
        let mut client = opened.map_err(|error| self.refusal(&error))?.client;
        client.set_policy(TimeoutPolicy::AnswerSoon);
        let limit_ms = CLEAN_UP_LIMIT.as_millis();
        let sql = format!("SET statement_timeout = {limit_ms}; SET synchronous_commit = local");
        client.run("limiting the cleaning up", &sql)?;
        Ok(client)
    }

    /// Variables of the environment with which libpq's programs reach this server, by the same rules.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let Options { user, tls, peer, required_auth, .. } = self.options.as_ref();
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let given = || Some(String::from_utf8_lossy(self.config.get_password()?).into_owned());
        let password = match &self.password {
            Some(command) => command.password().ok().map(|password| password.expose().to_owned()),
            None => given(),
        };
        let all = [
            ("PGHOST", Some(self.address.host.clone())),
            ("PGHOSTADDR", self.address.ip.map(|ip| ip.to_string())),
            ("PGPORT", Some(self.address.port.to_string())),
            ("PGUSER", Some(user.clone())),
            ("PGPASSWORD", password),
            ("PGSSLMODE", Some(tls.mode.name().to_owned())),
            ("PGSSLROOTCERT", tls.root.clone()),
            ("PGSSLCERT", file(&tls.certificate)),
            ("PGSSLKEY", file(&tls.key)),
            ("PGREQUIREPEER", peer.required().map(str::to_owned)),
            ("PGREQUIREAUTH", Some(required_auth.to_string()).filter(|list| !list.is_empty())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Connects for long work, and returns the server's process, too. A signal ends the waiting;
    /// the caller learns whose locks hold it up.
    pub fn open(&self, application: &str) -> Result<OpenedConnection> {
        let caller = self.state.caller();
        let mut opened = self
            .reach(application, self.state.connect_limit(), LOCK_LIMIT, caller)
            .map_err(|error| self.refusal(&error))?;
        let (process, asked, blocked) = (opened.process, self.clone(), self.clone());
        let explaining = self.clone();
        opened.client.explain_with(move || explaining.explain_wait(process));
        let token = self.cancel_token(&opened.client);
        opened.client.ask_with(move || asked.state_of(process));
        opened.client.set_monitor(WaitMonitor {
            server: self.name.clone(),
            caller: caller.cloned(),
            cancel: Arc::new(move || token.cancel()),
            find_lock_holder: Arc::new(move || blocked.find_lock_holder(process)),
            limit: opened.lock_limit,
            state: Default::default(),
        });
        Ok(opened)
    }

    fn reach(
        &self,
        application: &str,
        limit: Duration,
        lock_limit: Duration,
        caller: Option<&Caller>,
    ) -> Result<OpenedConnection, Error> {
        let mut config = self.config.clone();
        let application = self.options.application_name.as_deref().unwrap_or(application);
        config.application_name(application);
        let is_interrupted = || caller.is_some_and(Caller::is_interrupted);
        let open = |password: Option<&Secret>| {
            let mut config = config.clone();
            if let Some(password) = password {
                config.password(password.expose());
            }
            Client::open(&self.name, &config, &self.connector, limit, &is_interrupted)
        };
        let is_refused = |error: &Error| error.code() == Some(&SqlState::INVALID_PASSWORD);
        let command = self.password.as_deref();
        let opened = PasswordCommand::open(command, Error::NoPassword, is_refused, open);
        let opened = opened.and_then(|mut client| {
            client.set_policy(TimeoutPolicy::AnswerSoon);
            let answer = client.simple_query(FIRST_QUESTION)?;
            let (process, is_standby, is_read_only) =
                (text(&answer, 0), text(&answer, 1) == "t", text(&answer, 2) == "on");
            let process = process.parse().unwrap_or(0);
            let greeted = client.greeted_process(&self.connector);
            if greeted != Some(process) {
                let greeted = greeted.map_or_else(|| "none".to_owned(), |of| of.to_string());
                return Err(Error::Pooler { greeted, process });
            }
            if !self.options.wanted.fits(is_standby, is_read_only) {
                let is = if is_standby { "a standby" } else { "a primary" };
                let writes = if is_read_only { "read-only" } else { "read-write" };
                return Err(Error::Unwanted(format!("it is {is}, {writes}")));
            }
            let answer = client.simple_query(&first_settings(lock_limit))?;
            let lock_limit = text(&answer, 0).parse().map_or(lock_limit, Duration::from_millis);
            client.set_policy(self.state.policy());
            Ok(OpenedConnection { client, process, lock_limit })
        });
        if !matches!(opened, Err(Error::Interrupted)) {
            self.state.note_silence(opened.as_ref().is_err_and(|error| !error.is_answer()));
        }
        opened
    }

    /// Asks the server for the state of a silent connection of petal's.
    fn state_of(&self, process: i32) -> ServerState {
        // Hidden from a role that ALTER ROLE ... SET role named.
        let sql = "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = $1 \
             AND coalesce(state, 'active') = 'active'";
        let asked = self.ask(SILENCE, |client| client.query(sql, &[&process]));
        match asked {
            Ok(rows) if rows.is_empty() => ServerState::Idle,
            Ok(_) => ServerState::Working,
            // It answers, if only to refuse one more connection.
            Err(error) if error.is_answer() => ServerState::Working,
            Err(error) => ServerState::Silent(words(&error)),
        }
    }

    /// Asks for which lock a connection of petal's waits; None also if no answer comes.
    fn find_lock_holder(&self, process: i32) -> Option<LockWait> {
        let rows = self.ask(BRIEF, |client| client.query(locks::LOCK_HOLDERS, &[&process]));
        locks::lock_wait(&rows.ok()?)
    }

    /// Asks for the event that a connection of petal's waits for; None if it works, or waits for a
    /// lock, which is noted anyway.
    fn explain_wait(&self, process: i32) -> Option<String> {
        let rows = self.ask(BRIEF, |client| client.query(locks::WAIT_EVENT, &[&process]));
        let rows = rows.ok()?;
        let row = rows.first()?;
        let (kind, event): (String, String) = (row.read(0).ok()?, row.read(1).ok()?);
        let statement = statement_name(&row.read::<String>(2).ok()?);
        let which = match &*event {
            "SyncRep" => ", the answer of a synchronous standby",
            "ClientRead" => ", petal's next message",
            _ => "",
        };
        Some(format!("{}: {statement} waits for {kind}:{event}{which}", self.name))
    }

    /// Asks about another connection, on a separate one.
    fn ask<T>(
        &self,
        limit: Duration,
        question: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut opened = self.reach("petal check", limit, LOOK_LOCK_LIMIT, None)?;
        opened.client.set_policy(TimeoutPolicy::AnswerSoon);
        question(&mut opened.client)
    }

    /// Returns a token with which another thread cancels a connection's statement.
    pub fn cancel_token(&self, client: &Client) -> CancelToken {
        client.cancel_token(&self.connector, self.options.connect_timeout)
    }

    fn refusal(&self, error: &Error) -> EngineError {
        match (engine_error(&self.name, "connecting", error), self.options.notes.as_slice()) {
            (EngineError::Environment(text), [note, ..]) => {
                EngineError::Environment(format!("{text} ({note})"))
            }
            // Such as a setting of PGOPTIONS that the server has not: petal cannot connect.
            (EngineError::Database(text), _) => EngineError::Environment(text),
            (other, _) => other,
        }
    }

    /// True if the address shows that the server is on this host.
    pub fn is_on_this_host(&self) -> bool {
        if let Some(ip) = self.address.ip {
            return ip.is_loopback();
        }
        self.address.is_socket() || is_this_host(&self.address.host)
    }
}

/// A column of the first row of an answer; empty without a row.
fn text(answer: &[SimpleQueryMessage], column: usize) -> &str {
    let row = answer.iter().find_map(|line| match line {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.and_then(|row| row.try_get(column).ok()?).unwrap_or_default()
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
        Some(code) if is_environment(code.code()) => EngineError::Environment(text),
        Some(code) if code.code().starts_with("XX") => EngineError::Data(text),
        Some(_) => EngineError::Database(text),
    }
}

/// True for a SQLSTATE of the surroundings: authentication, database, resources, operator, system,
/// privilege, read-only, locks of others.
pub fn is_environment(state: &str) -> bool {
    let of_one = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
    ];
    matches!(state.get(..2), Some("08" | "28" | "3D" | "53" | "57" | "58"))
        || of_one.iter().any(|one| one.code() == state)
}

/// Questions and statements whose errors name petal's step (`doing`).
impl Client {
    /// Every row of an answer.
    pub fn ask(&mut self, doing: &str, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.query(sql, parameters).map_err(|error| self.error(doing, &error))
    }

    /// The one row of an answer.
    pub fn ask_row<S: ?Sized + ToStatement>(
        &mut self,
        doing: &str,
        statement: &S,
        parameters: Parameters<'_>,
    ) -> Result<Row> {
        self.query_one(statement, parameters).map_err(|error| self.error(doing, &error))
    }

    /// The one value of an answer.
    pub fn ask_value<T: ColumnValue>(
        &mut self,
        doing: &str,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<T> {
        self.ask_row(doing, sql, parameters)?.read(0)
    }

    /// The one value of an answer; None if the role may not ask.
    pub fn ask_if_allowed<T: ColumnValue>(
        &mut self,
        doing: &str,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Option<T>> {
        match self.query_one(sql, parameters) {
            Ok(row) => row.read(0).map(Some),
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(self.error(doing, &error)),
        }
    }

    /// Executes statements without parameters.
    pub fn run(&mut self, doing: &str, sql: &str) -> Result<()> {
        self.batch_execute(sql).map_err(|error| self.error(doing, &error))
    }

    pub fn prepare_for(&mut self, doing: &str, sql: &str) -> Result<Statement> {
        self.prepare(sql).map_err(|error| self.error(doing, &error))
    }

    pub fn error(&self, doing: &str, error: &Error) -> EngineError {
        engine_error(&self.server, doing, error)
    }
}

/// True for an answer about the question, not about the connection or the server's state.
pub fn is_refusal(error: &Error) -> bool {
    error.code().is_some_and(|code| ["42", "0A", "55", "22"].contains(&&code.code()[..2]))
}

/// The words of the server or the system.
pub fn words(error: &Error) -> String {
    if let Some(database) = error.as_db_error() {
        let said = database_words(database);
        return match error {
            Error::Blocked { .. } => format!("{said} after {error}"),
            _ => said,
        };
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
    let mut text = format!("{} ({})", bounded(error.message()), error.code().code());
    // It would name CASCADE, which drops foreign objects.
    let is_unwanted = *error.code() == SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
    for more in [error.detail(), error.hint().filter(|_| !is_unwanted)].into_iter().flatten() {
        text.push_str(", ");
        text.push_str(&bounded(more).trim_end_matches('.').replace('\n', ", "));
    }
    text
}

/// Whether the peer went away without a word; TLS has another error for that.
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

pub fn hint(error: &Error) -> &'static str {
    error.code().map_or_else(
        || {
            let text = words(error);
            if matches!(error, Error::Unwanted(_)) {
                "target_session_attrs (or PGTARGETSESSIONATTRS) asks for another: name that host, or \
                 leave it out"
            } else if matches!(error, Error::WrongServer(_)) {
                PEER_HINT
            } else if matches!(error, Error::NoPassword(_)) {
                PASSWORD_HINT
            } else if matches!(error, Error::Pooler { .. }) {
                "connect to the server itself: its own host and port"
            } else if text.contains("channel binding") {
                "channel_binding=require (or PGCHANNELBINDING) wants TLS and a password kept as \
                 scram-sha-256 there; use sslmode=require, or channel_binding=prefer"
            } else if text.contains("password missing") {
                "the server wants a password: PGPASSWORD, ~/.pgpass or the URL gives one"
            } else if error.is_silence() {
                "see whether the server is stopped, or something on the network path holds its \
                 packets back"
            } else if is_cut_short(error) || error.is_closed() {
                "the server, or a proxy before it, ended the connection: see their logs, and \
                 the proxy's limit of idle connections and long statements"
            } else if text.contains("UnsupportedCertVersion") {
                "the certificate is of X.509 version 1, which petal cannot verify: make a new one \
                 with subjectAltName (openssl x509 -extfile), or use sslmode=require without a \
                 root certificate"
            } else if text.contains("certificate") || text.contains("TLS") {
                "check sslmode and sslrootcert, or the server's certificate"
            } else {
                "check host, port and that the server runs and listens there"
            }
        },
        |code| hint_of(code.code()),
    )
}

/// Returns the advice for an SQLSTATE.
pub fn hint_of(code: &str) -> &'static str {
    match code {
        "28P01" | "28000" => "check user, password and the server's pg_hba.conf",
        "3D000" => "name an existing database: postgres://user@host/DATABASE",
        "42501" => {
            "grant the role that privilege; docs/engines/postgres.md lists petal's \
                    privileges"
        }
        "25006" => "the server is read-only, as a standby is: name the primary",
        "53100" => "make room on the server's disk",
        "53300" => "raise max_connections or use fewer sessions",
        "53200" => "the server is short of memory: use fewer sessions or smaller settings",
        "55P03" => {
            "somebody else's transaction holds the lock: end it (SELECT pg_terminate_backend(PROCESS)) \
             or wait until it is over, then do this again"
        }
        "57014" => {
            "a timeout or somebody cancelled it: check the role's statement_timeout (ALTER ROLE \
             ... SET statement_timeout = 0)"
        }
        "57P01" | "57P02" | "57P03" => "the server stops or starts, or an administrator ended it",
        "2BP01" => "petal drops only its own objects: drop or move the named objects first",
        "42704" => "name an existing one, such as a tablespace or a setting of this server",
        "42883" | "42P01" | "3F000" => "load the data again: petal setup --replace",
        _ => "see the server's log",
    }
}

/// The server's version as a number, such as 150018.
pub fn server_version(client: &mut Client) -> Result<u32> {
    let sql = "SELECT pg_catalog.current_setting('server_version_num')::integer";
    client.ask_value("asking for its version", sql, &[]).map(i32::cast_unsigned)
}

pub fn check_version(client: &mut Client) -> Result<()> {
    let version = server_version(client)?;
    if version >= VERSION_MIN {
        return Ok(());
    }
    Err(EngineError::Environment(format!(
        "{}: PostgreSQL {} is too old: petal needs {} or later",
        client.server,
        version / 10_000,
        VERSION_MIN / 10_000
    )))
}
