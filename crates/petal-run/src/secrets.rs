//! Secrets in petal's environment, which petal hides from the scripts it starts.

use std::ffi::OsStr;
use std::process::Command;

use petal_settings::read::secret_variables;

/// Parts of names, also inside longer words.
const PARTS: [&str; 8] =
    ["PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "SECRET", "TOKEN", "CREDENTIAL", "APIKEY"];
/// Whole words of names, between underscores.
const WORDS: [&str; 9] = ["PASS", "PWD", "PW", "KEY", "DSN", "AUTH", "PGPASSFILE", "COOKIE", "JWT"];
/// Names that contain such a word, but hold a folder or a socket.
const PLAIN: [&str; 4] = ["PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"];

/// The variable that leads to the arguments which one image of petal hands to the next: `PID FD` for
/// the image that takes a process over, `PID FD PIPE` for a worker.
pub const HANDOVER: &str = "PETAL_HANDOVER";

/// Removes from a command's environment all variables that may hold a secret or lead to one.
pub fn remove_from(command: &mut Command) {
    command.env_remove(HANDOVER);
    for (name, _) in std::env::vars_os().filter(|(name, value)| is_secret(name, value)) {
        command.env_remove(name);
    }
}

/// Returns true if a variable may hold a password: by its name, as a URL with one, or as key=value
/// text.
fn is_secret(variable: &OsStr, value: &OsStr) -> bool {
    let name = variable.to_string_lossy().to_ascii_uppercase();
    if PLAIN.contains(&name.as_str()) {
        return false;
    }
    let is_word = |word: &str| WORDS.iter().any(|known| word == *known || is_plural(word, known));
    secret_variables().contains(&name)
        || PARTS.iter().any(|part| name.contains(part))
        || name.split(['_', '-', '.']).any(is_word)
        || holds_secret(&value.to_string_lossy())
}

fn is_plural(word: &str, known: &str) -> bool {
    word.strip_suffix('S').is_some_and(|one| one == known)
}

fn holds_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let authority = value.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or(""));
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    // A driver's form: user:word@tcp(host)/name.
    let is_dsn = value.rsplit_once('@').is_some_and(|(user, rest)| {
        user.contains(':') && (rest.starts_with("tcp(") || rest.starts_with("unix("))
    });
    is_dsn
        || is_login(value)
        || user.is_some_and(|user| user.contains(':'))
        || KEYS.iter().any(|key| lower.contains(key))
}

/// Keys of key=value texts.
const KEYS: [&str; 8] =
    ["password=", "passwd=", "passphrase=", "pwd=", "secret=", "token=", "apikey=", "api_key="];

/// Returns true for a command line's form: user/word@place.
fn is_login(value: &str) -> bool {
    let (user, rest) = value.split_once('/').unwrap_or_default();
    let (word, place) = rest.split_once('@').unwrap_or_default();
    let is_sign = |sign: char| sign.is_alphanumeric() || "_$#".contains(sign);
    !user.is_empty()
        && user.chars().all(is_sign)
        && ![word, place].contains(&"")
        && !word.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_or_by_value() {
        let is_secret = |name: &str, value: &str| is_secret(name.as_ref(), value.as_ref());
        for name in [
            "SYSDBA_PASSWD",
            "PETAL_SYSDBA_PASSWD",
            "PGPASSWORD",
            "DB",
            "MY_TOKEN",
            "MYSQL_PWD",
            "DB_PASS",
            "PASSPHRASE",
            "GPG_PASSPHRASE",
            "API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "APIKEY",
            "SSH_KEY",
            "DB_KEYS",
            "db_pw",
            "SENTRY_DSN",
            "NPM_AUTH",
            "PGPASSFILE",
        ] {
            assert!(is_secret(name, "x"), "{name}");
        }
        for value in [
            "postgres://me:word@host/db",
            "me:word@tcp(host:3306)/db",
            "me:w@rd@tcp(host:3306)/db",
            "scott/tiger@host:1521/svc",
            "host=h Password=word",
            "passphrase=some words",
            "Server=h;Uid=me;Pwd=word;",
        ] {
            assert!(is_secret("TARGET", value), "{value}");
        }
        for (name, value) in [
            ("PROXY", "http://host:80/a@b"),
            ("PWD", "/home"),
            ("OLDPWD", "/"),
            ("PATH", ""),
            ("MAIL_TO", "me@host/path"),
            ("CACHE", "/var/cache/me@host"),
            ("UPDATE_PCT", "20"),
            ("SSH_AUTH_SOCK", "/tmp/s"),
            ("KEYBOARD", "de"),
            ("LANG", "C"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }
}
