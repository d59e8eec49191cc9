//! The messages of a client, read field by field. No test of its own.

use std::collections::BTreeMap;

use super::buffer::{Broken, Reader, Source};
use super::logon::{self, LogOn};

/// Versions of the protocol's fields, which client and server agree on.
pub const VERSION_11_2: u8 = 6;
pub const VERSION_12_2: u8 = 8;
pub const VERSION_12_2_EXT: u8 = 9;
pub const VERSION_20: u8 = 14;
pub const VERSION_23: u8 = 17;
pub const VERSION_23_EXT_1: u8 = 18;
pub const VERSION_23_EXT_3: u8 = 20;
pub const VERSION_23_4: u8 = 24;

/// No data type has a larger number.
const DATA_TYPE_MAX: u16 = 1023;

pub const NUMBER: u8 = 2;
/// The option of an execution that fetches, too.
const FETCH: u64 = 0x40;
/// The function that commits.
pub const COMMIT: u8 = 14;
/// The direction of a bind that only comes back.
pub const OUT: u8 = 0x10;
pub const IN: u8 = 0x20;

pub enum Request {
    Protocol,
    DataTypes,
    /// Three messages in one, of which the log-on is the last.
    FastLogOn,
    LogOn {
        phase: u8,
        sent: LogOn,
    },
    Execute(Execute),
    Fetch {
        cursor: u64,
        rows: u64,
    },
    Commit,
    Rollback,
    /// Asks for the product and its version.
    Version,
    Ping,
    LogOff,
}

/// A statement with its binds.
#[derive(Default, Clone)]
pub struct Execute {
    /// 94: as a whole; 4 and 78: again, what the cursor knows is not repeated.
    pub function: u8,
    pub cursor: u64,
    pub sql: Option<String>,
    /// Rows that come with the answer.
    pub prefetch: u64,
    pub is_query: bool,
    pub binds: Vec<Bind>,
    /// As sent, by bind: NULL is None.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// Every field of the message by name, but for texts and values.
    pub fields: Vec<(&'static str, u64)>,
}

#[derive(Default, Clone, Debug, PartialEq)]
pub struct Bind {
    pub kind: u8,
    pub size: u64,
    /// Whether a value comes with a repeated execution.
    pub is_in: bool,
}

/// What repeated executions need: the binds of each cursor.
pub type Cursors = BTreeMap<u64, (String, Vec<Bind>)>;

pub struct Requests<S> {
    pub reader: Reader<S>,
    /// Of the fields, as agreed.
    pub version: u8,
    pub cursors: Cursors,
    /// What came with requests of their own, by function code.
    pub piggybacks: Vec<u8>,
    /// What the answer to the data types begins with: the database's time zone, and the version of its
    /// table of zones, if the client named its own.
    pub zone: Vec<u8>,
    /// The client wants the end of each answer marked.
    pub wants_marked_ends: bool,
    /// The number of the last message, which its answer repeats.
    pub sequence: u64,
    /// The client sends texts whose length is known without it.
    pub is_plain: bool,
}

impl<S: Source> Requests<S> {
    pub fn new(source: S, version: u8) -> Self {
        let cursors = Cursors::new();
        let (piggybacks, zone, is_plain) = (Vec::new(), Vec::new(), false);
        let (reader, sequence, wants_marked_ends) = (Reader::new(source), 1, false);
        Self { reader, version, cursors, piggybacks, zone, wants_marked_ends, sequence, is_plain }
    }

    pub fn read(&mut self) -> Result<Request, Broken> {
        loop {
            match self.reader.u8()? {
                1 => return self.protocol().map(|()| Request::Protocol),
                2 => return self.data_types().map(|()| Request::DataTypes),
                34 => return self.fast_log_on(),
                17 => self.piggyback()?,
                3 => return self.function(),
                other => return Err(Broken::Odd(format!("a message of type {other}"))),
            }
        }
    }

