//! Filling the target: each of several threads prepares pieces and keeps several writes in flight.
//! It prepares the next piece while others are being written.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::queue::Backend;
use super::request::{Completion, IoRequest};
use super::target::{AlignedBuffer, OpenTarget};
use petal_engine::on_path::unusable;
use petal_engine::threads::Thread;
use petal_engine::{EngineError, Progress, Result, Stop};

pub struct Filling<'a> {
    pub target: &'a OpenTarget,
    pub backend: Backend,
    pub threads: u32,
    /// Pieces in flight in each thread.
    pub depth: u32,
    /// Length of the longest piece.
    pub piece_bytes: usize,
    /// Progress, advanced by the written bytes.
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

/// Offset and length of a prepared piece.
pub struct FilledPiece {
    pub offset: u64,
    pub bytes: u32,
}

impl Filling<'_> {
    /// Writes the pieces 0..count, each once, in any order. `make` fills the memory of one piece.
    pub fn write(
        &self,
        count: u64,
        make: &(impl Fn(u64, &mut [u8]) -> FilledPiece + Sync),
    ) -> Result<()> {
        let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let first_error: Mutex<Option<io::Error>> = Mutex::default();
        let take = || {
            let is_over = over.load(Ordering::Relaxed) || self.stop.is_requested();
            let number = if is_over { count } else { next.fetch_add(1, Ordering::Relaxed) };
            (number < count).then_some(number)
        };
        let take = &take;
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                let failed = |error| {
                    over.store(true, Ordering::Relaxed);
                    first_error.lock().get_or_insert(error);
                };
                let started = Thread::named("filling").start_in(scope, move || {
                    self.work(take, make).unwrap_or_else(failed);
                });
                if let Err(error) = started {
                    failed(error.into());
                    break;
                }
            }
        });
        let error = first_error.lock().take();
        match error {
            Some(error) => Err(unusable(&self.target.path, &error)),
            None if self.stop.is_requested() => Err(EngineError::Interrupted),
            None => Ok(()),
        }
    }

    fn work(
        &self,
        take: &impl Fn() -> Option<u64>,
        make: &impl Fn(u64, &mut [u8]) -> FilledPiece,
    ) -> io::Result<()> {
        let depth = self.depth.max(1) as usize;
        let slots = (0..depth).map(|_| AlignedBuffer::new(self.piece_bytes)).collect();
        let mut queue = self.backend.queue(&self.target.file, slots)?;
        let (mut free, mut bytes): (Vec<usize>, _) = ((0..depth).collect(), vec![0; depth]);
        let mut done = Vec::with_capacity(depth);
        loop {
            while let Some(&slot) = free.last() {
                let Some(number) = take() else { break };
                let piece = make(number, queue.slot(slot));
                bytes[slot] = u64::from(piece.bytes);
                queue.push(slot, IoRequest::Write { offset: piece.offset, bytes: piece.bytes })?;
                queue.submit()?; // It goes off while the next is made.
                free.pop();
            }
            if free.len() == depth {
                return Ok(());
            }
            queue.wait(&mut done)?;
            let mut written = 0;
            for Completion { slot, result } in done.drain(..) {
                result?;
                written += bytes[slot];
                free.push(slot);
            }
            self.progress.advance(written);
        }
    }
}
