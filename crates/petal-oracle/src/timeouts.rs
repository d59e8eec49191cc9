//! Links with a timeout for a silent peer. A stopped database, or a network that drops packets,
//! keeps the connection and stays silent: a call would last until the driver's own limit, and its
//! end as long again. Therefore each link works on a detached thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::link::{BindValue, Connector, Destination, Link, LinkError, NamedValue, Result, Row};
use super::sql;
use petal_engine::server::detached_worker::{DetachedWorker, NoAnswer, within};
use petal_engine::server::endpoint::CLOSE_LIMIT;
use petal_engine::server::liveness::{
    AbortHandle, ConnectionWatch, SILENCE, ServerState, TimeoutPolicy, no_answer,
};

const LIMITS: CallLimits =
    CallLimits { silence: SILENCE, answer: SILENCE, again: Duration::from_secs(3) };

/// Timeouts of the steps of a call.
#[derive(Debug, Clone, Copy)]
struct CallLimits {
    /// Timeout of a call, after which petal asks whether the database lives.
    silence: Duration,
    /// Timeout for the answer to that question.
    answer: Duration,
    /// Timeout for connecting to a silent database, for each attempt.
    again: Duration,
}

/// Connector whose links have a timeout policy; it wraps another connector.
pub struct TimedConnector {
    inner: Arc<dyn Connector>,
    policy: TimeoutPolicy,
    limits: CallLimits,
    /// Set while the database does not answer.
    is_silent: Arc<AtomicBool>,
}

impl TimedConnector {
    /// Returns two connectors to one database, for looks and for work, which share the silence
    /// flag.
    pub fn pair(inner: &Arc<dyn Connector>) -> (Arc<dyn Connector>, Arc<dyn Connector>) {
        let is_silent = Arc::<AtomicBool>::default();
        let of = |policy| -> Arc<dyn Connector> {
            let (inner, is_silent) = (Arc::clone(inner), Arc::clone(&is_silent));
            Arc::new(Self { inner, policy, limits: LIMITS, is_silent })
        };
        (of(TimeoutPolicy::AnswerSoon), of(TimeoutPolicy::WhileServerLives))
    }

    fn timed(&self, link: Box<dyn Link>, to: Destination) -> Result<Box<dyn Link>> {
        let identity = link.identity();
        let connection = AbortHandle::new();
        let worker = DetachedWorker::new("oracle", link, Arc::clone(&connection), CLOSE_LIMIT)
            .map_err(|error| LinkError::connection(error.to_string()))?;
        let mut watch =
            ConnectionWatch::new(Arc::clone(&connection), self.policy, self.limits.silence);
        let (inner, limit) = (Arc::clone(&self.inner), self.limits.answer);
        watch.ask_with(move || state_of(identity, &inner, to, limit));
        let is_silent = Arc::clone(&self.is_silent);
        Ok(Box::new(TimedLink { worker, watch, connection, identity, is_silent }))
    }
}

impl Connector for TimedConnector {
    fn connect(&self, to: Destination, purpose: &str) -> Result<Box<dyn Link>> {
        let link = match self.is_silent.load(Ordering::Relaxed) {
            false => self.inner.connect(to, purpose),
            true => {
                let (inner, purpose) = (Arc::clone(&self.inner), purpose.to_owned());
                answered(self.limits.again, move || inner.connect(to, &purpose))
            }
        };
        let link = link?;
        self.is_silent.store(false, Ordering::Relaxed);
        self.timed(link, to)
    }
}

/// Asks the database about the state of a silent petal session. If its view of sessions may not be
/// read, any answer counts.
fn state_of(
    (sid, serial): (u64, u64),
    connector: &Arc<dyn Connector>,
    to: Destination,
    limit: Duration,
) -> ServerState {
    let connector = Arc::clone(connector);
    let asked = answered(limit, move || {
        let mut link = connector.connect(to, "petal asks")?;
        let of = [BindValue::Number(sid as i64), BindValue::Number(serial as i64)];
        if sid > 0
            && let Ok(rows) = link.query(&sql::section(sql::LOOK, "session_at_work"), &of)
        {
            let is_at_work = !rows.is_empty();
            return Ok(if is_at_work { ServerState::Working } else { ServerState::Idle });
        }
        link.query(&sql::section(sql::LOOK, "alive"), &[])?;
        Ok(ServerState::Working)
    });
    asked.unwrap_or_else(|error| ServerState::Silent(error.to_string()))
}

