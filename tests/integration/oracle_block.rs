//! petal's loop for Oracle, executed by a real interpreter: MariaDB with sql_mode=ORACLE takes the very
//! text that petal sends, after the rewrites of [`mariadb`]. What it makes of operations, texts, budgets
//! and errors must be what petal expects.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::Digest as _;

use crate::oracle_wire::model::Value;
use crate::oracle_wire::stand_in::{Call, Release, StandIn};
use crate::server_mysql::{self, Server};
use crate::support::{Workplace, skip};

const ROWS: u64 = 1024;

/// The text of a block as MariaDB takes it. It has no CONSTANT, no functions and procedures inside a
/// block, no intervals in variables; other words for types, clocks and conversions; and its error codes
/// are not below 0. Everything else is executed as it stands.
fn mariadb(text: &str) -> String {
    let cut = |text: &str, begin: &str, end: &str| -> (String, String) {
        let (before, rest) = text.split_once(begin).unwrap_or((text, ""));
        let (inside, after) = rest.split_once(end).unwrap_or(("", rest));
        (inside.to_owned(), format!("{before}{after}"))
    };
    let (_, text) = cut(text, "FUNCTION micros", "END micros;");
    let (take_texts, text) = cut(&text, "PROCEDURE take_texts IS\n    BEGIN", "END take_texts;");
    let rewrites = [
        ("take_texts;", take_texts.as_str()),
        ("micros(moment, begun)", "TIMESTAMPDIFF(MICROSECOND, begun, moment)"),
        (" CONSTANT ", " "),
        ("PLS_INTEGER", "INT"),
        ("SYS_EXTRACT_UTC(SYSTIMESTAMP)", "SYSDATE(6)"),
        ("NUMTODSINTERVAL(:budget_us / 1000000, 'SECOND')", "INTERVAL @budget_us MICROSECOND"),
        ("SUBSTRB(", "SUBSTR("),
        ("TO_NUMBER(", "(0 + "),
        ("TO_CHAR(", "CONCAT("),
        ("SQLCODE", "(0 - SQLCODE)"),
        ("COMMIT WRITE IMMEDIATE WAIT", "COMMIT"),
        (":ended :=", "SET @ended :="),
        (":errors :=", "SET @errors :="),
        (":ops", "@ops"),
        (":fillers", "@fillers"),
        (":tail", "@tail"),
        (":width", "@width"),
        (":total", "@total"),
    ];
    rewrites.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

/// A database of MariaDB with petal's tables, in which a key's columns hold its number.
struct Interpreter {
    server: &'static Server,
    database: String,
}

impl Interpreter {
    fn new(database: &str, scan_rows: usize) -> Option<Self> {
        if !server_mysql::is_there() {
            return None;
        }
        let server = server_mysql::shared();
        if !server.sql("", "SELECT VERSION()")[0][0].contains("MariaDB") {
            skip("only MariaDB executes PL/SQL");
            return None;
        }
        server.database(database);
        // Small letters are others than capitals, as in Oracle.
        server.sql("", &format!("ALTER DATABASE {database} COLLATE latin1_bin"));
        let columns = |each: &str| {
            let columns = (2..=20).map(|column| each.replace('#', &column.to_string()));
            columns.collect::<Vec<_>>().join(", ")
        };
        for table in ["petal1_cf1", "petal1_cf2", "petal2_cf1", "petal2_cf2"] {
            let rows = if table.ends_with('1') { ROWS as usize } else { scan_rows };
            let sql = format!(
                "DROP TABLE IF EXISTS {table}; \
                 CREATE TABLE {table} (custid INT PRIMARY KEY, {}) CHARACTER SET latin1; \
                 INSERT INTO {table} SELECT seq, {} FROM seq_1_to_{rows}",
                columns("c# VARCHAR(128)"),
                columns("LPAD(seq, 128, '0')")
            );
            server.sql(database, &sql);
        }
        Some(Self { server, database: database.to_owned() })
    }

    /// Executes a block; what ended and what failed.
    fn call(&self, text: &str, binds: &BTreeMap<String, Value>) -> (String, String) {
        let mut script = String::from("SET sql_mode = 'ORACLE';\n");
        for (name, value) in binds {
            let name = name.to_lowercase();
            let value = match value {
                // As Oracle does it.
                Value::Text(text) if text.is_empty() => "NULL".to_owned(),
                Value::Text(text) => format!("'{text}'"),
                Value::Number(number) => number.to_string(),
            };
            writeln!(script, "SET @{name} = {value};").unwrap();
        }
        let block = mariadb(text);
        write!(script, "DELIMITER $$\n{block}\n$$\nDELIMITER ;\n").unwrap();
        script.push_str("SELECT NVL(@ended, ''), NVL(@errors, '');\n");
        let answer = self.server.script(&self.database, &script);
        let answer = answer.unwrap_or_else(|error| panic!("{error}\n{block}"));
        let line = answer.join("\n");
        let (ended, errors) = line.split_once('\t').unwrap();
        // The client program writes line feeds so.
        (ended.to_owned(), errors.replace("\\n", "\n"))
    }

    /// A digest of all columns of each row.
    fn rows(&self, table: &str) -> BTreeMap<u64, String> {
        let columns = (2..=20).map(|column| format!("c{column}")).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT custid, SHA2(CONCAT_WS(',', {columns}), 256) FROM {table}");
        let rows = self.server.sql(&self.database, &sql);
        rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect()
    }
}

/// A row as [`Interpreter::rows`] has it.
fn digest(columns: &[String]) -> String {
    let digest = sha2::Sha256::digest(columns.join(","));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rows of each operation, without how long it took.
fn rows_of(ended: &str) -> Vec<u64> {
    let one = |one: &str| {
        let (micros, rows) = one.split_once(',').unwrap();
        let _: u64 = micros.parse().unwrap();
        rows.parse().unwrap()
    };
    ended.split_terminator(';').map(one).collect()
}

/// The calls of a run by the stand-in, and its tables after it.
fn recorded(flags: &[&str], setup: &[&str]) -> (StandIn, Vec<Call>) {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let petal = |args: &[&str]| work.petal([args, &["--db", &stand_in.url()]].concat()).exits(0);
    petal(&[&["setup", "-s", "2", "--scale", "8M"], setup].concat());
    for table in stand_in.shared.world().tables.values_mut() {
        for (key, columns) in &mut table.rows {
            columns.fill(format!("{key:0128}"));
        }
    }
    petal(&[&["run", "--work-loop", "60", "--work-unit", "8"], flags].concat());
    let calls = stand_in.calls();
    (stand_in, calls)
}

#[test]
fn what_petal_sends_does_what_petal_means() {
    let runs: [(&str, &[&str], &[&str]); 3] = [
        ("constant", &["-t", "1", "--update-pct", "40", "--scan-pct", "10"], &[]),
        (
            "heavy",
            &["-t", "1", "--update-pct", "70", "--redo-stress", "HEAVY", "--commit-wait", "FALSE"],
            &["--obfuscate-columns", "TRUE"],
        ),
        ("hot", &["-t", "1", "--update-pct", "50", "--hot-schema-frequency", "3"], &[]),
    ];
    for (name, flags, setup) in runs {
        let (stand_in, calls) = recorded(flags, setup);
        let scan_rows = stand_in.shared.world().tables["PETAL1_CF2"].rows.len();
        let database = format!("oracle_block_{name}");
        let Some(interpreter) = Interpreter::new(&database, scan_rows) else { return };
        assert!(calls.len() > 1, "{name}");
        let is_hot = calls.iter().any(|call| call.text.contains("WHEN 'u' THEN"));
        assert_eq!(is_hot, name == "hot", "{name}");
        for call in &calls {
            // Enough time on a busy machine, too.
            let mut binds = call.binds.clone();
            binds.insert("BUDGET_US".to_owned(), Value::Number(600_000_000));
            let done = rows_of(&call.ended).len() as u64;
            binds.insert("TOTAL".to_owned(), Value::Number(done));
            let (ended, errors) = interpreter.call(&call.text, &binds);
            assert_eq!(rows_of(&ended), rows_of(&call.ended), "{name}");
            assert_eq!((errors.as_str(), call.errors.as_str()), ("", ""), "{name}");
        }
        let world = stand_in.shared.world();
        for (table, meant) in world.tables.iter().filter(|(name, _)| name.ends_with("_CF1")) {
            let meant = meant.rows.iter().map(|(key, columns)| (*key, digest(columns)));
            let meant: BTreeMap<u64, String> = meant.collect();
            assert!(interpreter.rows(&table.to_lowercase()) == meant, "{name}: {table}");
        }
    }
}

/// How many characters of an UPDATE's text differ from the next one's.
fn stamp_bytes(text: &str) -> usize {
    let (_, after) = text.split_once("v2 := SUBSTRB(fillers, filler_at, ").unwrap();
    after.split(')').next().unwrap().parse().unwrap()
}

/// An operation as text: what it is, its keys.
fn op(kind: char, first: u64, last: u64) -> String {
    format!("{kind}{first:012}{last:012}")
}

#[test]
fn errors_and_budgets_do_what_petal_means() {
    let (_, calls) = recorded(&["-t", "1", "--update-pct", "50"], &[]);
    let call = calls.iter().find(|call| {
        ["WHEN 'S' THEN", "WHEN 'U' THEN"].iter().all(|branch| call.text.contains(branch))
    });
    let call = call.unwrap();
    let table = if call.text.contains("petal1_cf1") { "petal1_cf1" } else { "petal2_cf1" };
    let Some(interpreter) = Interpreter::new("oracle_block_errors", 48) else { return };
    // Keys that fail: 60 is a deadlock, after which petal goes on, 1578 a corrupt block.
    let fails = format!(
        "DELIMITER $$\nCREATE TRIGGER fails BEFORE UPDATE ON {table} FOR EACH ROW BEGIN \
         IF NEW.custid = 60 THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 60, \
         MESSAGE_TEXT = 'deadlock'; END IF; \
         IF NEW.custid = 900 THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1578, \
         MESSAGE_TEXT = 'corrupt'; END IF; END\n$$\nDELIMITER ;\n"
    );
    interpreter.server.script(&interpreter.database, &fails).unwrap();
    let run = |ops: &[String], stamp: &str, budget_us: u64| {
        let text = |text: &str| Value::Text(text.to_owned());
        let updates = ops.iter().filter(|op| op.starts_with('U')).count();
        let binds = [
            ("OPS", text(&ops.concat())),
            ("FILLERS", text(&stamp.repeat(updates))),
            ("TAIL", text(&"t".repeat(128 - stamp.len()))),
            ("WIDTH", Value::Number(128)),
            ("TOTAL", Value::Number(ops.len() as u64)),
            ("BUDGET_US", Value::Number(budget_us)),
        ];
        let binds = binds.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (ended, errors) = interpreter.call(&call.text, &binds);
        (rows_of(&ended), errors)
    };
    let before = interpreter.rows(table);
    let changed = || -> Vec<u64> {
        let now = interpreter.rows(table);
        now.into_iter().filter(|(key, row)| before[key] != *row).map(|(key, _)| key).collect()
    };
    let long = 600_000_000;
    let stamp = &"0123456789abcdef".repeat(4)[..stamp_bytes(&call.text)];
    // An error that costs its operation: what it changed is undone, and the next goes on.
    let (rows, errors) = run(&[op('S', 1, 8), op('U', 55, 62), op('U', 70, 71)], stamp, long);
    assert_eq!((rows, errors.as_str()), (vec![8, 0, 2], "2 -60 deadlock\n"));
    assert_eq!(changed(), [70, 71] as [u64; 2]);
    // One that ends the loop.
    let (rows, errors) = run(&[op('U', 900, 900), op('U', 80, 80)], stamp, long);
    assert_eq!((rows, errors.as_str()), (vec![0], "1 -1578 corrupt\n"));
    assert_eq!(changed(), [70, 71] as [u64; 2]);
    // The budget: it is asked before each operation; no budget is no operation.
    assert_eq!(run(&vec![op('S', 1, 8); 50], stamp, 1).0, [8]);
    assert_eq!(run(&vec![op('S', 1, 8); 50], stamp, 0).0, [0u64; 0]);
    // A text of results that is full ends the call: no operation of it is lost.
    let many = vec![op('S', 1, 1); 1280];
    let done = run(&many, stamp, long).0.len();
    assert!((300..1000).contains(&done), "{done}");
    // Keys that are not there, and the stamp where the block cuts it from the fillers.
    assert_eq!(run(&[op('S', 5000, 6000)], stamp, long).0, [0]);
    run(&[op('U', 100, 100), op('U', 101, 101)], stamp, long);
    let columns = vec![format!("{stamp}{}", "t".repeat(128 - stamp.len())); 2];
    let sql = format!("SELECT c2, c3 FROM {table} WHERE custid IN (100, 101)");
    for row in interpreter.server.sql(&interpreter.database, &sql) {
        assert_eq!(row, columns);
    }
}
