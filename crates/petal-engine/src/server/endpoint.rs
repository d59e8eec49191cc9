//! The state that all connections of a run to one server share, and the limits of waiting for a
//! server and for locks that others hold there.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    set_tcp_user_timeout,
};

use super::liveness::TimeoutPolicy;
use crate::Caller;

/// Timeout for connecting, unless the URL says otherwise.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// A server that did not answer is not waited for as long again.
pub const BRIEF: Duration = Duration::from_secs(3);
/// Timeout for closing a connection, which a silent peer does not answer.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// The server's own limit for a statement that cleans up; petal gives the connection up later.
pub const CLEAN_UP_LIMIT: Duration = Duration::from_secs(8);
/// Idle time of a connection before the system asks whether its peer is there.
pub const KEEPALIVE: Duration = Duration::from_secs(10);

/// Lock timeout of work outside a run's operations.
pub const LOCK_LIMIT: Duration = Duration::from_secs(60);
/// Lock timeout of a complete load for the data it replaces.
pub const REPLACE_LOCK_LIMIT: Duration = Duration::from_secs(600);
/// Lock timeout of a look whose figure may stay unknown.
pub const LOOK_LOCK_LIMIT: Duration = Duration::from_secs(1);

/// A server as a person names it; an address of IPv6 is in brackets.
pub fn host_and_port(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// True if a host's name or address shows that it is this one.
pub fn is_this_host(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Has the system notice within half a minute that the peer of an idle or silent connection is gone.
pub fn keep_alive(stream: impl AsFd) -> io::Result<()> {
    set_socket_keepalive(&stream, true)?;
    set_tcp_keepidle(&stream, KEEPALIVE)?;
    set_tcp_keepintvl(&stream, KEEPALIVE / 2)?;
    set_tcp_keepcnt(&stream, 3)?;
    set_tcp_user_timeout(&stream, KEEPALIVE.as_millis() as u32 * 3)?;
    Ok(())
}

/// The state that connections to one server share: whether it is silent, and whose signals end
/// waits.
#[derive(Clone)]
pub struct EndpointState {
    connect_limit: Duration,
    /// The server was found to be silent, and has not answered since.
    is_silent: Arc<AtomicBool>,
    /// Sessions connect again: a server that keeps them waiting delays them for a short time only.
    is_outage: Arc<AtomicBool>,
    /// Caller whose signals end waiting, once that is known.
    caller: Arc<OnceLock<Caller>>,
}

impl EndpointState {
    /// A server of which nothing is known yet; connecting to it may take so long.
    pub fn new(connect_limit: Duration) -> Self {
        Self {
            connect_limit,
            is_silent: Arc::default(),
            is_outage: Arc::default(),
            caller: Arc::default(),
        }
    }

    /// Signals of the caller's end waiting from now on.
    pub fn serve(&self, caller: &Caller) {
        let _ = self.caller.set(caller.clone());
    }

    pub fn caller(&self) -> Option<&Caller> {
        self.caller.get()
    }

    pub fn connect_limit(&self) -> Duration {
        match self.is_silent.load(Ordering::Relaxed) || self.is_outage.load(Ordering::Relaxed) {
            true => BRIEF,
            false => self.connect_limit,
        }
    }

    /// Sessions lost their connections: from now on each step of connecting has a short limit.
    pub fn begin_outage(&self) {
        self.is_outage.store(true, Ordering::Relaxed);
    }

    /// Policy of a connection that prepares for work.
    pub fn policy(&self) -> TimeoutPolicy {
        match self.is_outage.load(Ordering::Relaxed) {
            true => TimeoutPolicy::AnswerSoon,
            false => TimeoutPolicy::WhileServerLives,
        }
    }

    /// Notes whether the last attempt to connect found the server silent.
    pub fn note_silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }
}
