//! Aliases of tnsnames.ora, resolved to connect descriptors.
//!
//! The driver's own reader stops at a Latin-1 comment, a byte order mark, a quoted IFILE and an
//! unclosed parenthesis of another entry. This one reads each entry separately, so that a fault
//! affects only its own alias.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::options::Options;
use petal_engine::{EngineError, Result};
use petal_host::files;

const FILE: &str = "tnsnames.ora";
/// Maximum number of included files, which ends a circle of includes.
const INCLUDES_MAX: usize = 16;
const NEAR_NAMES: usize = 3;
const WRITE_OUT: &str = "or write oracle://user@host:1521/service";

/// Replaces each alias among the options' services by its descriptor.
pub fn resolve(options: &mut Options) -> Result<()> {
    let folder = options.tns_admin.clone();
    let mut names = None;
    for place in options.endpoints.iter_mut().chain([&mut options.admin_place]) {
        if !is_alias(&place.connect_string) {
            continue;
        }
        let Some(folder) = &folder else {
            return Err(EngineError::Environment(format!(
                "{}: is an alias, and neither TNS_ADMIN nor ORACLE_HOME is set; set TNS_ADMIN to \
                 the folder of {FILE}, {WRITE_OUT}",
                place.name
            )));
        };
        let names =
            match &mut names {
                Some(names) => names,
                none => none.insert(TnsNames::read(Path::new(folder)).map_err(|error| {
                    EngineError::Environment(format!("{}: {error}", place.name))
                })?),
            };
        place.connect_string = names
            .descriptor(&place.name)
            .map_err(|error| EngineError::Environment(format!("{}: {error}", place.name)))?;
    }
    Ok(())
}

/// True if a connect string is a name to look up, not an address.
fn is_alias(connect_string: &str) -> bool {
    !connect_string.contains(['/', ':', '(', '='])
}

/// Entries of tnsnames.ora and of its included files.
#[derive(Debug, Default)]
struct TnsNames {
    file: PathBuf,
    /// Entries by name in lower case.
    entries: BTreeMap<String, Entry>,
    /// Included files that could not be read, each with its reason.
    unread: Vec<String>,
    /// Domain from NAMES.DEFAULT_DOMAIN in sqlnet.ora.
    domain: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Number of the line, from 1.
    line: usize,
    value: String,
    is_closed: bool,
}

impl TnsNames {
    fn read(folder: &Path) -> Result<Self, String> {
        let file = folder.join(FILE);
        let mut names = Self { file: file.clone(), ..Self::default() };
        let text = read_text(&file).map_err(|error| {
            format!("{error}; set TNS_ADMIN to the folder of {FILE}, {WRITE_OUT}")
        })?;
        names.add(folder, &text, 0);
        let sqlnet = read_text(&folder.join("sqlnet.ora")).unwrap_or_default();
        names.domain = entries(&sqlnet)
            .into_iter()
            .find(|(name, _)| name == "names.default_domain")
            .map(|(_, entry)| entry.value.to_lowercase());
        Ok(names)
    }

    fn add(&mut self, folder: &Path, text: &str, depth: usize) {
        for (name, entry) in entries(text) {
            if name != "ifile" {
                self.entries.insert(name, entry);
                continue;
            }
            let included = folder.join(entry.value.trim_matches(['"', '\'']));
            match read_text(&included) {
                Ok(text) if depth < INCLUDES_MAX => self.add(folder, &text, depth + 1),
                Ok(_) => {
                    self.unread.push(format!("{}: files include each other", included.display()))
                }
                Err(error) => self.unread.push(error),
            }
        }
    }

    fn descriptor(&self, alias: &str) -> Result<String, String> {
        let plain = alias.to_lowercase();
        let with_domain = self.domain.as_ref().filter(|_| !plain.contains('.'));
        let with_domain = with_domain.map(|domain| format!("{plain}.{domain}"));
        let found = with_domain.iter().chain([&plain]).find_map(|name| self.entries.get(name));
        match found {
            Some(entry) if entry.is_closed => Ok(entry.value.clone()),
            Some(entry) => Err(format!(
                "{}, line {}: a parenthesis of this alias is not closed; close it, {WRITE_OUT}",
                self.file.display(),
                entry.line
            )),
            None => Err(self.not_found(&plain)),
        }
    }

