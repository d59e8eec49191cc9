//! Connections: ways to a server, first questions, and how petal cancels a statement from another
//! connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::{ClientIdentity, Conn, DriverError, Opts, OptsBuilder, SslOpts};
use tokio::net::lookup_host;

use super::client::{Client, Error};
use super::errors::{engine_error, words};
use super::log_on::{ServerPlace, log_on};
use super::options::{Address, Options, SslMode, TlsOptions};
use petal_engine::server::answer::statement_name;
use petal_engine::server::endpoint::{
    BRIEF, EndpointState, KEEPALIVE, LOCK_LIMIT, LOOK_LOCK_LIMIT,
};
use petal_engine::server::liveness::{SILENCE, ServerState};
use petal_engine::server::login::{FirstLogins, KnownLogin, LoginStrength, Protection};
use petal_engine::server::password::PasswordCommand;
use petal_engine::server::peer::{PeerRule, SocketPeer};
use petal_engine::server::wait_monitor::{LockWait, WaitMonitor};
use petal_engine::waits_now::Waiter;
use petal_engine::{Caller, EngineError, Result};
use petal_settings::url::Secret;

const ACCESS_DENIED: u16 = 1045;

/// The longest answer that petal takes.
const PACKET_BYTES_MAX: usize = 64 << 20;

/// The longest that a server lets a connection be idle: a year.
const IDLE_LIMIT_S: u32 = 31_536_000;

/// Settings with which a session of Galera or Group Replication sees the commits of all nodes.
const SEE_ALL_NODES: [&str; 2] =
    ["SET SESSION wsrep_sync_wait = 7", "SET SESSION group_replication_consistency = 'BEFORE'"];

/// A way to log on.
#[derive(Clone)]
struct Way {
    opts: OptsBuilder,
    protection: Protection,
}

/// Rules for all logins at one server.
struct LoginRules {
    peer: PeerRule,
    known: KnownLogin,
    has_password: bool,
    /// Any server may have the password, encrypted with its own key.
    gives_password: bool,
    /// A server of a trusted user of this host let petal in.
    is_here: AtomicBool,
}

impl LoginRules {
    /// Whether a trusted user of this host answers.
    fn is_trusted(&self, peer: Option<SocketPeer>) -> bool {
        peer.is_some_and(|peer| peer != SocketPeer::Elsewhere && self.peer.check(peer).is_ok())
    }

    /// Refuses a peer that is not to have the password this way.
    fn check(&self, way: &Way, peer: SocketPeer) -> Result<(), Error> {
        let login = LoginStrength { protection: way.protection, method: None };
        self.known.check(login).map_err(Error::WrongServer)?;
        let is_safe = way.protection == Protection::Verified || self.gives_password;
        let is_given = self.has_password && !is_safe;
        if self.peer.required().is_some() || is_given {
            self.peer.check(peer).map_err(Error::WrongServer)?;
        }
        match is_given && way.protection == Protection::Plain && peer == SocketPeer::Elsewhere {
            true => Err(mysql_async::Error::from(DriverError::NoClientSslFlagFromServer).into()),
            false => Ok(()),
        }
    }
}

/// A server of the run.
#[derive(Clone)]
pub struct Endpoint {
    pub address: Address,
    /// `host:port`, or the socket.
    pub name: String,
    /// Ways to connect; the second one if the server has no TLS and it is only preferred.
    ways: Vec<Way>,
    rules: Arc<LoginRules>,
    /// Program that prints the password, if the ways have none.
    password: Option<Arc<PasswordCommand>>,
    pub state: EndpointState,
    /// The account was let in before, by any clone of this endpoint.
    is_let_in: Arc<AtomicBool>,
}

impl Endpoint {
    /// The servers; later logins are compared with the first of `logins`.
    pub fn all(options: &Options, command: Option<&Path>, logins: &FirstLogins) -> Vec<Self> {
        // The driver takes the process's provider, which another part may have chosen already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let addresses = options.addresses.iter();
        let endpoints = addresses.map(|address| {
            let is_socket = matches!(address, Address::Socket(_));
            let password = options.password.as_ref().map(|password| password.expose());
            let command = command.map(|program| {
                let (host, port) = match address {
                    Address::Tcp { host, port } => (host, *port),
                    Address::Socket(path) => (path, 0),
                };
                Arc::new(PasswordCommand::new(program, host, port, &options.user))
            });
            let rules = LoginRules {
                peer: options.peer.clone(),
                known: match is_socket {
                    true => KnownLogin::default(),
                    false => logins.at(&address.name()),
                },
                has_password: command.is_some()
                    || password.is_some_and(|password| !password.is_empty()),
                gives_password: options.tls.gives_password,
                is_here: AtomicBool::new(false),
            };
            Self {
                name: address.name(),
                address: address.clone(),
                ways: ways(options, address),
                rules: Arc::new(rules),
                password: command,
                state: EndpointState::new(options.connect_timeout),
                is_let_in: Arc::default(),
            }
        });
        endpoints.collect()
    }

