//! Writing a ledger. Each session encodes in its own memory and hands over whole frames.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::super::RecordError;
use super::port::Port;
use super::{Acknowledged, FRAME_BYTES, FRAME_MARK, LedgerHeader, MARK, RECORD_BYTES};
use petal_host::files::{self, Folder};

/// Takes the bytes of a ledger as it grows.
pub trait LedgerSink: Write + Send {
    /// Makes all bytes durable, as far as the place allows, after the last write.
    fn finish(&mut self) -> io::Result<()>;
}

impl LedgerSink for File {
    fn finish(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A ledger that grows. Sessions share it.
pub struct LedgerFile {
    path: PathBuf,
    state: Mutex<WriteState>,
    /// Read without the lock, which a write to storage that hangs keeps.
    commits: AtomicU64,
}

struct WriteState {
    /// None after an error: the frames already written count, and nothing is added.
    sink: Option<Box<dyn LedgerSink>>,
    frames: u64,
    error: Option<String>,
}

impl LedgerFile {
    /// Begins a ledger in a file that does not exist or is empty, or on a port that takes bytes (a
    /// character device, a pipe). `signals`: number of signals that asked petal to stop.
    pub fn create(
        path: &Path,
        header: &LedgerHeader,
        signals: &Arc<AtomicU8>,
    ) -> Result<Self, RecordError> {
        let failed = |action| move |error| RecordError::io(action, path, error);
        let file = Self::open(path).map_err(failed("open"))?;
        let about = file.metadata().map_err(failed("look at"))?;
        if about.is_file() && about.len() > 0 {
            return Err(RecordError::FileThere { path: path.to_owned() });
        }
        let sink: Box<dyn LedgerSink> = match about.is_file() {
            true => Box::new(file),
            false => Box::new(Port::new(file, signals.clone())),
        };
        Self::begin(path, sink, header)
    }

    /// Opens a port, or a file that no link leads to, made if it is absent.
    fn open(path: &Path) -> io::Result<File> {
        match files::port(path) {
            Ok(port) if !port.metadata()?.is_file() => return Ok(port),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let (folder, name) = Folder::of_path(path)?;
        folder.keep(name).map_err(files::in_words)
    }

    /// Begins a ledger in a new place, which `path` names.
    pub fn begin(
        path: &Path,
        mut sink: Box<dyn LedgerSink>,
        header: &LedgerHeader,
    ) -> Result<Self, RecordError> {
        let json = serde_json::to_vec(header);
        let json = json.map_err(|cause| RecordError::encode("the ledger", path, &cause))?;
        let mut bytes = Vec::with_capacity(json.len() + 16);
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        bytes.extend_from_slice(&json);
        sink.write_all(&bytes).map_err(|error| RecordError::io("write", path, error))?;
        let state = WriteState { sink: Some(sink), frames: 0, error: None };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state), commits: AtomicU64::new(0) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Acknowledged commits so far.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Ends the ledger with a frame that marks it as whole, and makes it durable if its file system
    /// can. The error is the first failed write's.
    pub fn end(&self, since_trigger_ns: u64) -> Result<(), String> {
        self.append(&mut SessionFrame::new(0), since_trigger_ns);
        let mut state = self.state.lock();
        if let Some(mut sink) = state.sink.take()
            && let Err(error) = sink.finish()
        {
            state.error.get_or_insert(error.to_string());
        }
        state.error.take().map_or(Ok(()), Err)
    }

    /// Writes a frame with one call to the operating system, and empties it.
    pub fn append(&self, frame: &mut SessionFrame, since_trigger_ns: u64) {
        let mut state = self.state.lock();
        let WriteState { sink, frames, error } = &mut *state;
        if let Some(open) = sink {
            match open.write_all(frame.sealed(*frames, since_trigger_ns)) {
                Ok(()) => {
                    *frames += 1;
                    self.commits.fetch_add(frame.records().into(), Ordering::Relaxed);
                }
                Err(why) => {
                    error.get_or_insert(why.to_string());
                    *sink = None;
                }
            }
        }
        frame.bytes.truncate(FRAME_BYTES);
    }
}

/// Acknowledgements of one batch of a session; its memory is used again.
pub struct SessionFrame {
    session: u32,
    bytes: Vec<u8>,
}

impl SessionFrame {
    pub fn new(session: u32) -> Self {
        Self { session, bytes: vec![0; FRAME_BYTES] }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.len() == FRAME_BYTES
    }

    fn records(&self) -> u32 {
        ((self.bytes.len() - FRAME_BYTES) / RECORD_BYTES) as u32
    }

    pub fn add(&mut self, commit: &Acknowledged) {
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&commit.version.sequence.to_le_bytes());
        record[8..16].copy_from_slice(&commit.begin_ns.to_le_bytes());
        record[16..24].copy_from_slice(&commit.end_ns.to_le_bytes());
        record[24..32].copy_from_slice(&commit.first.to_le_bytes());
        record[32..34].copy_from_slice(&commit.rows.to_le_bytes());
        record[34..36].copy_from_slice(&(commit.schema as u16).to_le_bytes());
        self.bytes.extend_from_slice(&record);
    }

    fn sealed(&mut self, number: u64, since_trigger_ns: u64) -> &[u8] {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let records = self.records();
        let (head, body) = self.bytes.split_at_mut(FRAME_BYTES);
        head[..4].copy_from_slice(&FRAME_MARK.to_le_bytes());
        head[4..8].copy_from_slice(&self.session.to_le_bytes());
        head[8..16].copy_from_slice(&number.to_le_bytes());
        head[16..20].copy_from_slice(&records.to_le_bytes());
        head[20..24].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        head[24..32].copy_from_slice(&since_trigger_ns.to_le_bytes());
        head[32..40].copy_from_slice(&(utc.as_micros() as u64).to_le_bytes());
        let checksum = crc32fast::hash(&head[..44]);
        head[44..48].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }
}
