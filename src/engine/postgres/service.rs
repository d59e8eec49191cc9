//! libpq's service file: sections `[name]` of `parameter=value` lines, so that a name stands for
//! a server.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::address::Environment;
use crate::engine::EngineError;

const FILE: &str = "pg_service.conf";
/// Where packages look for the host's own file when PGSYSCONFDIR does not say.
const SYSTEM_FOLDERS: [&str; 2] = ["/etc/postgresql-common", "/etc/sysconfig/pgsql"];

/// The entries of the first file that has a section of this name.
pub fn find(
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
}
