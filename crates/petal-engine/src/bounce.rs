//! The memory that pages pass through on their way to and from a device: one buffer a thread. It lies in
//! huge pages if the kernel gives them, so that a request is one piece for the device and not one
//! for each memory page, which storage serves faster.

use std::alloc::{Layout, handle_alloc_error};
use std::cell::RefCell;
use std::collections::BTreeMap;

use memmap2::{Advice, MmapMut};
use parking_lot::Mutex;

/// Alignment of buffer address and length: one page, accepted by all common devices.
const ALIGNMENT: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// Buffers that no thread uses, by their length. They are given out again, and never given back.
static FREE: Mutex<BTreeMap<usize, Vec<&'static mut [u8]>>> = Mutex::new(BTreeMap::new());

/// A buffer, free again when this is dropped. Empty by default.
#[derive(Default)]
struct Bounce(&'static mut [u8]);

impl Bounce {
    fn new(bytes: usize) -> Self {
        let length = bytes.next_multiple_of(ALIGNMENT);
        let mut free = FREE.lock();
        let free = free.entry(length).or_default();
        if free.is_empty() {
            free.extend(huge_pages(length).chunks_exact_mut(length));
        }
        Self(free.pop().unwrap_or_default())
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        if !memory.is_empty() {
            FREE.lock().entry(memory.len()).or_default().push(memory);
        }
    }
}

/// Allocates enough huge pages for `bytes`, or ordinary pages if the kernel has none.
fn huge_pages(bytes: usize) -> &'static mut [u8] {
    let bytes = bytes.next_multiple_of(HUGE_PAGE);
    // Room to begin at a huge page's boundary; untouched pages take no memory.
    let Ok(map) = MmapMut::map_anon(bytes + HUGE_PAGE) else {
        handle_alloc_error(Layout::new::<[u8; HUGE_PAGE]>());
    };
    let _ = map.advise(Advice::HugePage);
    let memory: &'static mut MmapMut = Box::leak(Box::new(map));
    let start = memory.as_ptr().align_offset(HUGE_PAGE);
    &mut memory[start..start + bytes]
}

thread_local! {
    static OWN: RefCell<Bounce> = RefCell::default();
}

/// Lends this thread's buffer of so many bytes, with whatever is in it.
pub fn with_bounce<T>(bytes: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    OWN.with_borrow_mut(|own| {
        if own.0.len() < bytes {
            *own = Bounce::new(bytes);
        }
        work(&mut own.0[..bytes])
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn each_thread_has_its_own_aligned_memory() {
        for bytes in [512, 8192, 12_288, 3 << 20] {
            let all_filled = Barrier::new(4);
            let thread = |number: u8| {
                with_bounce(bytes, |buffer| buffer.fill(number));
                all_filled.wait();
                with_bounce(bytes, |buffer| {
                    assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
                    assert!(buffer.len() == bytes && buffer.iter().all(|&byte| byte == number));
                });
            };
            std::thread::scope(|scope| {
                (1..5).for_each(|number| drop(scope.spawn(move || thread(number))))
            });
        }
    }

    #[test]
    fn a_buffer_of_a_thread_that_ended_is_given_out_again() {
        // No other test has buffers of this length.
        const BYTES: usize = 5 * HUGE_PAGE + ALIGNMENT;
        let place = || with_bounce(BYTES, |buffer| buffer.as_ptr() as usize);
        let places = [(); 2].map(|()| std::thread::spawn(place).join().unwrap());
        assert_eq!(places[0], places[1]);
    }
}
