//! The stand-in's connections: how one is accepted, logs on, executes and ends, and the faults that a
//! test asks for at each of these steps. No test of its own.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::buffer::{
    ACCEPT, BREAK, Broken, CONNECT, DATA, MARKER, Packets, REDIRECT, RESEND, RESET, Reader, Writer,
};
use super::logon::{self, Keys, LogOn};
use super::model::{Answer, Row, Value, table_after, values};
use super::request::{COMMIT, Execute, IN, OUT, Request, Requests};
use super::response::{
    Columns, END_OF_RESPONSE, End, Outs, PARAMETERS, Rows, Values, write_parameters, write_status,
};
use super::stand_in::{Call, Fault, Flags, Release, Shared, lock, one_line};
use super::{block, capture};
use crate::mutation::{Change, TYPES, question};

/// NUMBER, TIMESTAMP, and a number that no type has.
const KINDS: [u8; TYPES] = [2, 180, 99];

/// 18.4.0.0.0, as some clients ask for it.
const VERSION_NUMBER: u64 = 0x1204_0000;

const TICK: Duration = Duration::from_millis(20);

/// Rows that the client has not fetched yet.
type Open = BTreeMap<u64, (usize, std::vec::IntoIter<Values>)>;

pub struct Connection<'a> {
    shared: &'a Shared,
    requests: Requests<Packets>,
    session: u64,
    flags: Arc<Flags>,
    last_cursor: u64,
    open: Open,
}

impl<'a> Connection<'a> {
    pub fn serve(stream: TcpStream, shared: &'a Shared) {
        let session = shared.last_session.fetch_add(1, Ordering::Relaxed) + 1;
        let flags = Arc::<Flags>::default();
        lock(&shared.sessions).insert(session, Arc::clone(&flags));
        let packets = Packets { stream, are_long: false, ends_are_marked: false };
        let requests = Requests::new(packets, shared.release.version());
        let mut connection =
            Connection { shared, requests, session, flags, last_cursor: 0, open: Open::new() };
        if let Err(Broken::Odd(what)) = connection.talk() {
            lock(&shared.odd).push(what);
        }
        shared.world().roll_back(session);
        lock(&shared.sessions).remove(&session);
        let _ = connection.packets().stream.shutdown(Shutdown::Both);
    }

    fn packets(&mut self) -> &mut Packets {
        &mut self.requests.reader.source
    }

    fn talk(&mut self) -> Result<(), Broken> {
        self.accept()?;
        self.log_on()?;
        loop {
            match self.requests.read() {
                Ok(Request::LogOff) => {
                    self.step("log-off")?;
                    return self.answer_status().map(|()| drop(self.requests.read()));
                }
                Ok(request) => {
                    self.flags.is_idle.store(false, Ordering::Relaxed);
                    self.execute(request)?;
                    self.flags.is_idle.store(true, Ordering::Relaxed);
                }
                // The error is already on its way.
                Err(Broken::Marker(RESET)) => {
                    self.packets().write(MARKER, &[1, 0, RESET]);
                    self.await_client()?;
                }
                // The call was over before the client broke it off.
                Err(Broken::Marker(_)) => self.broken(1013, "user requested cancel")?,
                Err(broken) => return Err(broken),
            }
        }
    }

    /// Does what the test asked for at this step; an error of the database is left to the caller.
    fn step(&mut self, step: &str) -> Result<Option<Fault>, Broken> {
        let Some(fault) = self.shared.fault(step) else { return Ok(None) };
        match fault {
            Fault::Silence => {}
            Fault::Closed => return Err(Broken::Ended),
            Fault::Sends(bytes) => {
                self.flags.is_idle.store(true, Ordering::Relaxed);
                let _ = self.packets().stream.write_all(&bytes);
            }
            Fault::Endless => self.packets().answer_without_end(),
            other => return Ok(Some(other)),
        }
        let _ = self.packets().stream.read_to_end(&mut Vec::new());
        Err(Broken::Ended)
    }

