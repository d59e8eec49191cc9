//! The loop inside the database, as the stand-in executes it: by the texts that the block takes and
//! the tables that its branches name. `oracle_block.rs` executes the block's own text. No test of its
//! own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::model::{Answer, Value, table_after};
use super::stand_in::Shared;

/// Characters of one operation.
const OPERATION: usize = 25;
/// Characters of what ended, after which the block ends.
const ENDED_MAX: usize = 3960;
/// How long each visited row takes.
const ROW: Duration = Duration::from_micros(1);

/// Executes a block of petal's loop for a session; `binds` by name.
pub fn run(shared: &Shared, session: u64, sql: &str, binds: &BTreeMap<String, Value>) -> Answer {
    let text = |name: &str| binds[name].text();
    let (ops, fillers, tail) = (text("OPS"), text("FILLERS"), text("TAIL"));
    let (width, total) = (binds["WIDTH"].number() as usize, binds["TOTAL"].number() as usize);
    let budget = Duration::from_micros(binds["BUDGET_US"].number());
    let mut block = Block { shared, session, sql, fillers: &fillers, tail: &tail, width, at: 0 };
    let (mut ended, mut errors) = (String::new(), String::new());
    let begin = Instant::now();
    let mut begun = begin;
    for (position, op) in (1..=total).zip(ops.as_bytes().chunks(OPERATION)) {
        if begin.elapsed() >= budget || ended.len() >= ENDED_MAX {
            break;
        }
        let mut failed = None;
        let rows = match block.operation(std::str::from_utf8(op).unwrap()) {
            Answer::Done(rows) => rows,
            Answer::Fails(code, message) => {
                failed = Some(code);
                errors.push_str(&format!("{position} -{code} ORA-{code:05}: {message}\n"));
                shared.world().roll_back(session);
                0
            }
            other => panic!("{other:?}"),
        };
        ended.push_str(&format!("{},{rows};", begun.elapsed().as_micros()));
        begun = Instant::now();
        if failed.is_some_and(|code| !sql.contains(&format!("-{code}"))) {
            break;
        }
    }
    Answer::Outs(vec![ended, errors])
}

struct Block<'a> {
    shared: &'a Shared,
    session: u64,
    sql: &'a str,
    fillers: &'a str,
    tail: &'a str,
    width: usize,
    /// Where the next UPDATE's text begins.
    at: usize,
}

impl<'a> Block<'a> {
    fn operation(&mut self, op: &str) -> Answer {
        let (kind, keys) = op.split_at(1);
        let keys = (keys[..12].parse().unwrap(), keys[12..].parse().unwrap());
        let Some(branch) = self.branch(kind) else {
            return Answer::Fails(6592, "CASE not found while executing CASE statement".into());
        };
        let texts = if kind.eq_ignore_ascii_case("U") { self.texts(branch) } else { Vec::new() };
        if let Some(code) = self.shared.next_operation_fails() {
            return Answer::Fails(code, "by the test".into());
        }
        let answer = match kind {
            "S" | "s" => self.visit(branch, Some(keys)),
            "C" | "c" => self.visit(branch, None),
            _ => {
                let table = table_after(branch, "*/ ").unwrap();
                if let Some(code) = self.shared.wait_for_rows(self.session, &table) {
                    return Answer::Fails(code, "the wait for locked rows ended".into());
                }
                let mut world = self.shared.world();
                let answer = world.update(self.session, &table, &texts, keys);
                world.commit(self.session);
                answer
            }
        };
        if let Answer::Done(rows) = &answer {
            std::thread::sleep(ROW * (*rows as u32));
        }
        answer
    }

    fn visit(&self, branch: &str, keys: Option<(u64, u64)>) -> Answer {
        self.shared.world().visit(&table_after(branch, "FROM ").unwrap(), keys)
    }

    fn branch(&self, kind: &str) -> Option<&'a str> {
        let (_, after) = self.sql.split_once(&format!("WHEN '{kind}' THEN "))?;
        after.split(" WHEN '").next()?.split(" END CASE;").next()
    }

    /// The new texts of an UPDATE's columns, one after the other or by stamp and tail.
    fn texts(&mut self, branch: &str) -> Vec<String> {
        let columns = branch.matches(" = v").count();
        if self.tail.is_empty() {
            let all = &self.fillers[self.at..][..columns * self.width];
            self.at += all.len();
            let texts = all.as_bytes().chunks(self.width);
            return texts.map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
        }
        let stamp = &self.fillers[self.at..][..self.width - self.tail.len()];
        self.at += stamp.len();
        vec![format!("{stamp}{}", self.tail); columns]
    }
}
