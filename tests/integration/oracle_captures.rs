//! The stand-in for Oracle, held against recordings of real servers: what it writes and reads must be
//! theirs, byte by byte, so that it does not agree with petal alone.

use crate::oracle_wire::buffer::{Reader, Writer};
use crate::oracle_wire::capture;
use crate::oracle_wire::logon;
use crate::oracle_wire::request::{Request, Requests};
use crate::oracle_wire::response::{
    Columns, END_OF_RESPONSE, End, Outs, Rows, read_parameters, write_parameters, write_status,
};

/// Versions of the fields.
const XE18: u8 = 11;
const XE21: u8 = 16;
const FREE23: u8 = 24;

type Parsed = Reader<std::option::IntoIter<Vec<u8>>>;

/// The numbers, end and mark with which answers end, read after `first`, the byte of their type,
/// and written behind what was written already.
fn finish(reader: &mut Parsed, mut writer: Writer, first: u8, version: u8) -> (Vec<u8>, End) {
    let mut kind = first;
    if kind == 8 {
        write_parameters(&mut writer, &read_parameters(reader).unwrap());
        kind = reader.u8().unwrap();
    }
    assert_eq!(kind, 4);
    let end = End::read(reader, version).unwrap();
    end.write(&mut writer, version);
    if !reader.is_empty() {
        assert_eq!(reader.u8(), Ok(END_OF_RESPONSE));
        writer.u8(END_OF_RESPONSE);
    }
    assert!(reader.is_empty());
    (writer.0, end)
}

#[test]
fn rows_are_written_as_real_servers_write_them() {
    // Rows, their columns, and from which of them on a vector says what changed.
    let all = [
        ("xe18-select", XE18, 1, 1, 1),
        ("xe21-select", XE21, 1, 1, 1),
        ("free23-select", FREE23, 3, 3, 2),
        ("free23-select-wide", FREE23, 3, 11, 2),
        ("free23-four-rows", FREE23, 4, 1, 2),
    ];
    for (name, version, rows, columns, whole) in all {
        let captured = capture(name);
        let mut reader = Reader::of(&captured);
        let mut writer = Writer::default();
        let shape = Columns::read(&mut reader, version).unwrap();
        assert_eq!(shape.columns.len(), columns, "{name}");
        shape.write(&mut writer, version);
        let (found, next) = Rows::read(&mut reader, 0).unwrap();
        assert_eq!((found.rows.len(), found.whole), (rows, whole), "{name}");
        found.write(&mut writer);
        let (written, end) = finish(&mut reader, writer, next, version);
        assert_eq!((end.error, &*end.message), (1403, "ORA-01403: no data found\n"), "{name}");
        assert_eq!(written, captured, "{name}");
    }
}

#[test]
fn columns_that_repeat_are_left_out_as_real_servers_do() {
    let captured = capture("free23-rows-alike");
    let mut reader = Reader::of(&captured);
    let (rows, next) = Rows::read(&mut reader, 2).unwrap();
    assert_eq!((rows.rows.len(), rows.columns, rows.whole), (7, 10, 2));
    let text = |row: usize, at: usize| rows.rows[row][at].as_deref();
    assert_eq!(text(6, 7), Some(&b"YES"[..]), "as in the row before");
    let mut writer = Writer::default();
    rows.write(&mut writer);
    assert_eq!(finish(&mut reader, writer, next, FREE23).0, captured);
}

#[test]
fn texts_of_the_stand_in_are_described_as_real_ones() {
    let mut reader = Reader::of(&capture("free23-select-wide"));
    let real = Columns::read(&mut reader, FREE23).unwrap();
    let real = real.columns.iter().find(|column| column.name == "NAME").unwrap();
    let own = &Columns::texts(1).columns[0];
    assert_eq!((own.kind, own.flags, own.form), (real.kind, real.flags, real.form));
    assert_eq!((own.character_set, own.oaccolid), (real.character_set, real.oaccolid));
    assert_eq!((own.bytes == own.characters, real.bytes == real.characters), (true, true));
}

