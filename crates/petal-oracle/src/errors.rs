//! Classification of errors. Their messages name the service, the database's text and code, and the
//! next step.

use super::link::{LinkError, LinkErrorKind};
use petal_engine::server::password::PASSWORD_HINT;
use petal_engine::{EngineError, Result};

/// Errors after which a session continues: deadlock, serialization failure, old snapshot, a row
/// locked by others.
pub const TRANSIENT: [&str; 4] = ["ORA-00060", "ORA-08177", "ORA-01555", "ORA-00054"];
/// ORA number of a cancelled call.
pub const CANCELLED: u32 = 1013;
/// ORA number of a call whose session was killed.
pub const KILLED: u32 = 28;
/// ORA number if ALTER SESSION names a parameter that the version does not have.
pub const NO_SUCH_OPTION: u32 = 2248;
const NO_SUCH_TABLE: u32 = 942;

/// Converts a [`LinkError`] into the error kind that callers handle.
pub trait AtPlace<T> {
    fn at(self, place: &str, doing: &str) -> Result<T>;
}

impl<T> AtPlace<T> for Result<T, LinkError> {
    fn at(self, place: &str, doing: &str) -> Result<T> {
        self.map_err(|error| engine_error(place, doing, &error))
    }
}

/// Converts an error into the error kind that callers handle.
pub fn engine_error(place: &str, doing: &str, error: &LinkError) -> EngineError {
    let text = format!("{place}: {doing}: {error}; {}", hint(error));
    match (error.kind, error.code) {
        (LinkErrorKind::Connection | LinkErrorKind::TimedOut, _) => EngineError::Environment(text),
        (_, Some(code)) if is_environment(code) => EngineError::Environment(text),
        // Corrupt blocks, a missing object.
        (_, Some(1578 | 8103 | 26040 | 1410)) => EngineError::Data(text),
        _ => EngineError::Database(text),
    }
}

/// True for causes outside petal's data: the database's administrator, its disks or its network.
pub fn is_environment(code: u32) -> bool {
    matches!(
        code,
        // Sessions, processes, killed, terminated, internal resources.
        18 | 20 | 28 | 257 | 603 | 2391
            // Memory.
            | 4030 | 4036
            // Privileges, objects that are not visible.
            | 942 | 1031 | 1039 | 65040
            // Starting, stopping, unavailable.
            | 1033 | 1034 | 1109 | 65054 | 1035 | 1089 | 1090 | 1092 | 1012 | 27101 | 16000 | 16456
            // Log-on.
            | 1005 | 1017 | 1045 | 28000 | 28001 | 28002 | 28009
            // Quotas and space.
            | 1536 | 30036 | 1650..=1660 | 1688 | 1950 | 959 | 4031 | 12954
            // A missing or unconfirmed licence.
            | 13716 | 13717
            // The network and its listener.
            | 3113 | 3114 | 3135 | 3136 | 12150..=12699
    )
}

/// Returns the suggested next step.
pub fn hint(error: &LinkError) -> &'static str {
    match (error.code, error.kind) {
        (Some(code), _) => hint_of(code),
        (None, LinkErrorKind::TimedOut) => {
            "the database did not answer in time: see whether it hangs, or waits for its archiver"
        }
        (None, LinkErrorKind::Database) => "see the database's alert log",
        (None, LinkErrorKind::Connection) => of_connection(&error.message),
    }
}

