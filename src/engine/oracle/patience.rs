//! Links that give a silent peer up. A database that is stopped, or a network that swallows what is
//! sent, keeps the connection and says nothing: a call would else last until the driver's own limit,
//! and its end as long again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::apart::Apart;
use super::link::{Connector, Link, LinkError, Row, Value};
use super::sql;
use crate::engine::threads::Thread;

/// Silence after which a connection is doubted.
pub const SILENCE: Duration = Duration::from_secs(10);
const LIMITS: Limits = Limits { silence: SILENCE, answer: SILENCE, again: Duration::from_secs(3) };
/// A connection that is done with says goodbye, which a silent peer does not answer.
const FAREWELL: Duration = Duration::from_secs(2);

/// Its thread is no more: it panicked.
pub const DRIVER_FAILED: &str = "the driver failed at the answer";

/// How long is waited for what.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// For a call, before the database is asked whether it lives.
    silence: Duration,
    /// For the answer to that.
    answer: Duration,
    /// For a connection to a database that fell silent, each time until one is made.
    again: Duration,
}

/// What a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A look at what the instances tell: answered within the silence, or not worth waiting for.
    Short,
    /// Work of any length, as long as the database still answers on another connection.
    WhileItLives,
}

/// Connects as another connector does, and waits no longer than it should.
pub struct Patient {
    inner: Arc<dyn Connector>,
    patience: Patience,
    limits: Limits,
    /// It fell silent, and has not answered since.
    is_silent: Arc<AtomicBool>,
}

impl Patient {
    /// Two of one database, for looks and for work, which know of each other's silence.
    pub fn pair(inner: &Arc<dyn Connector>) -> (Arc<dyn Connector>, Arc<dyn Connector>) {
        let is_silent = Arc::<AtomicBool>::default();
        let of = |patience| -> Arc<dyn Connector> {
            let (inner, is_silent) = (Arc::clone(inner), Arc::clone(&is_silent));
            Arc::new(Self { inner, patience, limits: LIMITS, is_silent })
        };
        (of(Patience::Short), of(Patience::WhileItLives))
    }

    fn connect(&self, who: Who, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        let link = match self.is_silent.load(Ordering::Relaxed) {
            false => who.connect(self.inner.as_ref(), purpose),
            true => {
                let (inner, purpose) = (Arc::clone(&self.inner), purpose.to_owned());
                within(self.limits.again, move || who.connect(inner.as_ref(), &purpose))
            }
        };
        let link = link?;
        self.is_silent.store(false, Ordering::Relaxed);
        self.over(link, who)
    }

    fn over(&self, link: Box<dyn Link>, who: Who) -> Result<Box<dyn Link>, LinkError> {
        let identity = link.identity();
        let apart = Apart::new("oracle", link, FAREWELL)
            .map_err(|error| LinkError::connection(error.to_string()))?;
        Ok(Box::new(PatientLink {
            apart,
            identity,
            given_up: None,
            limits: self.limits,
            is_silent: Arc::clone(&self.is_silent),
            ask: (self.patience == Patience::WhileItLives).then(|| (Arc::clone(&self.inner), who)),
        }))
    }
}

impl Connector for Patient {
    fn session(&self, endpoint: usize, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        self.connect(Who::Session(endpoint), purpose)
    }

    fn admin(&self, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        self.connect(Who::Admin, purpose)
    }
}

/// Where a silent connection's database is asked whether it lives.
#[derive(Debug, Clone, Copy)]
enum Who {
    Session(usize),
    Admin,
}

impl Who {
    fn connect(self, to: &dyn Connector, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        match self {
            Self::Session(endpoint) => to.session(endpoint, purpose),
            Self::Admin => to.admin(purpose),
        }
    }
}

/// What `job` says, from a thread that is left behind if it takes longer.
fn within<R: Send + 'static>(
    limit: Duration,
    job: impl FnOnce() -> Result<R, LinkError> + Send + 'static,
) -> Result<R, LinkError> {
    let (sender, answer) = channel();
    let started = Thread::named("oracle asks").start(move || {
        let _ = sender.send(job());
    });
    started.map_err(|error| LinkError::connection(error.to_string()))?;
    answer.recv_timeout(limit).unwrap_or_else(|unheard| {
        Err(LinkError::connection(match unheard {
            RecvTimeoutError::Timeout => format!("no answer for {} s", limit.as_secs()),
            RecvTimeoutError::Disconnected => DRIVER_FAILED.to_owned(),
        }))
    })
}

