//! Log-on as Oracle's servers do it since 12c: the password is proved by session keys that both sides
//! make from it, and never sent readable. No test of its own.

use std::collections::BTreeMap;

use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use sha2::Digest as _;

use super::buffer::{Broken, Reader, Source, Writer};

/// Rounds of PBKDF2: a server has 4096, which an unoptimized build feels. Some clients take no fewer.
pub const VERIFIER_ROUNDS: u32 = 4096;
pub const FEW_ROUNDS: u32 = 64;
/// More than a client ends in an hour. The stand-in takes few for itself.
pub const ENDLESS_ROUNDS: u32 = u32::MAX;
const SESSION_ROUNDS: u32 = 3;
/// PBKDF2 with SHA-512, of 12c.
const VERIFIER_11G: u64 = 0x1b25;
const VERIFIER_12C: u64 = 0x4815;

/// What the client sends in either phase.
pub struct LogOn {
    pub pairs: BTreeMap<String, String>,
    /// Texts whose length is known come without it.
    pub is_plain: bool,
}

/// Reads the message after its function code, sequence and token.
pub fn read<S: Source>(reader: &mut Reader<S>) -> Result<LogOn, Broken> {
    reader.u8()?;
    let user_bytes = reader.ub()?;
    let _mode = reader.ub()?;
    reader.u8()?;
    let count = reader.ub()?;
    reader.raw(2)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // Some clients repeat the length of the name.
    let is_plain = u64::from(reader.u8()?) != user_bytes;
    reader.raw(user_bytes.saturating_sub(is_plain.into()) as usize)?;
    let mut pairs = BTreeMap::new();
    for _ in 0..count {
        let key = text(reader.text()?);
        pairs.insert(key, text(reader.text()?));
        reader.ub()?;
    }
    Ok(LogOn { pairs, is_plain })
}

/// Key, value and flags, as both phases answer them.
pub type Pair = (String, String, u64);

pub fn write_pairs(writer: &mut Writer, pairs: &[Pair]) {
    writer.u8(8).ub(pairs.len() as u64);
    for (key, value, flags) in pairs {
        writer.text(key.as_bytes()).text(value.as_bytes()).ub(*flags);
    }
}

pub fn read_pairs<S: Source>(reader: &mut Reader<S>) -> Result<Vec<Pair>, Broken> {
    reader.expect("the message", &[8])?;
    let count = reader.ub()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut pair = || Ok((text(reader.text()?), text(reader.text()?), reader.ub()?));
    (0..count).map(|_| pair()).collect()
}

/// The secrets of one log-on.
pub struct Keys {
    rounds: u32,
    password_hash: [u8; 32],
    server_part: [u8; 32],
    verifier: [u8; 16],
    salt: [u8; 16],
}

impl Keys {
    pub fn new(password: &str, rounds: u32) -> Self {
        let (verifier, salt) = (random::<16>(), random::<16>());
        let with = [&verifier[..], b"AUTH_PBKDF2_SPEEDY_KEY"].concat();
        let mut key = [0; 64];
        let own_rounds = if rounds == ENDLESS_ROUNDS { FEW_ROUNDS } else { rounds };
        derive(password.as_bytes(), &with, own_rounds, &mut key);
        let hash = sha2::Sha512::new().chain_update(key).chain_update(verifier).finalize();
        let password_hash = hash[..32].try_into().unwrap();
        Self { rounds, password_hash, server_part: random(), verifier, salt }
    }

    /// The answer to the first phase.
    pub fn challenge(&self) -> Vec<Pair> {
        let pair = |key: &str, value: String, flags| (key.to_owned(), value, flags);
        vec![
            pair("AUTH_SESSKEY", hex(&encrypt(&self.password_hash, &self.server_part)), 0),
            pair("AUTH_VFR_DATA", hex(&self.verifier), VERIFIER_12C),
            pair("AUTH_PBKDF2_CSK_SALT", hex(&self.salt), 0),
            pair("AUTH_PBKDF2_VGEN_COUNT", self.rounds.to_string(), 0),
            pair("AUTH_PBKDF2_SDER_COUNT", SESSION_ROUNDS.to_string(), 0),
            pair("AUTH_GLOBALLY_UNIQUE_DBID\0", hex(&[0x5a; 16]), 0),
        ]
    }

    /// The answer to the first phase for an account that has only a verifier of 11G.
    pub fn challenge_of_11g(&self) -> Vec<Pair> {
        let mut pairs = self.challenge();
        pairs.retain(|(key, ..)| !key.starts_with("AUTH_PBKDF2"));
        let verifier = pairs.iter_mut().find(|(key, ..)| key == "AUTH_VFR_DATA").unwrap();
        verifier.2 = VERIFIER_11G;
        pairs
    }

    /// The key of the session, if what the client sent in the second phase proves the password.
    pub fn session_key(&self, sent: &LogOn, password: &str) -> Option<[u8; 32]> {
        let client_part = decrypt(&self.password_hash, &unhex(sent.pairs.get("AUTH_SESSKEY")?)?)?;
        let both = [&client_part[..], &self.server_part[..]].concat();
        let mut key = [0; 32];
        derive(hex(&both).as_bytes(), &self.salt, SESSION_ROUNDS, &mut key);
        let proof = decrypt(&key, &unhex(sent.pairs.get("AUTH_PASSWORD")?)?)?;
        let padding = usize::from(*proof.last()?);
        (proof.get(16..proof.len().checked_sub(padding)?)? == password.as_bytes()).then_some(key)
    }
}

/// What shows the client that the server knows the password, too.
pub fn server_proof(key: &[u8; 32]) -> String {
    let text = [&random::<16>()[..], b"SERVER_TO_CLIENT", &[16; 16]].concat();
    hex(&encrypt(key, &text))
}

fn derive(secret: &[u8], salt: &[u8], rounds: u32, key: &mut [u8]) {
    pbkdf2::pbkdf2_hmac::<sha2::Sha512>(secret, salt, rounds, key);
}

fn encrypt(key: &[u8; 32], text: &[u8]) -> Vec<u8> {
    let mut out = vec![0; text.len()];
    let cipher = cbc::Encryptor::<aes::Aes256>::new(key.into(), &[0; 16].into());
    cipher.encrypt_padded_b2b::<NoPadding>(text, &mut out).unwrap();
    out
}

fn decrypt(key: &[u8; 32], text: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0; text.len()];
    let cipher = cbc::Decryptor::<aes::Aes256>::new(key.into(), &[0; 16].into());
    cipher.decrypt_padded_b2b::<NoPadding>(text, &mut out).ok()?;
    Some(out)
}

fn random<const N: usize>() -> [u8; N] {
    use std::io::Read as _;
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|sign| !sign.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}
