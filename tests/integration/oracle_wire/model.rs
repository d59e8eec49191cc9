//! What petal's statements mean to the stand-in: tables of keys and texts in memory, just enough that
//! a load, a run and a check go through. It matches petal's own texts, and any other is an error. No
//! test of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::request::{Execute, NUMBER, number};

/// A bound value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(u64),
    Text(String),
}

impl Value {
    pub fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    pub fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }
}

/// The values of an execution, by row; those that are only given back are empty texts.
pub fn values(execute: &Execute) -> Vec<Vec<Value>> {
    let kinds: Vec<u8> =
        execute.binds.iter().filter(|bind| bind.is_in).map(|bind| bind.kind).collect();
    let value = |(at, bytes): (usize, &Option<Vec<u8>>)| match (bytes, kinds[at]) {
        (None, _) => Value::Text(String::new()),
        (Some(bytes), NUMBER) => Value::Number(number(bytes).unwrap()),
        (Some(bytes), _) => Value::Text(String::from_utf8(bytes.clone()).unwrap()),
    };
    execute.rows.iter().map(|row| row.iter().enumerate().map(value).collect()).collect()
}

pub type Row = Vec<String>;

/// What a statement comes to.
#[derive(Debug, Clone)]
pub enum Answer {
    Rows(Vec<Row>),
    /// Rows that it touched.
    Done(u64),
    /// What a block gives back.
    Outs(Vec<String>),
    Fails(u32, String),
}

#[derive(Default)]
pub struct Table {
    comment: String,
    /// Columns c2 to c20, by key.
    pub rows: BTreeMap<u64, Vec<String>>,
    has_index: bool,
}

/// The database of one stand-in.
#[derive(Default)]
pub struct World {
    pub tables: BTreeMap<String, Table>,
    /// Each table by the name of petal_meta: schema and key with their value.
    meta: BTreeMap<String, BTreeMap<(u64, String), String>>,
    /// Who holds the rows of a table against UPDATEs.
    pub held: BTreeMap<String, u64>,
    /// Who holds petal_meta in a mode that others may share.
    shared: BTreeSet<(u64, String)>,
    /// What each session changed and did not commit: table, key, columns as they were.
    undo: BTreeMap<u64, Vec<(String, u64, Vec<String>)>>,
    plans: Vec<Row>,
    pub statistics: BTreeMap<&'static str, u64>,
    /// 0: without containers; 1: the root; above: a pluggable database.
    pub container: u64,
    /// Another instance of the cluster, which works for others: its counts so far.
    pub second: Option<u64>,
    /// No row is in the cache: each costs a read.
    pub is_cold: bool,
    /// Further parameters of the instance.
    pub parameters: Vec<(&'static str, &'static str)>,
}

const BLOCK_BYTES: u64 = 8192;
const READ: &str = "db file sequential read";
/// How long each is said to take.
const READ_US: u64 = 1;

impl World {
    pub fn count(&mut self, name: &'static str, by: u64) {
        *self.statistics.entry(name).or_default() += by;
    }

    pub fn commit(&mut self, session: u64) {
        if self.undo.remove(&session).is_some() {
            self.count("user commits", 1);
            self.count("redo synch writes", 1);
        }
        self.let_go(session);
    }

    fn let_go(&mut self, session: u64) {
        self.shared.retain(|(holder, _)| *holder != session);
        self.held.retain(|_, holder| *holder != session);
    }

    /// True if an UPDATE of this table waits for another session.
    pub fn is_held(&self, session: u64, table: &str) -> bool {
        self.held.get(table).is_some_and(|holder| *holder != session)
    }

    pub fn roll_back(&mut self, session: u64) {
        for (table, key, columns) in
            self.undo.remove(&session).unwrap_or_default().into_iter().rev()
        {
            if let Some(table) = self.tables.get_mut(&table) {
                table.rows.insert(key, columns);
            }
        }
        self.let_go(session);
    }