struct PatientLink {
    apart: Apart<Box<dyn Link>>,
    identity: (u64, u64),
    /// Why, once it is.
    given_up: Option<LinkError>,
    limits: Limits,
    is_silent: Arc<AtomicBool>,
    /// Whom to ask after a silence; None: nobody, the first is the last.
    ask: Option<(Arc<dyn Connector>, Who)>,
}

impl PatientLink {
    fn wait_for<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut dyn Link) -> Result<R, LinkError> + Send + 'static,
    ) -> Result<R, LinkError> {
        if let Some(error) = &self.given_up {
            return Err(error.clone());
        }
        let (sender, answer) = channel();
        self.apart.give(move |link| {
            let _ = sender.send(job(link.as_mut()));
        });
        loop {
            match answer.recv_timeout(self.limits.silence) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.give_up(DRIVER_FAILED.to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(why) = self.still_lives() {
                        // It may have answered meanwhile.
                        return answer.try_recv().unwrap_or_else(|_| Err(self.give_up(why)));
                    }
                }
            }
        }
    }

    fn still_lives(&self) -> Result<(), String> {
        let silent = format!("no answer for {} s", self.limits.silence.as_secs());
        let Some((connector, who)) = &self.ask else { return Err(silent) };
        let (connector, who) = (Arc::clone(connector), *who);
        let told = within(self.limits.answer, move || {
            let mut link = who.connect(connector.as_ref(), "petal asks")?;
            link.query(&sql::section(sql::LOOK, "alive"), &[]).map(|_| ())
        });
        told.map_err(|told| format!("{silent}, and on another connection: {told}"))
    }

    fn give_up(&mut self, why: String) -> LinkError {
        self.apart.leave_behind();
        self.is_silent.store(true, Ordering::Relaxed);
        let error = LinkError::connection(why);
        self.given_up = Some(error.clone());
        error
    }
}

/// A value that may go to another thread.
enum Owned {
    Text(String),
    Number(i64),
}

impl Owned {
    fn all(values: &[Value<'_>]) -> Vec<Self> {
        let own = |value: &Value<'_>| match value {
            Value::Text(text) => Self::Text((*text).to_owned()),
            Value::Number(number) => Self::Number(*number),
        };
        values.iter().map(own).collect()
    }

    fn as_value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text),
            Self::Number(number) => Value::Number(*number),
        }
    }

    fn values(all: &[Self]) -> Vec<Value<'_>> {
        all.iter().map(Self::as_value).collect()
    }
}

