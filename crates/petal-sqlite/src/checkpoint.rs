//! Checkpoints by petal, at a stated size of the WAL, on own threads and never in a commit.
//!
//! A session that finds the WAL past the size asks; a checkpointer copies as much as readers and
//! writers allow (PASSIVE), then waits for them and copies the rest, so that the next writer
//! restarts the WAL (RESTART). Readers that never pause can prevent that: it is counted.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::Shared;
use super::connection::{Access, AtFile, open};
use super::io::{ConnectionRecorder, Count, Event, IoContext, IoSource};
use super::writer_queue::WriterQueue;
use petal_engine::threads::Thread;
use petal_engine::{EngineError, Result};

/// The longest wait of a checkpoint's RESTART; then the WAL is left as it is.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(2);

/// A pass that copied no more than this was short: a few milliseconds.
const SHORT_PASS_FRAMES: i64 = 64;
/// Bytes before each page in the WAL (<https://sqlite.org/walformat.html>).
const FRAME_HEADER_BYTES: u64 = 24;
/// Writers may be as fast as the checkpoint; then passes do not get shorter.
const PASSES_MAX: usize = 5;

/// The answer of PRAGMA wal_checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointAnswer {
    /// Something prevented it from doing all.
    pub busy: bool,
    pub wal_frames: i64,
    pub copied_frames: i64,
}

pub fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<CheckpointAnswer> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(CheckpointAnswer {
            busy: row.get::<_, i64>(0)? != 0,
            wal_frames: row.get(1)?,
            copied_frames: row.get(2)?,
        })
    })
}

#[derive(Default)]
struct CheckpointQueue {
    asked: VecDeque<u32>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stopped: bool,
    /// Grows with every stop: threads of an earlier one end, whatever came after.
    stops: u64,
}

/// The checkpointer threads of an engine.
#[derive(Default)]
pub struct Checkpointers {
    queue: Mutex<CheckpointQueue>,
    asked: Condvar,
    /// Kept between checkpoints.
    connections: Mutex<HashMap<u32, Checkpointer>>,
    stopping: AtomicBool,
    /// The last checkpoint's that failed.
    failure: Mutex<Option<EngineError>>,
}

