//! A log-on by the driver, which opens its socket itself and hides it. Its first step opens the
//! socket and sends nothing; before the second the kernel says who has the other end.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::Poll;

use mysql_async::{Conn, Opts};
use rustix::net::sockopt::socket_error;
use rustix::net::{getpeername, getsockname};
use tokio::time::sleep;

use super::client::Error;
use petal_engine::server::driver_socket;
use petal_engine::server::peer::{self, LOOK_AGAIN, SocketPeer};

/// The place of one server; a name may have several.
#[derive(Debug, Clone, Copy)]
pub enum ServerPlace {
    Tcp(SocketAddr),
    /// The socket on this host.
    Socket,
}

/// Logs on if `allows` the user at the other end.
pub async fn log_on(
    opts: Opts,
    place: &ServerPlace,
    allows: impl FnOnce(SocketPeer) -> Result<(), Error>,
) -> Result<Conn, Error> {
    let mut connecting = pin!(Conn::new(opts));
    let first = poll_fn(|context| {
        Poll::Ready(driver_socket::made_by(|| connecting.as_mut().poll(context)))
    });
    let (first, sockets) = first.await;
    if let Poll::Ready(ended) = first {
        ended?;
        return Err(io::Error::other("the driver logged on before petal knew the server").into());
    }
    allows(other_end(sockets, place).await?)?;
    Ok(connecting.await?)
}

/// Returns the user at the other end. One of the sockets leads to the place.
async fn other_end(sockets: Vec<OwnedFd>, place: &ServerPlace) -> io::Result<SocketPeer> {
    match place {
        ServerPlace::Socket => {
            let found = sockets.iter().find_map(|socket| peer::of_socket(socket).ok());
            found.ok_or_else(unseen)
        }
        ServerPlace::Tcp(remote) => {
            let (local, remote) = connected(&sockets, *remote).await?;
            peer::of_tcp(local, remote).await
        }
    }
}

/// Waits until one of the sockets is connected to this address, and returns both of its addresses.
async fn connected(
    sockets: &[OwnedFd],
    address: SocketAddr,
) -> io::Result<(SocketAddr, SocketAddr)> {
    let ends = |socket: &OwnedFd| {
        let remote = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
        // The kernel takes 0.0.0.0 for an address of this host.
        let is_there = remote.ip() == address.ip() || address.ip().is_unspecified();
        let local = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
        (is_there && remote.port() == address.port()).then_some((local, remote))
    };
    loop {
        if let Some(ends) = sockets.iter().find_map(ends) {
            return Ok(ends);
        }
        let failed = sockets.iter().find_map(|socket| socket_error(socket).ok()?.err());
        if let Some(error) = failed {
            return Err(error.into());
        }
        if sockets.is_empty() {
            return Err(unseen());
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn unseen() -> io::Error {
    io::Error::other("petal cannot see its own connection (/proc/self/fd)")
}
