//! Requests by pread, pwrite and fdatasync, on the caller's thread or on one thread for each slot.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::request::{Attempt, Completion, IoRequest, RequestQueue, TRIES_MORE, judge};
use super::target::AlignedBuffer;
use petal_engine::threads::Thread;

/// Queue with a thread for each slot, or none: then the caller's thread makes one call in each wait.
pub struct Calls {
    shared: Arc<CallsShared>,
    slots: Vec<AlignedBuffer>,
    threads: Vec<JoinHandle<()>>,
}

struct CallsShared {
    file: Arc<File>,
    state: Mutex<CallsState>,
    asked: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct CallsState {
    asked: VecDeque<(usize, IoRequest, AlignedBuffer)>,
    ended: Vec<(Completion, AlignedBuffer)>,
    closed: bool,
}

impl Calls {
    pub fn new(file: Arc<File>, slots: Vec<AlignedBuffer>, threads: usize) -> io::Result<Self> {
        let shared = Arc::new(CallsShared {
            file,
            state: Mutex::default(),
            asked: Condvar::new(),
            ended: Condvar::new(),
        });
        let mut calls = Self { shared, slots, threads: Vec::new() };
        for _ in 0..threads {
            let shared = Arc::clone(&calls.shared);
            calls.threads.push(Thread::named("device-io").start(move || shared.work())?);
        }
        Ok(calls)
    }
}

impl RequestQueue for Calls {
    fn slot(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].bytes_mut()
    }

    fn push(&mut self, slot: usize, call: IoRequest) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.slots[slot]);
        self.shared.state.lock().asked.push_back((slot, call, buffer));
        self.shared.asked.notify_one();
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        if self.threads.is_empty() {
            self.shared.make_one(&mut state);
        } else {
            while state.ended.is_empty() {
                self.shared.ended.wait(&mut state);
            }
        }
        for (completion, buffer) in state.ended.drain(..) {
            self.slots[completion.slot] = buffer;
            done.push(completion);
        }
        Ok(())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.asked.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has no result.
            let _ = thread.join();
        }
    }
}

impl CallsShared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if self.make_one(&mut state) {
                self.ended.notify_one();
            } else if state.closed {
                return;
            } else {
                self.asked.wait(&mut state);
            }
        }
    }

    /// Makes the call that was asked for first, if there is one.
    fn make_one(&self, state: &mut MutexGuard<'_, CallsState>) -> bool {
        let Some((slot, call, mut buffer)) = state.asked.pop_front() else { return false };
        let make = || perform(&self.file, call, &mut buffer);
        let result = MutexGuard::unlocked(state, make);
        state.ended.push((Completion { slot, result }, buffer));
        true
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
