//! TTC's encodings: integers that begin with their length, texts in pieces. Also packets, in which
//! messages travel. No test of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Texts of up to so many bytes have their length in one byte.
const SHORT_MAX: usize = 252;
const IN_PIECES: u8 = 0xfe;
const NULL: u8 = 0xff;
const PIECE_MAX: usize = 32767;
/// Bytes of a packet with its header, which both sides agree on.
const PACKET_MAX: usize = 8192;

pub const CONNECT: u8 = 1;
pub const ACCEPT: u8 = 2;
pub const REDIRECT: u8 = 5;
pub const DATA: u8 = 6;
pub const RESEND: u8 = 11;
pub const MARKER: u8 = 12;
/// What a marker says.
pub const BREAK: u8 = 1;
pub const RESET: u8 = 2;

/// Why nothing more is read.
#[derive(Debug, PartialEq)]
pub enum Broken {
    /// The connection ended.
    Ended,
    /// The client breaks the call off, by a marker of this kind.
    Marker(u8),
    /// What came cannot be.
    Odd(String),
}

/// A message being written.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    /// An integer of any width: how many bytes, then these.
    pub fn ub(&mut self, value: u64) -> &mut Self {
        let bytes = value.to_be_bytes();
        let used = &bytes[value.leading_zeros() as usize / 8..];
        self.u8(used.len() as u8).raw(used)
    }

    pub fn ubs(&mut self, values: &[u64]) -> &mut Self {
        for value in values {
            self.ub(*value);
        }
        self
    }

    /// Bytes that begin with their length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if bytes.len() <= SHORT_MAX {
            return self.u8(bytes.len() as u8).raw(bytes);
        }
        self.u8(IN_PIECES);
        for piece in bytes.chunks(PIECE_MAX) {
            self.ub(piece.len() as u64).raw(piece);
        }
        self.ub(0)
    }

    /// Bytes after their length as an integer, and again as bytes have it.
    pub fn text(&mut self, bytes: &[u8]) -> &mut Self {
        self.ub(bytes.len() as u64);
        if !bytes.is_empty() {
            self.bytes(bytes);
        }
        self
    }
}

/// Where the bytes of messages come from.
pub trait Source {
    fn more(&mut self) -> Result<Vec<u8>, Broken>;
}

impl Source for std::option::IntoIter<Vec<u8>> {
    fn more(&mut self) -> Result<Vec<u8>, Broken> {
        self.next().ok_or(Broken::Ended)
    }
}

/// Messages being read, packet by packet.
pub struct Reader<S> {
    pub source: S,
    bytes: Vec<u8>,
    at: usize,
}

impl Reader<std::option::IntoIter<Vec<u8>>> {
    pub fn of(bytes: &[u8]) -> Self {
        Self::new(Some(bytes.to_vec()).into_iter())
    }
}

impl<S: Source> Reader<S> {
    pub fn new(source: S) -> Self {
        Self { source, bytes: Vec::new(), at: 0 }
    }

    /// Forgets what was sent but not read.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn raw(&mut self, count: usize) -> Result<Vec<u8>, Broken> {
        while self.bytes.len() - self.at < count {
            self.bytes.drain(..std::mem::take(&mut self.at));
            let more = self.source.more()?;
            self.bytes.extend(more);
        }
        self.at += count;
        Ok(self.bytes[self.at - count..self.at].to_vec())
    }

    pub fn u8(&mut self) -> Result<u8, Broken> {
        Ok(self.raw(1)?[0])
    }

    pub fn ub(&mut self) -> Result<u64, Broken> {
        let length = self.u8()?;
        if length > 8 {
            return Err(Broken::Odd(format!("an integer of {length} bytes")));
        }
        let bytes = self.raw(length.into())?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// None: NULL, which an empty text is, too.
    pub fn bytes(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        match self.u8()? {
            0 | NULL => Ok(None),
            IN_PIECES => {
                let mut all = Vec::new();
                loop {
                    let length = self.ub()? as usize;
                    if length == 0 {
                        return Ok(Some(all));
                    }
                    all.extend(self.raw(length)?);
                }
            }
            length => self.raw(length.into()).map(Some),
        }
    }

    pub fn text(&mut self) -> Result<Vec<u8>, Broken> {
        match self.ub()? {
            0 => Ok(Vec::new()),
            _ => Ok(self.bytes()?.unwrap_or_default()),
        }
    }

    /// What must stand there.
    pub fn expect(&mut self, what: &str, bytes: &[u8]) -> Result<(), Broken> {
        let there = self.raw(bytes.len())?;
        match there == bytes {
            true => Ok(()),
            false => Err(Broken::Odd(format!("{what} is {there:02x?}, not {bytes:02x?}"))),
        }
    }
}

