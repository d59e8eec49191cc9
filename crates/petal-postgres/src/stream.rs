//! The bytes of a connection: TLS by libpq's sslmode, and a bound for each message of the server.
//!
//! The driver keeps a message until all of it is there, and a message may claim 2 GiB. It shows a
//! stream to others only if that is TLS from its first byte. So petal asks the server for TLS
//! itself, and has the driver take each connection for such a stream.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf, duplex};
use tokio::net::UnixStream;
use tokio_postgres::config::{SslMode as DriverSslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::options::SslMode;
use petal_engine::server::answer::TOO_LONG;

/// No row and no text that petal asks for is as long.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// All that a server says without a question, such as its settings: the driver may keep it.
const UNASKED_BYTES_MAX: u64 = 64 << 20;
const UNASKED_KINDS: &[u8] = b"ANS";
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

/// The way to one server.
#[derive(Clone)]
pub struct ServerConnector {
    tls: MakeRustlsConnect,
    mode: SslMode,
    /// The server's socket on this host; otherwise the driver's settings name a host.
    socket: Option<PathBuf>,
}

impl ServerConnector {
    pub fn to_host(tls: MakeRustlsConnect, mode: SslMode) -> Self {
        Self { tls, mode, socket: None }
    }

    /// Makes a connector to a socket: nobody is in between, and servers do not speak TLS on
    /// sockets.
    pub fn to_socket(tls: MakeRustlsConnect, socket: PathBuf) -> Self {
        Self { tls, mode: SslMode::Disable, socket: Some(socket) }
    }

    /// Settings with which the driver gives each stream to a connector.
    pub fn config() -> Config {
        let mut config = Config::new();
        config.ssl_mode(DriverSslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        config
    }

    pub async fn connect(&self, config: &Config) -> Result<(Client, Incoming), ConnectError> {
        let Some(socket) = &self.socket else {
            let (client, mut connection) = config.connect(self.clone()).await?;
            return Ok((client, Box::new(move |context| connection.poll_message(context))));
        };
        let stream = UnixStream::connect(socket).await.map_err(ConnectError::Socket)?;
        let (client, mut connection) = config.connect_raw(stream, self.named("")).await?;
        Ok((client, Box::new(move |context| connection.poll_message(context))))
    }

    /// Asks the server to cancel a statement. No answer says whether it did.
    pub async fn cancel(&self, token: &CancelToken) {
        let Some(socket) = &self.socket else {
            let _ = token.cancel_query(self.clone()).await;
            return;
        };
        if let Ok(stream) = UnixStream::connect(socket).await {
            let _ = token.cancel_query_raw(stream, self.named("")).await;
        }
    }

    /// Returns the process of the peer's greeting, or `None` if it gave none. A pooler, such as
    /// PgBouncer, greets with its own process, because it changes servers between transactions. The
    /// driver shows the process in one place: a request to cancel, which is written into memory here.
    pub async fn greeted_process(&self, token: &CancelToken) -> Option<i32> {
        let (peer, mut written) = duplex(2 * REQUEST_BYTES);
        let plain = Self { mode: SslMode::Disable, ..self.clone() };
        token.cancel_query_raw(peer, plain.named("")).await.ok()?;
        let mut request = [0; REQUEST_BYTES];
        written.read_exact(&mut request).await.ok()?;
        let process = i32::from_be_bytes(*request[8..].first_chunk()?);
        (process != 0).then_some(process)
    }

    fn named(&self, host: &str) -> NamedConnector {
        NamedConnector { connector: self.clone(), host: host.to_owned() }
    }
}

/// Why there is no connection.
pub enum ConnectError {
    Failed(Error),
    Socket(io::Error),
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<S: Transport> MakeTlsConnect<S> for ServerConnector {
    type Stream = BoundedStream<S>;
    type TlsConnect = NamedConnector;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<NamedConnector, Infallible> {
        Ok(self.named(host))
    }
}

/// A connector, and the host that a certificate has to name.
pub struct NamedConnector {
    connector: ServerConnector,
    host: String,
}

impl NamedConnector {
    async fn protect<S: Transport>(self, mut stream: S) -> io::Result<Bytes<S>> {
        let Self { connector: ServerConnector { mut tls, mode, .. }, host } = self;
        if mode == SslMode::Disable {
            return Ok(Bytes::Plain(stream));
        }
        stream.write_all(&TLS_REQUEST).await?;
        match stream.read_u8().await? {
            TAKES_TLS => {
                let Ok(connect) = MakeTlsConnect::<S>::make_tls_connect(&mut tls, &host);
                Ok(Bytes::Tls(connect.connect(stream).await?))
            }
            _ if mode == SslMode::Prefer => Ok(Bytes::Plain(stream)),
            _ => Err(io::Error::other("server does not support TLS")),
        }
    }
}

impl<S: Transport> TlsConnect<S> for NamedConnector {
    type Stream = BoundedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<BoundedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async {
            let bytes = self.protect(stream).await?;
            Ok(BoundedStream { bytes, messages: MessageLengths::default() })
        })
    }
}

enum Bytes<S: Transport> {
    Plain(S),
    Tls(<MakeRustlsConnect as MakeTlsConnect<S>>::Stream),
}

/// A stream that fails at a message longer than any that petal asks for.
pub struct BoundedStream<S: Transport> {
    bytes: Bytes<S>,
    messages: MessageLengths,
}

impl<S: Transport> BoundedStream<S> {
    fn bytes(&mut self) -> Pin<&mut dyn Transport> {
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream),
            Bytes::Tls(stream) => Pin::new(stream),
        }
    }
}