fn of_connection(message: &str) -> &'static str {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["password_command"]) {
        PASSWORD_HINT
    } else if has(&["password for wallet"]) {
        "give the wallet's password: ORACLE_WALLET_PASSWORD, ORACLE_WALLET_PASSWORD=@FILE, or at the \
         prompt"
    } else if has(&["unsupportedcertversion"]) {
        "the server's certificate is of X.509 version 1: issue one of X.509 version 3 with \
         subjectAltName=DNS:HOST, the driver takes no other"
    } else if has(&["not valid for name", "notvalidforname"]) {
        "connect by a name of the certificate's subjectAltName (an entry in /etc/hosts serves), or \
         issue a certificate with subjectAltName=DNS:HOST: the driver reads no common name and does \
         not apply SSL_SERVER_DN_MATCH=OFF"
    } else if has(&["unknownissuer"]) {
        "put the authority's certificate into DIR/ewallet.pem and give ?wallet=DIR. The driver \
         ignores the authorities of a wallet with a private key: use a folder that holds the \
         authority's certificate alone, if the server asks for no client certificate"
    } else if has(&["tls", "certificate", "wallet", "pem file", "handshake"]) {
        "check ?protocol=tcps, the port's protocol, ?wallet=DIR and the server's certificate"
    } else if has(&["unable to find", "no configuration directory", "invalid connect string"]) {
        "write oracle://user@host:1521/service, or name an alias of tnsnames.ora and set TNS_ADMIN \
         to its folder"
    } else if has(&["native network encryption"]) {
        "use TCPS: a port with TLS, ?protocol=tcps and ?wallet=DIR; or let the server accept \
         connections without it (SQLNET.ENCRYPTION_SERVER, SQLNET.CRYPTO_CHECKSUM_SERVER)"
    } else if has(&["database server are not supported"]) {
        "the database is older than 12.1, and its protocol older than the driver's: petal is for 19c and \
         later; 12.2 and 18c are unproven"
    } else if has(&["password verifier"]) {
        "check host and port; see DBA_USERS.PASSWORD_VERSIONS: ALTER USER ... IDENTIFIED BY ... makes a \
         12C verifier, if SQLNET.ALLOWED_LOGON_VERSION_SERVER admits 12"
    } else if has(&["driver failed"]) {
        "the driver does not understand the answer: docs/engines/oracle.md says what to report"
    } else if has(&["no credentials"]) {
        "give a password: ORACLE_PASSWORD, ORACLE_PASSWORD=@FILE, or at the prompt"
    } else if has(&["no answer for", "no answer in time"]) {
        "the database or the network fell silent: see whether its host, its storage or its archiver hangs"
    } else if has(&["closed the connection", "broken pipe", "connection reset"]) {
        "the session was killed, the instance ended, or the network broke: see the alert log"
    } else {
        "check host, port and that a listener runs there (lsnrctl status)"
    }
}

fn hint_of(code: u32) -> &'static str {
    match code {
        12541 | 12170 | 12543 | 12545 => "check host, port and that a listener runs there",
        12514 | 12505 | 12521 => {
            "name a service that the listener knows (lsnrctl services), after the host in the URL"
        }
        12516 | 12519 | 12520 => {
            "the listener knows the service and has no handler free: PROCESSES of the instance is \
             reached, or its load information is a minute old; raise PROCESSES, or use fewer sessions"
        }
        12518 => {
            "the listener could not start a server process: see the host's memory and process \
             limits, and listener.log"
        }
        12528 => {
            "the instance starts, or is restricted: open it, or ALTER SYSTEM DISABLE RESTRICTED SESSION"
        }
        12154 => "name an alias of tnsnames.ora and set TNS_ADMIN to its folder",
        1017 | 1005 => "check user and password (ORACLE_PASSWORD, SYSDBA_PASSWD)",
        28000 => "the account is locked: ALTER USER ... ACCOUNT UNLOCK",
        28001 => "the password has expired: ALTER USER ... IDENTIFIED BY ...",
        1045 => "GRANT CREATE SESSION to the user",
        28009 => "SYS connects as SYSDBA: name it as DBA_PRIV_USER, and another user in the URL",
        1033 | 1034 | 1109 | 65054 | 27101 | 1089 | 1090 | 1092 => {
            "the instance starts, stops or is not open"
        }
        18 | 20 => "raise sessions and processes of the instance, or use fewer sessions",
        28 | 1012 | 3113 | 3114 | 3135 => {
            "the session was killed, the instance ended, or the network broke: see the alert log"
        }
        2391 => "the user's profile limits its sessions: ALTER PROFILE ... LIMIT SESSIONS_PER_USER",
        4030 | 4036 => "the host or the instance has no memory for so many sessions",
        30036 => "make room in the undo tablespace",
        13716 | 13717 => {
            "control_management_pack_access keeps AWR from being used: set it only with the licence \
             of the Diagnostics Pack, or use DATABASE_STATISTICS_TYPE=statspack"
        }
        257 => "the archiver is stuck: make room where archived logs go",
        1536 | 1950 => "ALTER USER ... QUOTA UNLIMITED ON the tablespace",
        1652 => {
            "the tablespace that the message names is full: a temporary one, where the index's keys are \
             sorted, or the data's own, where rows and index are written; add a file to it"
        }
        1650..=1660 | 1688 => "make room: add a data file to the tablespace or let it extend",
        12954 => {
            "Oracle Database Free and XE hold at most 12 GB of users' data: load less (--scale, -s), or \
             drop other data; no tablespace makes more room"
        }
        959 => "name a tablespace that exists (?tablespace=NAME, or petal setup NAME N)",
        1555 => "raise undo_retention or give the undo tablespace more room",
        1031 | NO_SUCH_TABLE | 1039 | 65040 => {
            "grant petal's privileges: docs/engines/oracle-grants.sql is the script for it"
        }
        16000 | 16456 => "the database is read-only, as a standby is: name the primary",
        4031 => "the shared pool is too small for so many sessions",
        _ => "see the database's alert log",
    }
}

