//! libpq's files. The service file has sections `[name]` of `parameter=value` lines: a name stands
//! for a server. The password file has lines `host:port:database:user:password`, where `*` matches
//! all and a backslash takes the next character as it is.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::address::{Address, Environment};
use crate::engine::EngineError;

const FILE: &str = "pg_service.conf";
/// Where packages look for the host's own file when PGSYSCONFDIR does not say.
const SYSTEM_FOLDERS: [&str; 2] = ["/etc/postgresql-common", "/etc/sysconfig/pgsql"];

/// The entries of the first file that has a section of this name.
pub fn service_entries(
    name: &str,
    environment: Environment<'_>,
) -> Result<Option<BTreeMap<String, String>>, EngineError> {
    for path in files(environment) {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(EngineError::Environment(format!(
                    "{}: the service file cannot be read: {error}; make it readable",
                    path.display()
                )));
            }
        };
        if let Some(entries) = section(&text, name) {
            return Ok(Some(entries));
        }
    }
    Ok(None)
}

/// The person's own, then the host's.
fn files(environment: Environment<'_>) -> Vec<PathBuf> {
    let own = environment("PGSERVICEFILE")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&environment("HOME")?).join(format!(".{FILE}"))));
    let system = match environment("PGSYSCONFDIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => SYSTEM_FOLDERS.map(PathBuf::from).to_vec(),
    };
    own.into_iter().chain(system.into_iter().map(|folder| folder.join(FILE))).collect()
}

fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut inside = lines.skip_while(|line| *line != format!("[{name}]"));
    inside.next()?;
    let own = inside.take_while(|line| !line.starts_with('['));
    let entry = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    Some(own.filter_map(entry).collect())
}

/// A line for people if others may read it; libpq then leaves it alone, and so does petal.
pub fn open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        format!(
            "{}: the password file is open to others and not used; chmod 600 it",
            path.display()
        )
    })
}

/// The password of the first line that matches.
pub fn password(text: &str, address: &Address, user: &str, database: &str) -> Option<String> {
    let port = address.port.to_string();
    let wanted = [address.host.as_str(), port.as_str(), database, user];
    let matches_host = |key: &str| {
        // A socket goes by its folder, or as this host.
        key == address.host || address.is_socket() && key == "localhost"
    };
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, keys) = fields.split_last()?;
        let matches = keys.len() == wanted.len()
            && keys.iter().zip(wanted).enumerate().all(|(at, (key, wanted))| {
                key == "*" || key == wanted || at == 0 && matches_host(key)
            });
        matches.then(|| password.clone())
    })
}

/// The first four colons part fields; what follows is the password.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        let is_password = fields.len() == 5;
        let sign = match sign {
            ':' if !is_password => {
                fields.push(String::new());
                continue;
            }
            '\\' => signs.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(field) = fields.last_mut() {
            field.push(sign);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "[a]\nhost=1\n\n# host=2\n port = 3 \n[ab]\nhost=4\n[empty]";
        let entries = |name| section(text, name);
        let expected = [("host", "1"), ("port", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(entries("a"), Some(expected.into()));
        assert_eq!(entries("ab").unwrap()["host"], "4");
        assert_eq!(entries("empty"), Some(BTreeMap::new()));
        assert_eq!(entries("b"), None);
    }

    fn address(host: &str) -> Address {
        Address { host: host.to_owned(), port: 5432, ip: None }
    }

    #[test]
    fn the_first_matching_line_counts() {
        let text = "# a comment:*:*:*:no\n\
                    h1:5433:*:*:wrong port\n\
                    h1:5432:d:u:pa:ss\\\\w\\:ord\n\
                    h1:*:*:*:second\n\
                    localhost:*:*:*:socket\n\
                    too:few:fields\n";
        let find = |host| password(text, &address(host), "u", "d");
        assert_eq!(find("h1").as_deref(), Some("pa:ss\\w:ord"));
        assert_eq!(password(text, &address("h1"), "other", "d").as_deref(), Some("second"));
        assert_eq!(find("/var/run/postgresql").as_deref(), Some("socket"));
        assert_eq!(find("h2"), None);
        let folder = "/tmp/other:5432:d:u:folder\n/run/pg:5432:d:u:its own\nlocalhost:*:*:*:any\n";
        assert_eq!(password(folder, &address("/run/pg"), "u", "d").as_deref(), Some("its own"));
        assert_eq!(password(folder, &address("/run"), "u", "d").as_deref(), Some("any"));
    }

    #[test]
    fn a_file_open_to_others_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(open_to_others(&path).unwrap().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(open_to_others(&path), None);
    }
}