    fn not_found(&self, alias: &str) -> String {
        let mut near: Vec<&String> = self.entries.keys().collect();
        near.sort_by_key(|name| strsim::damerau_levenshtein(alias, name));
        let near: Vec<&str> = near.into_iter().take(NEAR_NAMES).map(String::as_str).collect();
        let mut text = format!(
            "unable to find this alias in {}, which has {}",
            self.file.display(),
            match self.entries.len() {
                0 => "no aliases".to_owned(),
                1 => format!("one alias: {}", near.join(", ")),
                many => format!("{many} aliases, the nearest: {}", near.join(", ")),
            }
        );
        for error in &self.unread {
            text.push_str(&format!("; included file {error}"));
        }
        format!("{text}; name an alias of TNS_ADMIN's file, {WRITE_OUT}")
    }
}

/// Reads the text of a file; invalid UTF-8 is read as Windows-1252, which some comments use.
fn read_text(file: &Path) -> Result<String, String> {
    let bytes = files::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (text, _, is_odd) = encoding_rs::UTF_8.decode(&bytes);
    match is_odd {
        false => Ok(text.into_owned()),
        true => Ok(encoding_rs::WINDOWS_1252.decode(&bytes).0.into_owned()),
    }
}

/// Returns each name with its entry, in the file's order. Other lines are skipped.
fn entries(text: &str) -> Vec<(String, Entry)> {
    let mut reader = EntryReader::default();
    for (line, number) in text.lines().zip(1..) {
        reader.line(without_comment(line), number);
    }
    reader.end();
    reader.found
}

/// Returns a line up to its comment. A `#` in quotes does not begin a comment.
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    for (at, sign) in line.char_indices() {
        match sign {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

#[derive(Default)]
struct EntryReader {
    found: Vec<(String, Entry)>,
    /// Names of a list that continues on the next line.
    listed: Vec<String>,
    open: Option<OpenEntry>,
}

/// An entry whose value may continue.
struct OpenEntry {
    names: Vec<String>,
    line: usize,
    value: String,
    depth: usize,
}

impl EntryReader {
    fn line(&mut self, line: &str, number: usize) {
        let inside = self.open.as_ref().is_some_and(|open| open.depth > 0);
        match assignment(line) {
            // Within parentheses only a line that begins like an alias ends an entry that was left open.
            Some((names, rest)) if !inside || begins_an_alias(line, rest) => {
                self.end();
                let names = self.listed.drain(..).chain(names).collect();
                self.open = Some(OpenEntry { names, line: number, value: String::new(), depth: 0 });
                self.take(rest);
            }
            _ if self.open.is_some() => self.take(line),
            _ => match name_list(line.trim_end().trim_end_matches(',')) {
                Some(names) if line.trim_end().ends_with(',') => self.listed.extend(names),
                _ => self.listed.clear(),
            },
        }
    }

    /// Adds to the open entry's value, up to its closing parenthesis.
    fn take(&mut self, text: &str) {
        let Some(open) = &mut self.open else { return };
        let text = text.trim();
        for (at, sign) in text.char_indices() {
            match sign {
                '(' => open.depth += 1,
                ')' if open.depth == 1 => {
                    open.depth = 0;
                    open.value.push_str(&text[..=at]);
                    return self.end();
                }
                ')' => open.depth = open.depth.saturating_sub(1),
                _ => {}
            }
        }
        if !text.is_empty() {
            open.value.push_str(text);
            if open.depth == 0 {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let Some(open) = self.open.take() else { return };
        let is_closed = open.depth == 0 && !open.value.is_empty();
        let entry = Entry { line: open.line, value: open.value, is_closed };
        self.found.extend(open.names.into_iter().map(|name| (name, entry.clone())));
    }
}

/// Splits a line into the names before its first equals sign, and the rest.
fn assignment(line: &str) -> Option<(Vec<String>, &str)> {
    let (names, rest) = line.split_once('=')?;
    Some((name_list(names)?, rest))
}

/// Returns names separated by commas, in lower case.
fn name_list(text: &str) -> Option<Vec<String>> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|sign| sign.is_alphanumeric() || "._-$".contains(sign))
            && !name.starts_with('-')
    };
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_lowercase()).collect();
    names.iter().all(|name| is_name(name)).then_some(names)
}

