//! Ring of io_uring requests from the slots of one thread to one file. All of the device engine's
//! `unsafe` is here. The ring owns a slot's memory, lends it only while no request uses it, and
//! outlives every request. Therefore the raw pointers are sound.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

use super::request::{Attempt, Completion, IoRequest, RequestQueue, TRIES_MORE, judge};
use super::target::AlignedBuffer;

/// Index of the registered file.
const FILE: types::Fixed = types::Fixed(0);
/// Maximum number of requests per submit call: one call each keeps the target busiest, but costs
/// most.
const SUBMIT_TOGETHER: usize = 2;

/// Pauses before each retry if the kernel has no room; after the last, it is an error.
const PAUSES: [Duration; TRIES_MORE as usize] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100)];

/// Request of a slot.
#[derive(Clone, Copy)]
struct InFlight {
    call: IoRequest,
    tries_left: u8,
}

pub struct Ring {
    ring: IoUring,
    file: Arc<File>,
    slots: Vec<AlignedBuffer>,
    in_flight: Vec<Option<InFlight>>,
    busy: usize,
    /// Requests that are not yet submitted to the kernel.
    queued: usize,
    fixed_buffers: bool,
    fixed_file: bool,
}

impl Ring {
    /// Creates a ring for the calling thread, with as many kernel features as possible.
    pub fn new(file: Arc<File>, mut slots: Vec<AlignedBuffer>) -> io::Result<Self> {
        let ring = build(slots.len() as u32)?;
        let vectors: Vec<libc::iovec> = slots
            .iter_mut()
            .map(|slot| libc::iovec {
                iov_base: slot.bytes_mut().as_mut_ptr().cast(),
                iov_len: slot.len(),
            })
            .collect();
        // SAFETY: the buffers live in `slots`, which this ring owns and frees only after the
        // io_uring is closed (fields drop in order) and no request is in flight (Drop).
        let fixed_buffers = unsafe { ring.submitter().register_buffers(&vectors) }.is_ok();
        let fixed_file = ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        let in_flight = vec![None; slots.len()];
        Ok(Self { ring, file, slots, in_flight, busy: 0, queued: 0, fixed_buffers, fixed_file })
    }

    /// Checks that the ring works: some kernels create a ring and refuse its use.
    pub fn prove(&mut self) -> io::Result<()> {
        // SAFETY: the request does nothing and names no memory.
        unsafe { self.ring.submission().push(&opcode::Nop::new().build()) }
            .map_err(io::Error::other)?;
        let mut pauses = PAUSES.into_iter();
        while let Err(error) = self.ring.submit_and_wait(1) {
            may_ask_again(error, &mut pauses)?;
        }
        self.ring.completion().for_each(drop);
        Ok(())
    }

    fn queue(&mut self, slot: usize, request: InFlight) -> io::Result<()> {
        let bytes = request.call.bytes() as usize;
        assert!(bytes <= self.slots[slot].len(), "{bytes} bytes do not fit into a slot");
        let entry = self.entry(slot, request.call).user_data(slot as u64);
        // SAFETY: the entry points into the slot's memory, which is not touched or freed while
        // `in_flight` says that the request is under way; the file is open as long as the ring.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.in_flight[slot] = Some(request);
        self.queued += 1;
        Ok(())
    }

    /// Submits, and waits for this many completions. Returns false if the kernel has no room until
    /// others end.
    fn enter(&mut self, wanted: usize) -> io::Result<bool> {
        let mut pauses = PAUSES.into_iter();
        loop {
            match self.ring.submit_and_wait(wanted.min(self.busy)) {
                Ok(submitted) => {
                    self.queued -= submitted.min(self.queued);
                    return Ok(true);
                }
                Err(error) if has_no_room(&error) && self.busy > self.queued => return Ok(false),
                Err(error) => may_ask_again(error, &mut pauses)?,
            }
        }
    }

    /// Waits for a completion of an earlier request.
    fn wait_only(&mut self) -> io::Result<()> {
        const GET_EVENTS: u32 = 1; // IORING_ENTER_GETEVENTS
        let mut pauses = PAUSES.into_iter();
        loop {
            // SAFETY: no argument is passed and nothing is submitted.
            let waited =
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, GET_EVENTS, None) };
            match waited {
                // Taking the completions makes room.
                Err(error) if has_no_room(&error) && !self.ring.completion().is_empty() => {
                    return Ok(());
                }
                Err(error) => may_ask_again(error, &mut pauses)?,
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Takes completions; requests that may yet succeed are queued again.
    fn take(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut again = Vec::new();
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            let Some(request) = self.in_flight[slot].take() else { continue };
            let answer = match entry.result() {
                failed if failed < 0 => Err(io::Error::from_raw_os_error(-failed)),
                moved => Ok(moved as usize),
            };
            let result = match judge(request.call, answer) {
                Attempt::Again(_) if request.tries_left > 0 => {
                    let tries_left = request.tries_left - 1;
                    again.push((slot, InFlight { tries_left, ..request }));
                    continue;
                }
                Attempt::Again(error) => Err(error),
                Attempt::Ended(result) => result,
            };
            self.busy -= 1;
            done.push(Completion { slot, result });
        }
        again.into_iter().try_for_each(|(slot, request)| self.queue(slot, request))
    }

