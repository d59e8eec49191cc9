//! Answers of a server with one column changed on the way: NULL, no bytes, the largest or the
//! smallest value, another type. petal ends in time with an exit code, or with figures that are
//! unknown; it neither panics nor makes a figure of what it did not get, and leaves alone what is
//! not its own.
//!
//! `make test` tries some changes; `PETAL_TEST_LONG=1` each column of each answer, `1602-` those from
//! the 1602nd on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write as _};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::mutation::{Becomes, CHANGES, Change, Shared, relay};
use crate::mutation_mysql::Mysql;
use crate::mutation_postgres::Postgres;
use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::support::{Ended, Workplace, is_long, long_cases, record};
use crate::{engine_postgres, mysql, server_mysql, server_postgres};

/// More than petal waits for any single answer.
const LIMIT: Duration = Duration::from_secs(120);
/// Workers and changes of the long and the short form.
const WORKERS: [usize; 2] = [3, 1];
const SHORT_FORM: usize = 6;
/// More columns than any answer has whose columns differ.
const COLUMNS: usize = 12;

/// A database behind a relay that changes answers.
struct Database {
    mutation: Shared,
    url: String,
    /// Loads it, with unchanged answers.
    load: Box<dyn Fn() + Send>,
    /// The tables in it.
    tables: Box<dyn Fn() -> Vec<String> + Send>,
}

/// A table of somebody else's, which is in each database.
const OTHERS: &str = "others";

fn postgres(name: &str) -> Database {
    let (server, name) = (server_postgres::shared(), name.to_owned());
    let (mutation, url) = (Shared::default(), server.url(&name));
    let port = relay::<Postgres>(server.port, &mutation);
    let create = format!("CREATE TABLE {OTHERS} (c integer)");
    server.client(&name).batch_execute(&create).unwrap();
    Database {
        mutation,
        url: format!("postgres://petal@127.0.0.1:{port}/{name}?sslmode=disable"),
        load: Box::new(move || engine_postgres::load(&url, 1)),
        tables: Box::new(move || {
            let sql = "SELECT relname::text FROM pg_class \
                       WHERE relkind = 'r' AND relnamespace::regnamespace::text \
                       NOT IN ('pg_catalog', 'information_schema')";
            let rows = server.client(&name).query(sql, &[]).unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        }),
    }
}

fn mysql(name: &str) -> Database {
    let (server, name) = (server_mysql::shared(), name.to_owned());
    let (mutation, url) = (Shared::default(), server.url(&name));
    let port = relay::<Mysql>(server.port, &mutation);
    server.sql(&name, &format!("CREATE TABLE {OTHERS} (c integer)"));
    Database {
        mutation,
        url: format!("{}?ssl_mode=DISABLED", server.tcp_url(&name, port)),
        load: Box::new(move || mysql::load(&url, 1)),
        tables: Box::new(move || server.sql(&name, "SHOW TABLES").concat()),
    }
}

fn oracle(_name: &str) -> Database {
    let stand_in = StandIn::start(Release::Free23);
    let url = stand_in.url();
    stand_in.shared.world().tables.entry(OTHERS.to_uppercase()).or_default();
    Database {
        mutation: stand_in.shared.mutation.clone(),
        url: url.clone(),
        load: Box::new(move || {
            Workplace::new().petal(SETUP.iter().chain(&["--db", &url])).exits(0);
        }),
        tables: Box::new(move || {
            stand_in.shared.world().tables.keys().map(|name| name.to_lowercase()).collect()
        }),
    }
}

