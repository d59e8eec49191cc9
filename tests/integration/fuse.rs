//! A file system in memory, by the kernel's protocol of FUSE, that stops answering when it is told to:
//! a request that it has read and does not answer cannot be interrupted, as one to a dead disk.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const WRITE_BYTES_MAX: u32 = 128 << 10;
const POLL: Duration = Duration::from_millis(20);
/// Reads in progress past the page cache, at most.
pub const BACKGROUND: u16 = 64;

pub const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const MKDIR: u32 = 9;
pub const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
pub const OPEN: u32 = 14;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
pub const FSYNC: u32 = 20;
pub const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const FSYNCDIR: u32 = 30;
const ACCESS: u32 = 34;
pub const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;
const RENAME2: u32 = 45;

/// A mounted file system. Dropping it ends every request.
pub struct Fuse {
    pub place: PathBuf,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

#[derive(Default)]
struct Shared {
    /// A bit for each request that is not answered any more.
    silent: AtomicU64,
    /// Wait before the answer to a read.
    delay_ms: AtomicU64,
    late: Mutex<Late>,
    /// Such requests came.
    unanswered: AtomicBool,
    over: AtomicBool,
}

/// Reads that are answered late while the others go on.
#[derive(Default)]
struct Late {
    lengths: Vec<Duration>,
    next: usize,
    /// How long each one was held in fact.
    held: Vec<Duration>,
}

impl Late {
    fn next_length(&mut self) -> Option<Duration> {
        let length = *self.lengths.get(self.next % self.lengths.len().max(1))?;
        self.next += 1;
        Some(length)
    }
}

/// An answer, and the time when its request came.
struct Held {
    came: Instant,
    answer: Vec<u8>,
}

impl Fuse {
    /// Mounts it, or says why it cannot be.
    pub fn mounted() -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/fuse")
            .map_err(|why| format!("/dev/fuse: {why}"))?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).unwrap();
        mount("petal-test", &place, "fuse", MountFlags::empty(), Some(options.as_c_str()))
            .map_err(|why| format!("mount of a FUSE file system: {why}"))?;
        let shared = Arc::<Shared>::default();
        let of_server = Arc::clone(&shared);
        let server = std::thread::spawn(move || Server::new(device, of_server).serve());
        Ok(Self { place, shared, server: Some(server), _folder: folder })
    }

    /// Answers each read only after so long.
    pub fn delay_reads(&self, length: Duration) {
        self.shared.delay_ms.store(length.as_millis() as u64, Ordering::Relaxed);
    }

    /// Answers each read only after the next of these lengths, as many at once as are asked for.
    pub fn delay_reads_in_turn(&self, lengths: Vec<Duration>) {
        *self.shared.late.lock().unwrap() = Late { lengths, ..Late::default() };
    }

    /// How long each of these reads was held in fact.
    pub fn held(&self) -> Vec<Duration> {
        self.shared.late.lock().unwrap().held.clone()
    }

    /// Answers none of these requests from now on.
    pub fn hang(&self, requests: &[u32]) {
        let bits = requests.iter().fold(0, |bits, request| bits | 1 << request);
        self.shared.silent.store(bits, Ordering::Relaxed);
    }

    /// Answers nothing from now on.
    pub fn hang_all(&self) {
        self.shared.silent.store(!(1 << INIT), Ordering::Relaxed);
    }

    /// Somebody waits for an answer.
    pub fn is_waited_for(&self) -> bool {
        self.shared.unanswered.load(Ordering::Relaxed)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // With the device everything ends that waits for an answer.
        let _ = self.server.take().map(JoinHandle::join);
        let _ = unmount(&self.place, UnmountFlags::DETACH);
    }
}

#[derive(Default)]
struct Node {
    is_folder: bool,
    bytes: Vec<u8>,
}

struct Server {
    device: File,
    shared: Arc<Shared>,
    nodes: BTreeMap<u64, Node>,
    names: BTreeMap<(u64, Vec<u8>), u64>,
    last: u64,
}

/// The answer to a request: bytes, or an error of the system.
type Answer = Result<Vec<u8>, i32>;

impl Server {
    fn new(device: File, shared: Arc<Shared>) -> Self {
        let root = Node { is_folder: true, bytes: Vec::new() };
        let nodes = BTreeMap::from([(1, root)]);
        Self { device, shared, nodes, names: BTreeMap::new(), last: 1 }
    }

