//! Serves a disk to a virtual machine: the part of the NBD protocol that qemu needs, over a socket
//! of this host. It serves one machine at a time.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::disk::Disk;

const NEGOTIATION: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// Handshake flags: fixed newstyle options, and no zeroes after the last one.
const HANDSHAKE: u16 = 3;
const ABORT: u32 = 2;
const INFO: u32 = 6;
const GO: u32 = 7;
const ACKNOWLEDGED: u32 = 1;
const EXPORT_INFO: u32 = 3;
const UNSUPPORTED: u32 = (1 << 31) + 1;
/// Transmission flags: the export has flags, and supports flush and flushed writes (FUA).
const CAN: u16 = 1 | 1 << 2 | 1 << 3;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
const FUA: u16 = 1;
const IO_ERROR: u32 = 5;
/// Maximum length of a request, more than qemu uses.
const LENGTH_MAX: u32 = 64 << 20;
const POLL: Duration = Duration::from_millis(5);

/// A disk that is served until this is dropped.
pub struct ServedDisk {
    pub disk: Arc<Mutex<Disk>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ServedDisk {
    pub fn start(disk: Disk, socket: &Path) -> io::Result<Self> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        let (disk, is_over) = (Arc::new(Mutex::new(disk)), Arc::new(AtomicBool::new(false)));
        let (served, ended) = (disk.clone(), is_over.clone());
        let serve = move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A killed machine closes its connection.
                    Ok((stream, _)) => drop(NbdConnection { stream, disk: &served }.serve(&ended)),
                    Err(_) => std::thread::sleep(POLL),
                }
            }
        };
        let thread = Builder::new().name("disk".to_owned()).spawn(serve)?;
        Ok(Self { disk, is_over, thread: Some(thread) })
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct NbdConnection<'a> {
    stream: UnixStream,
    disk: &'a Mutex<Disk>,
}

