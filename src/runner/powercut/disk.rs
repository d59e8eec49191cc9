//! The guest's disk: an image behind a volatile write cache, which nbdkit keeps in its own memory and
//! temporary file. Killed, it loses what was not flushed; a lying one flushes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::super::RunError;
use super::{failed, run_to_end};

const IMAGE_BYTES: u64 = 128 << 20;
const UP_WITHIN: Duration = Duration::from_secs(60);

/// What a disk does when it is told to flush its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    Honest,
    /// It says that it did, and did nothing.
    Lying,
}

impl DiskKind {
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "honest" => Ok(Self::Honest),
            "lying" => Ok(Self::Lying),
            _ => Err("must be honest or lying".to_owned()),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Lying => "lying",
        }
    }

    /// As nbdkit's cache filter names it.
    fn cache(self) -> &'static str {
        match self {
            Self::Honest => "cache=writeback",
            Self::Lying => "cache=unsafe",
        }
    }
}

/// A file system with what is below a folder.
pub fn make_image(image: &Path, from: &Path) -> Result<(), RunError> {
    let file = fs::File::create(image).map_err(failed("making a disk's image"))?;
    file.set_len(IMAGE_BYTES).map_err(failed("making a disk's image"))?;
    run_to_end(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).args([from, image]))
}

/// A disk that is served.
pub struct Disk {
    server: Child,
    pub socket: PathBuf,
}

impl Disk {
    pub fn serve(image: &Path, folder: &Path, kind: DiskKind) -> Result<Self, RunError> {
        let socket = folder.join("disk.sock");
        let _ = fs::remove_file(&socket);
        let mut server = Command::new("nbdkit");
        server.args(["-f", "--exit-with-parent", "-U"]).arg(&socket);
        server.args(["--filter=cache", "file"]).arg(image).arg(kind.cache());
        server.env("TMPDIR", folder);
        let log = fs::File::create(folder.join("disk.log")).map_err(failed("making a log"))?;
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let disk = Self { server: server.map_err(failed("starting nbdkit"))?, socket };
        let began = Instant::now();
        while !disk.socket.exists() {
            if began.elapsed() > UP_WITHIN {
                let said = fs::read_to_string(folder.join("disk.log")).unwrap_or_default();
                return Err(RunError::Environment(format!("nbdkit does not serve: {said}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(disk)
    }

    /// At once: what it had not written is lost.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.end();
    }
}
