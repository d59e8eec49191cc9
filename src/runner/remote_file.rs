//! A file on another host, written by ssh as it grows: what reached that host is there, whatever
//! becomes of this one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::RunError;
use crate::record::ledger::LedgerSink;

/// The other host prints this once the file is open there.
const OPEN: &str = "petal-open";

/// A file that is written; the connection ends with it.
pub struct RemoteFile {
    host: String,
    ssh: Child,
    /// None after [`LedgerSink::finish`].
    into: Option<ChildStdin>,
}

impl RemoteFile {
    /// Host and file of `HOST:FILE`, as scp takes it: a path with a slash before the colon is of this
    /// host.
    pub fn named(path: &Path) -> Option<(String, String)> {
        let (host, file) = path.to_str()?.split_once(':')?;
        let is_host = !host.is_empty() && !file.is_empty() && !host.contains('/');
        // ssh would take it for an option.
        (is_host && !host.starts_with('-')).then(|| (host.to_owned(), file.to_owned()))
    }

    /// Opens a new file on that host. Returns when it is open there.
    pub fn create(host: &str, file: &str) -> Result<Self, RunError> {
        let quoted = format!("'{}'", file.replace('\'', "'\\''"));
        let work = format!(
            "if [ -s {quoted} ]; then echo it is there already, and is kept >&2; exit 1; fi; \
             : >>{quoted} && echo {OPEN} && cat >>{quoted} && sync"
        );
        let mut ssh = Command::new("ssh");
        ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        // A host that falls silent is given up after this.
        ssh.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", host, &work]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C is petal's to handle: the ledger is ended after the last session.
        let failed = |why: io::Error| {
            RunError::Environment(format!(
                "{host}:{file}: the ledger cannot be begun there: {why}; see that `ssh {host}` works \
                 without a password, and name a new file"
            ))
        };
        let mut ssh = ssh.process_group(0).spawn().map_err(failed)?;
        let into = ssh.stdin.take();
        let said = ssh.stdout.take();
        let mut remote = Self { host: host.to_owned(), ssh, into };
        // A shell's own greeting may come before it.
        let mut lines = said.into_iter().flat_map(|said| BufReader::new(said).lines());
        match lines.any(|line| line.is_ok_and(|line| line == OPEN)) {
            true => Ok(remote),
            false => Err(failed(remote.ended())),
        }
    }

    /// Why the connection ended.
    fn ended(&mut self) -> io::Error {
        self.into = None;
        let mut said = String::new();
        if let Some(stderr) = &mut self.ssh.stderr {
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let status =
            self.ssh.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        io::Error::other(format!("ssh {} ended ({status}): {said}", self.host))
    }
}

impl Write for RemoteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.into {
            Some(into) => into.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|why| match why.kind() {
            io::ErrorKind::Interrupted => why,
            _ => self.ended(),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LedgerSink for RemoteFile {
    /// The other host has written all of it, and has synced it.
    fn finish(&mut self) -> io::Result<()> {
        self.into = None;
        match self.ssh.wait()?.success() {
            true => Ok(()),
            false => Err(self.ended()),
        }
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        // It is over, or nobody needs it any more.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_as_for_scp() {
        let named = |text: &str| RemoteFile::named(Path::new(text));
        let host = |host: &str, file: &str| Some((host.to_owned(), file.to_owned()));
        assert_eq!(named("safe:run1.ledger"), host("safe", "run1.ledger"));
        assert_eq!(named("me@safe:/var/a:b"), host("me@safe", "/var/a:b"));
        for local in ["run1.ledger", "./a:b", "/dev/disk/by-path/pci-0:1", ":x", "safe:", "-oX:y"] {
            assert_eq!(named(local), None, "{local}");
        }
    }
}
