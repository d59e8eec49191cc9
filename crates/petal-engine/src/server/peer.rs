//! The user at the other end of a connection on this host. The kernel says it of the connection
//! itself: a port or a path may be another user's the next moment, and a connection keeps its peer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use petal_host::files;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use rustix::net::{recv, send, socket_with};
use rustix::process::geteuid;

/// The first user number of ordinary users; those below belong to root and to services.
const ORDINARY_USERS: u32 = 1000;
/// Time between two looks at a connection that its peer has not accepted yet.
pub const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketPeer {
    /// A process of this user of this host.
    User(u32),
    /// Another host; or another network name space of this one, to which root redirects.
    Elsewhere,
}

/// Returns the user at the other end of a UNIX socket.
pub fn of_socket(stream: impl AsFd) -> io::Result<SocketPeer> {
    Ok(SocketPeer::User(socket_peercred(stream)?.uid.as_raw()))
}

/// Returns the user at the other end of a TCP connection when a process has accepted it there, or it
/// has sent something from elsewhere.
pub async fn of_tcp(local: SocketAddr, remote: SocketAddr) -> io::Result<SocketPeer> {
    loop {
        if let Some(peer) = look(local, remote, false)? {
            return Ok(peer);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Returns the user at the other end of a TCP connection; `None` if that is not known yet. Only an
/// end that `has_spoken` or speaks is elsewhere: with SYN cookies an end on this host may come later.
pub fn look(
    local: SocketAddr,
    remote: SocketAddr,
    has_spoken: bool,
) -> io::Result<Option<SocketPeer>> {
    // A kernel that does not show petal's own end shows no other end either.
    let own = socket_at(local, remote)?;
    let own = own.ok_or_else(|| io::Error::other("the kernel does not show the connection"))?;
    match (own.state, socket_at(remote, local)?) {
        (TCP_SYN_SENT, _) => Ok(None),
        (TCP_ESTABLISHED, None) => {
            Ok((has_spoken || own.unread_bytes > 0).then_some(SocketPeer::Elsewhere))
        }
        // An end without an inode is not accepted yet, or closed: its user is not known.
        (TCP_ESTABLISHED, Some(end)) => Ok((end.inode != 0).then_some(SocketPeer::User(end.user))),
        _ => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

/// A TCP socket as the kernel shows it.
struct TcpSocket {
    state: u8,
    unread_bytes: u32,
    user: u32,
    inode: u32,
}

const TCP_ESTABLISHED: u8 = 1;
const TCP_SYN_SENT: u8 = 2;
const TCP: u8 = 6;
/// Messages of the kernel's interface for sockets: `struct nlmsghdr`, then `struct inet_diag_req_v2`
/// or `struct inet_diag_msg`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: u32 = 72;
const NOT_FOUND: i32 = -2;

/// Asks the kernel for the end of a connection at `from`. A socket that its owner bound to a network
/// device is shown only to those who name the device.
fn socket_at(from: SocketAddr, to: SocketAddr) -> io::Result<Option<TcpSocket>> {
    let family = AddressFamily::NETLINK;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    let ask = |device: u32| {
        send(&socket, &request(from, to, device), SendFlags::empty())?;
        let mut answer = [0; 512];
        let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
        read_answer(&answer[..length], to.port())
    };
    if let Some(found) = ask(0)? {
        return Ok(Some(found));
    }
    for device in devices()? {
        if let Some(found) = ask(device)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Numbers of this host's network devices.
fn devices() -> io::Result<Vec<u32>> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let text = files::system_text("/proc/net/dev")?;
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    // One that is gone has no sockets.
    Ok(names.filter_map(|name| name_to_index(&socket, name).ok()).collect())
}

fn request(from: SocketAddr, to: SocketAddr, device: u32) -> Vec<u8> {
    let (from_ip, to_ip) = (from.ip().to_canonical(), to.ip().to_canonical());
    let family = if from_ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut request = Vec::new();
    request.extend(REQUEST_BYTES.to_ne_bytes());
    request.extend([SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST].map(u16::to_ne_bytes).concat());
    request.extend([0; 8]);
    // All states.
    request.extend([family.as_raw() as u8, TCP, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    request.extend([from.port(), to.port()].map(u16::to_be_bytes).concat());
    for ip in [from_ip, to_ip] {
        let mut bytes = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        bytes.resize(16, 0);
        request.extend(bytes);
    }
    request.extend(device.to_ne_bytes());
    // Any cookie.
    request.extend([0xff; 8]);
    request
}

fn read_answer(answer: &[u8], to_port: u16) -> io::Result<Option<TcpSocket>> {
    let cut = || io::Error::other("the kernel's answer about the connection is cut");
    let (header, body) = answer.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
    let number = |at: usize| {
        let bytes = body.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    if u16::from_ne_bytes([header[4], header[5]]) == NLMSG_ERROR {
        return match number(0).ok_or_else(cut)?.cast_signed() {
            NOT_FOUND => Ok(None),
            error => Err(io::Error::from_raw_os_error(-error)),
        };
    }
    let &[_, state, .., port_high, port_low] = body.first_chunk::<8>().ok_or_else(cut)?;
    // In place of a connection the kernel shows a listener.
    if u16::from_be_bytes([port_high, port_low]) != to_port {
        return Ok(None);
    }
    let number = |at: usize| number(at).ok_or_else(cut);
    Ok(Some(TcpSocket { state, unread_bytes: number(56)?, user: number(64)?, inode: number(68)? }))
}

/// The rule for the user at the other end of a connection on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerRule {
    /// The server's user, if the caller named one.
    required: Option<(String, u32)>,
}

impl PeerRule {
    /// Requires a user of this host, by name or number. The error is the name, and why it is refused.
    pub fn new(required: Option<&str>) -> Result<Self, (String, &'static str)> {
        let Some(name) = required else { return Ok(Self::default()) };
        let number = name.parse().ok().or_else(|| account(|own, _| own == name));
        let name = name.to_owned();
        match number {
            Some(number) => Ok(Self { required: Some((name, number)) }),
            None => Err((name, "is no user of this host")),
        }
    }

    /// The required user's name.
    pub fn required(&self) -> Option<&str> {
        self.required.as_ref().map(|(name, _)| name.as_str())
    }

    /// Refuses a user of this host who is neither the required one nor, without such a requirement,
    /// root, a service or petal's own user.
    pub fn check(&self, peer: SocketPeer) -> Result<(), String> {
        let SocketPeer::User(user) = peer else { return Ok(()) };
        let expected = match &self.required {
            Some((_, required)) if user == *required => return Ok(()),
            Some((name, _)) => format!("requirepeer={name} asks for another"),
            None if user < ORDINARY_USERS || user == geteuid().as_raw() => return Ok(()),
            None => "it is neither root, a service nor you".to_owned(),
        };
        let name = name_of(user).map(|name| format!(" ({name})")).unwrap_or_default();
        Err(format!("user {user}{name} of this host answers: {expected}"))
    }
}

/// Advice for a refused user.
pub const PEER_HINT: &str = "see who listens there; if it is the server's user, name it in the URL \
                             (requirepeer=USER), or have TLS verify the server";

fn name_of(user: u32) -> Option<String> {
    let mut found = None;
    account(|name, number| {
        let is_it = number == user;
        if is_it {
            found = Some(name.to_owned());
        }
        is_it
    });
    found
}

/// The number of the first account of this host that fits by its name and number.
fn account(mut fits: impl FnMut(&str, u32) -> bool) -> Option<u32> {
    let accounts = files::system_text("/etc/passwd").unwrap_or_default();
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number = fields.nth(1)?.parse().ok()?;
        fits(name, number).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use tokio::net::TcpSocket;

    fn own() -> SocketPeer {
        SocketPeer::User(geteuid().as_raw())
    }

    #[test]
    fn a_peer_is_known_when_it_has_accepted_and_no_longer_when_it_has_closed() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host may have no IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ends = || (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert_eq!(look(ends().0, ends().1, false).unwrap(), None, "not accepted");
            let accepted = listener.accept().unwrap().0;
            assert_eq!(look(ends().0, ends().1, false).unwrap(), Some(own()));
            drop(accepted);
            assert!(look(ends().0, ends().1, false).is_err());
        }
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(of_socket(&one).unwrap(), own());
    }

    #[test]
    fn a_peer_that_is_bound_to_a_device_is_seen() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let _inside = runtime.enter();
        for (address, socket) in [
            ("127.0.0.1:0", TcpSocket::new_v4().unwrap()),
            ("[::1]:0", TcpSocket::new_v6().unwrap()),
        ] {
            socket.bind_device(Some(b"lo")).unwrap();
            // A host may have no IPv6.
            let Ok(()) = socket.bind(address.parse().unwrap()) else { continue };
            let listener = socket.listen(1).unwrap().into_std().unwrap();
            listener.set_nonblocking(false).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _accepted = listener.accept().unwrap();
            let (local, remote) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert_eq!(look(local, remote, true).unwrap(), Some(own()));
        }
    }

    #[test]
    fn a_listener_is_no_peer_and_an_unseen_connection_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
        assert!(socket_at(listener.local_addr().unwrap(), nobody).unwrap().is_none());
        assert!(look(listener.local_addr().unwrap(), nobody, true).is_err());
        assert!(read_answer(&[0; 20], 1).is_err());
    }

    #[test]
    fn a_rule_names_the_user_that_it_refuses() {
        let usual = PeerRule::default();
        assert!(
            [own(), SocketPeer::User(0), SocketPeer::User(999), SocketPeer::Elsewhere]
                .into_iter()
                .all(|peer| usual.check(peer).is_ok())
        );
        insta::assert_snapshot!(usual.check(SocketPeer::User(4_000_000_000)).unwrap_err(), @"user 4000000000 of this host answers: it is neither root, a service nor you");
        let named = PeerRule::new(Some("4000000000")).unwrap();
        assert!(named.check(SocketPeer::User(4_000_000_000)).is_ok());
        insta::assert_snapshot!(named.check(SocketPeer::User(0)).unwrap_err(), @"user 0 (root) of this host answers: requirepeer=4000000000 asks for another");
        assert_eq!(PeerRule::new(Some("root")).unwrap().required, Some(("root".to_owned(), 0)));
        assert_eq!(PeerRule::new(Some("nobody here")).unwrap_err().1, "is no user of this host");
    }
}