const SETUP: &[&str] = &["setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "64"];

/// The first three only read or measure what is loaded.
const COMMANDS: [&[&str]; 5] = [
    &["check"],
    &["run", "--run-time", "1", "--update-pct", "30", "-s", "1"],
    &["profile", "--for", "1", "--every", "1"],
    SETUP,
    &["drop"],
];
const CHECK: usize = 0;
const RUN: usize = 1;
const PROFILE: usize = 2;
const LOAD: usize = 3;
const DROP: usize = 4;

impl Database {
    fn call(&self, work: &Workplace, command: &[&str], change: Option<&Change>) -> Ended {
        self.mutation.lock().set(change.cloned());
        let began = Instant::now();
        let ended = work.petal(command.iter().chain(&["--db", &self.url])).ends();
        assert!(began.elapsed() < LIMIT, "{command:?} took {:?}", began.elapsed());
        self.mutation.lock().set(None);
        ended
    }

    /// Removes what a command left, with unchanged answers; what is wrong then, if anything.
    fn wrong_after_drop(&self) -> Option<String> {
        let dropped = self.call(&Workplace::new(), COMMANDS[DROP], None);
        let tables = (self.tables)();
        let is_right = dropped.code == Some(0) && tables == [OTHERS];
        (!is_right).then(|| format!("after a drop: {tables:?}, {dropped:?}"))
    }
}

/// A loaded database, and one without data of petal's, for a worker.
struct Databases {
    open: fn(&str) -> Database,
    name: String,
    loaded: Database,
    empty: Database,
    opened: usize,
}

impl Databases {
    fn new(open: fn(&str) -> Database, name: &str) -> Self {
        let loaded = open(&format!("{name}_loaded"));
        (loaded.load)();
        let empty = open(&format!("{name}_0"));
        Self { open, name: name.to_owned(), loaded, empty, opened: 0 }
    }

    fn for_command(&self, number: usize) -> &Database {
        match number {
            CHECK | RUN | PROFILE => return &self.loaded,
            DROP => (self.empty.load)(),
            _ => {}
        }
        &self.empty
    }

    /// What is wrong after a command that changes data; it is gone then.
    fn wrong_after(&mut self, number: usize) -> Option<String> {
        if number <= PROFILE {
            return None;
        }
        let wrong = self.empty.wrong_after_drop()?;
        self.opened += 1;
        self.empty = (self.open)(&format!("{}_{}", self.name, self.opened));
        Some(wrong)
    }
}

/// Figures of a record that count more than a few, by their place.
fn counts(value: &Value, at: &str, found: &mut BTreeMap<String, f64>) {
    match value {
        Value::Number(number) => {
            found.insert(at.to_owned(), number.as_f64().unwrap());
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| counts(value, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

/// Figures of the database: those that a run on an unchanged server has.
fn database_figures(run: &Value) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for place in ["/counters", "/per_second", "/details/io"] {
        counts(run.pointer(place).unwrap(), place, &mut found);
    }
    found
}

/// Without an answer of the loop a run does nothing, and its counters do not change.
fn is_of_the_loop(question: &str) -> bool {
    let begins = ["CALL ", "DECLARE ops "];
    question.to_lowercase().contains("count(c#)")
        || begins.iter().any(|begin| question.starts_with(begin))
}

/// What is wrong with the way in which petal ended, if anything.
fn wrong(ended: &Ended, run: Option<&Value>) -> Option<String> {
    if ended.stderr.contains("panicked") || ended.code.is_none_or(|code| code >= 100) {
        return Some("it panicked or was killed".to_owned());
    }
    // Numbers below zero that were taken for a number of 64 bits.
    let figures = database_figures(run?);
    let (place, figure) = figures.iter().find(|(_, figure)| **figure > 9.3e18)?;
    Some(format!("{place} is {figure}"))
}

/// The places of figures of a database that are 0, or that count more than a few.
fn places(run: &Value, is_it: fn(f64) -> bool) -> BTreeSet<String> {
    let figures = database_figures(run).into_iter();
    figures.filter(|(_, figure)| is_it(*figure)).map(|(place, _)| place).collect()
}

/// Shows how far the long form is.
fn say(text: &str) {
    if is_long() {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// The figures of the run that a command left, if it left one.
fn run_of(work: &Workplace) -> Option<Value> {
    let folder = work.runs().pop()?;
    folder.join("run.json").exists().then(|| record(&folder))
}

/// Changes of what each command is answered, and the figures of a run without any.
fn all_changes(
    databases: &mut Databases,
    numbers: impl Iterator<Item = usize>,
) -> (Vec<(usize, Change)>, Value) {
    let (mut all, mut usual) = (Vec::new(), Value::Null);
    for number in numbers {
        let command = COMMANDS[number];
        let (work, database) = (Workplace::new(), databases.for_command(number));
        database.mutation.lock().questions.clear();
        let ended = database.call(&work, command, None);
        assert!(ended.code.is_some_and(|code| code < 2), "{command:?}: {ended:?}");
        usual = run_of(&work).unwrap_or(usual);
        let questions = std::mem::take(&mut database.mutation.lock().questions);
        assert_eq!(databases.wrong_after(number), None);
        for (question, answers) in questions {
            let is_repeated = answers.count > 1;
            let cases = (0..answers.columns.min(COLUMNS))
                .flat_map(|column| CHANGES.map(|becomes| (column, becomes)))
                .flat_map(|case| [(case, false), (case, true)]);
            let cases = cases.filter(|(_, spares_first)| is_repeated || !spares_first);
            all.extend(cases.map(|((column, becomes), spares_first)| {
                let question = question.clone();
                (number, Change { question, column, becomes, spares_first })
            }));
        }
    }
    (all, usual)
}

/// Figures that are 0 because an answer was NULL.
fn invented(
    databases: &Databases,
    run: &Value,
    change: &Change,
    usual: &Value,
) -> BTreeSet<String> {
    if change.becomes != Becomes::Null || is_of_the_loop(&change.question) {
        return BTreeSet::new();
    }
    let mut zeros = &places(run, |n| n == 0.0) & &places(usual, |n| n > 99.0);
    // A figure that grows now and then may be 0 by chance, with the change or without it.
    for change in [None, Some(change), None, Some(change), None] {
        if zeros.is_empty() {
            break;
        }
        let work = Workplace::new();
        databases.for_command(RUN).call(&work, COMMANDS[RUN], change);
        let is_it = if change.is_some() { |n| n == 0.0 } else { |n| n > 0.0 };
        zeros = &zeros & &run_of(&work).map(|run| places(&run, is_it)).unwrap_or_default();
    }
    zeros
}

/// A change under a command, with its number among all.
type Case = (usize, (usize, Change));

/// Tries a change under a command; what went wrong.
fn try_change(
    databases: &mut Databases,
    (case, (number, change)): &Case,
    usual: &Value,
) -> Vec<String> {
    let number = *number;
    let (work, database, began) = (Workplace::new(), databases.for_command(number), Instant::now());
    let ended = database.call(&work, COMMANDS[number], Some(change));
    let (took_s, command) = (began.elapsed().as_secs_f64(), COMMANDS[number][0]);
    let Change { question, column, becomes, spares_first } = change;
    let case = format!(
        "case {case}, {command}, column {column} {becomes:?}, first spared {spares_first}, of \
         {question:.250}"
    );
    say(&format!("{took_s:.1} s, {:?}: {case}", ended.code));
    let run = run_of(&work);
    let mut wrongs: Vec<String> = wrong(&ended, run.as_ref()).into_iter().collect();
    wrongs.extend(databases.wrong_after(number));
    if let Some(run) = run {
        let zeros = invented(databases, &run, change, usual).into_iter();
        wrongs.extend(zeros.map(|place| format!("{place} is 0")));
    }
    for wrong in &mut wrongs {
        *wrong = format!("{wrong}: {case}\n{:.3000}", ended.stderr);
        say(&format!("WRONG: {wrong}"));
    }
    wrongs
}

/// Tries changes until there are no more; returns what went wrong.
fn try_changes(
    mut databases: Databases,
    changes: &Mutex<VecDeque<Case>>,
    usual: &Value,
) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let Some(case) = changes.lock().unwrap().pop_front() else { return failed };
        failed.extend(try_change(&mut databases, &case, usual));
    }
}

/// Tries changes on databases that `open` makes, under all commands; in the short form under some.
fn try_on(open: fn(&str) -> Database, name: &str, some: &[usize]) {
    let mut first = Databases::new(open, name);
    let is_some = |number: &usize| is_long() || some.contains(number);
    let numbers = (0..COMMANDS.len()).filter(is_some);
    let (mut all, usual) = all_changes(&mut first, numbers);
    assert!(all.len() > 100, "{}", all.len());
    if !is_long() {
        // A step without a common divisor with anything that repeats.
        let step = all.len() / SHORT_FORM + 1;
        all = all.into_iter().step_by(step | 1).collect();
    }
    say(&format!("{} changes", all.len()));
    let cases = (1..).zip(all).filter(|(case, _)| long_cases().contains(case));
    let changes = Mutex::new(cases.collect());
    let failed: Vec<String> = thread::scope(|scope| {
        let (changes, usual) = (&changes, &usual);
        let mut workers = vec![scope.spawn(move || try_changes(first, changes, usual))];
        workers.extend((1..WORKERS[usize::from(!is_long())]).map(|worker| {
            let databases = Databases::new(open, &format!("{name}_{worker}"));
            scope.spawn(move || try_changes(databases, changes, usual))
        }));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn whatever_column_a_server_of_postgres_changes_petal_ends_and_invents_nothing() {
    if server_postgres::is_there() {
        try_on(postgres, "mutated", &[RUN, PROFILE, DROP]);
    }
}

#[test]
fn whatever_column_a_server_of_mysql_changes_petal_ends_and_invents_nothing() {
    if server_mysql::is_there() {
        try_on(mysql, "mutated", &[RUN, PROFILE, LOAD]);
    }
}

/// The stand-in answers, which sends each value as a text.
#[test]
fn whatever_column_oracle_changes_petal_ends_and_invents_nothing() {
    try_on(oracle, "mutated", &[CHECK, LOAD]);
}
