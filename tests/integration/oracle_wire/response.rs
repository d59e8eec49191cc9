//! The messages of a server, each written and read by the same structure: what a capture of a real
//! server is read into is written as the same bytes again. No test of its own.

use super::buffer::{Broken, Reader, Source, Writer};
use super::request::{IN, VERSION_12_2, VERSION_20, VERSION_23, VERSION_23_4, VERSION_23_EXT_3};

const ROW_HEADER: u8 = 6;
const ROW: u8 = 7;
pub const PARAMETERS: u8 = 8;
const STATUS: u8 = 9;
const DIRECTIONS: u8 = 11;
const END: u8 = 4;
const COLUMNS: u8 = 16;
/// Which columns of the next row are sent; the others are as in the row before.
const BIT_VECTOR: u8 = 21;
pub const END_OF_RESPONSE: u8 = 29;

/// One column of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub kind: u8,
    pub flags: u8,
    pub precision: u8,
    pub scale: u8,
    pub bytes: u64,
    pub character_set: u64,
    pub form: u8,
    pub characters: u64,
    pub oaccolid: u64,
    pub is_nullable: u8,
    pub position: u64,
}

impl Column {
    /// A VARCHAR2, as a server describes TO_CHAR's.
    pub fn text(position: u64) -> Self {
        Self {
            name: format!("C{}", position + 1),
            kind: 1,
            flags: 0x80,
            precision: 0,
            scale: 0,
            bytes: 4000,
            character_set: 873,
            form: 1,
            characters: 4000,
            oaccolid: 0x3ffe,
            is_nullable: 1,
            position,
        }
    }

    fn write(&self, writer: &mut Writer, version: u8) {
        writer.u8(self.kind).u8(self.flags).u8(self.precision).u8(self.scale);
        // No array, no flags, no type of its own.
        writer.ub(self.bytes).ubs(&[0, 0, 0, 0]).ub(self.character_set).u8(self.form);
        writer.ub(self.characters);
        if version >= VERSION_12_2 {
            writer.ub(self.oaccolid);
        }
        writer.u8(self.is_nullable).u8(self.name.len() as u8).text(self.name.as_bytes());
        writer.ubs(&[0, 0]).ub(self.position).ub(0);
        if version >= VERSION_23 {
            writer.ubs(&[0, 0]);
        }
        if version >= VERSION_23_EXT_3 {
            writer.ub(0);
        }
        if version >= VERSION_23_4 {
            writer.ub(0).u8(0).u8(0);
        }
    }

    fn read<S: Source>(reader: &mut Reader<S>, version: u8) -> Result<Self, Broken> {
        let [kind, flags, precision, scale] = reader.raw(4)?.try_into().unwrap();
        let bytes = reader.ub()?;
        reader.expect("a column's type", &[0; 4])?;
        let (character_set, form) = (reader.ub()?, reader.u8()?);
        let characters = reader.ub()?;
        let oaccolid = if version >= VERSION_12_2 { reader.ub()? } else { 0 };
        let is_nullable = reader.u8()?;
        let _length = reader.u8()?;
        let name = String::from_utf8(reader.text()?).unwrap();
        reader.expect("a column's object", &[0, 0])?;
        let position = reader.ub()?;
        reader.expect("a column's flags", &[0])?;
        if version >= VERSION_23 {
            reader.expect("a column's domain", &[0, 0])?;
        }
        if version >= VERSION_23_EXT_3 {
            reader.expect("a column's annotations", &[0])?;
        }
        if version >= VERSION_23_4 {
            reader.expect("a column's vector", &[0, 0, 0])?;
        }
        Ok(Self {
            name,
            kind,
            flags,
            precision,
            scale,
            bytes,
            character_set,
            form,
            characters,
            oaccolid,
            is_nullable,
            position,
        })
    }
}

/// The shape of a query's rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    /// Of the query's text and the moment.
    pub digest: Vec<u8>,
    pub row_bytes: u64,
    /// A byte whose meaning no client needs.
    pub lead: u8,
    pub columns: Vec<Column>,
    pub now: Vec<u8>,
    /// Flags and limits of the cursor.
    pub numbers: [u64; 4],
}

impl Columns {
    pub fn texts(count: usize) -> Self {
        Self {
            digest: vec![0x5a; 23],
            row_bytes: 4000 * count as u64,
            lead: 0x82,
            columns: (0..count as u64).map(Column::text).collect(),
            now: vec![0x78, 0x7e, 6, 11, 19, 13, 23],
            numbers: [0, 0x1fe8, 10, 10],
        }
    }

    pub fn write(&self, writer: &mut Writer, version: u8) {
        writer.u8(COLUMNS).bytes(&self.digest).ub(self.row_bytes);
        writer.ub(self.columns.len() as u64).u8(self.lead);
        for column in &self.columns {
            column.write(writer, version);
        }
        writer.text(&self.now).ubs(&self.numbers).ub(0);
    }

