//! Requests by pread, pwrite and fdatasync, on the caller's thread or on one thread for each slot.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::request::{Attempt, Completion, IoRequest, TRIES_MORE, judge};
use super::target::AlignedBuffer;
use petal_engine::threads::Thread;

/// Queue that performs one request at a time, on the caller's thread.
pub struct Inline {
    file: Arc<File>,
    slots: Vec<AlignedBuffer>,
    queued: VecDeque<(usize, IoRequest)>,
}

impl Inline {
    pub fn new(file: Arc<File>, slots: Vec<AlignedBuffer>) -> Self {
        Self { file, slots, queued: VecDeque::new() }
    }

    pub fn slot(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].bytes_mut()
    }

    pub fn push(&mut self, slot: usize, call: IoRequest) {
        self.queued.push_back((slot, call));
    }

    pub fn wait(&mut self, done: &mut Vec<Completion>) {
        if let Some((slot, call)) = self.queued.pop_front() {
            let result = perform(&self.file, call, &mut self.slots[slot]);
            done.push(Completion { slot, result });
        }
    }
}

/// Queue with a thread for each slot.
pub struct Pool {
    shared: Arc<PoolShared>,
    slots: Vec<AlignedBuffer>,
    threads: Vec<JoinHandle<()>>,
}

struct PoolShared {
    file: Arc<File>,
    state: Mutex<PoolState>,
    asked: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct PoolState {
    asked: VecDeque<(usize, IoRequest, AlignedBuffer)>,
    ended: Vec<(Completion, AlignedBuffer)>,
    closed: bool,
}

impl Pool {
    pub fn new(file: Arc<File>, slots: Vec<AlignedBuffer>) -> io::Result<Self> {
        let shared = Arc::new(PoolShared {
            file,
            state: Mutex::default(),
            asked: Condvar::new(),
            ended: Condvar::new(),
        });
        let mut pool = Self { shared, slots, threads: Vec::new() };
        for _ in 0..pool.slots.len() {
            let shared = Arc::clone(&pool.shared);
            pool.threads.push(Thread::named("device-io").start(move || shared.work())?);
        }
        Ok(pool)
    }

    pub fn slot(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].bytes_mut()
    }

    pub fn push(&mut self, slot: usize, call: IoRequest) {
        let buffer = std::mem::take(&mut self.slots[slot]);
        self.shared.state.lock().asked.push_back((slot, call, buffer));
        self.shared.asked.notify_one();
    }

    pub fn wait(&mut self, done: &mut Vec<Completion>) {
        let mut state = self.shared.state.lock();
        while state.ended.is_empty() {
            self.shared.ended.wait(&mut state);
        }
        for (completion, buffer) in state.ended.drain(..) {
            self.slots[completion.slot] = buffer;
            done.push(completion);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.asked.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has no result.
            let _ = thread.join();
        }
    }
}

impl PoolShared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            let Some((slot, call, mut buffer)) = state.asked.pop_front() else {
                if state.closed {
                    return;
                }
                self.asked.wait(&mut state);
                continue;
            };
            drop(state);
            let result = perform(&self.file, call, &mut buffer);
            state = self.state.lock();
            state.ended.push((Completion { slot, result }, buffer));
            self.ended.notify_one();
        }
    }
}

fn perform(file: &File, call: IoRequest, buffer: &mut AlignedBuffer) -> io::Result<()> {
    let mut attempt = || match call {
        IoRequest::Read { offset, bytes } => {
            file.read_at(&mut buffer.bytes_mut()[..bytes as usize], offset)
        }
        IoRequest::Write { offset, bytes } => {
            file.write_at(&buffer.bytes()[..bytes as usize], offset)
        }
        IoRequest::Sync => file.sync_data().map(|()| 0),
    };
    let mut tries_left = TRIES_MORE;
    loop {
        match judge(call, attempt()) {
            Attempt::Ended(result) => return result,
            Attempt::Again(error) if tries_left == 0 => return Err(error),
            Attempt::Again(_) => tries_left -= 1,
        }
    }
}