impl NbdConnection<'_> {
    fn serve(mut self, is_over: &AtomicBool) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        if self.negotiate()? {
            while !is_over.load(Ordering::Relaxed) && self.answer()? {}
        }
        Ok(())
    }

    /// Negotiates; returns false if the client only looked.
    fn negotiate(&mut self) -> io::Result<bool> {
        self.send(&[&NEGOTIATION.to_be_bytes(), &OPTION.to_be_bytes(), &HANDSHAKE.to_be_bytes()])?;
        self.take::<4>()?;
        loop {
            if u64::from_be_bytes(self.take()?) != OPTION {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let (option, length) = (u32::from_be_bytes(self.take()?), self.take()?);
            self.data(u32::from_be_bytes(length))?;
            match option {
                GO | INFO => {
                    let bytes = self.disk.lock().bytes();
                    let info = [&[0, 0][..], &bytes.to_be_bytes(), &CAN.to_be_bytes()].concat();
                    self.reply_option(option, EXPORT_INFO, &info)?;
                    self.reply_option(option, ACKNOWLEDGED, &[])?;
                    if option == GO {
                        return Ok(true);
                    }
                }
                ABORT => return Ok(false),
                _ => self.reply_option(option, UNSUPPORTED, &[])?,
            }
        }
    }

    fn reply_option(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let length = data.len() as u32;
        let [option, kind, length] = [option, kind, length].map(u32::to_be_bytes);
        self.send(&[&OPTION_REPLY.to_be_bytes(), &option, &kind, &length, data])
    }

    /// Answers one request; returns false if the client disconnects.
    fn answer(&mut self) -> io::Result<bool> {
        if u32::from_be_bytes(self.take()?) != REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (flags, kind) = (u16::from_be_bytes(self.take()?), u16::from_be_bytes(self.take()?));
        let (cookie, offset) = (self.take::<8>()?, u64::from_be_bytes(self.take()?));
        let length = u32::from_be_bytes(self.take()?);
        let mut data = Vec::new();
        let done = match kind {
            0 if length <= LENGTH_MAX => {
                data.resize(length as usize, 0);
                self.disk.lock().read(offset, &mut data)
            }
            1 => {
                let from = self.data(length)?;
                let mut disk = self.disk.lock();
                let written = disk.write(offset, &from);
                if flags & FUA != 0 { written.and_then(|()| disk.flush()) } else { written }
            }
            2 => return Ok(false),
            3 => self.disk.lock().flush(),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        if done.is_err() {
            data.clear();
        }
        let error = if done.is_ok() { 0 } else { IO_ERROR };
        self.send(&[&REPLY.to_be_bytes(), &error.to_be_bytes(), &cookie, &data])?;
        Ok(true)
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn data(&mut self, length: u32) -> io::Result<Vec<u8>> {
        if length > LENGTH_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.stream.write_all(&parts.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskKind;

    struct NbdClient(UnixStream);

    impl NbdClient {
        fn request(&mut self, flags: u16, kind: u16, offset: u64, length: u32, data: &[u8]) {
            let head = [&REQUEST.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()];
            let tail = [&[9; 8][..], &offset.to_be_bytes(), &length.to_be_bytes(), data];
            self.0.write_all(&[head.concat(), tail.concat()].concat()).unwrap();
        }

        /// Reads the error and the data of an answer.
        fn answer(&mut self, length: usize) -> (u32, Vec<u8>) {
            let mut bytes = vec![0; 16 + length];
            self.0.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes[..4], REPLY.to_be_bytes());
            assert_eq!(bytes[8..16], [9; 8]);
            (u32::from_be_bytes(bytes[4..8].try_into().unwrap()), bytes[16..].to_vec())
        }
    }

    #[test]
    fn a_client_negotiates_reads_writes_and_flushes() {
        let folder = tempfile::tempdir().unwrap();
        let (base, socket) = (folder.path().join("base"), folder.path().join("sock"));
        std::fs::write(&base, vec![1; 16384]).unwrap();
        let disk = Disk::over(&base, &folder.path().join("own")).unwrap();
        let served = ServedDisk::start(disk, &socket).unwrap();
        let mut client = NbdClient(UnixStream::connect(&socket).unwrap());
        let mut greeting = [0; 18];
        client.0.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        // Sends an unknown option, then the export.
        client.0.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0").unwrap();
        let mut refused = [0; 20];
        client.0.read_exact(&mut refused).unwrap();
        assert_eq!(refused[12..16], UNSUPPORTED.to_be_bytes());
        client.0.write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0").unwrap();
        let mut export = [0; 20 + 12 + 20];
        client.0.read_exact(&mut export).unwrap();
        assert_eq!(export[22..30], 16384u64.to_be_bytes());
        assert_eq!(export[30..32], CAN.to_be_bytes());

        client.request(0, 1, 512, 4, b"petal"[..4].as_ref());
        assert_eq!(client.answer(0).0, 0);
        client.request(0, 0, 510, 8, &[]);
        assert_eq!(client.answer(8), (0, b"\x01\x01peta\x01\x01".to_vec()));
        client.request(0, 3, 0, 0, &[]);
        assert_eq!(client.answer(0).0, 0);
        client.request(FUA, 1, 8192, 1, b"x");
        assert_eq!(client.answer(0).0, 0);
        client.request(0, 0, 16384, 1, &[]);
        assert_eq!(client.answer(0).0, IO_ERROR);
        let mut disk = served.disk.lock();
        assert_eq!((disk.requests.writes, disk.requests.flushes), (2, 2));
        assert_eq!(disk.kind, DiskKind::Honest);
        assert_eq!(disk.cut(1).unwrap().cached_bytes, 0);
        drop(disk);
        client.request(0, 0, 0, 1, &[]);
        assert_eq!(client.answer(0).0, IO_ERROR);
        client.request(0, 2, 0, 0, &[]);
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
    }
}
