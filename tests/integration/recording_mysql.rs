//! A server that records what it is sent, and answers as one of MySQL's kind: petal sends it no more
//! than `mariadb` does.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;

use crate::recording_servers::{SECRET, listen, words};
use crate::server_mysql::mariadb;
use crate::support::{Workplace, is_long, skip};

/// A server's part of a conversation.
#[derive(Clone, Copy)]
struct FakeServer {
    has_tls: bool,
    /// Answers to the client's packets, in order.
    answers: &'static [&'static [u8]],
}

/// A server that finds no quick proof of the password and asks for all of it.
const ASKS_FOR_PASSWORD: FakeServer = FakeServer { has_tls: false, answers: &[b"\x01\x04"] };

/// Bytes in place of a packet: all conversations before have ended.
const END: &[u8] = b"end!";

impl FakeServer {
    /// Returns all that the client sends, TLS excepted.
    fn serve(self, stream: &mut TcpStream) -> Vec<u8> {
        let mut greeting = b"\x0a8.0.36\0\x07\0\0\0abcdefgh\0".to_vec();
        // Flags: 4.1 protocol, secure connection, plugins, attributes, database, local files.
        let tls = if self.has_tls { 0x08 } else { 0 };
        greeting.extend_from_slice(&[0x88, 0xa2 | tls, 0x21, 0x02, 0x00, 0x18, 0x00, 21]);
        greeting.extend_from_slice(&[0; 10]);
        greeting.extend_from_slice(b"ijklmnopqrst\0caching_sha2_password\0");
        let mut send = |number: u8, payload: &[u8]| {
            let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
            bytes[3] = number;
            bytes.extend_from_slice(payload);
            let _ = stream.write_all(&bytes);
            hear_packet(stream)
        };
        let mut heard = Vec::new();
        let mut packet = send(0, &greeting);
        for answer in self.answers {
            heard.extend_from_slice(&packet);
            let is_tls = packet.len() == 4 + TLS_REQUEST_BYTES;
            if packet.len() < 4 || packet == END || is_tls {
                return heard;
            }
            packet = send(packet[3].wrapping_add(1), answer);
        }
        heard.extend_from_slice(&packet);
        heard
    }
}

/// A request for TLS is the beginning of the client's answer to the greeting.
const TLS_REQUEST_BYTES: usize = 32;

fn hear_packet(stream: &mut TcpStream) -> Vec<u8> {
    let mut packet = vec![0; 4];
    if stream.read_exact(&mut packet).is_err() {
        return Vec::new();
    }
    if packet != END {
        let bytes = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
        let mut payload = vec![0; bytes as usize];
        let _ = stream.read_exact(&mut payload);
        packet.append(&mut payload);
    }
    packet
}

/// All that a client has sent in its conversations.
fn sent(port: u16, received: &Receiver<Vec<u8>>) -> Vec<Vec<u8>> {
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(END).unwrap();
    received.iter().take_while(|heard| heard != END).collect()
}

/// Flags that the client sets, words, and whether it gives the password away.
fn facts(conversations: &[Vec<u8>]) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for heard in conversations.iter().filter(|heard| heard.len() > 8) {
        let flags = u32::from_le_bytes([heard[4], heard[5], heard[6], heard[7]]);
        let set = (0..32).filter(|bit| flags >> bit & 1 == 1);
        facts.extend(set.map(|bit| format!("flag {bit}")));
        facts.extend(words(heard));
        // Encrypted by the server's key, or as it is.
        if heard.ends_with(KEY_REQUEST) || facts.contains(SECRET) {
            facts.insert("the password".to_owned());
        }
    }
    facts
}