impl<S: Transport> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(self.bytes().poll_read(context, into))?;
        Poll::Ready(self.messages.take(&into.filled()[before..]))
    }
}

impl<S: Transport> AsyncWrite for BoundedStream<S> {
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

impl<S: Transport> TlsStream for BoundedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.bytes {
            Bytes::Plain(_) => ChannelBinding::none(),
            Bytes::Tls(stream) => stream.channel_binding(),
        }
    }
}

/// The headers in the bytes of a server, which come in pieces of any length.
#[derive(Default)]
struct MessageLengths {
    header: Vec<u8>,
    /// Bytes of the message under way that are still to come.
    rest: usize,
    unasked_bytes: u64,
}

impl MessageLengths {
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let passed = bytes.len().min(self.rest);
            self.rest -= passed;
            bytes = &bytes[passed..];
            let missing = HEADER_BYTES - self.header.len();
            let (header, body) = bytes.split_at(missing.min(bytes.len()));
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
        if length > MESSAGE_BYTES_MAX || self.unasked_bytes > UNASKED_BYTES_MAX {
            return Err(io::Error::other(TOO_LONG));
        }
        // The driver refuses a length that does not include itself.
        Ok(length.saturating_sub(LENGTH_BYTES) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut lengths = MessageLengths::default();
            assert!(said.chunks(cut).all(|piece| lengths.take(piece).is_ok()), "{cut}");
            assert!(lengths.take(&message(b'D', MESSAGE_BYTES_MAX + 1)).is_err(), "{cut}");
        }
        assert!(MessageLengths::default().take(&message(b'D', MESSAGE_BYTES_MAX)).is_ok());
    }

    #[test]
    fn unsolicited_messages_of_a_server_are_bounded_in_total() {
        let mut lengths = MessageLengths::default();
        let mebibyte = [message(b'S', 1 << 20), vec![0; (1 << 20) - 4]].concat();
        let taken = (0..100).take_while(|_| lengths.take(&mebibyte).is_ok()).count();
        assert_eq!(taken as u64, UNASKED_BYTES_MAX >> 20);
        let mut rows = MessageLengths::default();
        let row = [message(b'D', 1 << 20), vec![0; (1 << 20) - 4]].concat();
        assert!((0..100).all(|_| rows.take(&row).is_ok()), "rows are bounded where they are kept");
    }
}
