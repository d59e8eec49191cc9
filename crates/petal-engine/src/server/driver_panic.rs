//! A driver that panics costs its thread, and not petal. Unwinding runs the driver's destructors,
//! and a second panic in one of them would abort the process. Two kinds of destructors panic:
//!
//! - One that unwraps a lock, after a panic of the thread that held it. [`without_poison`] calls
//!   functions that own a value with such a destructor.
//! - One that works with the state that a panic left behind. [`leaked_by_panic`] does not run it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::sync::Once;

/// The reason why a worker is given up whose driver panicked begins so; the panic's words follow.
pub const DRIVER_FAILED: &str = "the driver failed at the answer";

type OnPanic = Box<dyn FnOnce(String)>;

thread_local! {
    /// Takes the words of a panic of the driver that works on this thread.
    static ON_PANIC: RefCell<Option<OnPanic>> = const { RefCell::new(None) };
}

/// Gives the words of this thread's first panic to `then`, and prints nothing.
pub fn on_panic(then: impl FnOnce(String) + 'static) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            match ON_PANIC.try_with(|then| then.take()).ok().flatten() {
                Some(then) => then(words(panic)),
                None => usual(panic),
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

/// Executes `call`, whose panic poisons no lock.
///
/// A lock that a thread takes while it unwinds is not poisoned by a second panic, as the
/// documentation of `std::sync::Mutex` says. So `call` runs in a destructor, while the thread
/// unwinds from a panic of petal's own. This takes some microseconds.
pub fn without_poison<R>(call: impl FnOnce() -> R) -> R {
    let mut result = None;
    let destructor = OnDrop(Some(|| result = Some(catch_unwind(AssertUnwindSafe(call)))));
    let own = catch_unwind(AssertUnwindSafe(move || {
        let _destructor = destructor;
        resume_unwind(Box::new(()))
    }));
    match (result, own) {
        (Some(Ok(result)), _) => result,
        (Some(Err(panic)), _) | (None, Err(panic)) => resume_unwind(panic),
        (None, Ok(never)) => never,
    }
}

/// A function that is called at the end of a scope.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

/// Executes `work` on a value, whose destructor runs at the end and not after a panic.
pub fn leaked_by_panic<T, R>(value: T, work: impl FnOnce(&mut T) -> R) -> R {
    let mut value = ManuallyDrop::new(value);
    let result = work(&mut value);
    drop(ManuallyDrop::into_inner(value));
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread::panicking;

    /// A statement as the driver has it: its destructor unwraps the lock of its connection.
    struct Statement(Arc<Mutex<Vec<u8>>>);

    impl Drop for Statement {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(0);
        }
    }

    impl Statement {
        fn answer(&mut self, at: usize) -> u8 {
            self.0.lock().unwrap()[at]
        }

        /// Drops the statement in the frame of the call, as the driver does.
        fn query(mut self, at: usize) -> u8 {
            self.answer(at)
        }
    }

    // Without the functions under test these abort the process of the tests.

    #[test]
    fn a_call_that_panics_with_a_lock_held_leaves_it_without_poison_and_panics_once() {
        let connection = Arc::new(Mutex::new(vec![7]));
        let query = |at| {
            let statement = Statement(Arc::clone(&connection));
            catch_unwind(AssertUnwindSafe(|| without_poison(|| statement.query(at)))).ok()
        };
        assert_eq!((query(0), query(9), query(0)), (Some(7), None, Some(7)));
        // The destructor has run each time.
        assert_eq!(*connection.lock().unwrap(), [7, 0, 0, 0]);
        assert!(!panicking());
    }

    #[test]
    fn a_value_is_dropped_after_its_work_and_not_after_a_panic() {
        let connection = Arc::new(Mutex::new(vec![7]));
        let answer = |at| {
            let statement = Statement(Arc::clone(&connection));
            let work = |statement: &mut Statement| statement.answer(at);
            catch_unwind(AssertUnwindSafe(|| leaked_by_panic(statement, work))).ok()
        };
        assert_eq!((answer(0), connection.lock().unwrap().len()), (Some(7), 2));
        assert_eq!(answer(9), None);
        assert!(connection.is_poisoned());
    }

    #[test]
    fn the_words_of_a_panic_are_given_once_and_the_thread_unwinds() {
        let (sender, words) = mpsc::channel();
        let thread = crate::threads::Thread::named("test").start(move || {
            on_panic(move |words| drop(sender.send(words)));
            let nothing: [u8; 0] = [];
            std::hint::black_box(&nothing[..])[9]
        });
        assert!(thread.unwrap().join().is_err());
        let words: Vec<String> = words.iter().collect();
        assert_eq!(words.len(), 1, "{words:?}");
        let begin = "the driver failed at the answer: index out of bounds: the len is 0";
        assert!(words[0].starts_with(begin), "{words:?}");
        assert!(words[0].contains("driver_panic.rs:"), "{words:?}");
    }
}
