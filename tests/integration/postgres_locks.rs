//! Locks that others hold on petal's tables of a PostgreSQL server: petal tells who is in the way,
//! obeys signals at every moment, and gives up where it cannot go on. What it left is never done
//! later. `PETAL_TEST_LONG=1` tries every lock in every phase with every signal.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use rustix::process::Signal;

use crate::engine_postgres::load;
use crate::server_postgres::{is_there, sessions, shared};
use crate::support::{Ended, LIMIT, Running, Workplace, is_long, record, until};

/// petal is over so long after a signal; on a machine with others at work that takes longer.
const OVER_S: f64 = 5.0;
const BUSY: f64 = 4.0;
/// What the URL asks for, in seconds, so that tests need not wait for petal's own limit.
const LOCK_LIMIT_S: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Lock {
    AccessExclusive,
    Exclusive,
    Share,
    ShareUpdateExclusive,
    /// As an application's UPDATE has it: of one row. More of them would deadlock with petal's.
    Row,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Held before a run begins: its start, or its settling.
    Before,
    /// Taken in a run, and held beyond its end: the closing snapshot.
    InRun,
    /// Held before a load that replaces begins.
    Replace,
    /// Taken while that loads: when it is complete.
    ReplaceLate,
    Drop,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    lock: Lock,
    phase: Phase,
    signal: Option<Signal>,
}

const LOCKS: [Lock; 5] =
    [Lock::AccessExclusive, Lock::Exclusive, Lock::Share, Lock::ShareUpdateExclusive, Lock::Row];
const PHASES: [Phase; 5] =
    [Phase::Before, Phase::InRun, Phase::Replace, Phase::ReplaceLate, Phase::Drop];
const SIGNALS: [Option<Signal>; 3] = [None, Some(Signal::INT), Some(Signal::TERM)];

/// Those that take other ways through petal.
const SHORT: [(Lock, Phase, Option<Signal>); 11] = [
    (Lock::AccessExclusive, Phase::Before, None),
    (Lock::AccessExclusive, Phase::Before, Some(Signal::INT)),
    (Lock::Share, Phase::Before, Some(Signal::TERM)),
    (Lock::AccessExclusive, Phase::InRun, None),
    (Lock::AccessExclusive, Phase::InRun, Some(Signal::INT)),
    (Lock::Row, Phase::InRun, Some(Signal::TERM)),
    (Lock::Share, Phase::Replace, None),
    (Lock::Row, Phase::Replace, Some(Signal::TERM)),
    (Lock::Share, Phase::ReplaceLate, Some(Signal::INT)),
    (Lock::Row, Phase::Drop, None),
    (Lock::AccessExclusive, Phase::Drop, Some(Signal::INT)),
];

#[test]
fn a_lock_of_others_is_reported_and_never_makes_petal_deaf() {
    if !is_there() {
        return;
    }
    let is_long = is_long();
    let cases: Vec<Case> = match is_long {
        false => SHORT.map(|(lock, phase, signal)| Case { lock, phase, signal }).into(),
        true => every_case(),
    };
    let at_once = if is_long { 4 } else { cases.len() };
    for (round, several) in cases.chunks(at_once).enumerate() {
        thread::scope(|scope| {
            for (at, &case) in several.iter().enumerate() {
                let database = format!("locks_{}", round * at_once + at);
                scope.spawn(move || case.holds(&database));
            }
        });
    }
}

fn every_case() -> Vec<Case> {
    let mut cases = Vec::new();
    for lock in LOCKS {
        for phase in PHASES {
            cases.extend(SIGNALS.map(|signal| Case { lock, phase, signal }));
        }
    }
    cases
}

impl Case {
    fn holds(self, database: &str) {
        let url = shared().url(database);
        load(&url, 1);
        let (mut holder, mut looker) = (shared().client(database), shared().client(database));
        let process: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let before = schema_oid(&mut looker);
        let work = Workplace::new();
        let held_early = matches!(self.phase, Phase::Before | Phase::Replace | Phase::Drop);
        if held_early {
            self.lock.take(&mut holder);
        }
        let mut petal = self.start(&work, &url);
        match self.phase {
            Phase::InRun => {
                petal.until("operations", || !work.seconds().is_empty());
                self.lock.take(&mut holder);
            }
            Phase::ReplaceLate => {
                let loads = "application_name = 'petal setup 1'";
                petal.until("a loader", || sessions(&mut looker, loads) == 1);
                self.lock.take(&mut holder);
            }
            _ => {}
        }
        let ended = match self.signal {
            None => petal.ends(),
            Some(signal) => self.interrupted(petal, signal, &mut looker),
        };
        self.check_end(&ended, process, &work);
        self.check_left(&mut holder, &mut looker, before);
    }