impl Checkpointers {
    /// Asks for a checkpoint of a schema, in whose writer queue the caller has set
    /// `checkpoint_pending`.
    pub fn ask(&self, shared: &Arc<Shared>, schema: u32) {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return;
        }
        queue.asked.push_back(schema);
        let threads_max = std::thread::available_parallelism().map_or(1, usize::from);
        if queue.idle < queue.asked.len() && queue.threads.len() < threads_max {
            let (asking, shared, stops) = (shared, Arc::clone(shared), queue.stops);
            let thread = Thread::named("checkpointer");
            match thread.start(move || shared.checkpointers.work(&shared, stops)) {
                Ok(handle) => queue.threads.push(handle),
                // The other checkpointers do it; without one, the next size asks again.
                Err(error) if queue.threads.is_empty() => {
                    queue.asked.pop_back();
                    drop(queue);
                    asking.writer_queue(schema).checkpoint_pending.store(false, Ordering::Release);
                    self.failed(asking, error.into());
                    return;
                }
                Err(_) => {}
            }
        }
        drop(queue);
        self.asked.notify_one();
    }

    /// Sessions begin: checkpoints may be asked for again.
    pub fn resume(&self) {
        self.queue.lock().stopped = false;
        self.stopping.store(false, Ordering::Relaxed);
    }

    /// Waits for checkpoints at work; those only asked for are dropped.
    pub fn stop(&self, shared: &Shared) {
        self.stopping.store(true, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.stops += 1;
        for schema in std::mem::take(&mut queue.asked) {
            shared.writer_queue(schema).checkpoint_pending.store(false, Ordering::Release);
        }
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.asked.notify_all();
        for thread in threads {
            // A checkpointer that panicked has nothing to hand over.
            let _ = thread.join();
        }
        self.connections.lock().clear();
    }

    fn work(&self, shared: &Arc<Shared>, stops: u64) {
        let mut queue = self.queue.lock();
        while queue.stops == stops {
            let Some(schema) = queue.asked.pop_front() else {
                queue.idle += 1;
                self.asked.wait(&mut queue);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            self.checkpoint(shared, schema);
            let writers = shared.writer_queue(schema);
            writers.checkpoint_pending.store(false, Ordering::Release);
            writers.ended();
            queue = self.queue.lock();
        }
    }

    /// A failure costs no session anything: the WAL grows on, and the next size asks again.
    fn checkpoint(&self, shared: &Arc<Shared>, schema: u32) {
        let kept = self.connections.lock().remove(&schema);
        let opened = kept.map_or_else(|| Checkpointer::open(shared, schema), Ok);
        let checkpointed = opened.and_then(|checkpointer| {
            let path = shared.folder.file(schema);
            let run = checkpointer.run(&self.stopping);
            run.at(&path, "a checkpoint")?;
            Ok(checkpointer)
        });
        match checkpointed {
            Ok(checkpointer) => {
                self.connections.lock().insert(schema, checkpointer);
            }
            Err(error) => self.failed(shared, error),
        }
    }

    fn failed(&self, shared: &Shared, error: EngineError) {
        shared.statistics.count(Count::CheckpointErrors, 1);
        *self.failure.lock() = Some(error);
    }

    /// The error of the last checkpoint that failed, once.
    pub fn take_failure(&self) -> Option<EngineError> {
        self.failure.lock().take()
    }
}

/// A connection that checkpoints one file.
struct Checkpointer {
    connection: Connection,
    recorder: Arc<ConnectionRecorder>,
    wait: Arc<WaitForOthers>,
    /// A WAL longer than this is reset at once, even if sessions must wait: twice the stated size.
    wal_frames_max: i64,
}

impl Checkpointer {
    fn open(shared: &Arc<Shared>, schema: u32) -> Result<Self> {
        let path = shared.folder.file(schema);
        let (recorder, context) = shared.recorded(IoSource::Checkpoint);
        let mut connection = open_checkpoint(&path, &context, shared)?;
        let wait = Arc::new(WaitForOthers {
            writers: shared.writer_queue(schema),
            shared: Arc::downgrade(shared),
            waited_ns: AtomicU64::new(0),
            begun: Mutex::new(Instant::now()),
        });
        let busy = Arc::clone(&wait);
        connection.busy_handler(Some(move |_| busy.busy())).at(&path, "preparing checkpoints")?;
        let page_bytes: u64 = connection
            .pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0))
            .at(&path, "preparing checkpoints")?
            .cast_unsigned();
        let frames = 2 * shared.options.checkpoint_bytes / (page_bytes + FRAME_HEADER_BYTES);
        let wal_frames_max = frames.cast_signed();
        Ok(Self { connection, recorder, wait, wal_frames_max })
    }

    fn run(&self, stopping: &AtomicBool) -> rusqlite::Result<()> {
        let copied = self.copy_during_writes(stopping);
        *self.wait.begun.lock() = Instant::now();
        let restart = copied.and_then(|()| checkpoint(&self.connection, "RESTART"));
        self.wait.writers.checkpoint_waits.store(false, Ordering::Release);
        let waited_ns = self.wait.waited_ns.swap(0, Ordering::Relaxed);
        if waited_ns > 0 {
            self.recorder.record(Event::CheckpointWait, waited_ns, 0);
        }
        if let Ok(answer) = &restart {
            self.recorder.count(Count::Checkpoints, 1);
            match answer {
                CheckpointAnswer { busy: false, .. } => self.recorder.count(Count::WalResets, 1),
                // Given up because the run ends: no reader's doing.
                _ if stopping.load(Ordering::Relaxed) => {}
                _ => self.recorder.count(Count::WalResetFailures, 1),
            }
        }
        self.recorder.fold();
        restart.map(|_| ())
    }

    /// Runs PASSIVE passes, each of which copies earlier commits, until one is short: RESTART holds
    /// the writer lock while it copies the rest.
    fn copy_during_writes(&self, stopping: &AtomicBool) -> rusqlite::Result<()> {
        let mut copied_frames = 0;
        for _ in 0..PASSES_MAX {
            let answer = checkpoint(&self.connection, "PASSIVE")?;
            let pass_frames = answer.copied_frames - copied_frames;
            copied_frames = answer.copied_frames;
            let is_long = answer.wal_frames >= self.wal_frames_max;
            if pass_frames <= SHORT_PASS_FRAMES || is_long || stopping.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }
}

fn open_checkpoint(path: &Path, context: &IoContext, shared: &Shared) -> Result<Connection> {
    let connection = open(path, Access::Write, context)?;
    // The WAL is opened by the first statement that reads.
    context
        .during(|| {
            connection.pragma_update(None, "synchronous", shared.options.synchronous.name())?;
            connection.query_row("SELECT count(*) FROM petal_meta", [], |_| Ok(()))
        })
        .at(path, "opening for checkpoints")?;
    Ok(connection)
}

/// A checkpoint's wait for readers and writers.
struct WaitForOthers {
    writers: Arc<WriterQueue>,
    shared: std::sync::Weak<Shared>,
    waited_ns: AtomicU64,
    begun: Mutex<Instant>,
}

impl WaitForOthers {
    fn busy(&self) -> bool {
        let begin = Instant::now();
        let stopping = self
            .shared
            .upgrade()
            .is_none_or(|shared| shared.checkpointers.stopping.load(Ordering::Relaxed));
        if stopping || self.begun.lock().elapsed() >= CHECKPOINT_TIMEOUT {
            return false;
        }
        self.writers.checkpoint_waits.store(true, Ordering::Release);
        self.writers.wait(self.writers.ends());
        self.waited_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        true
    }
}
