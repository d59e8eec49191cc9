//! Links that give a silent peer up. A database that is stopped, or a network that swallows what is
//! sent, keeps the connection and says nothing: a call would else last until the driver's own limit,
//! and its end as long again.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::apart::Apart;
use super::link::{Connector, Link, LinkError, Row, Value};
use super::sql;

/// Silence after which a connection is doubted.
pub const SILENCE: Duration = Duration::from_secs(10);
/// A connection that is done with says goodbye, which a silent peer does not answer.
const FAREWELL: Duration = Duration::from_secs(2);

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
    silence: Duration,
}

impl Patient {
    pub fn new(inner: &Arc<dyn Connector>, patience: Patience) -> Arc<dyn Connector> {
        Arc::new(Self { inner: Arc::clone(inner), patience, silence: SILENCE })
    }

    fn over(&self, link: Box<dyn Link>, who: Who) -> Result<Box<dyn Link>, LinkError> {
        let identity = link.identity();
        let apart = Apart::new("oracle", link, FAREWELL)
            .map_err(|error| LinkError::connection(format!("no thread for it: {error}")))?;
        Ok(Box::new(PatientLink {
            apart,
            identity,
            given_up: None,
            silence: self.silence,
            ask: (self.patience == Patience::WhileItLives).then(|| (Arc::clone(&self.inner), who)),
        }))
    }
}

impl Connector for Patient {
    fn session(&self, endpoint: usize, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        self.over(self.inner.session(endpoint, purpose)?, Who::Session(endpoint))
    }

    fn admin(&self, purpose: &str) -> Result<Box<dyn Link>, LinkError> {
        self.over(self.inner.admin(purpose)?, Who::Admin)
    }
}

/// Where a silent connection's database is asked whether it lives.
#[derive(Debug, Clone, Copy)]
enum Who {
    Session(usize),
    Admin,
}

struct PatientLink {
    apart: Apart<Box<dyn Link>>,
    identity: (u64, u64),
    /// Why, once it is.
    given_up: Option<LinkError>,
    silence: Duration,
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
            match answer.recv_timeout(self.silence) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.give_up("the driver failed at the answer".to_owned()));
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
        let silent = format!("no answer for {} s", self.silence.as_secs());
        let Some((connector, who)) = &self.ask else { return Err(silent) };
        let (connector, who) = (Arc::clone(connector), *who);
        let (sender, answer) = channel();
        let asked = std::thread::Builder::new().name("oracle asks".to_owned()).spawn(move || {
            let asked = match who {
                Who::Session(endpoint) => connector.session(endpoint, "petal asks"),
                Who::Admin => connector.admin("petal asks"),
            };
            let alive =
                asked.and_then(|mut link| link.query(&sql::section(sql::LOOK, "alive"), &[]));
            let _ = sender.send(alive.map(|_| ()));
        });
        let told = asked.map_err(|error| error.to_string()).and_then(|_| {
            match answer.recv_timeout(self.silence) {
                Ok(alive) => alive.map_err(|error| error.to_string()),
                Err(_) => Err("none either".to_owned()),
            }
        });
        told.map_err(|told| format!("{silent}, and on another connection: {told}"))
    }

    fn give_up(&mut self, why: String) -> LinkError {
        self.apart.leave_behind();
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SILENCE: Duration = Duration::from_millis(20);

    fn link(scripted: &Scripted, patience: Patience) -> Box<dyn Link> {
        let inner: Arc<dyn Connector> = Arc::new(scripted.clone());
        let patient = Patient { inner, patience, silence: SILENCE };
        patient.session(0, "petal").unwrap()
    }

    #[test]
    fn what_answers_in_time_is_passed_on_with_all_that_was_bound() {
        let scripted = Scripted::default().fails("DROP", 942, "table or view does not exist");
        let mut link = link(&scripted, Patience::WhileItLives);
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
        let mut link = link(&scripted, Patience::Short);
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
            let asks =
                scripted.0.lock().unwrap().sent.iter().filter(|s| s.contains("dual")).count();
            seen.store(asks, Ordering::Relaxed);
            asks >= 3
        });
        link(&scripted, Patience::WhileItLives).execute("CREATE INDEX i", &[]).unwrap();
        assert!(asked.load(Ordering::Relaxed) >= 3);
    }

    #[test]
    fn work_is_given_up_where_nothing_answers() {
        let scripted = Scripted::default().hangs("CREATE INDEX").hangs("dual");
        let error = link(&scripted, Patience::WhileItLives).execute("CREATE INDEX i", &[]);
        let message = error.unwrap_err().message;
        assert!(message.contains("and on another connection: none either"), "{message}");
        let scripted = Scripted::default().hangs("CREATE INDEX").fails("dual", 3113, "end-of-file");
        let error = link(&scripted, Patience::WhileItLives).execute("CREATE INDEX i", &[]);
        let message = error.unwrap_err().message;
        assert!(message.contains("on another connection: ORA-03113"), "{message}");
    }
}