    /// `sql` with single spaces.
    pub fn execute(&mut self, session: u64, sql: &str, binds: &[Vec<Value>]) -> Answer {
        // go-ora asks for the time zone, and goes on without an answer.
        if sql.eq_ignore_ascii_case("SELECT SYSTIMESTAMP FROM DUAL") {
            return Answer::Fails(942, "table or view does not exist".into());
        }
        let verb = sql.split(' ').next().unwrap_or_default();
        let answer = match verb {
            "SELECT" => self.query(sql, binds.first().map_or(&[], Vec::as_slice)),
            "CREATE" | "DROP" | "COMMENT" | "ALTER" | "LOCK" => self.define(session, sql),
            "BEGIN" => self.block(sql),
            _ => self.change(session, sql, binds),
        };
        answer.unwrap_or_else(|| Answer::Fails(900, format!("not known to the stand-in: {sql}")))
    }

    fn define(&mut self, session: u64, sql: &str) -> Option<Answer> {
        let words: Vec<&str> = sql.split(' ').collect();
        let done = Some(Answer::Done(0));
        match words[..] {
            ["CREATE", "TABLE", name, ..] => {
                self.tables.insert(name.to_uppercase(), Table::default());
                done
            }
            ["CREATE", "INDEX", _, "ON", name, ..]
            | ["CREATE", "UNIQUE", "INDEX", _, "ON", name, ..] => {
                self.tables.get_mut(&name.to_uppercase())?.has_index = true;
                done
            }
            ["COMMENT", "ON", "TABLE", name, "IS", ..] => {
                let comment = sql.split('\'').nth(1)?.to_owned();
                self.tables.get_mut(&name.to_uppercase())?.comment = comment;
                done
            }
            ["DROP", "TABLE", name, "PURGE"] => {
                self.meta.remove(name);
                Some(match self.tables.remove(&name.to_uppercase()) {
                    Some(_) => Answer::Done(0),
                    None => no_table(name),
                })
            }
            ["LOCK", "TABLE", name, "IN", "ROW", "SHARE", "MODE"] => {
                self.shared.insert((session, name.to_owned()));
                done
            }
            ["LOCK", "TABLE", name, "IN", "EXCLUSIVE", "MODE", "NOWAIT"] => {
                if self.shared.iter().any(|(holder, of)| *holder != session && of == name) {
                    let busy = "resource busy and acquire with NOWAIT specified";
                    return Some(Answer::Fails(54, busy.to_owned()));
                }
                done
            }
            ["LOCK", "TABLE", name, "IN", "EXCLUSIVE", "MODE"] => {
                self.held.insert(name.to_uppercase(), session);
                done
            }
            ["ALTER", "TABLE" | "INDEX", ..] => done,
            ["ALTER", "SESSION", "SET", ..] => done,
            ["ALTER", "SYSTEM", "CHECKPOINT"] => {
                self.count("background checkpoints completed", 1);
                done
            }
            ["ALTER", "SYSTEM", "SWITCH", "LOGFILE"] => done,
            _ => None,
        }
    }

    /// Blocks but for the loop.
    fn block(&mut self, sql: &str) -> Option<Answer> {
        if sql.contains("perfstat.statspack.snap") || sql.contains("rdsadmin.") {
            let message = "line 1, column 1: PLS-00201: identifier must be declared";
            return Some(Answer::Fails(6550, message.to_owned()));
        }
        // go-ora asks for these after the log-on, each into a bind.
        if sql.contains("FROM sys.nls_session_parameters") {
            let names = sql.split(" AS NLS_").skip(1).map(|after| match after {
                _ if after.starts_with("NUMERIC_CHARACTERS") => ".,",
                _ if after.starts_with("DATE_FORMAT") => "DD-MON-RR",
                _ => "BINARY",
            });
            return Some(Answer::Outs(names.map(str::to_owned).collect()));
        }
        sql.contains("DBMS_STATS.GATHER_TABLE_STATS").then_some(Answer::Done(0))
    }