    fn start(self, work: &Workplace, url: &str) -> Running {
        let limited = format!("{url}&options=-c%20lock_timeout%3D{LOCK_LIMIT_S}s");
        let run = ["run", "--db", url, "--run-time", "4", "-t", "2", "--update-pct", "50"];
        let before = ["run", "--db", &limited, "--run-time", "4", "--update-pct", "50"];
        let replace = ["setup", "--db", &limited, "-s", "1", "--scale", "16M", "--replace"];
        match self.phase {
            Phase::Before => work.petal(before).start(),
            Phase::InRun => work.petal(run).start(),
            Phase::Replace | Phase::ReplaceLate => work.petal(replace).start(),
            Phase::Drop => work.petal(["drop", "--db", &limited]).start(),
        }
    }

    /// The signal comes when petal waits; it is over soon after.
    fn interrupted(self, mut petal: Running, signal: Signal, looker: &mut Client) -> Ended {
        until("a wait for a lock", || waits(looker) > 0 || petal.has_ended());
        let signalled = Instant::now();
        petal.signal(signal);
        let ended = petal.ends();
        let seconds = signalled.elapsed().as_secs_f64();
        let _ = writeln!(std::io::stderr(), "{self:?}: over {seconds:.1} s after the signal");
        let limit_s = match std::env::var("PETAL_TEST_LONG").as_deref() {
            Ok("alone") => OVER_S,
            _ => OVER_S * BUSY,
        };
        assert!(seconds < limit_s, "{self:?}: {seconds} s after the signal\n{}", ended.stderr);
        ended
    }

    fn check_end(self, ended: &Ended, holder: i32, work: &Workplace) {
        // A lock of a row holds up no vacuum: the run goes on, and counts what it waited for.
        let goes_on =
            self.phase == Phase::InRun || (self.phase == Phase::Before && self.lock == Lock::Row);
        let code = match (self.signal, goes_on) {
            (Some(_), _) => 130,
            (None, true) => 0,
            (None, false) => 3,
        };
        assert_eq!(ended.code, Some(code), "{self:?}: {}\n{}", ended.stderr, ended.stdout);
        if goes_on {
            assert!(record(&work.run_folder()).is_object(), "{self:?}");
        }
        if code == 3 {
            let process = format!("process {holder} (role petal");
            let (reported, error) =
                ended.stderr.split_once("petal gives up after").unwrap_or_default();
            assert!(reported.contains(&process), "{self:?}: {}", ended.stderr);
            for words in [process.as_str(), "lock timeout (55P03)", "since 20", "petal1.cf1"] {
                assert!(error.contains(words), "{self:?}: {words}: {}", ended.stderr);
            }
        }
    }

    /// Nothing of petal's is left at work, and nothing happens when the lock is gone.
    fn check_left(self, holder: &mut Client, looker: &mut Client, before: Option<u32>) {
        let began = Instant::now();
        while sessions(looker, "application_name LIKE 'petal%'") > 0 {
            assert!(began.elapsed() < LIMIT, "{self:?}: petal's sessions stay at the server");
            thread::sleep(Duration::from_millis(50));
        }
        holder.batch_execute("ROLLBACK").unwrap();
        assert_eq!(schema_oid(looker), before, "{self:?}: the data are others, or gone");
        let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'petal1_loading'";
        assert_eq!(looker.query_one(left, &[]).unwrap().get::<_, i64>(0), 0, "{self:?}");
    }
}

impl Lock {
    /// Waits until it is had; it is held until the transaction ends.
    fn take(self, client: &mut Client) {
        let mode = match self {
            Self::AccessExclusive => "ACCESS EXCLUSIVE",
            Self::Exclusive => "EXCLUSIVE",
            Self::Share => "SHARE",
            Self::ShareUpdateExclusive => "SHARE UPDATE EXCLUSIVE",
            Self::Row => {
                return client
                    .batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 1000 FOR UPDATE")
                    .unwrap();
            }
        };
        client.batch_execute(&format!("BEGIN; LOCK TABLE petal1.cf1 IN {mode} MODE")).unwrap();
    }
}

/// petal's sessions that wait for a lock.
fn waits(client: &mut Client) -> i64 {
    sessions(client, "application_name LIKE 'petal%' AND wait_event_type = 'Lock'")
}

fn schema_oid(client: &mut Client) -> Option<u32> {
    let sql = "SELECT oid FROM pg_namespace WHERE nspname = 'petal1'";
    client.query_opt(sql, &[]).unwrap().map(|row| row.get(0))
}
