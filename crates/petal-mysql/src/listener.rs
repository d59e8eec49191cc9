//! The listener on a port of this host, by the kernel's tables of sockets.

use std::fs;
use std::io::ErrorKind;

use rustix::process::geteuid;

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The first user number of ordinary users; those below belong to root and to services.
const ORDINARY_USERS: u32 = 1000;

/// True if some process listens on this port, and each that does is root's, a service's or petal's
/// own user's: no other user of the host can be the one that answers.
pub fn is_trusted(port: u16) -> bool {
    // A kernel without IPv6 has no second table.
    let read = |path| match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(String::new()),
        read => read.ok(),
    };
    let tables: Option<String> = TABLES.into_iter().map(read).collect();
    let own = geteuid().as_raw();
    let is_known = |user: u32| user < ORDINARY_USERS || user == own;
    tables
        .and_then(|tables| listeners(&tables, port))
        .is_some_and(|users| !users.is_empty() && users.into_iter().all(is_known))
}

/// The users whose sockets listen on this port; None if a line cannot be read.
fn listeners(tables: &str, port: u16) -> Option<Vec<u32>> {
    const LISTEN: &str = "0A";
    let mut users = Vec::new();
    for line in tables.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.is_empty() || fields[0] == "sl" {
            continue;
        }
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        if u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN {
            users.push(fields.get(7)?.parse().ok()?);
        }
    }
    Some(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   102        0 71 1 0
   1: 0100007F:0CEB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 12345        0 72 1 0
   2: 0100007F:0CEC 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 73 1 0
";
    const TABLE_6: &str = "\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000001000000:0CEA 00000000000000000000000000000000:0000 0A \
00000000:00000000 00:00000000 00000000  1001        0 74 1 0
";

    #[test]
    fn listeners_of_a_port_are_known_by_their_users() {
        let tables = format!("{TABLE}\n{TABLE_6}");
        assert_eq!(listeners(&tables, 3306), Some(vec![102, 1001]));
        assert_eq!(listeners(&tables, 3307), Some(vec![12345]));
        // A connection is no listener.
        assert_eq!(listeners(&tables, 3308), Some(vec![]));
        assert_eq!(listeners("0: 0100007F", 3306), None);
    }

    #[test]
    fn petals_own_listener_is_trusted_and_a_port_without_any_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(is_trusted(listener.local_addr().unwrap().port()));
        assert!(!is_trusted(0));
    }
}
