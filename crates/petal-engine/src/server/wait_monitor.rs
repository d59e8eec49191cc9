//! Waits outside of a run's operations. A signal ends one and cancels the statement. The caller
//! gets a note that names the lock's holder; the wait for a lock has a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::liveness::{AbortHandle, OneAtATime, TICK};
use crate::Caller;

/// A snapshot of others that is as old is no usual work, in seconds.
pub const OLD_SNAPSHOT_S: u32 = 10;
/// The effect of a snapshot that others hold, for `petal check`.
pub const OLD_SNAPSHOT: &str = "The server keeps each row that is replaced meanwhile: UPDATEs make its files grow, and \
     the figures of a run are then those of a larger set of data.";

/// The server is asked about a wait of this length.
const LOOK_AFTER: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A connection that is not cancelled this long after a signal is given up.
const CANCEL_LIMIT: Duration = Duration::from_millis(2500);
/// The server ends a wait for a lock by itself; if it does not, petal ends it this much later.
const SPARE: Duration = Duration::from_secs(2);

/// A wait of a connection, and the sessions that it waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct LockWait {
    /// Text for a person.
    pub text: String,
    /// The numbers of the sessions that hold it.
    pub holders: Vec<i64>,
}

/// Asks the server for which lock a connection waits; it may take a while.
pub type FindLockHolder = Arc<dyn Fn() -> Option<LockWait> + Send + Sync>;

/// The monitor of one connection.
pub struct WaitMonitor {
    pub server: String,
    pub caller: Option<Caller>,
    /// Asks the server to cancel the statement, on a separate connection.
    pub cancel: Arc<dyn Fn() + Send + Sync>,
    pub find_lock_holder: FindLockHolder,
    /// Limit on the wait for one lock.
    pub limit: Duration,
    pub state: WaitState,
}

/// Facts about the wait under way.
#[derive(Default)]
pub struct WaitState {
    began: Option<Instant>,
    next_look: Duration,
    interrupted_at: Option<Instant>,
    has_given_up: bool,
    cancelling: OneAtATime,
    asking: OneAtATime,
    seen: Arc<Mutex<SeenWait>>,
}

/// The server's last answer, and the holders that the caller has a note of, which the server need not
/// name; `None` without a note.
#[derive(Default)]
struct SeenWait {
    blocked: Option<LockWait>,
    noted: Option<Vec<i64>>,
}

/// Meaning of a failed statement.
#[derive(Debug, PartialEq)]
pub enum WaitEnd {
    /// A signal ended the wait.
    Interrupted,
    /// Another session held a lock for too long; the holders, if the server was asked in time.
    Blocked(Option<LockWait>),
    /// Failed for another reason.
    Failed,
}