/// Returns the result of `job` from a thread, which is abandoned if it takes longer.
pub fn answered<R: Send + 'static>(
    limit: Duration,
    job: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    within("oracle asks", limit, job).unwrap_or_else(|unanswered| {
        Err(LinkError::connection(match unanswered {
            NoAnswer::NoThread(error) => error.to_string(),
            NoAnswer::TooLate => no_answer(limit),
            NoAnswer::Failed(words) => words,
        }))
    })
}

struct TimedLink {
    worker: DetachedWorker<Box<dyn Link>>,
    watch: ConnectionWatch,
    connection: Arc<AbortHandle>,
    identity: (u64, u64),
    is_silent: Arc<AtomicBool>,
}

impl TimedLink {
    fn wait_for<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut dyn Link) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let (watch, silence) = (&self.watch, self.watch.silence);
        watch.begin_wait();
        let mut next = silence;
        let mut on_tick = |waited| {
            if waited >= next {
                next = waited + silence;
                watch.on_silence();
            }
        };
        let result = self.worker.run(silence, &mut on_tick, move |link| job(link.as_mut()));
        result.unwrap_or_else(|reason| {
            self.is_silent.store(true, Ordering::Relaxed);
            Err(LinkError::connection(reason))
        })
    }
}

impl Link for TimedLink {
    fn execute(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<u64> {
        let (sql, binds) = (sql.to_owned(), BindValue::owned(binds));
        self.wait_for(move |link| link.execute(&sql, &binds))
    }

    fn query(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>> {
        let (sql, binds) = (sql.to_owned(), BindValue::owned(binds));
        self.wait_for(move |link| link.query(&sql, &binds))
    }

    fn execute_many(&mut self, sql: &str, rows: &[Vec<BindValue<'_>>]) -> Result<u64> {
        let sql = sql.to_owned();
        let rows: Vec<_> = rows.iter().map(|row| BindValue::owned(row)).collect();
        self.wait_for(move |link| link.execute_many(&sql, &rows))
    }

    fn call(&mut self, block: &str, ins: &[NamedValue<'_>], outs: &[&'static str]) -> Result<Row> {
        let (block, outs) = (block.to_owned(), outs.to_vec());
        let (names, values): (Vec<_>, Vec<_>) = ins.iter().cloned().unzip();
        let ins: Vec<_> = names.into_iter().zip(BindValue::owned(&values)).collect();
        self.wait_for(move |link| link.call(&block, &ins, &outs))
    }

    fn commit(&mut self) -> Result<()> {
        self.wait_for(|link| link.commit())
    }

    fn limit(&mut self, longest: Option<Duration>) -> Result<()> {
        self.wait_for(move |link| link.limit(longest))
    }

    fn identity(&self) -> (u64, u64) {
        self.identity
    }

    fn abort_handle(&self) -> Arc<AbortHandle> {
        Arc::clone(&self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::ScriptedOracle;
    use super::*;
    use TimeoutPolicy::{AnswerSoon, WhileServerLives};
    use std::sync::atomic::AtomicUsize;

    /// Timeout for calls that never answer.
    const SHORT: Duration = Duration::from_millis(20);
    /// Timeout for calls that answer, even on a slow machine.
    const LONG: Duration = Duration::from_secs(3600);

    fn link(scripted: &ScriptedOracle, policy: TimeoutPolicy, limits: CallLimits) -> Box<dyn Link> {
        timed(scripted, policy, limits).connect(Destination::Endpoint(0), "petal").unwrap()
    }

    fn timed(
        scripted: &ScriptedOracle,
        policy: TimeoutPolicy,
        limits: CallLimits,
    ) -> TimedConnector {
        let inner: Arc<dyn Connector> = Arc::new(scripted.clone());
        TimedConnector { inner, policy, limits, is_silent: Arc::default() }
    }

    fn limits(silence: Duration, answer: Duration) -> CallLimits {
        CallLimits { silence, answer, again: SHORT }
    }

    #[test]
    fn a_database_that_fell_silent_is_tried_shortly_until_it_answers() {
        let is_back = Arc::<AtomicBool>::default();
        let back = Arc::clone(&is_back);
        let scripted = ScriptedOracle::default()
            .hangs("gv_$sysstat")
            .hangs_until("CONNECT admin", move |_| back.load(Ordering::Relaxed));
        let timed = timed(&scripted, AnswerSoon, limits(SHORT, SHORT));
        let mut link = timed.connect(Destination::Endpoint(0), "petal").unwrap();
        assert!(link.query("SELECT 1 FROM sys.gv_$sysstat", &[]).is_err());
        // Without the timeout this would hang.
        assert!(timed.connect(Destination::Admin, "petal").is_err());
        is_back.store(true, Ordering::Relaxed);
        while timed.connect(Destination::Endpoint(0), "petal").is_err() {}
        assert!(!timed.is_silent.load(Ordering::Relaxed));
    }

    #[test]
    fn answers_in_time_are_passed_on_with_all_binds() {
        let scripted = ScriptedOracle::default().fails("DROP", 942, "table or view does not exist");
        let mut link = link(&scripted, WhileServerLives, limits(LONG, LONG));
        let binds = [BindValue::Number(7), BindValue::from("x")];
        link.execute("INSERT", &binds).unwrap();
        link.execute_many("INSERT MANY", &[binds.to_vec(), binds.to_vec()]).unwrap();
        assert_eq!(link.execute("DROP", &[]).unwrap_err().code, Some(942));
        link.commit().unwrap();
        assert_eq!(link.identity(), (7, 70));
        assert_eq!(
            scripted.sent(),
            ["execute INSERT [7, 'x']", "execute 2 rows INSERT MANY", "execute DROP", "commit "]
        );
    }

    #[test]
    fn a_look_that_is_not_answered_is_given_up_and_not_asked_again() {
        let scripted = ScriptedOracle::default().hangs("gv_$sysstat");
        let mut link = link(&scripted, AnswerSoon, limits(SHORT, SHORT));
        let error = link.query("SELECT 1 FROM sys.gv_$sysstat", &[]).unwrap_err();
        assert_eq!(error.kind, super::super::link::LinkErrorKind::Connection);
        assert!(error.message.contains("no answer for"), "{error}");
        assert_eq!(link.query("SELECT 2 FROM sys.dual", &[]).unwrap_err(), error);
        assert!(!scripted.sent().iter().any(|line| line.contains("SELECT 2")));
    }

    #[test]
    fn work_goes_on_while_the_database_answers_another_connection() {
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&asked);
        // On the third question the script ends the work.
        let works_until_asked = |question: &'static str| {
            let seen = Arc::clone(&seen);
            ScriptedOracle::default().hangs_until("CREATE INDEX", move |scripted| {
                let asks = scripted.count_sent(question);
                seen.store(asks, Ordering::Relaxed);
                asks >= 3
            })
        };
        let is_at_work =
            works_until_asked("gv_$session WHERE").answers("gv_$session", &[&["ACTIVE"]]);
        // Nobody granted the view.
        let is_unknown = works_until_asked("dual").fails("gv_$session", 942, "does not exist");
        for scripted in [is_at_work, is_unknown] {
            let mut link = link(&scripted, WhileServerLives, limits(SHORT, LONG));
            link.execute("CREATE INDEX i", &[]).unwrap();
            assert!(asked.swap(0, Ordering::Relaxed) >= 3);
        }
    }

    #[test]
    fn work_whose_session_is_idle_in_the_database_is_given_up() {
        // The view has no row of a session at work.
        let scripted = ScriptedOracle::default().hangs("CREATE INDEX");
        let mut link = link(&scripted, WhileServerLives, limits(SHORT, LONG));
        let error = link.execute("CREATE INDEX i", &[]).unwrap_err();
        insta::assert_snapshot!(error, @"no answer, and the server has no work of this connection's left");
        let asked: Vec<String> =
            scripted.sent().into_iter().filter(|line| line.contains("gv_$session")).collect();
        // A slow thread may ask once more before it stops.
        assert!(asked.len() >= 2, "{asked:?}");
        assert!(asked[0].ends_with("[7, 70]"), "its number and serial number: {asked:?}");
    }

    #[test]
    fn work_is_given_up_where_nothing_answers() {
        let scripted = ScriptedOracle::default().hangs("CREATE INDEX").hangs("gv_$session");
        let work = |scripted: &ScriptedOracle, answer| {
            let mut link = link(scripted, WhileServerLives, limits(SHORT, answer));
            link.execute("CREATE INDEX i", &[]).unwrap_err().message
        };
        let message = work(&scripted, SHORT);
        assert!(message.contains("none on another connection: no answer for 0 s"), "{message}");
        let scripted = ScriptedOracle::default()
            .hangs("CREATE INDEX")
            .fails("gv_$session", 3113, "end-of-file")
            .fails("dual", 3113, "end-of-file");
        let message = work(&scripted, LONG);
        assert!(message.contains("on another connection: ORA-03113"), "{message}");
    }
}
