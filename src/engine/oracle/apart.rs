//! Something that may be held up for ever, on a thread of its own that can be left behind: the
//! driver gives no way to end a call whose peer keeps its connection and is silent. Nothing here
//! knows what it is.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::engine::threads::{Thread, ThreadError};

/// A session's thread needs little stack, as the run's own sessions.
const STACK_BYTES: usize = 512 << 10;

type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A `T` and the thread that works with it.
pub struct Apart<T> {
    jobs: Option<Sender<Job<T>>>,
    /// Ends with the thread.
    thread: Receiver<()>,
    /// How long its end is waited for.
    farewell: Duration,
}

impl<T: Send + 'static> Apart<T> {
    /// `farewell`: how long dropping it waits until `T` is dropped too.
    pub fn new(name: &str, value: T, farewell: Duration) -> Result<Self, ThreadError> {
        let (jobs, waiting) = channel::<Job<T>>();
        let (alive, thread) = channel();
        Thread::named(name).stack_bytes(STACK_BYTES).start(move || {
            let mut value = value;
            for job in waiting {
                job(&mut value);
            }
            drop(value);
            drop(alive);
        })?;
        Ok(Self { jobs: Some(jobs), thread, farewell })
    }

    /// Hands a job over and returns at once; one that was given up with the thread is dropped.
    pub fn give(&self, job: impl FnOnce(&mut T) + Send + 'static) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Box::new(job));
        }
    }

    /// Nobody waits for it any more.
    pub fn leave_behind(&mut self) {
        self.farewell = Duration::ZERO;
    }
}

impl<T> Drop for Apart<T> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // Whether it ended or is left behind.
        let _ = self.thread.recv_timeout(self.farewell);
    }
}
