//! Waits of this process for others: servers, hosts. Each can explain itself, so that a command that
//! makes no progress names its statement and event, whichever part of petal waits there.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Names the statement and its event; `None` if nothing waits. It may ask a server.
type Explain = dyn Fn() -> Option<String> + Send + Sync;

/// A part of petal that waits again and again, such as a connection.
pub struct Waiter {
    since: Mutex<Option<Instant>>,
    explain: Box<Explain>,
}

static ALL: Mutex<Vec<Weak<Waiter>>> = Mutex::new(Vec::new());

impl Waiter {
    pub fn new(explain: impl Fn() -> Option<String> + Send + Sync + 'static) -> Arc<Self> {
        let waiter = Arc::new(Self { since: Mutex::new(None), explain: Box::new(explain) });
        let mut all = ALL.lock();
        if all.len() == all.capacity() {
            all.retain(|waiter| waiter.strong_count() > 0);
        }
        all.push(Arc::downgrade(&waiter));
        waiter
    }

    /// A wait that begins now and ends with the value.
    pub fn wait(self: &Arc<Self>) -> WaitNow {
        *self.since.lock() = Some(Instant::now());
        WaitNow(Arc::clone(self))
    }

    pub fn explain(&self) -> Option<String> {
        (self.explain)()
    }
}

/// A wait until it is dropped.
pub struct WaitNow(Arc<Waiter>);

impl Drop for WaitNow {
    fn drop(&mut self) {
        *self.0.since.lock() = None;
    }
}

/// A single wait, which the text explains.
pub fn wait_for(what: impl Fn() -> String + Send + Sync + 'static) -> WaitNow {
    Waiter::new(move || Some(what())).wait()
}

/// Waits that last for this long by now, the oldest first.
pub fn lasting(at_least: Duration) -> Vec<Arc<Waiter>> {
    let waiters: Vec<Arc<Waiter>> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    let since = |waiter: &Arc<Waiter>| *waiter.since.lock();
    let with_begin = waiters.into_iter().filter_map(|waiter| Some((since(&waiter)?, waiter)));
    let mut found: Vec<_> = with_begin.filter(|(since, _)| since.elapsed() >= at_least).collect();
    found.sort_by_key(|(since, _)| *since);
    found.into_iter().map(|(_, waiter)| waiter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_known_from_its_begin_to_its_end() {
        let words = || -> Vec<String> {
            let found = lasting(Duration::ZERO).into_iter().filter_map(|it| it.explain());
            // Other tests of this process wait, too.
            found.filter(|words| words.ends_with("of this test")).collect()
        };
        let often = Waiter::new(|| Some("connection of this test".to_owned()));
        assert!(words().is_empty());
        let (first, second) = (often.wait(), wait_for(|| "host of this test".to_owned()));
        assert_eq!(words(), ["connection of this test", "host of this test"]);
        assert!(lasting(Duration::from_secs(3600)).is_empty());
        drop(first);
        assert_eq!(words(), ["host of this test"]);
        let _again = often.wait();
        drop(second);
        assert_eq!(words(), ["connection of this test"]);
    }
}