#[test]
fn petal_sends_a_server_of_mysql_no_more_than_mariadb_does() {
    let Some(client) = mariadb() else { return skip("MariaDB's client is not installed") };
    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
    const SERVERS: [&[&[u8]]; 9] = [
        ASKS_FOR_PASSWORD.answers,
        &[b"\xfemysql_clear_password\0"],
        &[b"\xfesha256_password\0abcdefghijklmnopqrst\0"],
        &[b"\xfedialog\0\x05your password: "],
        &[b"\xfemysql_old_password\0abcdefgh\0"],
        &[b"\xfemysql_native_password\0abcdefghijklmnopqrst\0"],
        &[b"\xfeclient_ed25519\0abcdefghijklmnopqrstuvwxyzabcdef"],
        // The file of a LOAD DATA LOCAL that no client has sent.
        &[OK, b"\xfb/proc/self/environ"],
        &[OK, OK, b"\xfb/proc/self/environ"],
    ];
    const AUTHORITY: &str = "ssl-ca=/etc/ssl/certs/ca-certificates.crt";
    let verifying = format!("{AUTHORITY}\nssl-verify-server-cert");
    const OPTIONS: [&str; 10] = [
        "",
        "ssl",
        "skip-ssl",
        AUTHORITY,
        "init-command=SELECT 'the canary'",
        "local-infile=1",
        "compress\nprotocol=tcp",
        "default-character-set=utf8mb4\nconnect-timeout=5",
        "[petal-canary]\nuser=canary\nhost=canary",
        "[mysqldump]\nuser=canary\npassword=canary\n[mysqld]\nuser=canary",
    ];
    // Rows found, ends without a packet, and statements that name nothing of the user's.
    let is_own = |fact: &&String| {
        let is_statement = ["SELECT ", "SET "].iter().any(|word| fact.starts_with(word));
        ["flag 1", "flag 24"].contains(&fact.as_str()) || (is_statement && !fact.contains("canary"))
    };
    let mut proofs = 0;
    for (answers, has_tls) in SERVERS.iter().zip([false; 9]).chain([(&SERVERS[0], true)]) {
        let server = FakeServer { has_tls, answers };
        for options in OPTIONS.into_iter().chain([verifying.as_str()]) {
            // All pairs in the long form.
            if !(is_long() || options.is_empty() || *answers == SERVERS[0]) {
                continue;
            }
            let (port, received) = listen(move |stream| server.serve(stream));
            let work = Workplace::new();
            let text = format!("[client]\npassword={SECRET}\n{options}\n");
            let cnf = work.write("client.cnf", text).display().to_string();
            let mut command = Command::new(&client);
            command.arg(format!("--defaults-file={cnf}")).args(["-u", "anna", "-h", "127.0.0.1"]);
            command.args(["-P", &port.to_string(), "own", "-e", "SELECT 1"]).env_clear();
            command.env("CANARY", SECRET).stdin(Stdio::null()).output().unwrap();
            let mariadbs = facts(&sent(port, &received));
            let url = format!("mysql://anna@127.0.0.1:{port}/own?defaults_file={cnf}");
            work.petal(["check", "--db", &url]).env("CANARY", SECRET).exits(3);
            let petals = facts(&sent(port, &received));
            let more = petals.difference(&mariadbs).filter(|fact| !is_own(fact));
            let more: Vec<&String> = more.collect();
            assert!(
                more.is_empty(),
                "{options}, {answers:?}: {more:?} of {petals:?}, {mariadbs:?}"
            );
            assert!(!petals.contains(SECRET), "{options}, {answers:?}: {petals:?}");
            proofs += usize::from(petals.contains("anna"));
        }
    }
    assert!(proofs > 15, "petal logged on {proofs} times");
}

#[test]
fn an_option_file_that_any_user_can_change_is_not_read() {
    let (port, received) = listen(|stream| ASKS_FOR_PASSWORD.serve(stream));
    let work = Workplace::new();
    let cnf = work.write("client.cnf", format!("[client]\npassword={SECRET}\n"));
    std::fs::set_permissions(&cnf, std::fs::Permissions::from_mode(0o666)).unwrap();
    let url = format!("mysql://anna@127.0.0.1:{port}/own?defaults_file={}", cnf.display());
    work.petal(["check", "--db", &url]).exits(3).telling(&["any user can change", "chmod o-w"]);
    assert_eq!(sent(port, &received), Vec::<Vec<u8>>::new());
}

/// The request for the server's key, as `mysql --get-server-public-key` sends it.
const KEY_REQUEST: &[u8] = b"\x01\0\0\x03\x02";

#[test]
fn a_server_of_petals_own_user_on_this_host_may_have_the_password_without_tls() {
    let (port, received) = listen(|stream| ASKS_FOR_PASSWORD.serve(stream));
    let work = Workplace::new();
    let url = format!("mysql://anna:{SECRET}@127.0.0.1:{port}/own");
    work.petal(["check", "--db", &url]).exits(3);
    let heard: Vec<Vec<u8>> = received.try_iter().collect();
    assert!(heard.iter().any(|heard| heard.ends_with(KEY_REQUEST)), "{heard:?}");
    // A caller who asks for verification gets it, with a password or without.
    let authority = "/etc/ssl/certs/ca-certificates.crt";
    let cnf = format!("[client]\nssl-ca={authority}\nssl-verify-server-cert\n");
    let cnf = work.write("client.cnf", cnf).display().to_string();
    let without = format!("mysql://anna@127.0.0.1:{port}/own?defaults_file={cnf}");
    for url in [format!("{url}?ssl_ca={authority}"), without] {
        work.petal(["check", "--db", &url]).exits(3).telling(&["the server has no TLS"]);
        assert!(received.recv().unwrap().is_empty());
    }
}
