//! The bytes of a connection: TLS by libpq's sslmode, and a bound for each message of the server.
//!
//! The driver keeps a message until all of it is there, and a message may claim 2 GiB. It shows a
//! stream to others only if that is TLS from its first byte. So petal asks the server for TLS
//! itself, and has the driver take each connection for such a stream.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf, duplex};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::{SslMode as DriverSslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::libpq::Address;
use super::login_watch::{LoginRefusal, LoginRules, LoginWatch, OtherEnd};
use super::options::SslMode;
use petal_engine::server::answer::TOO_LONG;
use petal_engine::server::endpoint::keep_alive;
use petal_engine::server::peer::{self, SocketPeer};

/// No row and no text that petal asks for is as long.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// A request for authentication; none is longer.
const AUTHENTICATION: u8 = b'R';
const AUTHENTICATION_BYTES_MAX: u32 = 64 << 10;
/// All that a server says without a question, such as its settings: the driver may keep it.
const UNASKED_BYTES_MAX: u64 = 64 << 20;
const UNASKED_KINDS: &[u8] = b"ANS";
/// A setting that the server reports without a question, such as its search_path.
const SETTING: u8 = b'S';
/// A letter, and the length of the rest, itself included.
const HEADER_BYTES: usize = 5;
const LENGTH_BYTES: u32 = 4;
/// The request's length, and a code in the place of a version.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// The server's "yes" to a request for TLS.
const TAKES_TLS: u8 = b'S';

/// The messages of one connection; polling them drives it.
pub type Incoming =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

/// A request to cancel: length, code, process and key, four bytes each.
const REQUEST_BYTES: usize = 16;

/// A stream that TLS may be put on.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for S {}

/// A connection to a server, by whichever way.
type AnyStream = Box<dyn Transport>;

/// The way to one server.
#[derive(Clone)]
pub struct ServerConnector {
    tls: MakeRustlsConnect,
    mode: SslMode,
    address: Address,
    /// Time for each of the addresses that a name has.
    limit: Duration,
    rules: LoginRules,
}

/// The place of one server; a name may have several.
#[derive(Clone)]
pub enum ServerPlace {
    Tcp(SocketAddr),
    Socket(PathBuf),
}

impl ServerConnector {
    /// Servers do not speak TLS on sockets, and nobody is in between.
    pub fn new(
        tls: MakeRustlsConnect,
        mode: SslMode,
        address: Address,
        limit: Duration,
        rules: LoginRules,
    ) -> Self {
        let mode = if address.is_socket() { SslMode::Disable } else { mode };
        Self { tls, mode, address, limit, rules }
    }

    /// Settings with which the driver gives each stream to a connector.
    pub fn config() -> Config {
        let mut config = Config::new();
        config.ssl_mode(DriverSslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        config
    }

    pub async fn connect(
        &self,
        config: &Config,
    ) -> Result<(Client, Incoming, ServerPlace), ConnectError> {
        let mut failed = io::ErrorKind::AddrNotAvailable.into();
        for place in self.places().await.map_err(ConnectError::Unreachable)? {
            match self.open(&place).await {
                Ok((stream, end)) => {
                    let connected = config.connect_raw(stream, self.with_end(end)).await;
                    let (client, mut connection) = connected?;
                    let incoming =
                        move |context: &mut Context<'_>| connection.poll_message(context);
                    return Ok((client, Box::new(incoming), place));
                }
                Err(error) => failed = error,
            }
        }
        Err(ConnectError::Unreachable(failed))
    }

    async fn places(&self) -> io::Result<Vec<ServerPlace>> {
        let Address { host, port, ip } = &self.address;
        if let Some(socket) = self.address.socket() {
            return Ok(vec![ServerPlace::Socket(socket)]);
        }
        if let Some(ip) = ip {
            return Ok(vec![ServerPlace::Tcp(SocketAddr::new(*ip, *port))]);
        }
        Ok(lookup_host((host.as_str(), *port)).await?.map(ServerPlace::Tcp).collect())
    }

    async fn open(&self, place: &ServerPlace) -> io::Result<(AnyStream, OtherEnd)> {
        let opening = async {
            match place {
                ServerPlace::Socket(socket) => {
                    let stream = UnixStream::connect(socket).await?;
                    let end = OtherEnd::Known(peer::of_socket(&stream)?);
                    Ok((Box::new(stream) as AnyStream, end))
                }
                ServerPlace::Tcp(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    keep_alive(&stream)?;
                    let end =
                        OtherEnd::Tcp { local: stream.local_addr()?, remote: stream.peer_addr()? };
                    Ok((Box::new(stream) as AnyStream, end))
                }
            }
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "connection timed out");
        timeout(self.limit, opening).await.map_err(late)?
    }

    /// Asks the server to cancel a statement. No answer says whether it did.
    pub async fn cancel(&self, token: &CancelToken, place: &ServerPlace) {
        if let Ok((stream, end)) = self.open(place).await {
            let _ = token.cancel_query_raw(stream, self.with_end(end)).await;
        }
    }

    /// Returns the process of the peer's greeting, or `None` if it gave none. A pooler, such as
    /// PgBouncer, greets with its own process, because it changes servers between transactions. The
    /// driver shows the process in one place: a request to cancel, which is written into memory here.
    pub async fn greeted_process(&self, token: &CancelToken) -> Option<i32> {
        let (peer, mut written) = duplex(2 * REQUEST_BYTES);
        let plain = Self { mode: SslMode::Disable, ..self.clone() };
        let connect = plain.with_end(OtherEnd::Known(SocketPeer::Elsewhere));
        token.cancel_query_raw(Box::new(peer) as AnyStream, connect).await.ok()?;
        let mut request = [0; REQUEST_BYTES];
        written.read_exact(&mut request).await.ok()?;
        let process = i32::from_be_bytes(*request[8..].first_chunk()?);
        (process != 0).then_some(process)
    }

    fn with_end(&self, end: OtherEnd) -> ConnectorTo {
        ConnectorTo { connector: self.clone(), end }
    }
}

/// Why there is no connection.
pub enum ConnectError {
    Failed(Error),
    Unreachable(io::Error),
    /// petal refuses the server that answers.
    Refused(String),
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        let io = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        let refusal =
            io.and_then(io::Error::get_ref).and_then(|why| why.downcast_ref::<LoginRefusal>());
        match refusal {
            Some(LoginRefusal(why)) => Self::Refused(why.clone()),
            None => Self::Failed(error),
        }
    }
}

