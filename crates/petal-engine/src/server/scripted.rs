//! A scripted server for the tests of every engine: it answers a statement by a text in it, and
//! records every statement. Each engine has its own transport to it.

// Only tests use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::SessionError;
use petal_workload::op::{Kind, Operation};

/// A row of a result, each column as text; `None` means NULL.
pub type Row = Vec<Option<String>>;

/// Answer to a statement that contains a text; `E` is the engine's error.
pub enum ScriptedAnswer<E> {
    Rows(Vec<Row>),
    Fails(E),
    /// No answer until this says so.
    Hangs(Arc<IsOver<E>>),
}

/// Whether a server answers again.
pub type IsOver<E> = dyn Fn(&StatementScript<E>) -> bool + Send + Sync;

impl<E: Clone> Clone for ScriptedAnswer<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Rows(rows) => Self::Rows(rows.clone()),
            Self::Fails(error) => Self::Fails(error.clone()),
            Self::Hangs(over) => Self::Hangs(Arc::clone(over)),
        }
    }
}

/// The script, shared by every connection to the server.
pub struct StatementScript<E>(Arc<Mutex<ScriptState<E>>>);

struct ScriptState<E> {
    answers: Vec<(String, ScriptedAnswer<E>)>,
    sent: Vec<String>,
}

impl<E> Default for StatementScript<E> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ScriptState { answers: Vec::new(), sent: Vec::new() })))
    }
}

impl<E> Clone for StatementScript<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Clone> StatementScript<E> {
    /// Adds an answer to statements that contain the text. The latest answer counts.
    pub fn add(&self, contains: &str, answer: ScriptedAnswer<E>) {
        self.0.lock().answers.insert(0, (contains.to_owned(), answer));
    }

    /// The answer to a statement; `None` if the script has no answer, or once it hangs no more.
    pub fn find(&self, statement: &str) -> Option<ScriptedAnswer<E>> {
        let found = {
            let state = self.0.lock();
            let mut answers = state.answers.iter();
            answers.find(|(contains, _)| statement.contains(contains.as_str())).cloned()
        };
        match found?.1 {
            ScriptedAnswer::Hangs(over) => {
                while !over(self) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                None
            }
            answer => Some(answer),
        }
    }

    pub fn keep(&self, line: String) {
        self.0.lock().sent.push(line);
    }

    /// Returns the texts sent since the last call of this, a line each.
    pub fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().sent)
    }

    /// Number of sent lines that contain a text.
    pub fn count_sent(&self, contains: &str) -> usize {
        self.0.lock().sent.iter().filter(|line| line.contains(contains)).count()
    }
}

/// A row of a script; an empty text is NULL.
pub fn cells(row: &[&str]) -> Row {
    row.iter().map(|cell| (!cell.is_empty()).then(|| (*cell).to_owned())).collect()
}

pub fn operation(kind: Kind, schema: u32, first: u64, rows: u32) -> Operation {
    Operation { kind, schema, first, rows, stamp: first + 1000, due: None, hot: [false; 2] }
}

pub fn session_error(code: &str) -> SessionError {
    SessionError { code: code.to_owned(), message: "as the script says".to_owned() }
}
