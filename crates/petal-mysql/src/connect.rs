//! Connections: ways to a server, first questions, and how petal cancels a statement from another
//! connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::{ClientIdentity, Opts, OptsBuilder, SslOpts};

use super::client::{Client, Error};
use super::errors::{engine_error, words};
use super::listener;
use super::options::{Address, Options, SslMode, TlsOptions};
use petal_engine::server::endpoint::{
    BRIEF, EndpointState, KEEPALIVE, LOCK_LIMIT, LOOK_LOCK_LIMIT,
};
use petal_engine::server::liveness::{SILENCE, ServerState};
use petal_engine::server::wait_monitor::{LockWait, WaitMonitor};
use petal_engine::{Caller, EngineError, Result};

const ACCESS_DENIED: u16 = 1045;

/// The longest answer that petal takes.
const PACKET_BYTES_MAX: usize = 64 << 20;

/// The longest that a server lets a connection be idle: a year.
const IDLE_LIMIT_S: u32 = 31_536_000;

/// Settings with which a session of Galera or Group Replication sees the commits of all nodes.
const SEE_ALL_NODES: [&str; 2] =
    ["SET SESSION wsrep_sync_wait = 7", "SET SESSION group_replication_consistency = 'BEFORE'"];

/// A server of the run.
#[derive(Clone)]
pub struct Endpoint {
    pub address: Address,
    /// `host:port`, or the socket.
    pub name: String,
    /// Ways to connect; the second one if the server has no TLS and it is only preferred.
    ways: Vec<Opts>,
    /// The ways instead of these if the port's listener on this host is trusted.
    ways_if_trusted: Option<Vec<Opts>>,
    pub state: EndpointState,
    /// The account was let in before, by any clone of this endpoint.
    is_let_in: Arc<AtomicBool>,
}

impl Endpoint {
    pub fn all(options: &Options) -> Vec<Self> {
        // The driver takes the process's provider, which another part may have chosen already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let addresses = options.addresses.iter();
        let endpoints = addresses.map(|address| {
            let usual = ways(options, address, options.tls.gives_password);
            let if_trusted = address.is_on_this_host().then(|| ways(options, address, true));
            Self {
                name: address.name(),
                address: address.clone(),
                ways_if_trusted: if_trusted.filter(|ways| *ways != usual),
                ways: usual,
                state: EndpointState::new(options.connect_timeout),
                is_let_in: Arc::default(),
            }
        });
        endpoints.collect()
    }

    /// The way without TLS, if the user's options permit one.
    pub fn plain_way(&self) -> Option<&Opts> {
        self.ways_now().iter().find(|way| way.ssl_opts().is_none())
    }

    /// Connects for work that may be long: it is waited for as long as the server lives. A signal of
    /// the caller's ends the waiting; the caller learns whose locks hold it up.
    pub fn connect(&self) -> Result<Client> {
        let caller = self.state.caller();
        let mut client = self
            .reach(self.state.connect_limit(), LOCK_LIMIT, caller)
            .map_err(|error| self.refusal(&error))?;
        // On a node of a cluster the session sees the commits of other nodes. Other servers have no
        // such variables.
        for sql in SEE_ALL_NODES {
            let _ = client.run(sql);
        }
        client.set_policy(self.state.policy());
        let id = client.id();
        let (asked, blocked, killer) = (self.clone(), self.clone(), self.clone());
        client.wait().watch.ask_with(move || asked.state_of(id));
        client.set_monitor(WaitMonitor {
            server: self.name.clone(),
            caller: caller.cloned(),
            cancel: Arc::new(move || killer.kill_query(id)),
            find_lock_holder: Arc::new(move || blocked.find_lock_holder(id)),
            limit: LOCK_LIMIT,
            state: Default::default(),
        });
        Ok(client)
    }

    /// Connects for work of the load's or drop's length, which no limit of the user's ends.
    pub fn connect_for_long(&self) -> Result<Client> {
        let mut client = self.connect()?;
        // MariaDB's limit, and MySQL's, which is for SELECTs alone: those that prove a load.
        for limit in ["max_statement_time", "max_execution_time"] {
            let _ = client.run(&format!("SET SESSION {limit} = 0"));
        }
        Ok(client)
    }