    /// The way without TLS, for a program that connects after petal did; none if the password must
    /// not go there without.
    pub fn plain_way(&self) -> Option<Opts> {
        let way = self.ways.iter().find(|way| way.protection == Protection::Plain)?;
        let LoginRules { has_password, gives_password, is_here, .. } = self.rules.as_ref();
        let is_given = !has_password || *gives_password || is_here.load(Ordering::Relaxed);
        let asked = self.password.as_ref().and_then(|command| command.password().ok());
        is_given.then(|| way.with(asked.as_ref()).into())
    }

    /// Connects for work, which is waited for as long as the server lives. A signal of the caller's ends
    /// the waiting; the caller learns whose locks hold it up.
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
        let explaining = self.clone();
        client.wait().waiter = Some(Waiter::new(move || explaining.explain_wait(id)));
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
        let is_denied = |error: &Error| error.code() == Some(ACCESS_DENIED);
        let open = |password: Option<&Secret>| {
            let once = || Client::open(&self.name, self.log_on(password), limit, &is_interrupted);
            let client = once();
            // The driver drops a zero at the end of a nonce, one in 256, and signs another one (ed25519).
            // An account that was let in before is no wrong password.
            let is_let_in = self.is_let_in.load(Ordering::Relaxed);
            match client.as_ref().is_err_and(is_denied) && is_let_in {
                true => once(),
                false => client,
            }
        };
        let command = self.password.as_deref();
        let client = PasswordCommand::open(command, Error::NoPassword, is_denied, open);
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

