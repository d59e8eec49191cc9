//! Reading a ledger. A damaged ledger is refused: a ledger with a hole gives no verdict.

use std::io::{self, BufReader, Read};
use std::path::Path;

use super::super::{RecordError, format, input};
use super::{
    Acknowledged, FORMAT, FRAME_BYTES, FRAME_MARK, FRAME_RECORDS_MAX, HEADER_BYTES_MAX, Ledger,
    LedgerHeader, MARK, RECORD_BYTES,
};
use petal_workload::plan::SESSIONS_MAX;
use petal_workload::share::Share;
use petal_workload::version::Version;

const WANTED: &str = "a ledger of petal run --ledger";

/// The end of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The run ended normally.
    Whole,
    /// petal or its host was killed, or a write failed: the ledger ends after a frame, or this many
    /// bytes into one.
    Cut { torn_bytes: u64 },
}

/// Reads a whole ledger.
pub fn read(path: &Path) -> Result<Ledger, RecordError> {
    LedgerReader { path, from: BufReader::with_capacity(1 << 20, input::open(path)?) }.ledger()
}

struct LedgerReader<'a, R> {
    path: &'a Path,
    from: R,
}

/// The fixed part of a frame.
struct FrameHead {
    session: u32,
    number: u64,
    records: u32,
    checksum: u32,
    since_trigger_ns: u64,
    utc_us: u64,
}