    fn serve(mut self) {
        let mut buffer = vec![0; WRITE_BYTES_MAX as usize + 8192];
        let mut held = BTreeMap::new();
        while !self.shared.over.load(Ordering::Relaxed) {
            let rest = self.send_due(&mut held);
            let rest = Timespec::try_from(rest.min(POLL)).unwrap();
            let _ = poll(&mut [PollFd::new(&self.device, PollFlags::IN)], Some(&rest));
            let Ok(length) = self.device.read(&mut buffer) else { continue };
            let came = Instant::now();
            let request = &buffer[..length];
            let (kind, unique) = (u32_at(request, 4), u64_at(request, 8));
            if [FORGET, BATCH_FORGET, INTERRUPT].contains(&kind) {
                continue;
            }
            if self.shared.silent.load(Ordering::Relaxed) & (1 << kind) != 0 {
                self.shared.unanswered.store(true, Ordering::Relaxed);
                continue;
            }
            let mut late = None;
            if kind == READ {
                let delay_ms = self.shared.delay_ms.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(delay_ms));
                late = self.shared.late.lock().unwrap().next_length();
            }
            let answer = self.answer(kind, u64_at(request, 16), &request[40..]);
            let (error, body) = match answer {
                Ok(body) => (0, body),
                Err(error) => (-error, Vec::new()),
            };
            let mut answer = (16 + body.len() as u32).to_le_bytes().to_vec();
            answer.extend(error.to_le_bytes());
            answer.extend(unique.to_le_bytes());
            answer.extend(body);
            match late {
                None => drop(self.device.write(&answer)),
                Some(length) => drop(held.insert((came + length, unique), Held { came, answer })),
            }
        }
    }

    /// Sends the answers whose time has come, and returns the time until the next one.
    fn send_due(&mut self, held: &mut BTreeMap<(Instant, u64), Held>) -> Duration {
        while let Some(next) = held.first_entry() {
            let rest = next.key().0.saturating_duration_since(Instant::now());
            if !rest.is_zero() {
                return rest;
            }
            let Held { came, answer } = next.remove();
            let _ = self.device.write(&answer);
            self.shared.late.lock().unwrap().held.push(came.elapsed());
        }
        POLL
    }

    fn answer(&mut self, kind: u32, node: u64, body: &[u8]) -> Answer {
        match kind {
            INIT => Ok(init(body)),
            LOOKUP => self.entry(self.child(node, name(body))?),
            GETATTR => self.attributes(node),
            SETATTR => {
                if u32_at(body, 0) & 8 != 0 {
                    self.node(node)?.bytes.resize(u64_at(body, 16) as usize, 0);
                }
                self.attributes(node)
            }
            MKDIR => {
                let made = self.make(node, name(&body[8..]), true);
                self.entry(made)
            }
            CREATE => {
                let made = self.make(node, name(&body[16..]), false);
                Ok([self.entry(made)?, vec![0; 16]].concat())
            }
            UNLINK | RMDIR => {
                self.child(node, name(body))?;
                self.names.remove(&(node, name(body).to_vec()));
                Ok(Vec::new())
            }
            RENAME | RENAME2 => {
                let names = &body[if kind == RENAME { 8 } else { 16 }..];
                let old = name(names);
                let new = name(&names[old.len() + 1..]);
                let moved = self.child(node, old)?;
                self.names.remove(&(node, old.to_vec()));
                self.names.insert((u64_at(body, 0), new.to_vec()), moved);
                Ok(Vec::new())
            }
            OPEN | OPENDIR => Ok(vec![0; 16]),
            READ => {
                let bytes = &self.node(node)?.bytes;
                let from = bytes.len().min(u64_at(body, 8) as usize);
                let to = bytes.len().min(from + u32_at(body, 16) as usize);
                Ok(bytes[from..to].to_vec())
            }
            WRITE => {
                let (from, length) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
                let bytes = &mut self.node(node)?.bytes;
                bytes.resize(bytes.len().max(from + length), 0);
                bytes[from..from + length].copy_from_slice(&body[40..40 + length]);
                Ok([(length as u32).to_le_bytes(), [0; 4]].concat())
            }
            FALLOCATE if u32_at(body, 24) == 0 => {
                let end = (u64_at(body, 8) + u64_at(body, 16)) as usize;
                let bytes = &mut self.node(node)?.bytes;
                bytes.resize(bytes.len().max(end), 0);
                Ok(Vec::new())
            }
            READDIR => Ok(self.folder(node, u64_at(body, 8) as usize)),
            STATFS => Ok(statistics()),
            RELEASE | RELEASEDIR | FSYNC | FSYNCDIR | FLUSH | ACCESS => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        }
    }

    fn node(&mut self, node: u64) -> Result<&mut Node, i32> {
        self.nodes.get_mut(&node).ok_or(libc::ENOENT)
    }

    fn child(&self, folder: u64, name: &[u8]) -> Result<u64, i32> {
        self.names.get(&(folder, name.to_vec())).copied().ok_or(libc::ENOENT)
    }

    fn make(&mut self, folder: u64, name: &[u8], is_folder: bool) -> u64 {
        self.last += 1;
        self.nodes.insert(self.last, Node { is_folder, bytes: Vec::new() });
        self.names.insert((folder, name.to_vec()), self.last);
        self.last
    }

    /// The kernel asks again each time.
    fn entry(&mut self, node: u64) -> Answer {
        let attributes = self.attributes(node)?;
        let numbers = [node, 1, 0, 0, 0].map(u64::to_le_bytes).concat();
        Ok([numbers.as_slice(), &attributes[16..]].concat())
    }

    fn attributes(&mut self, number: u64) -> Answer {
        let node = self.node(number)?;
        let bytes = node.bytes.len() as u64;
        let mode = if node.is_folder { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o644 };
        let mut answer = vec![0; 16];
        let wide = [number, bytes, bytes.div_ceil(512), 0, 0, 0];
        answer.extend(wide.map(u64::to_le_bytes).concat());
        let narrow = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
        answer.extend(narrow.map(u32::to_le_bytes).concat());
        Ok(answer)
    }

    fn folder(&self, folder: u64, from: usize) -> Vec<u8> {
        let children = self.names.iter().filter(|((parent, _), _)| *parent == folder);
        let mut answer = Vec::new();
        for (at, ((_, name), node)) in children.enumerate().skip(from) {
            answer.extend(node.to_le_bytes());
            answer.extend((at as u64 + 1).to_le_bytes());
            answer.extend((name.len() as u32).to_le_bytes());
            answer.extend(0u32.to_le_bytes());
            answer.extend(name);
            answer.resize(answer.len().next_multiple_of(8), 0);
        }
        answer
    }
}

