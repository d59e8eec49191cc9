//! Drivers that block their thread and give no way to end a call: a driver's value lives on a
//! separate thread, which is left behind if no answer comes. Nothing here knows the driver.
//! A driver's panic ends the thread, and its words are the reason why the worker is given up
//! (`driver_panic`).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::driver_panic::{DRIVER_FAILED, on_panic};
use super::liveness::{AbortHandle, TICK};
use crate::threads::{Thread, ThreadError};

/// A session's thread needs little stack, as the run's own sessions.
const STACK_BYTES: usize = 512 << 10;

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
            on_panic(move |words| panicked.abort(words));
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
        on_panic(move |words| {
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