    fn accept(&mut self) -> Result<(), Broken> {
        let asked = self.packets().read()?;
        let fault = self.step("connect")?;
        assert_eq!(asked.kind, CONNECT);
        // Long connect data come in a packet of their own, which XE has sent again.
        let is_long = u16::from_be_bytes([asked.payload[16], asked.payload[17]]) > 230;
        if is_long {
            assert_eq!(self.packets().read()?.kind, DATA);
            self.packets().write(RESEND, &[]);
            assert_eq!(self.packets().read()?.kind, CONNECT);
            assert_eq!(self.packets().read()?.kind, DATA);
        }
        if let Some(Fault::Redirects(port)) = fault {
            return self.redirect(port);
        }
        let release = self.shared.release;
        let name = match self.step("accept")? {
            Some(Fault::Accepts(name)) => name,
            _ if release == Release::Xe18 => "xe18-accept",
            _ => "free23-accept",
        };
        self.packets().write(ACCEPT, &capture(name));
        self.packets().are_long = true;
        self.packets().ends_are_marked = release == Release::Free23;
        Ok(())
    }

    /// Names the address and the connect data to come back with, in a packet of their own.
    fn redirect(&mut self, port: u16) -> Result<(), Broken> {
        let address = format!("(ADDRESS=(PROTOCOL=tcp)(HOST=127.0.0.1)(PORT={port}))");
        let connect = "(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=standin)(INSTANCE_NAME=one)))";
        let data = [address.as_bytes(), &[0], connect.as_bytes()].concat();
        self.packets().write(REDIRECT, &(data.len() as u16).to_be_bytes());
        self.packets().write(DATA, &[&[0, 0], &data[..]].concat());
        let _ = self.packets().stream.read_to_end(&mut Vec::new());
        Err(Broken::Ended)
    }

    fn log_on(&mut self) -> Result<(), Broken> {
        let keys =
            Keys::new(&lock(&self.shared.password), self.shared.rounds.load(Ordering::Relaxed));
        match self.shared.release {
            Release::Xe18 => {
                let Request::Protocol = self.requests.read()? else { return unexpected() };
                self.step("protocol")?;
                self.packets().answer(&capture("xe18-protocol"));
                let Request::DataTypes = self.requests.read()? else { return unexpected() };
                self.step("data types")?;
                let types = self.with_zone(&capture("xe18-data-types"));
                self.packets().answer(&types);
                let Request::LogOn { phase: 1, .. } = self.requests.read()? else {
                    return unexpected();
                };
                let challenge = self.challenge(&keys)?;
                self.answer_log_on(Vec::new(), &challenge, &[])?;
            }
            Release::Free23 => {
                let captured = capture("free23-fast-log-on");
                // What stands before the log-on's own answer.
                let log_on = captured.windows(4).rposition(|four| four == [8, 1, 6, 1]).unwrap();
                // Between two messages, the data types begin with the smallest of them.
                let at = captured.windows(5).position(|five| five == [2, 0, 1, 0, 1]).unwrap();
                let before = match self.requests.read()? {
                    Request::FastLogOn => {
                        self.step("protocol")?;
                        let types = self.with_zone(&captured[at..log_on]);
                        [&captured[..at], &types].concat()
                    }
                    // Older clients take one step at a time.
                    Request::Protocol => {
                        self.packets().answer(&captured[..at]);
                        let Request::DataTypes = self.requests.read()? else {
                            return unexpected();
                        };
                        let types = self.with_zone(&captured[at..log_on]);
                        self.packets().answer(&types);
                        let Request::LogOn { phase: 1, .. } = self.requests.read()? else {
                            return unexpected();
                        };
                        Vec::new()
                    }
                    _ => return unexpected(),
                };
                let challenge = self.challenge(&keys)?;
                self.answer_log_on(before, &challenge, &[])?;
            }
        }
        let Request::LogOn { phase: 2, sent } = self.requests.read()? else { return unexpected() };
        let fault = self.step("log-on 2")?;
        if let Some(Fault::Fails(code, message)) = fault {
            self.refuse(code, message);
            return Err(Broken::Ended);
        }
        self.welcome(&keys, &sent)
    }