    /// Logs on at the first of the server's addresses that can be reached.
    async fn log_on(&self, password: Option<&Secret>) -> Result<Conn, Error> {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable).into();
        for place in self.places().await? {
            match self.log_on_at(&place, password).await {
                (Err(error), None) => failed = error,
                (ended, _) => return ended,
            }
        }
        Err(failed)
    }

    async fn places(&self) -> io::Result<Vec<ServerPlace>> {
        let (host, port) = match &self.address {
            Address::Socket(_) => return Ok(vec![ServerPlace::Socket]),
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        // No name server decides which host this is.
        let this_host: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        if host == "localhost" {
            return Ok(this_host.map(|ip| ServerPlace::Tcp(SocketAddr::new(ip, port))).into());
        }
        Ok(lookup_host((host, port)).await?.map(ServerPlace::Tcp).collect())
    }

    /// Returns also the peer, if it was reached.
    async fn log_on_at(
        &self,
        place: &ServerPlace,
        password: Option<&Secret>,
    ) -> (Result<Conn, Error>, Option<SocketPeer>) {
        let rules = &self.rules;
        let mut met = None;
        let mut ended = Err(Error::Interrupted);
        for way in &self.ways {
            // Nothing is sent to a peer that is known not to be allowed this way.
            if let Some(Err(refused)) = met.map(|peer| rules.check(way, peer)) {
                return (Err(refused), met);
            }
            let allows = |peer| {
                met = Some(peer);
                rules.check(way, peer)
            };
            ended = log_on(way.to(place, password), place, allows).await;
            if ended.is_ok() {
                rules.known.keep(LoginStrength { protection: way.protection, method: None });
                rules.is_here.store(rules.is_trusted(met), Ordering::Relaxed);
            }
            if !ended.as_ref().is_err_and(Error::is_without_tls) {
                break;
            }
        }
        (ended, met)
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

    /// Asks for the state in which a connection of petal's waits; None if the server shows none.
    fn explain_wait(&self, id: u32) -> Option<String> {
        let sql = format!(
            "SELECT state, info FROM information_schema.processlist \
             WHERE id = {id} AND command <> 'Sleep' AND state <> ''"
        );
        let rows = self.ask(|client| client.query::<(String, Option<String>)>(&sql)).ok()?;
        let (state, statement) = rows.into_iter().next()?;
        let statement = statement_name(&statement.unwrap_or_default());
        Some(format!("{}: {statement} waits: {state}", self.name))
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

/// The first settings of every connection. In a run the text of UPDATEs needs no conversion; names in
/// answers come in UTF-8, as the driver reads them. The coordinator of a long load and the one of a profile are idle for longer than any server allows
/// by default; MariaDB also has limits for idle transactions. Values of the server or the account would
/// cut answers, change plans, refuse or end statements, or end a connection at its commit. MariaDB
/// ignores comments for MySQL 5.7 and later.
fn first_settings(lock_limit: Duration) -> String {
    format!(
        "SET NAMES latin1, SESSION character_set_results = utf8mb4, \
         SESSION autocommit = 1, SESSION time_zone = '+00:00', \
         SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         SESSION wait_timeout = {IDLE_LIMIT_S}, \
         SESSION lock_wait_timeout = {}, \
         SESSION sql_select_limit = 18446744073709551615, SESSION sql_big_selects = 1, \
         SESSION sql_safe_updates = 0, SESSION completion_type = 0, \
         SESSION optimizer_switch = 'mrr=off' \
         /*!50708 , SESSION max_execution_time = 0 */ \
         /*M!100300 , SESSION max_statement_time = 0, \
         SESSION max_session_mem_used = 9223372036854775807, SESSION idle_transaction_timeout = 0, \
         SESSION idle_readonly_transaction_timeout = 0, \
         SESSION idle_write_transaction_timeout = 0 */",
        lock_limit.as_secs()
    )
}

impl Way {
    fn to(&self, place: &ServerPlace, password: Option<&Secret>) -> Opts {
        let opts = self.with(password);
        match place {
            ServerPlace::Socket => opts.into(),
            ServerPlace::Tcp(address) => opts.resolved_ips(Some([address.ip()])).into(),
        }
    }

    /// The options, with the password of PASSWORD_COMMAND if there is one.
    fn with(&self, password: Option<&Secret>) -> OptsBuilder {
        let opts = self.opts.clone();
        match password {
            Some(password) => opts.pass(Some(password.expose())),
            None => opts,
        }
    }
}

fn ways(options: &Options, address: &Address) -> Vec<Way> {
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
            let opts = builder.socket(Some(path.as_str()));
            return vec![Way { opts, protection: Protection::Plain }];
        }
        Address::Tcp { host, port } => builder.ip_or_hostname(host.as_str()).tcp_port(*port),
    };
    let plain = || Way { opts: builder.clone(), protection: Protection::Plain };
    let secured = |protection| {
        let opts = builder
            .clone()
            .ssl_opts(ssl_opts(&options.tls))
            .enable_cleartext_plugin(protection == Protection::Verified);
        Way { opts, protection }
    };
    match options.tls.mode {
        SslMode::Disabled => vec![plain()],
        SslMode::Preferred => vec![secured(Protection::Encrypted), plain()],
        SslMode::Required => vec![secured(Protection::Encrypted)],
        SslMode::VerifyCa | SslMode::VerifyIdentity => vec![secured(Protection::Verified)],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_goes_without_tls_to_trusted_users_of_this_host_alone() {
        let stranger = SocketPeer::User(4_000_000_000);
        let rules = |has_password, gives_password| LoginRules {
            peer: PeerRule::default(),
            known: KnownLogin::default(),
            has_password,
            gives_password,
            is_here: AtomicBool::default(),
        };
        let allowed = |rules: &LoginRules, protection| {
            let way = Way { opts: OptsBuilder::default(), protection };
            let peers = [SocketPeer::User(0), stranger, SocketPeer::Elsewhere];
            peers.map(|peer| rules.check(&way, peer).is_ok())
        };
        let usual = rules(true, false);
        assert_eq!(allowed(&usual, Protection::Plain), [true, false, false]);
        let far = usual.check(&ways_of("DISABLED")[0], SocketPeer::Elsewhere).unwrap_err();
        assert!(far.is_without_tls(), "{far}");
        assert_eq!(allowed(&usual, Protection::Encrypted), [true, false, true]);
        assert_eq!(allowed(&usual, Protection::Verified), [true; 3]);
        assert_eq!(allowed(&rules(true, true), Protection::Plain), [true; 3]);
        assert_eq!(allowed(&rules(false, false), Protection::Plain), [true; 3]);
        let named =
            LoginRules { peer: PeerRule::new(Some("4000000000")).unwrap(), ..rules(false, false) };
        assert_eq!(allowed(&named, Protection::Verified), [false, true, true]);
        usual.known.keep(LoginStrength { protection: Protection::Encrypted, method: None });
        assert_eq!(allowed(&usual, Protection::Plain), [false; 3], "less than the first login");
    }

    fn ways_of(mode: &str) -> Vec<Way> {
        let url = format!("mysql://u@127.0.0.1/d?ssl_mode={mode}&defaults_file=/dev/null");
        let url = petal_settings::url::TargetUrl::parse(&url).unwrap();
        let options = Options::new(&url, None, &|_| None).unwrap();
        ways(&options, &options.addresses[0])
    }

    #[test]
    fn tls_is_left_out_only_where_it_is_preferred_or_disabled() {
        use Protection::{Encrypted, Plain};
        let protections = |mode| ways_of(mode).iter().map(|way| way.protection).collect::<Vec<_>>();
        assert_eq!(protections("PREFERRED"), [Encrypted, Plain]);
        assert_eq!(protections("DISABLED"), [Plain]);
        assert_eq!(protections("REQUIRED"), [Encrypted]);
    }
}