/// Big writes, and direct I/O of many requests at once.
fn init(body: &[u8]) -> Vec<u8> {
    let flags = (1 | 1 << 5 | 1 << 15) & u32_at(body, 12);
    let mut answer = [7, 31, u32_at(body, 8), flags].map(u32::to_le_bytes).concat();
    answer.extend([BACKGROUND, BACKGROUND].map(u16::to_le_bytes).concat());
    answer.extend([WRITE_BYTES_MAX, 1].map(u32::to_le_bytes).concat());
    answer.resize(64, 0);
    answer
}

fn statistics() -> Vec<u8> {
    let mut answer =
        [1u64 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20].map(u64::to_le_bytes).concat();
    answer.extend([4096u32, 255, 4096, 0].map(u32::to_le_bytes).concat());
    answer.resize(80, 0);
    answer
}

fn name(body: &[u8]) -> &[u8] {
    &body[..body.iter().position(|byte| *byte == 0).unwrap_or(body.len())]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn the_file_system_keeps_what_is_written() {
    let fuse = match Fuse::mounted() {
        Ok(fuse) => fuse,
        Err(why) => return crate::support::skip(&why),
    };
    fs::create_dir(fuse.path("folder")).unwrap();
    let file = fuse.path("folder/file");
    fs::write(&file, vec![7; 300_000]).unwrap();
    fs::rename(&file, fuse.path("moved")).unwrap();
    assert_eq!(fs::read(fuse.path("moved")).unwrap(), vec![7; 300_000]);
    let names: Vec<_> =
        fs::read_dir(&fuse.place).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["folder", "moved"]);
    assert!(!Path::exists(&file));
}
