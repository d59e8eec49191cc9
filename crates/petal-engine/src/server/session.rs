//! Control of a session from another thread, which cancels its statement or aborts its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::failure::{Failure, StatementError, StatementErrorKind};
use super::liveness::{AbortHandle, OneAtATime};
use crate::{CUT, Cancel, SessionError, Stop};

/// Why a session's connection is given up at the end of a run.
pub const ABORTED: &str = "no answer in time, nor to being cancelled";

/// State that a session and its cancellers share.
pub struct SessionControl {
    is_cancelled: AtomicBool,
    /// The stop of the batch.
    stop: Mutex<Stop>,
    sending: OneAtATime,
    /// Asks the server to cancel the statement, on a separate connection.
    send: Arc<dyn Fn() + Send + Sync>,
    connection: Arc<AbortHandle>,
}

impl SessionControl {
    pub fn new(connection: Arc<AbortHandle>, send: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            is_cancelled: AtomicBool::new(false),
            stop: Mutex::new(Stop::unlimited(Arc::default())),
            sending: OneAtATime::default(),
            send: Arc::new(send),
            connection,
        })
    }

    /// A batch begins, of which nothing is cancelled yet.
    pub fn begin_batch(&self, stop: &Stop) {
        *self.stop.lock() = stop.clone();
        self.is_cancelled.store(false, Ordering::Relaxed);
    }

    /// Time until the deadline of the batch; None without one.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        self.stop.lock().time_left(now)
    }

    /// True if petal itself asked to cancel the session's current or last statement.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The meaning of a failed statement for its session.
    pub fn failure(&self, error: StatementError) -> Failure {
        let stop = self.stop.lock();
        let is_cut = || self.is_cancelled() || stop.is_cutting();
        let StatementError { kind, code, message } = error;
        match kind {
            StatementErrorKind::Cancelled if is_cut() => Failure::Counted(CUT.into()),
            StatementErrorKind::OverTime if is_cut() || stop.is_due(Instant::now()) => {
                Failure::Counted(CUT.into())
            }
            StatementErrorKind::Transient => Failure::Counted(code.into()),
            _ => Failure::Fatal(SessionError { code, message }),
        }
    }
}

/// Cancels and aborts every connection of a session.
pub struct Canceller(pub Vec<Arc<SessionControl>>);

impl Cancel for Canceller {
    /// Asks from a separate thread: a server that does not answer must not hold up the others. A
    /// request that is lost is sent again, because the runner cancels until the session ends.
    fn cancel(&self) {
        for control in &self.0 {
            control.is_cancelled.store(true, Ordering::Relaxed);
            let send = Arc::clone(&control.send);
            control.sending.start("cancels", move || send());
        }
    }

    fn abort(&self) {
        for control in &self.0 {
            control.connection.abort(ABORTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn error(kind: StatementErrorKind) -> StatementError {
        StatementError { kind, code: "57".into(), message: "db1: why; what to do".into() }
    }

    /// The code that is counted, or that the session is lost under.
    fn judged(control: &SessionControl, kind: StatementErrorKind) -> String {
        match control.failure(error(kind)) {
            Failure::Counted(code) => format!("counted {code}"),
            Failure::Fatal(error) => format!("lost {}", error.code),
        }
    }

    #[test]
    fn what_petal_cut_itself_loses_no_session() {
        use StatementErrorKind::{Cancelled, Other, OverTime, Transient};
        let control = SessionControl::new(AbortHandle::new(), || ());
        let until = |deadline: Duration, cutting: bool| {
            let trigger = Instant::now();
            let cutting = Arc::new(AtomicBool::new(cutting));
            Stop::until(trigger, Some(trigger + deadline), Arc::default(), cutting)
        };
        let hour = Duration::from_secs(3600);
        let (running, over, cutting) =
            (until(hour, false), until(Duration::ZERO, false), until(hour, true));
        for (stop, kind, judgement) in [
            (&running, Cancelled, "lost 57"),
            (&running, OverTime, "lost 57"),
            (&over, Cancelled, "lost 57"), // Another user cancelled it.
            (&over, OverTime, "counted cut"),
            (&cutting, Cancelled, "counted cut"),
            (&running, Transient, "counted 57"),
            (&cutting, Other, "lost 57"),
        ] {
            control.begin_batch(stop);
            assert_eq!(judged(&control, kind), judgement, "{kind:?}");
        }
        control.begin_batch(&running);
        Canceller(vec![Arc::clone(&control)]).cancel();
        assert_eq!(judged(&control, Cancelled), "counted cut");
        control.begin_batch(&running);
        assert_eq!(judged(&control, Cancelled), "lost 57");
    }

    #[test]
    fn a_server_that_takes_no_request_is_asked_once_at_a_time_and_delays_no_thread() {
        let (sent, asked) = channel();
        let (answer, answered) = channel::<()>();
        let answered = std::sync::Mutex::new(answered);
        let control = SessionControl::new(AbortHandle::new(), move || {
            let _ = sent.send(());
            let _ = answered.lock().map(|answered| answered.recv());
        });
        let canceller = Canceller(vec![Arc::clone(&control)]);
        canceller.cancel();
        canceller.cancel();
        asked.recv().unwrap();
        assert!(asked.try_recv().is_err());
        // Once the first is over, the next is sent.
        answer.send(()).unwrap();
        while asked.try_recv().is_err() {
            canceller.cancel();
            std::thread::yield_now();
        }
        canceller.abort();
        assert!(control.connection.reason().is_some());
    }
}