    fn protocol(&mut self) -> Result<(), Broken> {
        while self.reader.u8()? != 0 {}
        while self.reader.u8()? != 0 {}
        Ok(())
    }

    fn data_types(&mut self) -> Result<(), Broken> {
        self.reader.raw(5)?;
        let compiled = self.reader.bytes()?.unwrap_or_default();
        let running = self.reader.bytes()?.unwrap_or_default();
        let has = |of: &[u8], at: usize, bit| of.get(at).is_some_and(|it: &u8| it & bit != 0);
        self.wants_marked_ends = has(&compiled, 40, 0x20);
        // The older side's fields.
        self.version = compiled.get(7).map_or(self.version, |version| self.version.min(*version));
        // The client's time zone, and the version of its table of zones.
        if has(&running, 1, 1) {
            self.zone = self.reader.raw(11)?;
            if has(&compiled, 37, 2) {
                self.zone.extend(self.reader.raw(4)?);
            }
        }
        // Some clients name the national character set before the types.
        let mut kind = self.data_type()?;
        if kind > DATA_TYPE_MAX {
            kind = self.data_type()?;
        }
        while kind != 0 {
            // A type that is left out has no form.
            if self.data_type()? != 0 {
                self.reader.raw(4)?;
            }
            kind = self.data_type()?;
        }
        Ok(())
    }