    pub fn read<S: Source>(reader: &mut Reader<S>, version: u8) -> Result<Self, Broken> {
        reader.expect("the message", &[COLUMNS])?;
        let digest = reader.bytes()?.unwrap_or_default();
        let (row_bytes, count, lead) = (reader.ub()?, reader.ub()?, reader.u8()?);
        let columns =
            (0..count).map(|_| Column::read(reader, version)).collect::<Result<_, _>>()?;
        let now = reader.text()?;
        let numbers = [reader.ub()?, reader.ub()?, reader.ub()?, reader.ub()?];
        reader.expect("the cursor's key", &[0])?;
        Ok(Self { digest, row_bytes, lead, columns, now, numbers })
    }
}

/// Values of a row as sent; NULL is None.
pub type Values = Vec<Option<Vec<u8>>>;

/// Rows of one answer to an execution or a fetch.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    pub columns: usize,
    /// The last of these columns are NULL by their description: nothing is sent of them.
    pub null_columns: usize,
    /// How many the client asked for.
    pub asked: u64,
    pub rows: Vec<Values>,
    /// Rows before this one come whole; from it on each has a vector of what changed.
    pub whole: usize,
    /// A row of which all changed comes without a vector.
    pub spares_vectors: bool,
}

impl Rows {
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(ROW_HEADER).u8(0x22).ub(self.columns as u64).ub(0).ub(self.asked);
        writer.ubs(&[0, 0, 0]);
        for (at, row) in self.rows.iter().enumerate() {
            let before = (at >= self.whole).then(|| &self.rows[at - 1]).filter(|before| {
                !self.spares_vectors || before.iter().zip(row).any(|(old, new)| old == new)
            });
            write_row(writer, row, before, self.columns - self.null_columns);
        }
    }

    /// With the byte of the message behind them.
    pub fn read<S: Source>(
        reader: &mut Reader<S>,
        null_columns: usize,
    ) -> Result<(Self, u8), Broken> {
        reader.expect("the message", &[ROW_HEADER, 0x22])?;
        let columns = reader.ub()? as usize;
        reader.expect("the first row", &[0])?;
        let asked = reader.ub()?;
        reader.expect("the rest of the header", &[0, 0, 0])?;
        let mut rows: Vec<Values> = Vec::new();
        let mut whole = None;
        loop {
            match reader.u8()? {
                ROW => {
                    let sent = 0..columns - null_columns;
                    let mut row: Values = sent.map(|_| reader.bytes()).collect::<Result<_, _>>()?;
                    row.resize(columns, None);
                    rows.push(row);
                }
                BIT_VECTOR => {
                    whole.get_or_insert(rows.len());
                    let sent = reader.ub()?;
                    let bits = reader.raw(columns.div_ceil(8))?;
                    reader.expect("a row", &[ROW])?;
                    let mut row = rows.last().unwrap().clone();
                    let is_sent = |at: usize| bits[at / 8] & 1 << (at % 8) != 0;
                    assert_eq!(sent, (0..columns).filter(|at| is_sent(*at)).count() as u64);
                    for at in (0..columns).filter(|at| is_sent(*at)) {
                        row[at] = reader.bytes()?;
                    }
                    rows.push(row);
                }
                next => {
                    let whole = whole.unwrap_or(rows.len());
                    let spares_vectors = false;
                    let all = Self { columns, null_columns, asked, rows, whole, spares_vectors };
                    return Ok((all, next));
                }
            }
        }
    }
}

/// The first `columns` of a row, or what differs in it from the row before.
fn write_row(writer: &mut Writer, row: &Values, before: Option<&Values>, columns: usize) {
    let is_sent = |at: usize| before.is_none_or(|before| before[at] != row[at]);
    if before.is_some() {
        let mut bits = vec![0u8; row.len().div_ceil(8)];
        let sent: Vec<usize> = (0..row.len()).filter(|at| is_sent(*at)).collect();
        sent.iter().for_each(|at| bits[at / 8] |= 1 << (at % 8));
        writer.u8(BIT_VECTOR).ub(sent.len() as u64).raw(&bits);
    }
    writer.u8(ROW);
    for at in (0..columns).filter(|at| is_sent(*at)) {
        writer.bytes(row[at].as_deref().unwrap_or_default());
    }
}

/// The values that a block gives back, by what each bind is for.
#[derive(Debug, Clone, PartialEq)]
pub struct Outs {
    pub directions: Vec<u8>,
    pub values: Values,
}

impl Outs {
    pub fn write(&self, writer: &mut Writer) {
        writer.u8(DIRECTIONS).u8(5).ub(self.directions.len() as u64);
        writer.ubs(&[0, 1, 0, 0, 0]).raw(&self.directions);
        if !self.values.is_empty() {
            writer.u8(ROW);
        }
        for value in &self.values {
            // Nothing was cut.
            writer.bytes(value.as_deref().unwrap_or_default()).ub(0);
        }
    }