impl Link for PatientLink {
    fn execute(&mut self, sql: &str, binds: &[Value<'_>]) -> Result<u64, LinkError> {
        let (sql, binds) = (sql.to_owned(), Owned::all(binds));
        self.wait_for(move |link| link.execute(&sql, &Owned::values(&binds)))
    }

    fn query(&mut self, sql: &str, binds: &[Value<'_>]) -> Result<Vec<Row>, LinkError> {
        let (sql, binds) = (sql.to_owned(), Owned::all(binds));
        self.wait_for(move |link| link.query(&sql, &Owned::values(&binds)))
    }

    fn execute_many(&mut self, sql: &str, rows: &[Vec<Value<'_>>]) -> Result<u64, LinkError> {
        let sql = sql.to_owned();
        let rows: Vec<Vec<Owned>> = rows.iter().map(|row| Owned::all(row)).collect();
        self.wait_for(move |link| {
            let rows: Vec<Vec<Value<'_>>> = rows.iter().map(|row| Owned::values(row)).collect();
            link.execute_many(&sql, &rows)
        })
    }

    fn call(
        &mut self,
        block: &str,
        ins: &[(&str, Value<'_>)],
        outs: &[&str],
    ) -> Result<Row, LinkError> {
        let block = block.to_owned();
        let (names, values): (Vec<&str>, Vec<Value<'_>>) = ins.iter().copied().unzip();
        let (names, values) = (names.join(" "), Owned::all(&values));
        let outs = outs.join(" ");
        self.wait_for(move |link| {
            let ins: Vec<(&str, Value<'_>)> =
                names.split_whitespace().zip(Owned::values(&values)).collect();
            link.call(&block, &ins, &outs.split_whitespace().collect::<Vec<_>>())
        })
    }

    fn commit(&mut self) -> Result<(), LinkError> {
        self.wait_for(|link| link.commit())
    }

    fn limit(&mut self, longest: Option<Duration>) -> Result<(), LinkError> {
        self.wait_for(move |link| link.limit(longest))
    }

    fn identity(&self) -> (u64, u64) {
        self.identity
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::Scripted;
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// For what never answers.
    const SHORT: Duration = Duration::from_millis(20);
    /// For what answers, on however slow a machine.
    const LONG: Duration = Duration::from_secs(3600);

    fn link(scripted: &Scripted, patience: Patience, limits: Limits) -> Box<dyn Link> {
        patient(scripted, patience, limits).session(0, "petal").unwrap()
    }

    fn patient(scripted: &Scripted, patience: Patience, limits: Limits) -> Patient {
        let inner: Arc<dyn Connector> = Arc::new(scripted.clone());
        Patient { inner, patience, limits, is_silent: Arc::default() }
    }

    fn limits(silence: Duration, answer: Duration) -> Limits {
        Limits { silence, answer, again: SHORT }
    }

    #[test]
    fn a_database_that_fell_silent_is_tried_shortly_until_it_answers() {
        let is_back = Arc::<AtomicBool>::default();
        let back = Arc::clone(&is_back);
        let scripted = Scripted::default()
            .hangs("gv$sysstat")
            .hangs_until("CONNECT admin", move |_| back.load(Ordering::Relaxed));
        let patient = patient(&scripted, Patience::Short, limits(SHORT, SHORT));
        let mut link = patient.session(0, "petal").unwrap();
        assert!(link.query("SELECT 1 FROM gv$sysstat", &[]).is_err());
        // Without the limit this would hang.
        assert!(patient.admin("petal").is_err());
        is_back.store(true, Ordering::Relaxed);
        while patient.session(0, "petal").is_err() {}
        assert!(!patient.is_silent.load(Ordering::Relaxed));
    }

    #[test]
    fn what_answers_in_time_is_passed_on_with_all_that_was_bound() {
        let scripted = Scripted::default().fails("DROP", 942, "table or view does not exist");
        let mut link = link(&scripted, Patience::WhileItLives, limits(LONG, LONG));
        let binds = [Value::Number(7), Value::Text("x")];
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
        let scripted = Scripted::default().hangs("gv$sysstat");
        let mut link = link(&scripted, Patience::Short, limits(SHORT, SHORT));
        let error = link.query("SELECT 1 FROM gv$sysstat", &[]).unwrap_err();
        assert_eq!(error.kind, super::super::link::Kind::Connection);
        assert!(error.message.contains("no answer for"), "{error}");
        assert_eq!(link.query("SELECT 2 FROM dual", &[]).unwrap_err(), error);
        assert!(!scripted.sent().iter().any(|line| line.contains("SELECT 2")));
    }

    #[test]
    fn work_goes_on_while_the_database_answers_another_connection() {
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&asked);
        // The third time that it is asked it lets the work end.
        let scripted = Scripted::default().hangs_until("CREATE INDEX", move |scripted| {
            let asks = scripted.0.lock().sent.iter().filter(|s| s.contains("dual")).count();
            seen.store(asks, Ordering::Relaxed);
            asks >= 3
        });
        let mut link = link(&scripted, Patience::WhileItLives, limits(SHORT, LONG));
        link.execute("CREATE INDEX i", &[]).unwrap();
        assert!(asked.load(Ordering::Relaxed) >= 3);
    }

    #[test]
    fn work_is_given_up_where_nothing_answers() {
        let scripted = Scripted::default().hangs("CREATE INDEX").hangs("dual");
        let work = |scripted: &Scripted, answer| {
            let mut link = link(scripted, Patience::WhileItLives, limits(SHORT, answer));
            link.execute("CREATE INDEX i", &[]).unwrap_err().message
        };
        let message = work(&scripted, SHORT);
        assert!(message.contains("and on another connection: no answer for 0 s"), "{message}");
        let scripted = Scripted::default().hangs("CREATE INDEX").fails("dual", 3113, "end-of-file");
        let message = work(&scripted, LONG);
        assert!(message.contains("on another connection: ORA-03113"), "{message}");
        let failing = Scripted::default().hangs("CREATE INDEX").hangs_until("dual", |_| panic!());
        let message = work(&failing, LONG);
        assert!(message.contains("on another connection: the driver failed"), "{message}");
    }
}