    /// The message of data types, with the database's time zone if the client named its own.
    fn with_zone(&self, types: &[u8]) -> Vec<u8> {
        const UTC: [u8; 15] = [0x80, 0, 0, 0, 60, 60, 60, 0x80, 0, 0, 0, 0, 0, 0, 43];
        [&types[..1], &UTC[..self.requests.zone.len()], &types[1..]].concat()
    }

    /// The answer to the first phase: of a 12C verifier, or of 11G's if that step is to fail.
    fn challenge(&mut self, keys: &Keys) -> Result<Vec<logon::Pair>, Broken> {
        Ok(match self.step("log-on 1")? {
            Some(Fault::Fails(..)) => keys.challenge_of_11g(),
            _ => keys.challenge(),
        })
    }

    /// The answer to the second phase, as a server sent it, with the session's own numbers.
    fn welcome(&mut self, keys: &Keys, sent: &LogOn) -> Result<(), Broken> {
        let Some(key) = keys.session_key(sent, &lock(&self.shared.password)) else {
            self.refuse(1017, "invalid username/password; logon denied");
            return Err(Broken::Ended);
        };
        let name = match self.shared.release {
            Release::Xe18 => "xe18-log-on-2",
            Release::Free23 => "free23-log-on-2",
        };
        let captured = capture(name);
        let mut reader = Reader::of(&captured);
        let mut pairs = logon::read_pairs(&mut reader)?;
        for (key_name, value, _) in &mut pairs {
            match key_name.as_str() {
                "AUTH_SVR_RESPONSE" => *value = logon::server_proof(&key),
                "AUTH_SESSION_ID" => *value = self.session.to_string(),
                "AUTH_SERIAL_NUM" => *value = (self.session * 10).to_string(),
                _ => {}
            }
        }
        let mut rest = Vec::new();
        while !reader.is_empty() {
            rest.push(reader.u8()?);
        }
        // What a server sends along, up to the end, which is the stand-in's own.
        let end = rest.windows(3).rposition(|three| three == [4, 1, 1]).unwrap();
        self.answer_log_on(Vec::new(), &pairs, &rest[..end])
    }

    fn answer_log_on(
        &mut self,
        before: Vec<u8>,
        pairs: &[logon::Pair],
        after: &[u8],
    ) -> Result<(), Broken> {
        let mut writer = Writer(before);
        logon::write_pairs(&mut writer, pairs);
        writer.raw(after);
        self.send(writer, End { call_status: 1, ..End::default() });
        Ok(())
    }

    fn refuse(&mut self, code: u32, message: &str) {
        self.send_error(Writer::default(), End::default(), code, message);
    }

    fn execute(&mut self, request: Request) -> Result<(), Broken> {
        match request {
            Request::Execute(execute) => self.statement(execute),
            Request::Fetch { cursor, rows } => {
                self.step("fetch")?;
                let mut writer = Writer::default();
                let (_, is_end) = self.write_rows(&mut writer, cursor, rows);
                // Numbers come with executions alone.
                self.end_of_rows(writer, cursor, is_end);
                Ok(())
            }
            Request::Commit => {
                self.step("commit")?;
                if let Some(messages) = lock(&self.shared.messages).as_mut() {
                    messages
                        .push((self.session, Execute { function: COMMIT, ..Execute::default() }));
                }
                self.shared.world().commit(self.session);
                self.answer_status()
            }
            Request::Version => {
                let mut writer = Writer::default();
                writer.u8(PARAMETERS).text(b"Oracle Database, a stand-in").ub(VERSION_NUMBER);
                write_status(&mut writer, 1, self.requests.sequence);
                self.finish(writer);
                Ok(())
            }
            Request::Ping => self.answer_status(),
            Request::Rollback => {
                self.shared.world().roll_back(self.session);
                self.answer_status()
            }
            _ => unexpected(),
        }
    }