/// A connector, and the other end of its connection.
pub struct ConnectorTo {
    connector: ServerConnector,
    end: OtherEnd,
}

impl ConnectorTo {
    async fn protect(self, mut stream: AnyStream) -> io::Result<BoundedStream> {
        let ServerConnector { mut tls, mode, address, rules, .. } = self.connector;
        let bounded = |bytes: Bytes, has_tls| {
            let login = LoginWatch::new(rules, self.end, has_tls);
            BoundedStream { bytes, messages: MessageLengths::new(login) }
        };
        if mode == SslMode::Disable {
            return Ok(bounded(Bytes::Plain(stream), false));
        }
        stream.write_all(&TLS_REQUEST).await?;
        match stream.read_u8().await? {
            TAKES_TLS => {
                let name = address.name_in_certificate();
                let Ok(connect) = MakeTlsConnect::<AnyStream>::make_tls_connect(&mut tls, &name);
                Ok(bounded(Bytes::Tls(Box::new(connect.connect(stream).await?)), true))
            }
            _ if mode == SslMode::Prefer => Ok(bounded(Bytes::Plain(stream), false)),
            _ => Err(io::Error::other("server does not support TLS")),
        }
    }
}

impl TlsConnect<AnyStream> for ConnectorTo {
    type Stream = BoundedStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<BoundedStream>> + Send>>;

    fn connect(self, stream: AnyStream) -> Self::Future {
        Box::pin(self.protect(stream))
    }
}

enum Bytes {
    Plain(AnyStream),
    Tls(Box<<MakeRustlsConnect as MakeTlsConnect<AnyStream>>::Stream>),
}

/// A stream that fails at a message longer than any that petal asks for, and at a login that it
/// refuses.
pub struct BoundedStream {
    bytes: Bytes,
    messages: MessageLengths,
}

impl BoundedStream {
    fn bytes(&mut self) -> Pin<&mut dyn Transport> {
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream),
            Bytes::Tls(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(self.bytes().poll_read(context, into))?;
        Poll::Ready(self.messages.take(&mut into.filled_mut()[before..]))
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bytes().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bytes().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bytes().poll_shutdown(context)
    }
}

impl TlsStream for BoundedStream {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.bytes {
            Bytes::Plain(_) => ChannelBinding::none(),
            Bytes::Tls(stream) => stream.channel_binding(),
        }
    }
}

/// The headers in the bytes of a server, which come in pieces of any length, and the requests for
/// authentication.
struct MessageLengths {
    header: Vec<u8>,
    /// Bytes of the message under way that are still to come.
    rest: usize,
    unasked_bytes: u64,
    login: LoginWatch,
    /// The request for authentication under way.
    request: Option<Vec<u8>>,
    /// The message under way is a setting's name and value.
    is_setting: bool,
}

impl MessageLengths {
    fn new(login: LoginWatch) -> Self {
        Self {
            header: Vec::new(),
            rest: 0,
            unasked_bytes: 0,
            login,
            request: None,
            is_setting: false,
        }
    }