    /// Those before the first one that is no plain value.
    pub fn read<S: Source>(reader: &mut Reader<S>, plain: usize) -> Result<Self, Broken> {
        reader.expect("the message", &[DIRECTIONS, 5])?;
        let count = reader.ub()? as usize;
        reader.expect("the rest of the header", &[0, 1, 1, 0, 0, 0])?;
        let directions = reader.raw(count)?;
        reader.expect("a row", &[ROW])?;
        let mut value = || {
            let value = reader.bytes()?;
            reader.expect("its length before it was cut", &[0])?;
            Ok(value)
        };
        let values = (0..plain).map(|_| value()).collect::<Result<_, _>>()?;
        Ok(Self { directions, values })
    }

    pub fn is_out(direction: u8) -> bool {
        direction != IN
    }
}

/// The end of each answer: the cursor, how many rows it was, an error.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    pub call_status: u64,
    pub sequence: u64,
    pub row: u64,
    pub cursor: u64,
    /// Where in the text the error is.
    pub position: u64,
    pub statement_kind: u8,
    pub flags: u8,
    /// Of the cursor.
    pub options: [u8; 3],
    pub rowid: [u64; 4],
    pub call: u8,
    pub iterations: u64,
    pub last_row: Vec<u8>,
    pub error: u64,
    pub rows: u64,
    pub message: String,
}

impl End {
    pub fn write(&self, writer: &mut Writer, version: u8) {
        let [object, file, block, slot] = self.rowid;
        writer.u8(END).ubs(&[self.call_status, self.sequence, self.row]);
        writer.ub(self.error & 0xffff).ubs(&[0, 0]).ubs(&[self.cursor, self.position]);
        writer.u8(self.statement_kind).u8(0).u8(self.flags).raw(&self.options);
        writer.ubs(&[object, file]).u8(0).ubs(&[block, slot]);
        writer.ub(0).u8(0).u8(self.call).ubs(&[0, self.iterations]);
        writer.text(&self.last_row).ubs(&[0, 0, 0]);
        writer.ubs(&[self.error, self.rows]);
        if version >= VERSION_20 {
            writer.ubs(&[self.statement_kind.into(), 0]);
        }
        if self.error != 0 {
            writer.bytes(self.message.as_bytes());
        }
    }

    /// After the byte of its type.
    pub fn read<S: Source>(reader: &mut Reader<S>, version: u8) -> Result<Self, Broken> {
        let (call_status, sequence, row) = (reader.ub()?, reader.ub()?, reader.ub()?);
        let _short = reader.ub()?;
        reader.expect("errors of an array", &[0, 0])?;
        let (cursor, position, statement_kind) = (reader.ub()?, reader.ub()?, reader.u8()?);
        reader.expect("whether it is fatal", &[0])?;
        let flags = reader.u8()?;
        let mut options = [0; 3];
        for option in &mut options {
            *option = reader.u8()?;
        }
        let (object, file) = (reader.ub()?, reader.ub()?);
        reader.expect("a byte of the ROWID", &[0])?;
        let (block, slot) = (reader.ub()?, reader.ub()?);
        reader.expect("errors of the system", &[0, 0])?;
        let call = reader.u8()?;
        reader.expect("padding", &[0])?;
        let iterations = reader.ub()?;
        let last_row = reader.text()?;
        reader.expect("errors of a batch", &[0, 0, 0])?;
        let (error, rows) = (reader.ub()?, reader.ub()?);
        if version >= VERSION_20 {
            let kind = reader.ub()?;
            assert_eq!(kind, u64::from(statement_kind));
            reader.expect("a checksum", &[0])?;
        }
        let message = match error {
            0 => Vec::new(),
            _ => reader.bytes()?.unwrap_or_default(),
        };
        let message = String::from_utf8(message).unwrap();
        let rowid = [object, file, block, slot];
        Ok(Self {
            call_status,
            sequence,
            row,
            cursor,
            position,
            statement_kind,
            flags,
            options,
            rowid,
            call,
            iterations,
            last_row,
            error,
            rows,
            message,
        })
    }
}

/// What stands between the answer and its end: numbers of the database's, such as its clock.
pub fn write_parameters(writer: &mut Writer, numbers: &[u64; 6]) {
    writer.u8(PARAMETERS).ub(6).ubs(numbers).ubs(&[0, 0, 0]);
}

/// After the byte of its type.
pub fn read_parameters<S: Source>(reader: &mut Reader<S>) -> Result<[u64; 6], Broken> {
    reader.expect("how many numbers", &[1, 6])?;
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = reader.ub()?;
    }
    reader.expect("texts, pairs and registrations", &[0, 0, 0])?;
    Ok(numbers)
}

/// The answer to a commit, a rollback or a log-off.
pub fn write_status(writer: &mut Writer, call_status: u64, sequence: u64) {
    writer.u8(STATUS).ubs(&[call_status, sequence]);
}