    fn statement(&mut self, execute: Execute) -> Result<(), Broken> {
        let known = self.requests.cursors.get(&execute.cursor).map(|(sql, _)| sql.clone());
        let Some(sql) = execute.sql.clone().or(known) else { return unexpected() };
        if let Some(messages) = lock(&self.shared.messages).as_mut() {
            messages.push((self.session, Execute { sql: Some(sql.clone()), ..execute.clone() }));
        }
        let raw = sql;
        let sql = one_line(&raw);
        lock(&self.shared.statements).push(sql.clone());
        let cursor = match execute.cursor {
            0 => {
                self.last_cursor += 1;
                self.last_cursor
            }
            open => open,
        };
        let end = End { cursor, ..End::default() };
        match self.step(&sql)? {
            Some(Fault::Fails(code, message)) => {
                self.send_error(Writer::default(), End::default(), code, message);
                return Ok(());
            }
            Some(fault @ (Fault::Hangs | Fault::HangsUnseen | Fault::HangsHasty)) => {
                return self.hang(&fault);
            }
            _ => {}
        }
        if self.flags.killed.load(Ordering::Relaxed) {
            return Err(Broken::Ended);
        }
        let bound = values(&execute);
        let answer = match sql.starts_with("DECLARE ops ") {
            true => self.call(&raw, &sql, named(&sql, &bound)),
            false if self.waits_in_vain(&sql) => {
                Answer::Fails(1013, "user requested cancel of current operation".into())
            }
            false => self.of_sessions(&sql, &bound).unwrap_or_else(|| {
                let mut world = self.shared.world();
                world.execute(self.session, &sql, &bound)
            }),
        };
        if let Answer::Fails(900, what) = &answer {
            lock(&self.shared.odd).push(what.clone());
        }
        let mut writer = Writer::default();
        match answer {
            Answer::Fails(code, message) => {
                self.send_error(writer, End::default(), code, &message);
                return Ok(());
            }
            Answer::Rows(rows) => {
                let columns = rows.first().map_or(1, Vec::len);
                let change = self.shared.mutation.lock().of(&question(&sql), columns);
                if execute.function == 94 && execute.cursor == 0 {
                    let mut described = Columns::texts(columns);
                    if let Some(change) = &change {
                        let kind = &mut described.columns[change.column].kind;
                        *kind = change.kind(KINDS).unwrap_or(*kind);
                    }
                    described.write(&mut writer, self.requests.version);
                }
                let rows = rows.into_iter().map(|row| changed(row, change.as_ref()));
                let rows: Vec<Values> = rows.collect();
                self.open.insert(cursor, (columns, rows.into_iter()));
                let (_, is_end) = self.write_rows(&mut writer, cursor, execute.prefetch);
                self.remember(cursor, &execute, &[]);
                write_parameters(&mut writer, &numbers(cursor));
                self.end_of_rows(writer, cursor, is_end);
            }
            Answer::Done(rows) => {
                self.remember(cursor, &execute, &[]);
                write_parameters(&mut writer, &numbers(cursor));
                self.send(writer, End { rows, iterations: 1, ..end });
            }
            Answer::Outs(texts) => {
                let names = bind_names(&sql);
                let outs: Vec<u8> = names
                    .iter()
                    .map(|name| match name.as_str() {
                        "ENDED" | "ERRORS" => OUT,
                        name if name.starts_with("P_NLS_") => OUT,
                        _ => IN,
                    })
                    .collect();
                let change = self.shared.mutation.lock().of(&question(&sql), texts.len());
                let values = changed(texts, change.as_ref());
                Outs { directions: outs.clone(), values }.write(&mut writer);
                self.remember(cursor, &execute, &outs);
                write_parameters(&mut writer, &numbers(cursor));
                self.send(writer, End { rows: 1, iterations: 1, ..end });
            }
        }
        self.shared.mutation.lock().answered(&question(&sql));
        Ok(())
    }