    /// Connects to read the server's figures. These questions are short, so no signal ends them: a
    /// run that is interrupted still has its closing figures.
    pub fn connect_to_look(&self) -> Result<Client> {
        self.reach(self.state.connect_limit(), LOOK_LOCK_LIMIT, None)
            .map_err(|error| self.refusal(&error))
    }

    /// Connects to remove the rest of an interrupted load; no signal ends that, and petal waits for
    /// no lock of others.
    pub fn connect_to_clean_up(&self) -> Result<Client> {
        self.reach(BRIEF, LOOK_LOCK_LIMIT, None).map_err(|error| self.refusal(&error))
    }

    /// Asks the server, on another connection, to cancel a connection's statement.
    pub fn kill_query(&self, id: u32) {
        // One that is not reached is asked again as long as it is needed.
        let _ = self.ask(|client| client.run(&format!("KILL QUERY {id}")));
    }

    fn reach(
        &self,
        limit: Duration,
        lock_limit: Duration,
        caller: Option<&Caller>,
    ) -> Result<Client, Error> {
        let is_interrupted = || caller.is_some_and(Caller::is_interrupted);
        let open = || Client::open(&self.name, self.ways_now(), limit, &is_interrupted);
        let mut client = open();
        // The driver drops a zero at the end of a nonce, one in 256, and signs another one (ed25519). An
        // account that was let in before is no wrong password.
        let is_denied = client.as_ref().is_err_and(|error| error.code() == Some(ACCESS_DENIED));
        if is_denied && self.is_let_in.load(Ordering::Relaxed) {
            client = open();
        }
        let opened = client.and_then(|mut client| {
            self.is_let_in.store(true, Ordering::Relaxed);
            refuse_pooler(&mut client)?;
            client.run(&first_settings(lock_limit))?;
            Ok(client)
        });
        if !matches!(opened, Err(Error::Interrupted)) {
            self.state.note_silence(opened.as_ref().is_err_and(|error| error.code().is_none()));
        }
        opened
    }

    /// Returns the ways to connect now: a server may end, and another user listen on its port.
    fn ways_now(&self) -> &[Opts] {
        match (&self.ways_if_trusted, &self.address) {
            (Some(ways), Address::Tcp { port, .. }) if listener::is_trusted(*port) => ways,
            _ => &self.ways,
        }
    }

    /// Asks the server for the state of a silent connection of petal's.
    fn state_of(&self, id: u32) -> ServerState {
        let sql = format!(
            "SELECT 1 FROM information_schema.processlist WHERE id = {id} AND command <> 'Sleep'"
        );
        match self.ask(|client| client.query::<i64>(&sql)) {
            Ok(rows) if rows.is_empty() => ServerState::Idle,
            Ok(_) => ServerState::Working,
            // It answers, if only to refuse one more connection.
            Err(error) if error.code().is_some() => ServerState::Working,
            Err(error) => ServerState::Silent(words(&error)),
        }
    }

    /// Asks for which lock a connection of petal's waits; None also if no answer comes.
    fn find_lock_holder(&self, id: u32) -> Option<LockWait> {
        self.ask(|client| {
            let sql = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
            let state = client.query_one::<Option<String>>(&sql)?.unwrap_or_default();
            if !state.to_ascii_lowercase().contains("lock") {
                return Ok(None);
            }
            // Without the privilege PROCESS nobody can be named.
            let others: Vec<(u64, String, String, i64)> = client
                .query(&format!(
                    "SELECT p.id, concat(p.user, '@', p.host), p.command, \
                            timestampdiff(SECOND, t.trx_started, now()) \
                     FROM information_schema.innodb_trx t \
                     JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                     WHERE p.id <> {id} ORDER BY t.trx_started LIMIT 3"
                ))
                .unwrap_or_default();
            let named: Vec<String> = others
                .iter()
                .map(|(id, who, command, seconds)| {
                    format!("{id} ({who}, {command}, in its transaction for {seconds} s)")
                })
                .collect();
            let behind = match named.is_empty() {
                true => String::new(),
                false => format!(", with open transactions: process {}", named.join("; ")),
            };
            let holders = others.iter().map(|(id, ..)| id.cast_signed()).collect();
            Ok(Some(LockWait { text: format!("a lock ({state}){behind}"), holders }))
        })
        .ok()
        .flatten()
    }