#[test]
fn ends_and_errors_are_written_as_real_servers_write_them() {
    let all = [
        ("free23-ddl", FREE23, 0, 0),
        ("free23-insert-rows", FREE23, 0, 3),
        ("free23-insert-one", FREE23, 0, 1),
        ("free23-truncate", FREE23, 0, 0),
        ("free23-error", FREE23, 942, 0),
    ];
    for (name, version, error, rows) in all {
        let captured = capture(name);
        let mut reader = Reader::of(&captured);
        let first = reader.u8().unwrap();
        let (written, end) = finish(&mut reader, Writer::default(), first, version);
        assert_eq!((end.error, end.rows), (error, rows), "{name}");
        assert_eq!(written, captured, "{name}");
    }
    // A row of a column that is NULL by its description.
    let captured = capture("free23-end-of-fetch");
    let mut reader = Reader::of(&captured);
    let mut writer = Writer::default();
    let (rows, next) = Rows::read(&mut reader, 1).unwrap();
    rows.write(&mut writer);
    assert_eq!(finish(&mut reader, writer, next, FREE23).0, captured);
    for (name, status, sequence) in [("free23-commit", 0x1_0005, 0x44), ("free23-log-off", 1, 0)] {
        let mut writer = Writer::default();
        write_status(&mut writer, status, sequence);
        writer.u8(END_OF_RESPONSE);
        assert_eq!(capture(name), writer.0, "{name}");
    }
}

#[test]
fn returned_values_are_written_as_real_servers_write_them() {
    let captured = capture("free23-block");
    let mut reader = Reader::of(&captured);
    // The value after these is a cursor.
    let outs = Outs::read(&mut reader, 1).unwrap();
    assert_eq!(outs.directions.len(), 9);
    assert!(outs.directions.iter().all(|direction| [0x10, 0x20, 0x30].contains(direction)));
    let mut writer = Writer::default();
    outs.write(&mut writer);
    assert_eq!(captured[..writer.0.len()], writer.0);
}

#[test]
fn the_answers_of_log_on_are_those_of_real_servers() {
    let keys = logon::Keys::new("s3cret", logon::VERIFIER_ROUNDS).challenge();
    for name in ["xe18-log-on-1", "free23-fast-log-on"] {
        let captured = capture(name);
        let from = captured.windows(4).rposition(|four| four == [8, 1, 6, 1]).unwrap();
        let mut reader = Reader::of(&captured[from..]);
        let pairs = logon::read_pairs(&mut reader).unwrap();
        // The same keys and flags; texts of the same length, but for the rounds of PBKDF2.
        let shape = |pairs: &[logon::Pair]| -> Vec<(String, usize, u64)> {
            let one = |(key, value, flags): &logon::Pair| {
                (key.clone(), value.len() * usize::from(!key.ends_with("COUNT")), *flags)
            };
            pairs.iter().map(one).collect()
        };
        assert_eq!(shape(&keys), shape(&pairs), "{name}");
        let mut writer = Writer::default();
        logon::write_pairs(&mut writer, &pairs);
        assert_eq!(captured[from..][..writer.0.len()], writer.0, "{name}");
    }
    for name in ["xe18-log-on-2", "free23-log-on-2"] {
        let captured = capture(name);
        let pairs = logon::read_pairs(&mut Reader::of(&captured)).unwrap();
        let proof = pairs.iter().find(|(key, ..)| key == "AUTH_SVR_RESPONSE").unwrap();
        assert_eq!(proof.1.len(), logon::server_proof(&[0; 32]).len());
        let mut writer = Writer::default();
        logon::write_pairs(&mut writer, &pairs);
        assert_eq!(captured[..writer.0.len()], writer.0, "{name}");
    }
}

#[test]
fn statements_of_a_reference_client_are_understood() {
    // Python's driver, with 23ai.
    let read = |name: &str| {
        let mut requests = Requests::new(Some(capture(name)).into_iter(), FREE23);
        let Request::Execute(execute) = requests.read().unwrap() else { panic!("{name}") };
        assert!(requests.reader.is_empty(), "{name}");
        execute
    };
    let select = read("client-select");
    assert_eq!(select.sql.unwrap(), "select id, price, anynum from fdf_golden order by id");
    assert!(select.is_query && select.prefetch == 100);
    let insert = read("client-insert-rows");
    assert_eq!((insert.rows.len(), insert.binds.len()), (3, 11));
    let kinds: Vec<u8> = insert.binds.iter().map(|bind| bind.kind).collect();
    assert_eq!(kinds[..5], [2, 2, 2, 2, 1]);
    assert_eq!(insert.rows[0][4].as_deref(), Some(&b"alpha"[..]));
    assert_eq!(insert.rows[1][1], None);
    assert!(read("client-ddl").sql.unwrap().starts_with("drop table"));
    assert_eq!(read("client-truncate").sql.unwrap(), "truncate table TestTempTable");
    let one = read("client-insert-one");
    assert!(one.sql.unwrap().starts_with("insert into TestTempTable"));
    assert_eq!(one.rows[0][1].as_deref(), Some(&b"row1"[..]));
    let block = read("client-block");
    assert_eq!((block.binds.len(), block.rows.len()), (9, 1));
}