impl<R: Read> LedgerReader<'_, R> {
    fn ledger(mut self) -> Result<Ledger, RecordError> {
        let header = self.header()?;
        let mut ledger = Ledger {
            shares: header.share.iter().map(|share| share.number).collect(),
            header,
            commits: Vec::new(),
            ending: Ending::Cut { torn_bytes: 0 },
            trigger_utc_us: None,
            triggers_apart_us: 0,
            last_ns: 0,
        };
        let mut body = Vec::new();
        for number in 0.. {
            let mut head = [0; FRAME_BYTES];
            let filled = self.fill(&mut head)?;
            if filled < FRAME_BYTES {
                ledger.ending = Ending::Cut { torn_bytes: filled as u64 };
                break;
            }
            let Some(frame) = self.frame(&head, number)? else {
                ledger.ending = Ending::Cut { torn_bytes: FRAME_BYTES as u64 + self.zeros()? };
                break;
            };
            body.resize(frame.records as usize * RECORD_BYTES, 0);
            let filled = self.fill(&mut body)?;
            if filled < body.len() {
                ledger.ending = Ending::Cut { torn_bytes: (FRAME_BYTES + filled) as u64 };
                break;
            }
            if crc32fast::hash(&body) != frame.checksum {
                return Err(self.damaged(format!("the records of frame {number} were changed")));
            }
            ledger.last_ns = ledger.last_ns.max(frame.since_trigger_ns);
            let trigger_us = frame.utc_us.saturating_sub(frame.since_trigger_ns / 1000);
            ledger.trigger_utc_us.get_or_insert(trigger_us.cast_signed());
            if frame.session == 0 {
                ledger.ending = Ending::Whole;
                break;
            }
            for record in body.chunks_exact(RECORD_BYTES) {
                ledger.commits.push(self.record(record, &frame, &ledger.header)?);
            }
        }
        if ledger.ending == Ending::Whole && self.fill(&mut [0])? > 0 {
            return Err(self.damaged("something follows its end".to_owned()));
        }
        ledger.commits.sort_unstable_by_key(|commit| commit.version);
        if ledger.commits.windows(2).any(|two| two[0].version == two[1].version) {
            return Err(self.damaged("an UPDATE is acknowledged twice".to_owned()));
        }
        Ok(ledger)
    }

    fn header(&mut self) -> Result<LedgerHeader, RecordError> {
        let mut start = [0; 16];
        let filled = self.fill(&mut start)?;
        if filled < start.len() || start[..8] != MARK[..] {
            return Err(self.damaged("it does not begin as a ledger does".to_owned()));
        }
        let (length, checksum) = (u32_at(&start, 8), u32_at(&start, 12));
        let mut json = vec![0; length.min(HEADER_BYTES_MAX) as usize];
        if self.fill(&mut json)? < length as usize || crc32fast::hash(&json) != checksum {
            return Err(self.damaged("its header was changed or cut off".to_owned()));
        }
        let header: LedgerHeader = format::parse(self.path, &json, FORMAT, WANTED)?;
        match header.share {
            Some(Share { number, of }) if !(1..=of).contains(&number) || of > SESSIONS_MAX => {
                Err(self.damaged(format!("its share {number}/{of} is impossible")))
            }
            _ => Ok(header),
        }
    }

    /// None if all bytes are 0: some file systems leave zeros at the end of a file after a power
    /// cut.
    fn frame(
        &self,
        head: &[u8; FRAME_BYTES],
        number: u64,
    ) -> Result<Option<FrameHead>, RecordError> {
        if head.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let frame = FrameHead {
            session: u32_at(head, 4),
            number: u64_at(head, 8),
            records: u32_at(head, 16),
            checksum: u32_at(head, 20),
            since_trigger_ns: u64_at(head, 24),
            utc_us: u64_at(head, 32),
        };
        let is_whole = u32_at(head, 0) == FRAME_MARK
            && u32_at(head, 44) == crc32fast::hash(&head[..44])
            && frame.records <= FRAME_RECORDS_MAX;
        match () {
            () if !is_whole => Err(self.damaged(format!("frame {number} was changed"))),
            () if frame.number != number => {
                let why = format!("frame {} is in the place of frame {number}", frame.number);
                Err(self.damaged(why))
            }
            () => Ok(Some(frame)),
        }
    }

    /// Reads the rest, which must be zeros; returns their number.
    fn zeros(&mut self) -> Result<u64, RecordError> {
        let (mut all, mut part) = (0, [0; 4096]);
        loop {
            let filled = self.fill(&mut part)?;
            if part[..filled].iter().any(|byte| *byte != 0) {
                return Err(self.damaged("it has zeros in its middle".to_owned()));
            }
            all += filled as u64;
            if filled < part.len() {
                return Ok(all);
            }
        }
    }

    fn record(
        &self,
        record: &[u8],
        frame: &FrameHead,
        header: &LedgerHeader,
    ) -> Result<Acknowledged, RecordError> {
        let version = Version { session: frame.session, sequence: u64_at(record, 0) };
        let half = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let commit = Acknowledged {
            version,
            schema: half(34).into(),
            first: u64_at(record, 24),
            rows: half(32),
            begin_ns: u64_at(record, 8),
            end_ns: u64_at(record, 16),
        };
        let last = commit.first.checked_add(commit.rows.into());
        let is_own = || header.share.is_none_or(|share| share.has(version.session));
        let is_sound = (1..=header.sessions).contains(&version.session)
            && is_own()
            && version.sequence > 0
            && commit.first > 0
            && last.is_some_and(|end| end <= header.rows + 1)
            && header.schemas.iter().any(|schema| schema.number == commit.schema);
        let why = || format!("frame {} names rows that the run did not have", frame.number);
        if is_sound { Ok(commit) } else { Err(self.damaged(why())) }
    }

    /// Fills `bytes` up to the end of the file.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, RecordError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.from.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RecordError::io("read", self.path, error)),
            }
        }
        Ok(filled)
    }

    fn damaged(&self, why: String) -> RecordError {
        RecordError::Damaged { path: self.path.to_owned(), wanted: WANTED, why }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

#[cfg(test)]
pub mod tests {
    use super::super::{LedgerFile, LedgerSchema, SessionFrame};
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    pub fn header() -> LedgerHeader {
        LedgerHeader {
            format: FORMAT.to_owned(),
            petal_version: "1.2.3".to_owned(),
            url: "sqlite:petal-data".to_owned(),
            opened_at: "2026-11-22T13:00:00Z".to_owned(),
            stamp_mask: u64::MAX >> 1,
            sessions: 3,
            share: None,
            heavy: false,
            rows: 1000,
            schemas: vec![LedgerSchema { number: 1, load: "17".to_owned() }],
        }
    }

    pub fn commit(session: u32, sequence: u64) -> Acknowledged {
        let version = Version { session, sequence };
        Acknowledged { version, schema: 1, first: sequence, rows: 8, begin_ns: 5, end_ns: 9 }
    }

    /// Frames of two commits each, by sessions 2 and 1 in turn; the file's bytes.
    fn written(folder: &Path, frames: u64, ends: bool) -> Vec<u8> {
        let path = folder.join("ledger");
        let file = LedgerFile::create(&path, &header(), &Arc::default()).unwrap();
        let mut sessions = [SessionFrame::new(1), SessionFrame::new(2)];
        for number in 1..=frames {
            let session = &mut sessions[number as usize % 2];
            let (id, sequence) = ((number % 2 + 1) as u32, number * 2);
            session.add(&commit(id, sequence));
            session.add(&commit(id, sequence + 1));
            file.append(session, number * 100);
            assert!(session.is_empty());
        }
        assert_eq!(file.commits(), frames * 2);
        if ends {
            file.end(10_000).unwrap();
        }
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_share_that_no_run_has_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let all = [(1, 1), (2, 3), (0, 2), (3, 2), (0, 0), (1, u32::MAX)];
        let is_read = all.map(|(number, of)| {
            let path = folder.path().join(format!("{number}-{of}"));
            let header = LedgerHeader { share: Some(Share { number, of }), ..header() };
            LedgerFile::create(&path, &header, &Arc::default()).unwrap().end(1).unwrap();
            read(&path).is_ok()
        });
        assert_eq!(is_read, [true, true, false, false, false, false]);
    }

    fn read_bytes(bytes: &[u8]) -> Result<Ledger, RecordError> {
        LedgerReader { path: Path::new("ledger"), from: bytes }.ledger()
    }

    #[test]
    fn acknowledgements_are_read_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path(), 4, true);
        let ledger = read(&folder.path().join("ledger")).unwrap();
        assert_eq!(ledger, read_bytes(&bytes).unwrap());
        assert_eq!(ledger.header, header());
        assert_eq!((ledger.ending, ledger.last_ns), (Ending::Whole, 10_000));
        let versions: Vec<(u32, u64)> = ledger
            .commits
            .iter()
            .map(|commit| (commit.version.session, commit.version.sequence))
            .collect();
        let expected = [(1, 4), (1, 5), (1, 8), (1, 9), (2, 2), (2, 3), (2, 6), (2, 7)];
        assert_eq!(versions, expected);
        assert_eq!(ledger.commits[0], commit(1, 4));
        let there = LedgerFile::create(&folder.path().join("ledger"), &header(), &Arc::default());
        let refused = there.err().unwrap();
        assert!(matches!(refused, RecordError::FileThere { .. }), "{refused}");
    }

    #[test]
    fn a_ledger_that_was_cut_says_so_and_counts_as_far_as_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path(), 3, true);
        let frame = FRAME_BYTES + 2 * RECORD_BYTES;
        let begin = bytes.len() - 3 * frame - FRAME_BYTES;
        for length in begin..bytes.len() {
            let ledger = read_bytes(&bytes[..length]).unwrap();
            let whole = (length - begin) / frame;
            let torn_bytes = (length - begin - whole * frame) as u64;
            assert_eq!(ledger.ending, Ending::Cut { torn_bytes }, "{length}");
            assert_eq!(ledger.commits.len(), whole.min(3) * 2);
        }
        for length in 0..begin {
            assert!(matches!(read_bytes(&bytes[..length]), Err(RecordError::Damaged { .. })));
        }
        let mut zeros = bytes[..begin + frame].to_vec();
        zeros.resize(begin + frame + 100, 0);
        let ledger = read_bytes(&zeros).unwrap();
        assert_eq!(ledger.ending, Ending::Cut { torn_bytes: 100 });
        zeros.extend_from_slice(&bytes[begin + frame..]);
        assert!(read_bytes(&zeros).unwrap_err().to_string().contains("zeros"));
    }

    #[test]
    fn missing_and_foreign_frames_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path(), 4, true);
        let frame = FRAME_BYTES + 2 * RECORD_BYTES;
        let begin = bytes.len() - 4 * frame - FRAME_BYTES;
        let without = [&bytes[..begin + frame], &bytes[begin + 2 * frame..]].concat();
        let error = read_bytes(&without).unwrap_err().to_string();
        assert!(error.contains("frame 2 is in the place of frame 1"), "{error}");
        let longer = [&bytes[..], b"x"].concat();
        assert!(read_bytes(&longer).unwrap_err().to_string().contains("follows its end"));
    }

    proptest! {
        #[test]
        fn no_flipped_bit_gives_a_verdict(at in 0usize..10_000, bit in 0u32..8, ends: bool) {
            let folder = tempfile::tempdir().unwrap();
            let mut bytes = written(folder.path(), 3, ends);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(read_bytes(&bytes).is_err(), "byte {at}, bit {bit}");
        }
    }
}