    /// Asks about another connection, on a separate one.
    fn ask<T>(&self, question: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
        let mut client = self.reach(SILENCE, LOOK_LOCK_LIMIT, None)?;
        question(&mut client)
    }

    fn refusal(&self, error: &Error) -> EngineError {
        match engine_error(&self.name, "connecting", error) {
            // Whatever it is: petal cannot connect.
            EngineError::Database(text) => EngineError::Environment(text),
            other => other,
        }
    }
}

/// Refuses a pooler: settings of a session would stay with connections that others share. The
/// server's number of the connection is that of its greeting, unless a pooler wrote the greeting.
fn refuse_pooler(client: &mut Client) -> Result<(), Error> {
    // Some poolers answer the bare function themselves.
    let id: u64 = client.query_one("SELECT 0 + CONNECTION_ID()")?;
    match id & u64::from(u32::MAX) == u64::from(client.id()) {
        true => Ok(()),
        false => Err(Error::Pooler { greeted: client.id(), id }),
    }
}

/// The first settings of every connection. In a run the text of UPDATEs needs no conversion. The
/// coordinator of a long load and the one of a profile are idle for longer than any server allows
/// by default; MariaDB also has limits for idle transactions.
fn first_settings(lock_limit: Duration) -> String {
    format!(
        "SET NAMES latin1, SESSION autocommit = 1, SESSION time_zone = '+00:00', \
         SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         SESSION wait_timeout = {IDLE_LIMIT_S}, \
         SESSION lock_wait_timeout = {} \
         /*M!100300 , SESSION idle_transaction_timeout = 0, \
         SESSION idle_readonly_transaction_timeout = 0, \
         SESSION idle_write_transaction_timeout = 0 */",
        lock_limit.as_secs()
    )
}

/// Makes the ways to connect. Without `gives_password` no password goes over TCP but with TLS.
fn ways(options: &Options, address: &Address, gives_password: bool) -> Vec<Opts> {
    let builder = OptsBuilder::default()
        .user(Some(options.user.as_str()))
        .pass(options.password.as_ref().map(|password| password.expose().to_owned()))
        .db_name(Some(options.database.as_str()))
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_nodelay(true)
        .prefer_socket(false)
        .client_found_rows(true)
        // Given, they need not be asked for.
        .max_allowed_packet(Some(PACKET_BYTES_MAX))
        .wait_timeout(Some(usize::MAX >> 32));
    let builder = match address {
        Address::Socket(path) => {
            // Nobody is in between; servers do not speak TLS on sockets.
            return vec![builder.socket(Some(path.as_str())).into()];
        }
        Address::Tcp { host, port } => builder.ip_or_hostname(host.as_str()).tcp_port(*port),
    };
    // No name server decides which host this is.
    let this_host: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let is_named = matches!(address, Address::Tcp { host, .. } if host == "localhost");
    let builder = builder.resolved_ips(is_named.then_some(this_host));
    let plain = || Opts::from(builder.clone());
    let secured = || Opts::from(builder.clone().ssl_opts(ssl_opts(&options.tls)));
    // The driver sends the password to each server that has no TLS and hands out a key for it.
    let is_given = options.password.as_ref().is_some_and(|password| !password.expose().is_empty());
    match options.tls.mode {
        _ if is_given && !gives_password => vec![secured()],
        SslMode::Disabled => vec![plain()],
        SslMode::Preferred => vec![secured(), plain()],
        _ => vec![secured()],
    }
}

fn ssl_opts(tls: &TlsOptions) -> SslOpts {
    let file = |path: &Path| path.to_path_buf().into();
    let roots = tls.ca.iter().map(|path| file(path)).collect();
    let identity = tls.certificate.as_ref().zip(tls.key.as_ref());
    let identity = identity.map(|(chain, key)| ClientIdentity::new(file(chain), file(key)));
    SslOpts::default()
        .with_root_certs(roots)
        .with_disable_built_in_roots(tls.ca.is_some())
        .with_client_identity(identity)
        .with_danger_accept_invalid_certs(matches!(
            tls.mode,
            SslMode::Preferred | SslMode::Required
        ))
        // mysql_async 0.37.1 knows the error to pass by from words that rustls no longer uses.
        .with_danger_skip_domain_validation(tls.mode == SslMode::VerifyCa)
}