    fn change(&mut self, session: u64, sql: &str, binds: &[Vec<Value>]) -> Option<Answer> {
        let first = binds.first().map_or(&[][..], Vec::as_slice);
        let words: Vec<&str> = sql.split(' ').take(3).collect();
        if let ["INSERT", "INTO", name] = words[..]
            && name.ends_with("_meta")
        {
            let key = (first[0].number(), first[1].text());
            self.meta.entry(name.to_owned()).or_default().insert(key, first[2].text());
            return Some(Answer::Done(1));
        }
        if let ["DELETE", "FROM", name] = words[..]
            && name.ends_with("_meta")
        {
            let meta = self.meta.entry(name.to_owned()).or_default();
            let before = meta.len();
            meta.retain(|(schema, _), _| *schema != first[0].number());
            return Some(Answer::Done((before - meta.len()) as u64));
        }
        if let Some(table) = table_after(sql, "INTO ").filter(|_| sql.starts_with("INSERT")) {
            let copied = match table_after(sql, "FROM ") {
                Some(source) => self.tables.get(&source)?.rows.clone(),
                None => BTreeMap::new(),
            };
            let Some(table) = self.tables.get_mut(&table) else { return Some(no_table(&table)) };
            if !copied.is_empty() {
                let is_copied = |(key, _): &(u64, Vec<String>)| *key != first[0].number();
                let before = table.rows.len();
                table.rows.extend(copied.into_iter().filter(is_copied));
                return Some(Answer::Done((table.rows.len() - before) as u64));
            }
            for row in binds {
                let columns = row[1..].iter().map(Value::text).collect();
                table.rows.insert(row[0].number(), columns);
            }
            return Some(Answer::Done(binds.len() as u64));
        }
        if let Some(table) = table_after(sql, "*/ ").filter(|_| sql.starts_with("UPDATE")) {
            let (texts, keys) = first.split_at(first.len() - 2);
            let texts: Vec<String> = texts.iter().map(Value::text).collect();
            let keys = (keys[0].number(), keys[1].number());
            return Some(self.update(session, &table, &texts, keys));
        }
        if let Some(id) = sql.strip_prefix("EXPLAIN PLAN SET STATEMENT_ID = '") {
            let (id, statement) = id.split_once('\'')?;
            let table = table_after(statement, "FROM ").or(table_after(statement, "*/ "))?;
            for step in ["TABLE ACCESS|BY INDEX ROWID|", "INDEX|RANGE SCAN|_CUSTID"] {
                let [operation, options, end]: [&str; 3] =
                    step.split('|').collect::<Vec<_>>().try_into().ok()?;
                let object = format!("{table}{end}");
                self.plans.push(vec![id.into(), operation.into(), options.into(), object]);
            }
            return Some(Answer::Done(0));
        }
        match sql {
            "COMMIT WRITE IMMEDIATE WAIT" => self.commit(session),
            "ROLLBACK" => self.roll_back(session),
            _ if sql.starts_with("DELETE FROM sys.plan_table$") => self.plans.clear(),
            _ => return None,
        }
        Some(Answer::Done(0))
    }

    /// Changes c2 and as many columns after it as there are texts, of these keys.
    pub fn update(
        &mut self,
        session: u64,
        table: &str,
        texts: &[String],
        (low, high): (u64, u64),
    ) -> Answer {
        let Some(found) = self.tables.get_mut(table) else { return no_table(table) };
        let undo = self.undo.entry(session).or_default();
        let mut rows = 0;
        for (key, columns) in found.rows.range_mut(low..=high) {
            undo.push((table.to_owned(), *key, columns.clone()));
            columns[..texts.len()].clone_from_slice(texts);
            rows += 1;
        }
        self.count("session logical reads", rows + 1);
        // The new columns and the old ones in undo.
        self.count("redo size", rows * (300 * texts.len() as u64 + 200) + 200);
        self.read_blocks(rows);
        if self.is_cold {
            self.count("physical writes", rows);
            self.count("physical write IO requests", rows);
            self.count("physical write bytes", rows * BLOCK_BYTES);
        }
        Answer::Done(rows)
    }

    /// Rows of these keys, or of the whole table.
    pub fn visit(&mut self, table: &str, keys: Option<(u64, u64)>) -> Answer {
        let Some(found) = self.tables.get(table) else { return no_table(table) };
        let rows = match keys {
            Some((low, high)) => found.rows.range(low..=high).count(),
            None => found.rows.len(),
        } as u64;
        self.count("session logical reads", rows + 1);
        self.read_blocks(rows);
        Answer::Done(rows)
    }

    /// What it costs to visit rows, each in a block of its own.
    fn read_blocks(&mut self, rows: u64) {
        if self.is_cold {
            for name in ["physical reads", "physical reads cache", "physical read IO requests"] {
                self.count(name, rows);
            }
            self.count("physical read bytes", rows * BLOCK_BYTES);
        }
    }

