//! The stand-in as tests see it: where it listens, what goes wrong at which step, what it was sent, and
//! what all of its connections share. No test of its own.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use super::logon::{FEW_ROUNDS, VERIFIER_ROUNDS};
use super::model::{Value, World};
use super::request::Execute;
use crate::mutation;

pub const PASSWORD: &str = "s3cret";

/// Which server's way of speaking the stand-in has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Release {
    /// Each step of log-on by itself, no end of answers, version 11 of the fields.
    Xe18,
    /// Three steps of log-on at once, marked ends, version 24.
    Free23,
}

impl Release {
    pub fn version(self) -> u8 {
        match self {
            Self::Xe18 => 11,
            Self::Free23 => 24,
        }
    }
}

/// What goes wrong at a step.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing is answered any more, and the connection stays.
    Silence,
    /// The connection ends.
    Closed,
    /// These bytes are sent instead of an answer, and nothing more.
    Sends(Vec<u8>),
    /// An answer without an end is sent.
    Endless,
    /// An error of the database.
    Fails(u32, &'static str),
    /// The listener accepts as another release did, by the name of its recording.
    Accepts(&'static str),
    /// The listener sends the client to another port of this host.
    Redirects(u16),
    /// The statement ends when somebody cancels it or kills its session.
    Hangs,
    /// The statement ends when its session is killed.
    HangsUnseen,
    /// As [`Fault::Hangs`], but the error follows its marker at once, as 23ai sends it.
    HangsHasty,
}

struct Rule {
    at: String,
    /// How often the step still goes well.
    after: u32,
    fault: Fault,
}

/// A call of petal's loop, and what the stand-in made of it.
#[derive(Clone)]
pub struct Call {
    pub text: String,
    pub binds: BTreeMap<String, Value>,
    pub ended: String,
    pub errors: String,
}

/// What others may see of a session, and do to it.
#[derive(Default)]
pub struct Flags {
    /// It answered, and waits for what is asked next.
    pub is_idle: AtomicBool,
    pub cancelled: AtomicBool,
    pub killed: AtomicBool,
}

/// What all connections of a stand-in share.
pub struct Shared {
    pub release: Release,
    /// Rounds of PBKDF2 of the account's verifier.
    pub rounds: AtomicU32,
    /// The account's password.
    pub password: Mutex<String>,
    world: Mutex<World>,
    rules: Mutex<Vec<Rule>>,
    pub sessions: Mutex<BTreeMap<u64, Arc<Flags>>>,
    pub last_session: AtomicU64,
    /// Every statement that came, with single spaces.
    pub statements: Mutex<Vec<String>>,
    pub calls: Mutex<Vec<Call>>,
    /// What each session executed, once [`StandIn::keep_messages`] asks for it.
    pub messages: Mutex<Option<Vec<(u64, Execute)>>>,
    /// What no server would understand; a test must find none.
    pub odd: Mutex<Vec<String>>,
    /// A row of which all changed comes without a vector, which no recording shows.
    pub spares_vectors: AtomicBool,
    /// A change of a column of what is answered.
    pub mutation: mutation::Shared,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A statement with single spaces.
pub fn one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Shared {
    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The fault of a step, by its name or by what the statement contains.
    pub fn fault(&self, step: &str) -> Option<Fault> {
        let mut rules = lock(&self.rules);
        let rule = rules.iter_mut().find(|rule| step.contains(&rule.at))?;
        match rule.after.checked_sub(1) {
            Some(left) => {
                rule.after = left;
                None
            }
            None => Some(rule.fault.clone()),
        }
    }

    /// Waits while another session holds a table's rows; the error if the session's statement is
    /// cancelled meanwhile, or its session killed.
    pub fn wait_for_rows(&self, session: u64, table: &str) -> Option<u32> {
        let flags = lock(&self.sessions).get(&session).cloned().unwrap_or_default();
        while self.world().is_held(session, table) {
            if flags.killed.load(Ordering::Relaxed) {
                return Some(28);
            }
            if flags.cancelled.swap(false, Ordering::Relaxed) {
                return Some(1013);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// The error of the next operation of a loop, if it has one.
    pub fn next_operation_fails(&self) -> Option<u32> {
        let Fault::Fails(code, _) = self.fault("operation")? else { return None };
        let mut rules = lock(&self.rules);
        rules.retain(|rule| rule.at != "operation");
        Some(code)
    }
}

/// A stand-in on a port of this host, until the test's process ends.
#[derive(Clone)]
pub struct StandIn {
    pub port: u16,
    pub shared: Arc<Shared>,
}

impl StandIn {
    pub fn start(release: Release) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut world = World::default();
        for name in [
            "session logical reads",
            "physical reads",
            "physical reads cache",
            "physical read IO requests",
            "physical read bytes",
            "physical writes",
            "physical write IO requests",
            "physical write bytes",
            "redo size",
            "user commits",
            "redo synch writes",
            "background checkpoints completed",
            "cleanouts only - consistent read gets",
            "parse count (total)",
            "execute count",
        ] {
            world.count(name, 0);
        }
        let shared = Arc::new(Shared {
            release,
            rounds: FEW_ROUNDS.into(),
            password: Mutex::new(PASSWORD.to_owned()),
            world: Mutex::new(world),
            rules: Mutex::default(),
            sessions: Mutex::default(),
            last_session: AtomicU64::new(10),
            statements: Mutex::default(),
            calls: Mutex::default(),
            messages: Mutex::default(),
            odd: Mutex::default(),
            spares_vectors: AtomicBool::default(),
            mutation: mutation::Shared::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || Connection::serve(stream, &shared));
            }
        });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("oracle://petal:{PASSWORD}@127.0.0.1:{}/standin", self.port)
    }

    /// From the next time on, after `after` times that go well.
    pub fn fails_at(&self, at: &str, after: u32, fault: Fault) -> &Self {
        lock(&self.shared.rules).push(Rule { at: at.to_owned(), after, fault });
        self
    }

    /// Has the account a verifier like a server's.
    pub fn has_a_servers_verifier(&self) {
        self.shared.rounds.store(VERIFIER_ROUNDS, Ordering::Relaxed);
    }

    pub fn is_well_again(&self) {
        lock(&self.shared.rules).clear();
    }

    pub fn statements(&self) -> Vec<String> {
        lock(&self.shared.statements).clone()
    }

    pub fn keep_messages(&self) {
        *lock(&self.shared.messages) = Some(Vec::new());
    }

    /// What the first session executed that executed such a statement, and its commits.
    pub fn session_with(&self, sql: &str) -> Vec<Execute> {
        let messages = lock(&self.shared.messages).clone().unwrap();
        let text = |execute: &Execute| one_line(execute.sql.as_deref().unwrap_or_default());
        let is_it = |execute: &Execute| text(execute).starts_with(sql);
        let session = messages.iter().find(|(_, execute)| is_it(execute)).unwrap().0;
        messages.into_iter().filter(|(of, _)| *of == session).map(|(_, execute)| execute).collect()
    }

    pub fn calls(&self) -> Vec<Call> {
        lock(&self.shared.calls).clone()
    }

    /// Fails where a client sent what cannot be.
    #[track_caller]
    pub fn understood_all(&self) {
        assert_eq!(*lock(&self.shared.odd), [""; 0]);
    }

    /// Keys of a schema with the text of c2.
    pub fn rows(&self, schema: u32) -> BTreeMap<u64, String> {
        let world = self.shared.world();
        let table = &world.tables[&format!("PETAL{schema}_CF1")];
        table.rows.iter().map(|(key, columns)| (*key, columns[0].clone())).collect()
    }
}