/// True if a view or a procedure does not exist for this user.
pub fn is_missing(error: &LinkError) -> bool {
    // Table or view, privilege, identifier or package that must be declared, not inside a PDB.
    matches!(error.code, Some(942 | 1031 | 904 | 6550 | 65040 | 4043 | 6564 | 201))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worded(code: u32, message: &str) -> String {
        let error =
            LinkError { code: Some(code), message: message.into(), kind: LinkErrorKind::Database };
        let error = engine_error("db1:1521/svc", "connecting", &error);
        let exit = match &error {
            EngineError::Environment(_) => 3,
            EngineError::Data(_) => 3,
            _ => 1,
        };
        format!("{exit} {error}")
    }

    #[test]
    fn words_code_place_and_what_to_do_are_named() {
        insta::assert_snapshot!(worded(1017, "ORA-01017: invalid username/password; logon denied"), @"3 db1:1521/svc: connecting: ORA-01017: invalid username/password; logon denied; check user and password (ORACLE_PASSWORD, SYSDBA_PASSWD)");
        insta::assert_snapshot!(worded(28000, "ORA-28000: The account is locked."), @"3 db1:1521/svc: connecting: ORA-28000: The account is locked.; the account is locked: ALTER USER ... ACCOUNT UNLOCK");
        insta::assert_snapshot!(worded(12514, "service \"x\" is not registered"), @r#"3 db1:1521/svc: connecting: service "x" is not registered (ORA-12514); name a service that the listener knows (lsnrctl services), after the host in the URL"#);
        insta::assert_snapshot!(worded(1950, "ORA-01950: no privileges on tablespace 'IOPS'"), @"3 db1:1521/svc: connecting: ORA-01950: no privileges on tablespace 'IOPS'; ALTER USER ... QUOTA UNLIMITED ON the tablespace");
        insta::assert_snapshot!(worded(1653, "ORA-01653: unable to extend table"), @"3 db1:1521/svc: connecting: ORA-01653: unable to extend table; make room: add a data file to the tablespace or let it extend");
        insta::assert_snapshot!(worded(30036, "ORA-30036: unable to extend segment by 8 in undo tablespace 'UNDOTBS1'"), @"3 db1:1521/svc: connecting: ORA-30036: unable to extend segment by 8 in undo tablespace 'UNDOTBS1'; make room in the undo tablespace");
        insta::assert_snapshot!(worded(13716, "ORA-13716: Diagnostic Package License is needed for using this feature."), @"3 db1:1521/svc: connecting: ORA-13716: Diagnostic Package License is needed for using this feature.; control_management_pack_access keeps AWR from being used: set it only with the licence of the Diagnostics Pack, or use DATABASE_STATISTICS_TYPE=statspack");
        insta::assert_snapshot!(worded(2391, "ORA-02391: exceeded simultaneous SESSIONS_PER_USER limit"), @"3 db1:1521/svc: connecting: ORA-02391: exceeded simultaneous SESSIONS_PER_USER limit; the user's profile limits its sessions: ALTER PROFILE ... LIMIT SESSIONS_PER_USER");
        insta::assert_snapshot!(worded(28, "ORA-00028: your session has been killed"), @"3 db1:1521/svc: connecting: ORA-00028: your session has been killed; the session was killed, the instance ended, or the network broke: see the alert log");
        insta::assert_snapshot!(worded(3113, "ORA-03113: end-of-file on communication channel"), @"3 db1:1521/svc: connecting: ORA-03113: end-of-file on communication channel; the session was killed, the instance ended, or the network broke: see the alert log");
        insta::assert_snapshot!(worded(1555, "ORA-01555: snapshot too old"), @"1 db1:1521/svc: connecting: ORA-01555: snapshot too old; raise undo_retention or give the undo tablespace more room");
        insta::assert_snapshot!(worded(1578, "ORA-01578: data block corrupted"), @"3 db1:1521/svc: connecting: ORA-01578: data block corrupted; see the database's alert log");
        insta::assert_snapshot!(worded(12954, "ORA-12954: The request exceeds the maximum allowed database size of 12 GB."), @"3 db1:1521/svc: connecting: ORA-12954: The request exceeds the maximum allowed database size of 12 GB.; Oracle Database Free and XE hold at most 12 GB of users' data: load less (--scale, -s), or drop other data; no tablespace makes more room");
        insta::assert_snapshot!(worded(600, "ORA-00600: internal error code"), @"1 db1:1521/svc: connecting: ORA-00600: internal error code; see the database's alert log");
    }
}
