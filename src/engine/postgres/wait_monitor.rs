//! What is done while a connection waits for an answer outside of a run's operations: a signal ends
//! the waiting and has the server cancel the statement; who holds up a lock is asked and told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::client::{CancelToken, Error};
use super::lock_wait::LockWait;
use super::patience::Line;
use crate::engine::Caller;
use crate::engine::threads::Thread;

/// Between two looks at a wait.
pub const TICK: Duration = Duration::from_millis(100);
/// A wait of this length is asked about.
const LOOK_AFTER: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A connection that does not hear its cancelling so long after a signal is given up.
const UNHEARD: Duration = Duration::from_millis(2500);
/// The server ends a wait for a lock itself; where it does not, petal does so much later.
const SPARE: Duration = Duration::from_secs(2);

/// Asks the server for what a connection waits; it may take a while.
pub type WhoBlocks = Arc<dyn Fn() -> Option<LockWait> + Send + Sync>;

/// The monitor of one connection.
pub struct WaitMonitor {
    pub server: String,
    pub caller: Option<Caller>,
    pub token: Arc<CancelToken>,
    pub who_blocks: WhoBlocks,
    /// How long one lock is waited for.
    pub limit: Duration,
    pub state: State,
}

/// What is known of the wait under way.
#[derive(Default)]
pub struct State {
    began: Option<Instant>,
    next_look: Duration,
    interrupted_at: Option<Instant>,
    has_given_up: bool,
    is_cancelling: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

/// What the server said last, and what a person was told.
#[derive(Default)]
struct Seen {
    is_asking: bool,
    blocked: Option<LockWait>,
    told: Vec<i32>,
}

impl WaitMonitor {
    fn is_interrupted(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::is_interrupted)
    }

    /// A statement is about to be sent. None is, after a signal.
    pub fn begin(&mut self) -> Result<(), Error> {
        if self.is_interrupted() {
            return Err(Error::Interrupted);
        }
        self.state.began = None;
        Ok(())
    }

    /// Looks after the wait; called every [`TICK`] until the answer is there.
    pub fn look(&mut self, line: &Line) {
        let now = Instant::now();
        if self.is_interrupted() {
            self.cancel();
            if self.state.interrupted_at.get_or_insert(now).elapsed() >= UNHEARD {
                line.abort("interrupted, and no answer to being cancelled");
            }
            return;
        }
        let began = *self.state.began.get_or_insert_with(|| {
            *self.state.seen.lock() = Seen::default();
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

    /// What a failed statement comes to.
    pub fn explained(&mut self, error: Error) -> Error {
        if self.is_interrupted() {
            return Error::Interrupted;
        }
        let code = error.code().map(|code| code.code().to_owned());
        let is_lock = code.as_deref() == Some(LOCK_TIMEOUT)
            || (code.as_deref() == Some(CANCELLED) && self.state.has_given_up);
        if !is_lock {
            return error;
        }
        let Error::Failed(error) = error else { return error };
        let by = self.state.began.and_then(|_| self.state.seen.lock().blocked.take());
        Error::Blocked { error, limit: self.limit, by }
    }

    /// Asks the server to cancel the statement, from a thread of its own.
    fn cancel(&self) {
        let is_cancelling = Arc::clone(&self.state.is_cancelling);
        if is_cancelling.swap(true, Ordering::AcqRel) {
            return;
        }
        let token = Arc::clone(&self.token);
        let started = Thread::named("cancels").start(move || {
            // One that does not arrive is sent again.
            let _ = token.cancel();
            is_cancelling.store(false, Ordering::Release);
        });
        if started.is_err() {
            self.state.is_cancelling.store(false, Ordering::Release);
        }
    }

    /// Asks who is in the way, from a thread of its own, and tells it once.
    fn ask(&self) {
        if std::mem::replace(&mut self.state.seen.lock().is_asking, true) {
            return;
        }
        let (state, who_blocks) = (Arc::clone(&self.state.seen), Arc::clone(&self.who_blocks));
        let (caller, server, limit) = (self.caller.clone(), self.server.clone(), self.limit);
        let started = Thread::named("asks who blocks").start(move || {
            let blocked = who_blocks();
            let mut seen = state.lock();
            seen.is_asking = false;
            if let Some(blocked) = &blocked {
                let processes = blocked.processes();
                if let Some(caller) = caller.filter(|_| seen.told != processes) {
                    (caller.note)(&format!(
                        "{server}: waiting for {blocked}; petal gives up after {:.0} s",
                        limit.as_secs_f64()
                    ));
                    seen.told = processes;
                }
            }
            seen.blocked = blocked;
        });
        if started.is_err() {
            self.state.seen.lock().is_asking = false;
        }
    }
}

/// The SQLSTATE of a lock that was waited for too long, and of a statement that was cancelled.
const LOCK_TIMEOUT: &str = "55P03";
const CANCELLED: &str = "57014";
