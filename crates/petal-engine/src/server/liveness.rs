//! Limits on the wait for an answer, and the steps if no answer comes. A peer that keeps its
//! connection and says nothing (a stopped server, a network that swallows packets) would otherwise
//! hold petal for ever. No SQL is here, and nothing connects: an engine brings both.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::threads::Thread;
use crate::{EngineError, Result, Stop};

/// The silence after which a connection is checked.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The time between two looks at a wait.
pub const TICK: Duration = Duration::from_millis(100);
/// The server says so often that it works on nothing before the connection is given up.
const IDLE_MAX: u32 = 2;
/// Work that does not end so long after it was first cancelled is given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(15);

/// Limit on a connection's wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutPolicy {
    /// A look at the server's own figures: it is answered within [`SILENCE`], or given up.
    AnswerSoon,
    /// Work of any length, as long as the server answers on another connection.
    WhileServerLives,
    /// An operation of a run: the runner aborts it when its time is over.
    UntilAborted,
}

impl TimeoutPolicy {
    /// The policy of a batch: before a run's deadline is known, nothing aborts it.
    pub fn of_batch(stop: &Stop) -> Self {
        match stop.planned() {
            Some(_) => Self::UntilAborted,
            None => Self::WhileServerLives,
        }
    }
}

/// State of a connection by its server, asked on another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// The server works on the connection's statement, or at least answers.
    Working,
    /// The server waits for petal, or does not know the connection: a question or an answer was
    /// lost.
    Idle,
    /// The server does not answer there either, for this reason.
    Silent(String),
}

/// Gives a connection up from another thread.
pub struct AbortHandle {
    reason: OnceLock<String>,
    waiting: Mutex<Option<Waker>>,
}

impl AbortHandle {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { reason: OnceLock::new(), waiting: Mutex::default() })
    }

    /// Gives the connection up: who waits on it gets this reason. The first reason stays.
    pub fn abort(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        let waker = self.waiting.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Why the connection was given up, if it was.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Why the connection was given up; wakes the task of `context` when that changes.
    pub fn poll_reason(&self, context: &Context<'_>) -> Option<&str> {
        let mut waiting = self.waiting.lock();
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        drop(waiting);
        self.reason()
    }
}

/// Applies a timeout policy to one connection.
pub struct ConnectionWatch {
    pub policy: TimeoutPolicy,
    pub silence: Duration,
    connection: Arc<AbortHandle>,
    check: Option<Arc<SilenceCheck>>,
    checking: OneAtATime,
}

/// A check of a silent connection.
struct SilenceCheck {
    ask_server: Box<dyn Fn() -> ServerState + Send + Sync>,
    idle_in_a_row: AtomicU32,
}

impl ConnectionWatch {
    pub fn new(connection: Arc<AbortHandle>, policy: TimeoutPolicy, silence: Duration) -> Self {
        Self { policy, silence, connection, check: None, checking: OneAtATime::default() }
    }

    /// Sets how the server is asked about the connection, on another one. It may take a while.
    pub fn ask_with(&mut self, ask_server: impl Fn() -> ServerState + Send + Sync + 'static) {
        let ask_server = Box::new(ask_server);
        self.check = Some(Arc::new(SilenceCheck { ask_server, idle_in_a_row: AtomicU32::new(0) }));
    }