impl WaitMonitor {
    fn is_interrupted(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::is_interrupted)
    }

    /// A statement is about to be sent. False after a signal: it must not be.
    pub fn begin(&mut self) -> bool {
        self.state.began = None;
        !self.is_interrupted()
    }

    /// Looks after the wait; called every [`TICK`] until the answer is there.
    pub fn look(&mut self, connection: &AbortHandle) {
        let now = Instant::now();
        if self.is_interrupted() {
            self.cancel();
            if self.state.interrupted_at.get_or_insert(now).elapsed() >= CANCEL_LIMIT {
                connection.abort("interrupted, and no answer to being cancelled");
            }
            return;
        }
        let began = *self.state.began.get_or_insert_with(|| {
            *self.state.seen.lock() = SeenWait::default();
            self.state.next_look = LOOK_AFTER;
            now
        });
        let waited = now - began + TICK;
        if waited >= self.state.next_look {
            self.state.next_look = waited + LOOK_EVERY;
            self.ask();
        }
        if waited >= self.limit + SPARE && self.state.seen.lock().blocked.is_some() {
            self.state.has_given_up = true;
            self.cancel();
        }
    }

    /// Explains a failed statement: the server's own limit for locks, or a cancel.
    pub fn end(&mut self, is_lock_timeout: bool, is_cancelled: bool) -> WaitEnd {
        if self.is_interrupted() {
            WaitEnd::Interrupted
        } else if is_lock_timeout || is_cancelled && self.state.has_given_up {
            WaitEnd::Blocked(self.state.began.and_then(|_| self.state.seen.lock().blocked.take()))
        } else {
            WaitEnd::Failed
        }
    }

    /// A request that does not arrive is sent again.
    fn cancel(&self) {
        let cancel = Arc::clone(&self.cancel);
        self.state.cancelling.start("cancels", move || cancel());
    }

    /// Asks who holds the lock, and notes it to the caller once.
    fn ask(&self) {
        let (state, find_lock_holder) =
            (Arc::clone(&self.state.seen), Arc::clone(&self.find_lock_holder));
        let (caller, server, limit) = (self.caller.clone(), self.server.clone(), self.limit);
        self.state.asking.start("asks who blocks", move || {
            let blocked = find_lock_holder();
            let mut seen = state.lock();
            if let Some(blocked) = &blocked
                && let Some(caller) =
                    caller.filter(|_| seen.noted.as_ref() != Some(&blocked.holders))
            {
                (caller.note)(&format!(
                    "{server}: waiting for {}; petal gives up after {:.0} s",
                    blocked.text,
                    limit.as_secs_f64()
                ));
                seen.noted = Some(blocked.holders.clone());
            }
            seen.blocked = blocked;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::mpsc::{Sender, channel};

    fn monitor(signals: &Arc<AtomicU8>, notes: Sender<String>) -> WaitMonitor {
        let note = move |line: &str| {
            let _ = notes.send(line.to_owned());
        };
        WaitMonitor {
            server: "db1".into(),
            caller: Some(Caller { signals: Arc::clone(signals), note: Arc::new(note) }),
            cancel: Arc::new(|| ()),
            find_lock_holder: Arc::new(|| {
                Some(LockWait { text: "a lock behind process 7".into(), holders: vec![7] })
            }),
            limit: Duration::from_secs(60),
            state: WaitState::default(),
        }
    }

    #[test]
    fn the_lock_holder_is_noted_once_and_named_in_the_error() {
        let (notes, noted) = channel();
        let mut monitor = monitor(&Arc::default(), notes);
        let connection = AbortHandle::new();
        assert!(monitor.begin());
        monitor.look(&connection);
        for _ in 0..2 {
            monitor.state.next_look = Duration::ZERO;
            monitor.look(&connection);
            while monitor.state.seen.lock().blocked.is_none() {
                std::thread::yield_now();
            }
        }
        insta::assert_snapshot!(noted.recv().unwrap(), @"db1: waiting for a lock behind process 7; petal gives up after 60 s");
        assert_eq!(monitor.end(false, true), WaitEnd::Failed, "somebody else cancelled it");
        let WaitEnd::Blocked(Some(by)) = monitor.end(true, false) else { panic!("not blocked") };
        assert_eq!(by.holders, [7]);
        assert!(noted.try_recv().is_err());
    }

    #[test]
    fn a_lock_whose_holder_is_not_known_is_noted_once() {
        let (notes, noted) = channel();
        let mut monitor = monitor(&Arc::default(), notes);
        let text = || "a lock (Waiting for backup lock)".to_owned();
        monitor.find_lock_holder =
            Arc::new(move || Some(LockWait { text: text(), holders: Vec::new() }));
        let connection = AbortHandle::new();
        assert!(monitor.begin());
        monitor.look(&connection);
        for _ in 0..2 {
            monitor.state.next_look = Duration::ZERO;
            monitor.look(&connection);
            while monitor.state.seen.lock().blocked.take().is_none() {
                std::thread::yield_now();
            }
        }
        assert!(noted.recv_timeout(Duration::from_secs(60)).unwrap().contains("backup lock"));
        assert!(noted.try_recv().is_err());
    }

    #[test]
    fn a_signal_ends_the_wait_and_nothing_is_sent_after_it() {
        let signals = Arc::<AtomicU8>::default();
        let mut monitor = monitor(&signals, channel().0);
        let (cancels, cancelled) = channel();
        monitor.cancel = Arc::new(move || {
            let _ = cancels.send(());
        });
        assert!(monitor.begin());
        signals.store(1, Ordering::Relaxed);
        let connection = AbortHandle::new();
        monitor.look(&connection);
        cancelled.recv().unwrap();
        assert_eq!(connection.reason(), None);
        assert_eq!(monitor.end(false, true), WaitEnd::Interrupted);
        assert!(!monitor.begin());
    }
}