/// True if a line within parentheses nevertheless begins the next alias.
fn begins_an_alias(line: &str, rest: &str) -> bool {
    let rest = rest.trim_start();
    !line.starts_with([' ', '\t']) && (rest.is_empty() || rest.starts_with('('))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OracleService;

    const O: &str =
        "(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=h)(PORT=20))(CONNECT_DATA=(SERVICE_NAME=o)))";

    fn descriptor(text: &str, alias: &str) -> Result<String, String> {
        descriptor_of_bytes(text.as_bytes(), alias)
    }

    fn descriptor_of_bytes(text: &[u8], alias: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        let found = TnsNames::read(folder.path())?.descriptor(alias);
        found.map_err(|error| error.replace(&folder.path().display().to_string(), "DIR"))
    }

    #[test]
    fn an_alias_is_found_in_files_as_people_write_them() {
        let only = format!("ONLY = {O}");
        let spread =
            O.replace("(ADDRESS", "\n # comment\n\t(ADDRESS").replace("(CONN", "\r\n(CONN");
        let files = [
            only.clone(),
            format!("# comment\n# another\n{only}\n"),
            format!("\u{feff}{only}\n"),
            format!("ONLY = # the one\r\n  {spread}\r\n"),
            format!("A,\nOnly.World, ONLY =\n{O}\n"),
            format!("A = (DESCRIPTION=(ADDRESS=(HOST=h)\n\nONLY =\n {O}\n"),
            format!("A = (DESCRIPTION=(ADDRESS=(HOST=h)\n{only}\n"),
            format!("A = {O})\n;old = 1\nrem nothing\n-- a comment\n{only}"),
            format!("IFILE = /no/such/file\n{only}"),
            format!("  only = {O} # trailing"),
        ];
        for text in files {
            let found = descriptor(&text, "only").unwrap();
            assert_eq!(found.replace(['\n', '\t'], ""), O, "{text}");
        }
        let latin = [b"# f\xfcr alle\r\n".as_slice(), only.as_bytes()].concat();
        assert_eq!(descriptor_of_bytes(&latin, "ONLY").unwrap(), O);
        assert_eq!(descriptor("EASY = db1:1521/svc\n", "easy").unwrap(), "db1:1521/svc");
    }

    #[test]
    fn a_descriptor_is_one_that_the_driver_takes() {
        let text = format!("LIST =\n(DESCRIPTION_LIST=\n  (LOAD_BALANCE=on)\n {O}\n {O}\n)\n");
        let found = descriptor(&text, "list").unwrap();
        assert!(oracledb::Config::default().set_connect_string(&found).is_ok(), "{found}");
    }

    #[test]
    fn included_files_and_the_default_domain_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text);
        write(
            "sqlnet.ora",
            "NAMES.DIRECTORY_PATH = (TNSNAMES)\nnames.default_domain = EX.COM".into(),
        )
        .unwrap();
        write("more.ora", format!("IFILE = tnsnames.ora\nINCL.EX.COM = {O}")).unwrap();
        write(FILE, "IFILE = \"more.ora\"\n".to_owned()).unwrap();
        let names = TnsNames::read(folder.path()).unwrap();
        assert_eq!(names.descriptor("incl").unwrap(), O);
        assert_eq!(names.descriptor("incl.ex.com").unwrap(), O);
        assert!(names.descriptor("incl.other.com").is_err());
    }

    #[test]
    fn a_missing_alias_names_file_near_names_and_unread_files() {
        let text =
            format!("IFILE=/no/such/x.ora\nSLOB1 = {O}\nSLOB2 = {O}\nPROD = {O}\nTEST = {O}\n");
        insta::assert_snapshot!(descriptor(&text, "slob3").unwrap_err(), @"unable to find this alias in DIR/tnsnames.ora, which has 4 aliases, the nearest: slob1, slob2, prod; included file /no/such/x.ora: No such file or directory (os error 2); name an alias of TNS_ADMIN's file, or write oracle://user@host:1521/service");
        insta::assert_snapshot!(descriptor("A = (DESCRIPTION=(B=1)\n", "a").unwrap_err(), @"DIR/tnsnames.ora, line 1: a parenthesis of this alias is not closed; close it, or write oracle://user@host:1521/service");
        let mut options = crate::options::tests::alias_options("/no/such/dir");
        insta::assert_snapshot!(resolve(&mut options).unwrap_err(), @"prod: /no/such/dir/tnsnames.ora: No such file or directory (os error 2); set TNS_ADMIN to the folder of tnsnames.ora, or write oracle://user@host:1521/service");
        options.tns_admin = None;
        insta::assert_snapshot!(resolve(&mut options).unwrap_err(), @"prod: is an alias, and neither TNS_ADMIN nor ORACLE_HOME is set; set TNS_ADMIN to the folder of tnsnames.ora, or write oracle://user@host:1521/service");
        options.endpoints =
            vec![OracleService { name: "h/s".into(), connect_string: "tcp://h:1521/s".into() }];
        options.admin_place = options.endpoints[0].clone();
        assert!(resolve(&mut options).is_ok());
    }
}
