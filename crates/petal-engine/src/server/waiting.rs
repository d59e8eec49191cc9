//! A connection that waits for its next step, as that of a load's last steps and of a run's lock do. Proxies and
//! firewalls close connections on which nothing passes, so a thread asks the server something now and then.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::Result;
use crate::threads::Thread;

/// The time between two questions: proxies wait for five seconds and more.
pub const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A connection of the driver that is kept in use. It closes when this is dropped.
pub struct WaitingConnection<C> {
    client: Arc<Mutex<C>>,
    /// The thread ends when this closes.
    _end: Sender<()>,
}

impl<C: Send + 'static> WaitingConnection<C> {
    /// Asks by `ask`, which ignores failures: the next step reports them.
    pub fn new(client: C, ask: impl Fn(&mut C) + Send + 'static) -> Result<Self> {
        let client = Arc::new(Mutex::new(client));
        let (end, ended) = channel();
        let asked = Arc::downgrade(&client);
        Thread::named("keep-alive").start(move || {
            while ended.recv_timeout(KEEP_ALIVE) == Err(RecvTimeoutError::Timeout) {
                let Some(client) = asked.upgrade() else { return };
                // A step under way passes bytes itself.
                if let Some(mut client) = client.try_lock() {
                    ask(&mut client);
                }
            }
        })?;
        Ok(Self { client, _end: end })
    }
}

impl<C> WaitingConnection<C> {
    pub fn lock(&self) -> MutexGuard<'_, C> {
        self.client.lock()
    }
}