    fn entry(&mut self, slot: usize, call: IoRequest) -> squeue::Entry {
        let pointer = self.slots[slot].bytes_mut().as_mut_ptr();
        let fixed = self.fixed_buffers;
        let index = slot as u16;
        let descriptor = types::Fd(self.file.as_raw_fd());
        macro_rules! on {
            ($file:expr) => {
                match call {
                    IoRequest::Read { offset, bytes } if fixed => {
                        opcode::ReadFixed::new($file, pointer, bytes, index).offset(offset).build()
                    }
                    IoRequest::Read { offset, bytes } => {
                        opcode::Read::new($file, pointer, bytes).offset(offset).build()
                    }
                    IoRequest::Write { offset, bytes } if fixed => {
                        opcode::WriteFixed::new($file, pointer, bytes, index).offset(offset).build()
                    }
                    IoRequest::Write { offset, bytes } => {
                        opcode::Write::new($file, pointer, bytes).offset(offset).build()
                    }
                    IoRequest::Sync => {
                        opcode::Fsync::new($file).flags(types::FsyncFlags::DATASYNC).build()
                    }
                }
            };
        }
        if self.fixed_file { on!(FILE) } else { on!(descriptor) }
    }
}

impl RequestQueue for Ring {
    /// The memory of a slot that no request uses.
    fn slot(&mut self, slot: usize) -> &mut [u8] {
        assert!(self.in_flight[slot].is_none(), "slot {slot} is in flight");
        self.slots[slot].bytes_mut()
    }

    /// Queues a request; submits earlier ones if they are enough. A slot has one at a time.
    fn push(&mut self, slot: usize, call: IoRequest) -> io::Result<()> {
        assert!(self.in_flight[slot].is_none(), "slot {slot} is in flight");
        if self.queued >= SUBMIT_TOGETHER {
            self.submit()?;
        }
        self.queue(slot, InFlight { call, tries_left: TRIES_MORE })?;
        self.busy += 1;
        Ok(())
    }

    /// Submits queued requests; those that the kernel has no room for wait for [`Ring::wait`].
    fn submit(&mut self) -> io::Result<()> {
        while self.queued > 0 && self.enter(0)? {}
        Ok(())
    }

    /// Submits, waits for a completion and takes all: none if each has to be made again.
    fn wait(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        if !self.enter(1)? {
            self.wait_only()?;
        }
        self.take(done)
    }

    /// The parts that the kernel has registered, in words.
    fn registered(&self) -> &'static str {
        match (self.fixed_buffers, self.fixed_file) {
            (true, true) => "registered buffers and file",
            (true, false) => "registered buffers",
            (false, true) => "registered file",
            (false, false) => "nothing registered",
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.busy > 0 {
            if self.wait(&mut done).is_err() {
                // The kernel may still write there, so the memory must never be freed.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
        }
        // The kernel frees a closed ring later. Until then the registered file stays open, and its
        // file system stays mounted.
        let submitter = self.ring.submitter();
        if self.fixed_file {
            let _ = submitter.unregister_files();
        }
        if self.fixed_buffers {
            let _ = submitter.unregister_buffers();
        }
    }
}

fn has_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
}

/// Decides whether to ask the kernel again: at once after a signal, after a pause if it had no
/// room, otherwise not.
fn may_ask_again(error: io::Error, pauses: &mut impl Iterator<Item = Duration>) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::EINTR) {
        return Ok(());
    }
    let pause = if has_no_room(&error) { pauses.next() } else { None };
    pause.map(std::thread::sleep).ok_or(error)
}

/// Builds a ring with a single issuer and completions on its own thread (from Linux 6.1), with
/// fewer features on older kernels.
fn build(entries: u32) -> io::Result<IoUring> {
    let entries = entries.next_power_of_two();
    IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::builder().build(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_again_after_a_signal_and_so_many_times_for_room() {
        let times = |errno: i32| {
            let mut pauses = PAUSES.into_iter();
            let again = || may_ask_again(io::Error::from_raw_os_error(errno), &mut pauses).is_ok();
            std::iter::repeat_with(again).take(20).take_while(|again| *again).count()
        };
        assert_eq!(times(libc::EINTR), 20);
        assert_eq!((times(libc::EAGAIN), times(libc::EBUSY)), (3, 3));
        assert_eq!(times(libc::EIO), 0);
    }
}