/// One packet.
#[derive(Debug)]
pub struct Packet {
    pub kind: u8,
    pub payload: Vec<u8>,
}

/// A connection's packets, as the server sees them.
pub struct Packets {
    pub stream: TcpStream,
    /// Lengths have four bytes after the connection was accepted, two before.
    pub are_long: bool,
    /// The last packet of an answer bears a flag, since 23ai.
    pub ends_are_marked: bool,
}

impl Packets {
    pub fn read(&mut self) -> Result<Packet, Broken> {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).map_err(|_| Broken::Ended)?;
        let length = match self.are_long {
            true => u32::from_be_bytes(header[..4].try_into().unwrap()) as usize,
            false => u16::from_be_bytes(header[..2].try_into().unwrap()).into(),
        };
        if !(8..=PACKET_MAX).contains(&length) {
            return Err(Broken::Odd(format!("a packet of {length} bytes")));
        }
        let mut payload = vec![0; length - 8];
        self.stream.read_exact(&mut payload).map_err(|_| Broken::Ended)?;
        if header[4] == DATA {
            payload.drain(..2);
        }
        Ok(Packet { kind: header[4], payload })
    }

    pub fn write(&mut self, kind: u8, payload: &[u8]) {
        let length = payload.len() as u32 + 8;
        let mut packet = match self.are_long {
            true => length.to_be_bytes().to_vec(),
            false => [&(length as u16).to_be_bytes()[..], &[0, 0]].concat(),
        };
        packet.extend([kind, 0, 0, 0]);
        packet.extend(payload);
        // Who left does not hear it.
        let _ = self.stream.write_all(&packet);
    }

    /// An answer, in as many packets as it takes.
    pub fn answer(&mut self, message: &[u8]) {
        const END_OF_RESPONSE: [u8; 2] = [0x20, 0];
        let pieces: Vec<&[u8]> = message.chunks(PACKET_MAX - 10).collect();
        for (at, piece) in pieces.iter().enumerate() {
            let is_end = self.ends_are_marked && at + 1 == pieces.len();
            let flags = if is_end { END_OF_RESPONSE } else { [0, 0] };
            self.write(DATA, &[&flags[..], piece].concat());
        }
    }

    /// An answer that never ends, until the client leaves: packets without a mark.
    pub fn answer_without_end(&mut self) {
        let length = (PACKET_MAX as u32).to_be_bytes();
        let packet = [&length[..], &[DATA, 0, 0, 0], &[0; PACKET_MAX - 8]].concat();
        while self.stream.write_all(&packet).is_ok() {}
    }

    /// Breaks the client's call, and returns when it has asked to begin anew.
    pub fn reset(&mut self, is_asked: bool) -> Result<(), Broken> {
        if !is_asked {
            self.write(MARKER, &[1, 0, BREAK]);
        }
        while self.read()?.payload.last() != Some(&RESET) {}
        self.write(MARKER, &[1, 0, RESET]);
        Ok(())
    }

    /// Whether the client sends something, or left, within this time.
    pub fn is_heard(&self, within: Duration) -> bool {
        self.stream.set_read_timeout(Some(within)).unwrap();
        let heard = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(None).unwrap();
        heard.is_ok()
    }
}

impl Source for Packets {
    fn more(&mut self) -> Result<Vec<u8>, Broken> {
        let packet = self.read()?;
        match packet.kind {
            DATA => Ok(packet.payload),
            MARKER => Err(Broken::Marker(packet.payload[2])),
            kind => Err(Broken::Odd(format!("a packet of type {kind}"))),
        }
    }
}
