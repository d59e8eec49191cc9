//! How long an answer is waited for, and how waiting ends when none comes. A peer that keeps its
//! connection and says nothing (a stopped server, a stalled proxy) would else hold petal for ever.
//! No SQL here, and nothing that connects: whoever opens a connection says how to ask after it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::engine::threads::Thread;

/// Silence after which a connection is doubted.
pub const SILENCE: Duration = Duration::from_secs(10);

/// The server is asked after a connection so often in vain before it is believed to be forgotten.
const FORGOTTEN_AFTER: u32 = 2;

/// What a question may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A look at what the server tells: answered within [`SILENCE`], or not worth waiting for.
    Short,
    /// Work of any length, as long as the server still answers on another connection.
    WhileItLives,
    /// A run's operations: their time is over when the run's is, and whoever drives it aborts.
    UntilSevered,
}

/// What the server says of a connection, asked on another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Working,
    /// It waits for petal, or is not known: what was asked or answered got lost.
    Idle,
    /// No answer there either, in these words.
    Silent(String),
}

/// How to ask after a connection; it may take a while.
pub type AskAfter = Box<dyn Fn() -> Standing + Send + Sync>;

/// One connection as other threads see it: who waits on it can be told to give up.
pub struct Line {
    given_up: OnceLock<String>,
    waiting: Mutex<Option<Waker>>,
    ask_after: OnceLock<AskAfter>,
    is_asking: AtomicBool,
    idle_in_a_row: AtomicU32,
}

impl Line {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            given_up: OnceLock::new(),
            waiting: Mutex::default(),
            ask_after: OnceLock::new(),
            is_asking: AtomicBool::new(false),
            idle_in_a_row: AtomicU32::new(0),
        })
    }

    /// Whom to ask when the peer is silent; the first counts.
    pub fn on_silence(&self, ask_after: AskAfter) {
        let _ = self.ask_after.set(ask_after);
    }

    /// Gives the connection up: who waits on it, now or later, gets an error with these words.
    pub fn abort(&self, words: impl Into<String>) {
        let _ = self.given_up.set(words.into());
        let waker = self.waiting.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Why it was given up, if it was.
    pub fn given_up(&self) -> Option<&str> {
        self.given_up.get().map(String::as_str)
    }

    /// The same, for one who waits and is woken when that changes.
    pub fn poll_given_up(&self, context: &Context<'_>) -> Option<&str> {
        let mut waiting = self.waiting.lock();
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        drop(waiting);
        self.given_up()
    }

    /// The peer has been silent for [`SILENCE`]: asks after the connection, from a thread of its
    /// own, and aborts it unless the server says that it works.
    pub fn doubt(self: &Arc<Self>) {
        if self.ask_after.get().is_none() || self.is_asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let line = Arc::clone(self);
        let started = Thread::named("asks after").start(move || {
            if let Some(ask_after) = line.ask_after.get() {
                line.judge(&ask_after());
            }
            line.is_asking.store(false, Ordering::Release);
        });
        // Who finds no thread asks at the next silence.
        if started.is_err() {
            self.is_asking.store(false, Ordering::Release);
        }
    }

    fn judge(&self, standing: &Standing) {
        match standing {
            Standing::Working => self.idle_in_a_row.store(0, Ordering::Relaxed),
            Standing::Idle => {
                if self.idle_in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= FORGOTTEN_AFTER {
                    self.abort("no answer, and the server has no work of this connection's left");
                }
            }
            Standing::Silent(words) => self.abort(format!(
                "no answer for {} s, and none on another connection: {words}",
                SILENCE.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_works_is_waited_for_and_one_that_forgot_is_not() {
        let line = Line::new();
        for standing in [Standing::Working, Standing::Idle, Standing::Working, Standing::Idle] {
            line.judge(&standing);
            assert_eq!(line.given_up(), None, "{standing:?}");
        }
        line.judge(&Standing::Idle);
        assert!(line.given_up().unwrap().contains("no work"));
    }

    #[test]
    fn silence_on_both_connections_is_told_in_the_words_of_the_second() {
        let line = Line::new();
        line.judge(&Standing::Silent("timed out".into()));
        insta::assert_snapshot!(line.given_up().unwrap(), @"no answer for 10 s, and none on another connection: timed out");
        line.abort("later");
        assert!(!line.given_up().unwrap().contains("later"), "the first reason stays");
    }
}
