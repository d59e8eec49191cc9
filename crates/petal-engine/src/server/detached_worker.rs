//! Drivers that block their thread and give no way to end a call: a driver's value lives on a
//! separate thread, which is left behind if no answer comes. Nothing here knows the driver.
//!
//! A driver that panics is left behind, too, at the very place: unwinding would run its
//! destructors, and a second panic in one of them ends the whole process. `catch_unwind` does not
//! help: the driver's call owns the value with that destructor, so no other code can keep it from
//! running. The thread sleeps from then on; the connection stays open until petal ends. A test of
//! it needs a separate process, because the standard library's lock on panic hooks stays held:
//! `tests/integration/oracle_speaks.rs`.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use super::liveness::{AbortHandle, TICK};
use crate::threads::{Thread, ThreadError};

/// A session's thread needs little stack, as the run's own sessions.
const STACK_BYTES: usize = 512 << 10;

/// The reason why a worker is given up whose driver panicked begins so; the panic's words follow.
pub const DRIVER_FAILED: &str = "the driver failed at the answer";

type OnPanic = Box<dyn FnOnce(String)>;

thread_local! {
    /// Takes the words of a panic of the driver that works on this thread.
    static ON_PANIC: RefCell<Option<OnPanic>> = const { RefCell::new(None) };
}

/// Leaves this thread behind at a panic, without a trace; `then` gets the panic's words.
fn leave_behind_on_panic(then: impl FnOnce(String) + 'static) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let then = ON_PANIC.try_with(|then| then.take());
            let Some(then) = then.ok().flatten() else { return usual(panic) };
            then(words(panic));
            loop {
                std::thread::park();
            }
        }));
    });
    ON_PANIC.set(Some(Box::new(then)));
}

/// Text of a panic, and its place in the driver.
fn words(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no words");
    let place = panic.location().map_or_else(String::new, |place| {
        let file = place.file().rsplit_once("src/").map_or(place.file(), |(_, file)| file);
        format!(", {file}:{}", place.line())
    });
    format!("{DRIVER_FAILED}: {message}{place}")
}

type WorkerJob<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A `T` and the thread that works with it.
pub struct DetachedWorker<T> {
    jobs: Option<Sender<WorkerJob<T>>>,
    /// Ends with the thread.
    thread: Receiver<()>,
    /// Timeout of a drop for the thread's end.
    end_limit: Duration,
    connection: Arc<AbortHandle>,
}

impl<T: Send + 'static> DetachedWorker<T> {
    /// `connection` gives the worker up; dropping waits `end_limit` until `T` is dropped, too.
    pub fn new(
        name: &str,
        value: T,
        connection: Arc<AbortHandle>,
        end_limit: Duration,
    ) -> Result<Self, ThreadError> {
        let (jobs, waiting) = channel::<WorkerJob<T>>();
        let (alive, thread) = channel();
        let panicked = Arc::clone(&connection);
        Thread::named(name).stack_bytes(STACK_BYTES).start(move || {
            leave_behind_on_panic(move |words| panicked.abort(words));
            let mut value = value;
            for job in waiting {
                job(&mut value);
            }
            drop(value);
            drop(alive);
        })?;
        Ok(Self { jobs: Some(jobs), thread, end_limit, connection })
    }

    /// Executes a job on the worker's thread and returns its result, or the reason why the worker
    /// was given up. While it waits it calls `on_tick` with the time that it has waited.
    pub fn run<R: Send + 'static>(
        &mut self,
        tick: Duration,
        on_tick: &mut dyn FnMut(Duration),
        job: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, String> {
        let (sender, answer) = channel();
        if let Some(jobs) = self.jobs.as_ref().filter(|_| self.connection.reason().is_none()) {
            // A job that was given up with its thread is dropped.
            let _ = jobs.send(Box::new(move |value| {
                let _ = sender.send(job(value));
            }));
        }
        let begin = Instant::now();
        while self.connection.reason().is_none() {
            match answer.recv_timeout(tick.min(TICK)) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => self.connection.abort(DRIVER_FAILED),
                Err(RecvTimeoutError::Timeout) => on_tick(begin.elapsed()),
            }
        }
        // It may have answered meanwhile.
        answer.try_recv().map_err(|_| {
            self.end_limit = Duration::ZERO;
            self.connection.reason().unwrap_or_default().to_owned()
        })
    }
}

impl<T> Drop for DetachedWorker<T> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // It has ended, or is left behind.
        let _ = self.thread.recv_timeout(self.end_limit);
    }
}

/// Why [`within`] has no result.
pub enum NoAnswer {
    NoThread(ThreadError),
    TooLate,
    /// The driver panicked, in these words.
    Failed(String),
}

/// Returns the result of `job`, from a thread that is left behind if it takes longer than `limit`.
pub fn within<R: Send + 'static>(
    name: &str,
    limit: Duration,
    job: impl FnOnce() -> R + Send + 'static,
) -> Result<R, NoAnswer> {
    let (sender, answer) = channel();
    let started = Thread::named(name).start(move || {
        let failed = sender.clone();
        leave_behind_on_panic(move |words| {
            let _ = failed.send(Err(words));
        });
        let _ = sender.send(Ok(job()));
    });
    started.map_err(NoAnswer::NoThread)?;
    match answer.recv_timeout(limit) {
        Ok(result) => result.map_err(NoAnswer::Failed),
        Err(RecvTimeoutError::Timeout) => Err(NoAnswer::TooLate),
        Err(RecvTimeoutError::Disconnected) => Err(NoAnswer::Failed(DRIVER_FAILED.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour() -> Duration {
        Duration::from_secs(3600)
    }

    fn worker<T: Send + 'static>(value: T) -> DetachedWorker<T> {
        DetachedWorker::new("test", value, AbortHandle::new(), hour()).unwrap()
    }

    #[test]
    fn a_worker_does_its_jobs_in_order_and_ends_with_its_value() {
        let mut worker = worker(vec![1]);
        worker.run(TICK, &mut |_| (), |all| all.push(2)).unwrap();
        assert_eq!(worker.run(TICK, &mut |_| (), |all| all.clone()).unwrap(), [1, 2]);
    }

    #[test]
    fn an_aborted_worker_stays_so_and_no_thread_waits_for_its_end() {
        let (_never, silent) = channel::<()>();
        let mut worker = worker(silent);
        let connection = Arc::clone(&worker.connection);
        let mut on_tick = |_| connection.abort("no answer");
        let tick = Duration::from_millis(1);
        let ended = worker.run(tick, &mut on_tick, |silent| silent.recv().is_ok());
        assert_eq!(ended.unwrap_err(), "no answer");
        assert_eq!(worker.run(tick, &mut |_| (), |_| true).unwrap_err(), "no answer");
    }

    #[test]
    fn a_job_that_takes_longer_than_its_limit_is_left_behind() {
        let (_never, silent) = channel::<()>();
        let late = within("test", Duration::ZERO, move || silent.recv().is_ok());
        assert!(matches!(late, Err(NoAnswer::TooLate)));
    }
}
