//! Poolers, such as PgBouncer, noticed before petal sends a setting. A server greets a connection
//! with its process and a key, by which a statement is cancelled. A pooler hands out a process of
//! its own, because it changes servers between transactions.
//!
//! The driver keeps the process to itself and shows it in one place: a request to cancel, which is
//! written here into memory.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// Length, code, process and key, four bytes each.
const REQUEST_BYTES: usize = 16;

/// Returns the process by which the peer greeted, or `None` if it gave none.
pub async fn greeted_process(token: &CancelToken) -> Option<i32> {
    let mut written = InMemoryPeer::default();
    token.cancel_query_raw(&mut written, NoCipher).await.ok()?;
    let request = written.0.last_chunk::<REQUEST_BYTES>()?;
    let process = i32::from_be_bytes(*request[8..].first_chunk()?);
    (process != 0).then_some(process)
}

/// A peer in memory: it keeps what it gets and says nothing.
#[derive(Default)]
struct InMemoryPeer(Vec<u8>);

impl AsyncRead for InMemoryPeer {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for InMemoryPeer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for &mut InMemoryPeer {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// A connector that leaves the stream as it is.
struct NoCipher;

impl<'a> TlsConnect<&'a mut InMemoryPeer> for NoCipher {
    type Stream = &'a mut InMemoryPeer;
    type Error = io::Error;
    type Future = Ready<io::Result<&'a mut InMemoryPeer>>;

    fn connect(self, stream: &'a mut InMemoryPeer) -> Self::Future {
        ready(Ok(stream))
    }
}