    fn data_type(&mut self) -> Result<u16, Broken> {
        let bytes = self.reader.raw(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn fast_log_on(&mut self) -> Result<Request, Broken> {
        self.reader.raw(3)?;
        self.reader.expect("the first of three messages", &[1])?;
        self.protocol()?;
        // Character sets, and the version of the fields in these messages.
        let version = self.reader.raw(6)?[5];
        self.reader.expect("the second of three messages", &[2])?;
        self.data_types()?;
        self.reader.expect("the third of three messages", &[3, 118])?;
        self.reader.u8()?;
        if version >= VERSION_23_EXT_1 {
            self.reader.ub()?;
        }
        self.is_plain = logon::read(&mut self.reader)?.is_plain;
        Ok(Request::FastLogOn)
    }

    /// Sequence and token behind a function's code.
    fn sequence(&mut self) -> Result<(), Broken> {
        self.sequence = self.reader.u8()?.into();
        if self.version >= VERSION_23_EXT_1 {
            self.reader.ub()?;
        }
        Ok(())
    }

    fn piggyback(&mut self) -> Result<(), Broken> {
        let code = self.reader.u8()?;
        self.sequence()?;
        self.piggybacks.push(code);
        let reader = &mut self.reader;
        match code {
            // Cursors that the client is done with.
            105 => {
                reader.u8()?;
                for _ in 0..reader.ub()? {
                    self.cursors.remove(&reader.ub()?);
                }
            }
            // Module, action and what else V$SESSION shows.
            135 => {
                reader.raw(2)?;
                reader.ub()?;
                let mut lengths = Vec::new();
                for _ in 0..3 {
                    reader.u8()?;
                    lengths.push(reader.ub()?);
                }
                reader.u8()?;
                reader.ub()?;
                reader.u8()?;
                reader.ub()?;
                for _ in 0..4 {
                    reader.u8()?;
                    lengths.push(reader.ub()?);
                }
                for length in lengths {
                    if length > 0 {
                        reader.bytes()?;
                    }
                }
            }
            // The boundaries of requests.
            176 => {
                reader.ub()?;
            }
            // Numbers of JDBC's own, as a text.
            191 => {
                reader.u8()?;
                let length = reader.ub()?;
                reader.u8()?;
                reader.raw(length as usize)?;
            }
            other => return Err(Broken::Odd(format!("a piggyback with code {other}"))),
        }
        Ok(())
    }

    fn function(&mut self) -> Result<Request, Broken> {
        let code = self.reader.u8()?;
        self.sequence()?;
        Ok(match code {
            118 => {
                let sent = logon::read(&mut self.reader)?;
                self.is_plain = sent.is_plain;
                Request::LogOn { phase: 1, sent }
            }
            115 => Request::LogOn { phase: 2, sent: logon::read(&mut self.reader)? },
            94 => Request::Execute(self.execute()?),
            4 | 78 => Request::Execute(self.execute_again(code)?),
            5 => Request::Fetch { cursor: self.reader.ub()?, rows: self.reader.ub()? },
            COMMIT => Request::Commit,
            15 => Request::Rollback,
            9 => Request::LogOff,
            147 => Request::Ping,
            59 => {
                self.reader.u8()?;
                self.reader.ub()?;
                self.reader.raw(2)?;
                if self.version >= VERSION_11_2 {
                    self.reader.ub()?;
                }
                Request::Version
            }
            other => return Err(Broken::Odd(format!("a function with code {other}"))),
        })
    }

    fn execute(&mut self) -> Result<Execute, Broken> {
        let mut fields = Vec::new();
        let options = self.field(&mut fields, "options")?;
        let cursor = self.field(&mut fields, "cursor")?;
        self.flag(&mut fields, "SQL is there")?;
        let length = self.field(&mut fields, "length of the SQL")?;
        self.flag(&mut fields, "numbers are there")?;
        self.field(&mut fields, "how many numbers")?;
        self.flag(&mut fields, "al8o4")?;
        self.flag(&mut fields, "al8o4l")?;
        let bytes = self.field(&mut fields, "prefetched bytes")?;
        let prefetch = self.field(&mut fields, "prefetched rows")?;
        self.field(&mut fields, "longest LONG")?;
        self.flag(&mut fields, "binds are there")?;
        let count = self.field(&mut fields, "how many binds")?;
        for name in ["al8app", "al8txn", "al8txl", "al8kv", "al8kvl", "defines are there"] {
            self.flag(&mut fields, name)?;
        }
        self.field(&mut fields, "how many defines")?;
        self.field(&mut fields, "registration")?;
        self.flag(&mut fields, "al8objlist")?;
        self.flag(&mut fields, "al8objlen")?;
        self.flag(&mut fields, "al8blv")?;
        self.field(&mut fields, "al8blvl")?;
        self.flag(&mut fields, "al8dnam")?;
        self.field(&mut fields, "al8dnaml")?;
        self.field(&mut fields, "al8regid_msb")?;
        self.flag(&mut fields, "row counts are asked")?;
        self.field(&mut fields, "how many row counts")?;
        self.flag(&mut fields, "al8pidmlrcl")?;
        if self.version >= VERSION_12_2 {
            self.flag(&mut fields, "al8sqlsig")?;
            self.field(&mut fields, "length of the SQL signature")?;
            self.flag(&mut fields, "SQL ID")?;
            self.field(&mut fields, "size of the SQL ID")?;
            self.flag(&mut fields, "length of the SQL ID")?;
        }
        if self.version >= VERSION_12_2_EXT {
            self.flag(&mut fields, "chunk ids")?;
            self.field(&mut fields, "how many chunk ids")?;
        }
        let sql = match (length, self.is_plain) {
            (0, _) => None,
            (_, true) => Some(self.reader.raw(length as usize)?),
            (_, false) => self.reader.bytes()?,
        };
        let sql = sql.map(|sql| String::from_utf8_lossy(&sql).into_owned());
        self.field(&mut fields, "al8i4[0], parse")?;
        let executions = self.field(&mut fields, "al8i4[1], executions")?;
        for name in ["al8i4[2]", "al8i4[3]", "al8i4[4]", "al8i4[5]", "al8i4[6]"] {
            self.field(&mut fields, name)?;
        }
        let is_query = self.field(&mut fields, "al8i4[7], query")? == 1;
        for name in ["al8i4[8]", "al8i4[9], flags", "al8i4[10]", "al8i4[11]", "al8i4[12]"] {
            self.field(&mut fields, name)?;
        }
        let mut binds: Vec<Bind> =
            (0..count).map(|_| self.bind(&mut fields)).collect::<Result<_, _>>()?;
        // JDBC binds again what an open cursor knows, and sends a value for each.
        if let (true, 0, Some((_, known))) = (sql.is_none(), count, self.cursors.get(&cursor)) {
            binds.clone_from(known);
            binds.iter_mut().for_each(|bind| bind.is_in = true);
        }
        let executions = if is_query { 1 } else { executions.max(1) };
        let rows = match binds.is_empty() {
            true => Vec::new(),
            false => self.rows(executions, binds.len())?,
        };
        // JDBC, which names a size, fetches rows by a call of its own; go-ora takes them with this one.
        let prefetch = if options & FETCH == 0 && bytes != 0 { 0 } else { prefetch };
        Ok(Execute { function: 94, cursor, sql, prefetch, is_query, binds, rows, fields })
    }

    fn field(
        &mut self,
        fields: &mut Vec<(&'static str, u64)>,
        name: &'static str,
    ) -> Result<u64, Broken> {
        let value = self.reader.ub()?;
        fields.push((name, value));
        Ok(value)
    }

    fn flag(
        &mut self,
        fields: &mut Vec<(&'static str, u64)>,
        name: &'static str,
    ) -> Result<(), Broken> {
        let value = self.reader.u8()?;
        fields.push((name, value.into()));
        Ok(())
    }

    fn bind(&mut self, fields: &mut Vec<(&'static str, u64)>) -> Result<Bind, Broken> {
        self.flag(fields, "type of a bind")?;
        let kind = fields[fields.len() - 1].1 as u8;
        for name in ["flags of a bind", "precision of a bind", "scale of a bind"] {
            self.flag(fields, name)?;
        }
        let size = self.field(fields, "bytes of a bind")?;
        self.field(fields, "elements of a bind")?;
        self.field(fields, "further flags of a bind")?;
        self.reader.text()?;
        self.field(fields, "version of a bind's type")?;
        self.field(fields, "character set of a bind")?;
        self.flag(fields, "form of a bind's characters")?;
        self.field(fields, "characters of a bind")?;
        if self.version >= VERSION_12_2 {
            self.field(fields, "oaccolid of a bind")?;
        }
        Ok(Bind { kind, size, is_in: true })
    }

    fn execute_again(&mut self, function: u8) -> Result<Execute, Broken> {
        let mut fields = Vec::new();
        let cursor = self.field(&mut fields, "cursor")?;
        let iterations = self.field(&mut fields, "iterations")?;
        self.field(&mut fields, "options 1")?;
        self.field(&mut fields, "options 2")?;
        let Some((sql, binds)) = self.cursors.get(&cursor).cloned() else {
            return Err(Broken::Odd(format!("cursor {cursor}, which is not open")));
        };
        let is_query = function == 78;
        let (executions, prefetch) = if is_query { (1, iterations) } else { (iterations, 0) };
        let bound = binds.iter().filter(|bind| bind.is_in).count();
        let rows = if bound == 0 { Vec::new() } else { self.rows(executions, bound)? };
        let sql = Some(sql);
        Ok(Execute { function, cursor, sql, prefetch, is_query, binds, rows, fields })
    }

    fn rows(&mut self, count: u64, binds: usize) -> Result<Vec<Vec<Option<Vec<u8>>>>, Broken> {
        let mut row = || {
            self.reader.expect("a row of binds", &[7])?;
            (0..binds).map(|_| self.reader.bytes()).collect()
        };
        (0..count).map(|_| row()).collect()
    }
}

/// A NUMBER as it is sent: an exponent to the base 100 and its digits. Whole and not negative.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let (first, digits) = bytes.split_first()?;
    if *first == 0x80 {
        return Some(0);
    }
    let exponent = first.checked_sub(193)?;
    let digits = digits.iter().copied().chain(std::iter::repeat(1)).take(exponent as usize + 1);
    Some(digits.fold(0, |value, digit| value * 100 + u64::from(digit) - 1))
}