    /// Executes the loop, one call at a time, and keeps it for tests in this order.
    fn call(&self, text: &str, sql: &str, binds: BTreeMap<String, Value>) -> Answer {
        let mut calls = lock(&self.shared.calls);
        let answer = block::run(self.shared, self.session, sql, &binds);
        if let Answer::Outs(outs) = &answer {
            let [ended, errors] = [outs[0].clone(), outs[1].clone()];
            calls.push(Call { text: text.to_owned(), binds, ended, errors });
        }
        answer
    }

    /// Waits while another session holds the rows of an UPDATE; true if it was cancelled.
    fn waits_in_vain(&self, sql: &str) -> bool {
        let table = table_after(sql, "*/ ").filter(|_| sql.starts_with("UPDATE "));
        table.is_some_and(|table| self.shared.wait_for_rows(self.session, &table).is_some())
    }

    /// Keeps a cursor open, with what repeated executions of it bind.
    fn remember(&mut self, cursor: u64, execute: &Execute, directions: &[u8]) {
        let known = self.requests.cursors.get(&cursor).map(|(sql, _)| sql.clone());
        let sql = execute.sql.clone().or(known).unwrap_or_default();
        let mut binds = execute.binds.clone();
        for (bind, direction) in binds.iter_mut().zip(directions) {
            bind.is_in = !Outs::is_out(*direction);
        }
        self.requests.cursors.insert(cursor, (sql, binds));
    }

    /// Says whether another session works; cancels or kills it, as `ALTER SYSTEM` does it.
    fn of_sessions(&self, sql: &str, bound: &[Vec<Value>]) -> Option<Answer> {
        if sql.starts_with("SELECT status FROM sys.gv_$session ") {
            let (session, serial) = (bound[0][0].number(), bound[0][1].number());
            let sessions = lock(&self.shared.sessions);
            let is_idle = |flags: &Arc<Flags>| flags.is_idle.load(Ordering::Relaxed);
            let works =
                serial == session * 10 && sessions.get(&session).is_some_and(|it| !is_idle(it));
            let rows = if works { vec![vec!["ACTIVE".to_owned()]] } else { Vec::new() };
            return Some(Answer::Rows(rows));
        }
        let is_kill = sql.starts_with("ALTER SYSTEM KILL SESSION '");
        if !is_kill && !sql.starts_with("ALTER SYSTEM CANCEL SQL '") {
            return None;
        }
        let session: u64 = sql.split('\'').nth(1)?.split(',').next()?.parse().ok()?;
        let sessions = lock(&self.shared.sessions);
        let Some(flags) = sessions.get(&session) else {
            return Some(Answer::Fails(30, "User session ID does not exist.".into()));
        };
        let flag = if is_kill { &flags.killed } else { &flags.cancelled };
        flag.store(true, Ordering::Relaxed);
        Some(Answer::Done(0))
    }

    /// Waits until the statement is cancelled, or its session is killed.
    fn hang(&mut self, fault: &Fault) -> Result<(), Broken> {
        loop {
            if self.flags.killed.load(Ordering::Relaxed) {
                return Err(Broken::Ended);
            }
            let is_cancelled = self.flags.cancelled.swap(false, Ordering::Relaxed);
            if is_cancelled && !matches!(fault, Fault::HangsUnseen) {
                match fault {
                    Fault::HangsHasty => self.packets().write(MARKER, &[1, 0, BREAK]),
                    _ => self.packets().reset(false)?,
                }
                self.refuse(1013, "user requested cancel of current operation");
                return self.await_client();
            }
            if matches!(fault, Fault::HangsUnseen) {
                std::thread::sleep(TICK);
            } else if self.packets().is_heard(TICK) {
                return match self.requests.reader.u8() {
                    Err(Broken::Marker(_)) => self.broken(1013, "user requested cancel"),
                    Err(broken) => Err(broken),
                    Ok(_) => unexpected(),
                };
            }
        }
    }