    /// Rows of a view of the serving instance, and of a second one, all of whose counts are these.
    fn of_instances(&self, rows: Vec<Row>, counts_at: usize) -> Answer {
        let mut all = rows.clone();
        for mut row in rows.into_iter().filter(|_| self.second.is_some()) {
            row[0] = "2".to_owned();
            row[counts_at..].fill(self.second.unwrap_or(0).to_string());
            all.push(row);
        }
        Answer::Rows(all)
    }

    fn query(&mut self, sql: &str, binds: &[Value]) -> Option<Answer> {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Row>();
        let one = |cells: &[&str]| Some(Answer::Rows(vec![row(cells)]));
        if sql.contains("COUNT(c2) FROM ") {
            let table = table_after(sql, "FROM ")?;
            let keys = (!binds.is_empty()).then(|| (binds[0].number(), binds[1].number()));
            return Some(match self.visit(&table, keys) {
                Answer::Done(rows) => Answer::Rows(vec![vec![rows.to_string()]]),
                failed => failed,
            });
        }
        if sql.starts_with("SELECT custid, c2, ") {
            let table = table_after(sql, "FROM ")?;
            let Some(table) = self.tables.get(&table) else { return Some(no_table(&table)) };
            let keys = binds[0].number()..=binds[1].number();
            let row = |(key, columns): (&u64, &Vec<String>)| {
                std::iter::once(key.to_string()).chain(columns.iter().cloned()).collect()
            };
            return Some(Answer::Rows(table.rows.range(keys).map(row).collect()));
        }
        if sql.contains("DBMS_ROWID.ROWID_ROW_NUMBER") {
            let table = sql.rsplit("FROM ").next()?.split(' ').next()?.to_uppercase();
            let Some(table) = self.tables.get(&table) else { return Some(no_table(&table)) };
            let rows = table.rows.len().to_string();
            return one(&[&rows, &rows, if table.rows.is_empty() { "0" } else { "1" }]);
        }
        let from = sql.rsplit_once("FROM ").map_or("", |(_, after)| after);
        let relation = from.split([' ', ')']).next()?;
        // A name of the dictionary without its owner is no name to the stand-in.
        let is_meta = relation.ends_with("_meta");
        if is_meta {
            let rows = self.meta.get(relation).into_iter().flatten();
            let rows =
                rows.map(|((n, key), value)| vec![n.to_string(), key.clone(), value.clone()]);
            return Some(Answer::Rows(rows.collect()));
        }
        match relation.strip_prefix("sys.")? {
            "user_tab_comments" => {
                let marked = self.tables.iter().filter(|(_, table)| !table.comment.is_empty());
                Some(Answer::Rows(marked.map(|(name, _)| vec![name.clone()]).collect()))
            }
            "user_tables" => {
                let names = self.tables.keys().filter(|name| is_asked(sql, name));
                Some(Answer::Rows(names.map(|name| vec![name.clone()]).collect()))
            }
            "user_segments" => {
                let size = |rows: usize| (rows as u64 * BLOCK_BYTES).to_string();
                let mut rows = Vec::new();
                for (name, table) in self.tables.iter().filter(|(name, _)| is_asked(sql, name)) {
                    rows.push(vec![name.clone(), size(table.rows.len())]);
                    if table.has_index {
                        rows.push(vec![format!("{name}_CUSTID"), BLOCK_BYTES.to_string()]);
                    }
                }
                Some(Answer::Rows(rows))
            }
            "user_users" if sql.contains("temporary_tablespace") => one(&["TEMP"]),
            "user_users" => one(&["IOPS"]),
            "user_free_space" => one(&["1073741824"]),
            "session_privs" => one(&["UNLIMITED TABLESPACE"]),
            "dba_data_files" if sql.contains("maxbytes") => {
                one(&["1", "1073741824", "34359738368"])
            }
            // No grant for these.
            "dba_temp_files" | "v_$recovery_file_dest" => Some(no_table(relation)),
            "user_tablespaces" => {
                one(&["8192", "AUTO", "LOGGING", "NO", "YES", "ONLINE", "PERMANENT"])
            }
            "product_component_version" => one(&["23.26.1.0.0"]),
            "all_procedures" => Some(Answer::Rows(Vec::new())),
            "all_tables" => one(&["DEFAULT"]),
            "gv_$buffer_pool" => one(&["DEFAULT", "8192", "268435456"]),
            "gv_$instance" if self.second.is_some() => Some(Answer::Rows(vec![
                row(&["1", "STANDIN1", "localhost"]),
                row(&["2", "STANDIN2", "elsewhere"]),
            ])),
            "gv_$instance" => one(&["1", "STANDIN", "localhost"]),
            "gv_$resource_limit" => one(&["300"]),
            "v_$log" if sql.contains("gv_$instance") => one(&["1", "7"]),
            "v_$log" => one(&["3", "4294967296", "4294967296", "1"]),
            "v_$database" => one(&["NOARCHIVELOG", "NO"]),
            "v_$asm_disk" => Some(Answer::Rows(Vec::new())),
            "v_$archive_dest" => Some(Answer::Rows(Vec::new())),
            "dba_data_files" => one(&["+DATA/iops.dbf"]),
            "plan_table$" => Some(Answer::Rows(self.plans.clone())),
            "v_$parameter" if sql.contains("UPPER(value)") => one(&["UNDOTBS1"]),
            "v_$parameter" if sql.ends_with("name = 'control_management_pack_access'") => {
                let is_it = |(name, _): &&(&str, &str)| *name == "control_management_pack_access";
                one(&[self.parameters.iter().find(is_it).map_or("DIAGNOSTIC+TUNING", |it| it.1)])
            }
            "v_$parameter" => {
                let mut rows = vec![
                    row(&["db_block_size", "8192"]),
                    row(&["db_cache_size", "268435456"]),
                    row(&["sga_target", "0"]),
                    row(&["processes", "300"]),
                ];
                rows.extend(self.parameters.iter().map(|(name, value)| row(&[name, value])));
                Some(Answer::Rows(rows))
            }
            "dual" if sql.contains("'CON_ID'") => one(&["STANDIN", &self.container.to_string()]),
            "dual" if sql.contains("'INSTANCE'") => one(&["1"]),
            "dual" => one(&["X"]),
            "gv_$sysstat" => {
                self.second = self.second.map(|count| count + 6000);
                let rows = self.statistics.iter();
                let rows =
                    rows.map(|(name, value)| vec!["1".into(), (*name).into(), value.to_string()]);
                Some(self.of_instances(rows.collect(), 2))
            }
            "gv_$system_event" if sql.contains("COUNT(*)") => one(&["0"]),
            "gv_$system_event" => {
                let waits = self.statistics["redo synch writes"].to_string();
                let reads = self.statistics["physical read IO requests"];
                let [reads, micros] = [reads, reads * READ_US].map(|count| count.to_string());
                let rows = vec![
                    row(&["1", "log file sync", "Commit", &waits, &waits, &waits, &waits]),
                    row(&["1", "log file parallel write", "System I/O", &waits, &waits, "0", "0"]),
                    row(&["1", READ, "User I/O", &reads, &micros, &reads, &micros]),
                ];
                Some(self.of_instances(rows, 3))
            }
            "gv_$sys_time_model" => one(&["1", "DB CPU", "1000000"]),
            "gv_$event_histogram_micro" => one(&["1", "log file sync", "128", "1"]),
            "gv_$iostat_function" => one(&["1", "LGWR", "0", "0", "0", "0", "1", "1", "0", "0"]),
            "gv_$osstat" => one(&["1", "BUSY_TIME", "100"]),
            name if name.starts_with("perfstat.") => Some(no_table(name)),
            _ => None,
        }
    }
}

/// True if a query names this table, or the pattern of schemas that it is of: `'^PETAL[1-9]...`.
fn is_asked(sql: &str, name: &str) -> bool {
    let pattern = sql.split("'^").nth(1).and_then(|after| after.split('[').next());
    let number = pattern.and_then(|begin| name.strip_prefix(begin));
    number.is_some_and(|rest| rest.starts_with(|sign: char| sign.is_ascii_digit()))
        || sql.contains(&format!("'{name}'"))
}

fn no_table(name: &str) -> Answer {
    Answer::Fails(942, format!("table or view \"{name}\" does not exist"))
}

/// The name that stands behind this, as the dictionary has it.
pub fn table_after(sql: &str, before: &str) -> Option<String> {
    let name = sql.split(before).nth(1)?.split(' ').next()?;
    Some(name.to_uppercase())
}