    fn take(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (passed, later) = bytes.split_at_mut(bytes.len().min(self.rest));
            self.rest -= passed.len();
            if let Some(request) = &mut self.request {
                request.extend_from_slice(passed);
            }
            if self.is_setting {
                // The driver ends the connection at a value that is not UTF-8, and petal reads none of them.
                passed.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
            }
            bytes = later;
            if self.rest == 0
                && let Some(request) = self.request.take()
            {
                self.login.hear(&request)?;
            }
            let missing = HEADER_BYTES - self.header.len();
            let (header, body) = bytes.split_at_mut(missing.min(bytes.len()));
            self.header.extend_from_slice(header);
            bytes = body;
            if let Some(&[kind, ref length @ ..]) = self.header.first_chunk::<HEADER_BYTES>() {
                let length = u32::from_be_bytes(*length);
                self.header.clear();
                self.rest = self.body_bytes(kind, length)?;
            }
        }
        Ok(())
    }

    fn body_bytes(&mut self, kind: u8, length: u32) -> io::Result<usize> {
        if UNASKED_KINDS.contains(&kind) {
            self.unasked_bytes += u64::from(length);
        }
        let is_request = kind == AUTHENTICATION && !self.login.is_over;
        let max = if is_request { AUTHENTICATION_BYTES_MAX } else { MESSAGE_BYTES_MAX };
        if length > max || self.unasked_bytes > UNASKED_BYTES_MAX {
            return Err(io::Error::other(TOO_LONG));
        }
        self.request = is_request.then(Vec::new);
        self.is_setting = kind == SETTING;
        // The driver refuses a length that does not include itself.
        Ok(length.saturating_sub(LENGTH_BYTES) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::login_watch::RequiredAuth;
    use super::*;

    fn any_login() -> MessageLengths {
        let end = OtherEnd::Known(SocketPeer::Elsewhere);
        MessageLengths::new(LoginWatch::new(LoginRules::default(), end, false))
    }

    fn message(kind: u8, length: u32) -> Vec<u8> {
        [&[kind][..], &length.to_be_bytes()].concat()
    }

    #[test]
    fn a_message_is_refused_at_its_header_however_its_bytes_are_cut() {
        let mut said = Vec::new();
        for kind in *b"TDCZ" {
            said.extend(message(kind, 14));
            said.extend(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
        }
        for cut in 1..said.len() {
            let mut lengths = any_login();
            assert!(said.clone().chunks_mut(cut).all(|piece| lengths.take(piece).is_ok()), "{cut}");
            assert!(lengths.take(&mut message(b'D', MESSAGE_BYTES_MAX + 1)).is_err(), "{cut}");
        }
        assert!(any_login().take(&mut message(b'D', MESSAGE_BYTES_MAX)).is_ok());
    }

    #[test]
    fn unsolicited_messages_of_a_server_are_bounded_in_total() {
        let mut lengths = any_login();
        let mut mebibyte = [message(b'S', 1 << 20), vec![0; (1 << 20) - 4]].concat();
        let taken = (0..100).take_while(|_| lengths.take(&mut mebibyte).is_ok()).count();
        assert_eq!(taken as u64, UNASKED_BYTES_MAX >> 20);
        let mut rows = any_login();
        let mut row = [message(b'D', 1 << 20), vec![0; (1 << 20) - 4]].concat();
        assert!(
            (0..100).all(|_| rows.take(&mut row).is_ok()),
            "rows are bounded where they are kept"
        );
    }

    #[test]
    fn a_request_for_authentication_is_heard_whole_however_its_bytes_are_cut() {
        let mut ask = [message(AUTHENTICATION, 8), 3_i32.to_be_bytes().to_vec()].concat();
        for cut in 1..=ask.len() {
            let required = RequiredAuth::parse("scram-sha-256").unwrap();
            let rules = LoginRules { required, ..LoginRules::default() };
            let end = OtherEnd::Known(SocketPeer::Elsewhere);
            let mut lengths = MessageLengths::new(LoginWatch::new(rules, end, false));
            let refused = ask.chunks_mut(cut).find_map(|piece| lengths.take(piece).err()).unwrap();
            assert!(refused.to_string().contains("require_auth=scram-sha-256"), "{cut}: {refused}");
        }
        let mut long = message(AUTHENTICATION, AUTHENTICATION_BYTES_MAX + 1);
        assert!(any_login().take(&mut long).is_err());
    }

    #[test]
    fn settings_reach_the_driver_in_letters_that_it_takes() {
        let setting = [message(b'S', 9), b"a\0\xe9b\0".to_vec(), message(b'D', 5), vec![0xe9]];
        let whole = setting.concat();
        for cut in 1..=whole.len() {
            let (mut heard, mut lengths) = (whole.clone(), any_login());
            assert!(heard.chunks_mut(cut).all(|piece| lengths.take(piece).is_ok()), "{cut}");
            assert_eq!((heard[7], heard.last()), (b'?', Some(&0xe9)), "{cut}");
        }
    }
}
