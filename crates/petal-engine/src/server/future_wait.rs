//! Drivers that are futures: the thread that needs an answer polls the driver itself, so nothing
//! goes on between two statements. The wait follows a timeout policy and ends when the connection
//! is given up.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, Interval, Sleep, interval_at, sleep, timeout};

use super::liveness::{AbortHandle, ConnectionWatch, SILENCE, TICK, TimeoutPolicy};
use super::wait_monitor::WaitMonitor;
use super::waiting::KEEP_ALIVE;
use crate::waits_now::{Waiter, wait_for};

/// Why a future has no result.
#[derive(Debug)]
pub enum WaitFailure {
    /// The peer keeps the connection and does not answer.
    Silent(String),
    /// A signal came before the statement was sent.
    Interrupted,
}

/// The waits of one connection.
pub struct FutureWait {
    pub runtime: Runtime,
    pub watch: ConnectionWatch,
    abort_handle: Arc<AbortHandle>,
    /// Looks after waits under [`TimeoutPolicy::WhileServerLives`].
    pub monitor: Option<Box<WaitMonitor>>,
    /// Explains a wait that lasts.
    pub waiter: Option<Arc<Waiter>>,
}

/// Builds the runtime of one connection, which only the calling thread drives.
pub fn runtime() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

impl FutureWait {
    pub fn new(runtime: Runtime) -> Self {
        let abort_handle = AbortHandle::new();
        let connection = Arc::clone(&abort_handle);
        let watch = ConnectionWatch::new(connection, TimeoutPolicy::AnswerSoon, SILENCE);
        Self { runtime, watch, abort_handle, monitor: None, waiter: None }
    }

    /// Connects to a server within `limit`, unless it is interrupted.
    pub fn connect<T>(
        server: &str,
        runtime: Runtime,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
        connecting: impl Future<Output = T>,
    ) -> Result<(T, Self), WaitFailure> {
        let server = server.to_owned();
        let _now = wait_for(move || format!("{server}: connecting waits for the server's answer"));
        let interrupted = async {
            while !is_interrupted() {
                sleep(TICK).await;
            }
        };
        let connected = runtime.block_on(async {
            let (mut interrupted, mut connecting) =
                (pin!(interrupted), pin!(timeout(limit, connecting)));
            poll_fn(|context| match interrupted.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Err(WaitFailure::Interrupted)),
                Poll::Pending => connecting.as_mut().poll(context).map(|connected| {
                    let silent = |_| format!("no answer within {} s", limit.as_secs());
                    connected.map_err(|late| WaitFailure::Silent(silent(late)))
                }),
            })
            .await
        });
        match connected {
            Ok(connected) => Ok((connected, Self::new(runtime))),
            Err(given_up) => {
                // A name lookup may go on.
                runtime.shutdown_background();
                Err(given_up)
            }
        }
    }

    /// Returns a handle for other threads, which aborts the connection.
    pub fn abort_handle(&self) -> Arc<AbortHandle> {
        Arc::clone(&self.abort_handle)
    }

    pub fn is_aborted(&self) -> bool {
        self.abort_handle.reason().is_some()
    }

    /// The monitor of the wait that ended last, if one looked after it.
    pub fn monitor_in_force(&mut self) -> Option<&mut WaitMonitor> {
        let lives = self.watch.policy == TimeoutPolicy::WhileServerLives;
        self.monitor.as_deref_mut().filter(|_| lives)
    }

    /// Polls the future until it is ready or the connection is given up. Calls `pass_bytes` every
    /// [`KEEP_ALIVE`] of a wait that the monitor looks after.
    pub fn wait<T>(
        &mut self,
        future: impl Future<Output = T>,
        pass_bytes: &dyn Fn(),
    ) -> Result<T, WaitFailure> {
        let Self { runtime, watch, abort_handle, monitor, waiter } = self;
        let _now = waiter.as_ref().map(Waiter::wait);
        let lives = watch.policy == TimeoutPolicy::WhileServerLives;
        let mut monitor = monitor.as_mut().filter(|_| lives);
        if monitor.as_mut().is_some_and(|monitor| !monitor.begin()) {
            return Err(WaitFailure::Interrupted);
        }
        watch.begin_wait();
        let mut future = pin!(future);
        let (mut silence, mut ticks) = (None, None);
        let (mut passed, mut has_sent) = (Instant::now(), false);
        runtime.block_on(poll_fn(|context| {
            if let Some(reason) = abort_handle.poll_reason(context) {
                return Poll::Ready(Err(WaitFailure::Silent(reason.to_owned())));
            }
            if let Poll::Ready(result) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            let is_tick = monitor.is_some() && is_tick(&mut ticks, context);
            if let Some(monitor) = monitor.as_mut().filter(|_| is_tick) {
                monitor.look(abort_handle);
            }
            // The poll that sends these bytes is not a sign of the server.
            let is_own = is_tick || mem::take(&mut has_sent);
            if is_tick && passed.elapsed() >= KEEP_ALIVE {
                (passed, has_sent) = (Instant::now(), true);
                pass_bytes();
            }
            if watch.policy != TimeoutPolicy::UntilAborted && is_long(&mut silence, is_own, context)
            {
                watch.on_silence();
            }
            if abort_handle.reason().is_some() {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        }))
    }
}

/// Whether nothing happened for [`SILENCE`]. A poll for another reason than its own clock or petal's own
/// doing means that something did.
fn is_long(silence: &mut Option<Pin<Box<Sleep>>>, is_own: bool, context: &mut Context<'_>) -> bool {
    let silence = silence.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
    let is_long = silence.as_mut().poll(context).is_ready();
    if is_long || !is_own {
        silence.as_mut().reset(Instant::now() + SILENCE);
        let _ = silence.as_mut().poll(context);
    }
    is_long
}

/// Whether another [`TICK`] is over; asks to be woken at the next.
fn is_tick(ticks: &mut Option<Interval>, context: &mut Context<'_>) -> bool {
    let ticks = ticks.get_or_insert_with(|| interval_at(Instant::now() + TICK, TICK));
    let mut is_tick = false;
    while ticks.poll_tick(context).is_ready() {
        is_tick = true;
    }
    is_tick
}