    /// Call this when a wait begins: an answer about an earlier wait does not count for it.
    pub fn begin_wait(&self) {
        if let Some(check) = &self.check {
            check.idle_in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// Call this when the peer has been silent for [`Self::silence`], and each time it was again.
    pub fn on_silence(&self) {
        match (self.policy, &self.check) {
            (TimeoutPolicy::AnswerSoon, _) => self.connection.abort(no_answer(self.silence)),
            (TimeoutPolicy::WhileServerLives, Some(check)) => {
                let (check, connection) = (Arc::clone(check), Arc::clone(&self.connection));
                let silence = self.silence;
                self.checking.start("connection check", move || {
                    check.judge(&(check.ask_server)(), &connection, silence);
                });
            }
            _ => {}
        }
    }
}

impl SilenceCheck {
    fn judge(&self, state: &ServerState, connection: &AbortHandle, silence: Duration) {
        match state {
            ServerState::Working => self.idle_in_a_row.store(0, Ordering::Relaxed),
            ServerState::Idle => {
                if self.idle_in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= IDLE_MAX {
                    connection
                        .abort("no answer, and the server has no work of this connection's left");
                }
            }
            ServerState::Silent(reason) => connection
                .abort(format!("{}, and none on another connection: {reason}", no_answer(silence))),
        }
    }
}

pub fn no_answer(limit: Duration) -> String {
    format!("no answer for {} s", limit.as_secs())
}

/// A task that runs on a separate thread, and never twice at once.
#[derive(Default)]
pub struct OneAtATime(Arc<AtomicBool>);

/// Ends with the task, also if no thread could be started for it.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl OneAtATime {
    /// Starts the task, unless one is under way. A task that finds no thread is not run.
    pub fn start(&self, name: &str, task: impl FnOnce() + Send + 'static) {
        if self.0.swap(true, Ordering::AcqRel) {
            return;
        }
        let running = Running(Arc::clone(&self.0));
        let _ = Thread::named(name).start(move || {
            task();
            drop(running);
        });
    }
}

/// Does work of unknown length, such as a load or a VACUUM. As soon as `is_over`, asks the server
/// to cancel it, until it ends; the error is then `Interrupted`. Calls `meanwhile` every [`TICK`].
pub fn until_over<T>(
    connection: &AbortHandle,
    cancel: &(dyn Fn() + Sync),
    is_over: &(dyn Fn() -> bool + Sync),
    meanwhile: &(dyn Fn() + Sync),
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = Thread::named("watcher").start_in(scope, || {
            let mut over_since: Option<Instant> = None;
            while !ended.load(Ordering::Relaxed) {
                if is_over() {
                    cancel();
                    if over_since.get_or_insert_with(Instant::now).elapsed() > CANCEL_LIMIT {
                        connection.abort("no answer, nor to being cancelled");
                    }
                }
                meanwhile();
                std::thread::park_timeout(TICK);
            }
        })?;
        let result = work();
        ended.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        result.map_err(|error| if is_over() { EngineError::Interrupted } else { error })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> SilenceCheck {
        let ask_server = Box::new(|| ServerState::Working);
        SilenceCheck { ask_server, idle_in_a_row: AtomicU32::new(0) }
    }

    #[test]
    fn a_server_that_works_is_waited_for_and_one_that_forgot_is_not() {
        let (check, connection) = (check(), AbortHandle::new());
        use ServerState::{Idle, Working};
        for state in [Working, Idle, Working, Idle] {
            check.judge(&state, &connection, SILENCE);
            assert_eq!(connection.reason(), None, "{state:?}");
        }
        check.judge(&Idle, &connection, SILENCE);
        assert!(connection.reason().unwrap().contains("no work"));
    }

    #[test]
    fn the_servers_words_on_an_earlier_wait_do_not_count() {
        let connection = AbortHandle::new();
        let mut watch =
            ConnectionWatch::new(Arc::clone(&connection), TimeoutPolicy::WhileServerLives, SILENCE);
        watch.ask_with(|| ServerState::Idle);
        for _ in 0..3 {
            watch.begin_wait();
            let check = watch.check.as_ref().unwrap();
            check.judge(&ServerState::Idle, &connection, SILENCE);
            assert_eq!(connection.reason(), None);
        }
    }

    #[test]
    fn silence_on_both_connections_is_named_in_the_words_of_the_second() {
        let (check, connection) = (check(), AbortHandle::new());
        check.judge(&ServerState::Silent("timed out".into()), &connection, SILENCE);
        insta::assert_snapshot!(connection.reason().unwrap(), @"no answer for 10 s, and none on another connection: timed out");
        connection.abort("later");
        assert!(!connection.reason().unwrap().contains("later"), "the first reason stays");
    }

    #[test]
    fn each_policy_says_what_becomes_of_a_silent_connection() {
        let reason = |policy, state: Option<ServerState>| {
            let connection = AbortHandle::new();
            let mut watch = ConnectionWatch::new(Arc::clone(&connection), policy, SILENCE);
            let (asked, answered) = std::sync::mpsc::channel();
            let is_asked = state.is_some();
            if let Some(state) = state {
                watch.ask_with(move || {
                    let _ = asked.send(());
                    state.clone()
                });
            }
            watch.on_silence();
            if is_asked {
                answered.recv().unwrap();
            }
            while watch.checking.0.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            connection.reason().map(str::to_owned)
        };
        let soon = reason(TimeoutPolicy::AnswerSoon, None);
        assert_eq!(soon.as_deref(), Some("no answer for 10 s"));
        assert_eq!(reason(TimeoutPolicy::UntilAborted, None), None);
        assert_eq!(reason(TimeoutPolicy::WhileServerLives, None), None, "nobody can be asked");
        let lives = |state| reason(TimeoutPolicy::WhileServerLives, Some(state));
        assert_eq!(lives(ServerState::Working), None);
        assert!(lives(ServerState::Silent("gone".into())).unwrap().ends_with("gone"));
    }

    #[test]
    fn work_that_is_over_is_cancelled_until_it_ends() {
        let connection = AbortHandle::new();
        let cancelled = AtomicBool::new(false);
        let cancel = || cancelled.store(true, Ordering::Relaxed);
        let wait = || {
            while !cancelled.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Err::<(), _>(EngineError::Database("cancelled".into()))
        };
        let ended = until_over(&connection, &cancel, &|| true, &|| (), wait);
        assert!(matches!(ended, Err(EngineError::Interrupted)));
        let ended = until_over(&connection, &|| panic!(), &|| false, &|| (), || Ok(7));
        assert_eq!(ended.unwrap(), 7);
    }
}
