//! Option files, as the `mysql` and `mariadb` programs read them: the group `[client]` and the
//! groups of the two programs, from the files of the system and of the user.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use petal_engine::{EngineError, Result};
use petal_host::files;
use petal_settings::trust;

/// The system's files, in the order in which they are read: a later value counts.
const SYSTEM_FILES: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "/etc/mysql/mariadb.cnf"];
const OWN_FILE: &str = ".my.cnf";
const GROUPS: [&str; 4] = ["client", "client-server", "client-mariadb", "petal"];
/// Files that include each other are read no deeper.
const DEPTH_MAX: usize = 5;

/// The options of all files by name, with `-` between words. `named` replaces all other files.
pub fn read(named: Option<&str>, home: Option<&str>) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    if let Some(named) = named {
        let text = text_of(Path::new(named)).map_err(|error| {
            EngineError::Environment(format!(
                "{named}: the option file cannot be read: {error}; name a readable file, or leave \
                 defaults_file out"
            ))
        })?;
        let Some(text) = text else {
            return Err(EngineError::Environment(format!(
                "{named}: any user can change this option file, so petal does not read it; run \
                 chmod o-w {named}"
            )));
        };
        add(&text, Path::new(named), DEPTH_MAX, &mut options);
        return Ok(options);
    }
    let own = home.map(|home| trust::own_file(Path::new(home), OWN_FILE)).transpose();
    let own = own.map_err(EngineError::Environment)?.flatten();
    for file in SYSTEM_FILES.iter().map(PathBuf::from).chain(own) {
        add_file(&file, DEPTH_MAX, &mut options);
    }
    Ok(options)
}

/// Adds a file's options. Ignores a file that any user can change, as the server's programs do.
fn add_file(file: &Path, depth: usize, options: &mut BTreeMap<String, String>) {
    if depth == 0 {
        return;
    }
    if let Ok(Some(text)) = text_of(file) {
        add(&text, file, depth - 1, options);
    }
}

/// Returns the text of a file; `None` if any user can change it.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    let mut file = files::regular(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.permissions().mode() & 0o002 != 0 {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

fn add(text: &str, file: &Path, depth: usize, options: &mut BTreeMap<String, String>) {
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(folder) = line.strip_prefix("!includedir") {
            let found =
                std::fs::read_dir(relative_to(file, folder)).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|ending| ending == "cnf"));
            files.sort();
            files.iter().for_each(|file| add_file(file, depth, options));
        } else if let Some(included) = line.strip_prefix("!include") {
            add_file(&relative_to(file, included), depth, options);
        } else if let Some(group) = line.strip_prefix('[') {
            is_ours = GROUPS.contains(&group.trim_end_matches(']').trim());
        } else if is_ours && !line.is_empty() && !line.starts_with(['#', ';']) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let name = name.trim().replace('_', "-").to_ascii_lowercase();
            options.insert(name, unquoted(value.trim()));
        }
    }
}

fn relative_to(file: &Path, named: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).join(named.trim())
}

/// A value without its quotes, or without the comment that follows it, and with its escapes.
fn unquoted(value: &str) -> String {
    let quote = value.chars().next().filter(|sign| matches!(sign, '"' | '\''));
    let inner = match quote {
        Some(quote) => value[1..].rsplit_once(quote).map_or(&value[1..], |(inner, _)| inner),
        None => value.split_once(" #").map_or(value, |(value, _)| value.trim_end()),
    };
    let mut text = String::with_capacity(inner.len());
    let mut signs = inner.chars();
    while let Some(sign) = signs.next() {
        match (sign, if sign == '\\' { signs.next() } else { None }) {
            ('\\', Some('s')) => text.push(' '),
            ('\\', Some('t')) => text.push('\t'),
            ('\\', Some('n')) => text.push('\n'),
            ('\\', Some(escaped @ ('\\' | '"' | '\''))) => text.push(escaped),
            ('\\', Some(other)) => text.extend(['\\', other]),
            (sign, _) => text.push(sign),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_includes_quotes_and_comments_are_read_as_the_servers_programs_do() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write(
            ".my.cnf",
            "[mysqld]\nport=1\n[client]\nuser = scott # who\npassword=\"ti#g\\\"er\"\nssl_ca=/a b\n\
             ; a comment\n[mysqldump]\nhost=no\n!include more.cnf\n!includedir d\n",
        );
        write("more.cnf", "[client]\nhost=db1\n");
        std::fs::create_dir(folder.path().join("d")).unwrap();
        write("d/b.cnf", "[petal]\nhost=db2\n");
        write("d/c.txt", "[client]\nhost=db3\n");
        let mut options = BTreeMap::new();
        add_file(&folder.path().join(".my.cnf"), DEPTH_MAX, &mut options);
        let shown: Vec<String> =
            options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["host=db2", "password=ti#g\"er", "ssl-ca=/a b", "user=scott"]);
        let mut open = BTreeMap::new();
        let path = folder.path().join("more.cnf");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        add_file(&path, DEPTH_MAX, &mut open);
        assert!(open.is_empty(), "anybody may write it");
    }
}