    /// Waits until the client sends something; a session that is killed meanwhile ends.
    fn await_client(&mut self) -> Result<(), Broken> {
        while !self.packets().is_heard(TICK) {
            if self.flags.killed.load(Ordering::Relaxed) {
                return Err(Broken::Ended);
            }
        }
        Ok(())
    }

    /// Answers the client's break.
    fn broken(&mut self, code: u32, message: &str) -> Result<(), Broken> {
        self.requests.reader.clear();
        self.packets().reset(true)?;
        self.refuse(code, message);
        Ok(())
    }

    /// Up to so many rows of a cursor; how many, and whether these are all.
    fn write_rows(&mut self, writer: &mut Writer, cursor: u64, asked: u64) -> (usize, bool) {
        let Some((columns, rows)) = self.open.get_mut(&cursor) else { return (0, true) };
        let rows: Vec<Values> = rows.take(asked as usize).collect();
        let (count, columns) = (rows.len(), *columns);
        let is_end = count < asked as usize;
        if count > 0 {
            let spares_vectors = self.shared.spares_vectors.load(Ordering::Relaxed);
            // From the third row on, as 23ai does it.
            Rows { columns, null_columns: 0, asked, rows, whole: 2, spares_vectors }.write(writer);
        }
        (count, is_end)
    }

    fn end_of_rows(&mut self, writer: Writer, cursor: u64, is_end: bool) {
        let end = End { cursor, statement_kind: 3, ..End::default() };
        match is_end {
            true => self.send_error(writer, end, 1403, "no data found"),
            false => self.send(writer, end),
        }
    }

    fn send_error(&mut self, writer: Writer, end: End, code: u32, message: &str) {
        let message = format!("ORA-{code:05}: {message}\n");
        self.send(writer, End { error: code.into(), message, ..end });
    }

    fn send(&mut self, mut writer: Writer, end: End) {
        let sequence = self.requests.sequence;
        let end = End { call_status: 1, sequence, call: sequence as u8, ..end };
        end.write(&mut writer, self.requests.version);
        self.finish(writer);
    }

    fn answer_status(&mut self) -> Result<(), Broken> {
        let mut writer = Writer::default();
        write_status(&mut writer, 1, self.requests.sequence);
        self.finish(writer);
        Ok(())
    }

    fn finish(&mut self, mut writer: Writer) {
        // Only clients that ask for it get the mark.
        let is_asked = self.requests.wants_marked_ends;
        self.packets().ends_are_marked &= is_asked;
        if self.packets().ends_are_marked {
            writer.u8(END_OF_RESPONSE);
        }
        self.packets().answer(&writer.0);
    }
}

/// The numbers of each execution: the clock is the first, the cursor the third.
fn numbers(cursor: u64) -> [u64; 6] {
    [0x0322_b1c4, 0, cursor, 0, 0, 0]
}

/// A row as it is sent, with a column changed.
fn changed(row: Row, change: Option<&Change>) -> Values {
    let mut values: Values = row.into_iter().map(|cell| Some(cell.into_bytes())).collect();
    if let Some(change) = change {
        let value = &mut values[change.column];
        *value = change.value(value.as_deref());
    }
    values
}

fn unexpected<T>() -> Result<T, Broken> {
    Err(Broken::Odd("a message that does not belong here".to_owned()))
}

/// The binds of a block in the order of their names in it.
fn bind_names(sql: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for after in sql.split(':').skip(1) {
        let name: String =
            after.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect();
        let name = name.to_uppercase();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn named(sql: &str, bound: &[Vec<Value>]) -> BTreeMap<String, Value> {
    bind_names(sql).into_iter().zip(bound.first().cloned().unwrap_or_default()).collect()
}
