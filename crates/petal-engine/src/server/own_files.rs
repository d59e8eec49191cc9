//! Files of a server on this host, as petal finds them. A path that a server names may be another
//! file here: a server in a container has other mounts.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use petal_host::devices::{self, Roots};
use petal_host::files;
use petal_record::target::Privilege;

/// Files of the server that this process belongs to.
#[derive(Debug, Clone, Copy)]
pub struct OwnFiles {
    pub process: u32,
}

impl OwnFiles {
    /// The path at which petal finds a file of the server. An error says why it is not seen.
    pub fn see(&self, path: &Path) -> Result<PathBuf, String> {
        devices::seen_by(&Roots::default(), self.process, path)
    }

    /// Paths of the server's files that are there and that petal may see.
    pub fn see_all(&self, paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
        let seen = paths.into_iter().filter_map(|path| self.see(&path).ok());
        seen.filter(|path| fs::metadata(path).is_ok()).collect()
    }

    /// Why petal does not see the reads of the server's processes.
    fn why_reads_are_unseen(&self) -> Option<String> {
        let path = Path::new("/proc").join(self.process.to_string()).join("io");
        let error = files::system_text(&path).err()?;
        Some(format!("run petal as root or as the server's user ({}: {error})", path.display()))
    }

    /// Looks for the file of a table of petal's. One in a folder that petal may not enter is taken to
    /// be there, because the server's process has the same mounts.
    pub fn check(&self, table: &str, path: &Path, bytes: Option<u64>) -> Result<(), String> {
        let seen = self.see(path)?;
        let not_it = |why: String| Err(format!("{}, which has {table}, {why}", path.display()));
        match fs::metadata(&seen) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
            Err(error) => not_it(format!("is not seen on this host: {error}")),
            Ok(found) if !found.is_file() => not_it("is no file on this host".to_owned()),
            Ok(found) => match bytes.filter(|bytes| *bytes != found.len()) {
                None => Ok(()),
                Some(bytes) => not_it(format!(
                    "is another file on this host: it has {} bytes, and the server's has {bytes}",
                    found.len()
                )),
            },
        }
    }
}

/// Why a server at one of this host's own addresses is not seen.
pub fn unseen(why: &str) -> String {
    format!("the database's address is this host's, but {why}")
}

/// The rights to see the server's files and reads here, for `petal check`; none at an address of another
/// host.
pub fn rights(found: Option<Result<OwnFiles, String>>) -> Vec<Privilege> {
    let right = |what: &str, without: &str, why: Option<String>| Privilege {
        what: what.to_owned(),
        is_granted: why.is_none(),
        is_needed: false,
        without: without.to_owned(),
        advice: why.unwrap_or_default(),
    };
    let place = |why: Option<String>| {
        let without =
            "The device is then not seen: served by and the latency of its reads are unknown.";
        right("place of the data", without, why.map(|why| unseen(&why)))
    };
    match found {
        None => Vec::new(),
        Some(Err(why)) => vec![place(Some(why))],
        Some(Ok(files)) => vec![
            place(None),
            right(
                "reads of the server's processes",
                "Reads of other programs may then be counted as the server's: served by is unknown unless the \
                 time of a read shows it.",
                files.why_reads_are_unseen(),
            ),
        ],
    }
}

/// No process of this host is the server's.
pub const NO_PROCESS: &str = "no process here is the server's, as behind a tunnel or a proxy";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_says_why_files_are_not_seen() {
        assert_eq!(rights(None), []);
        let own = OwnFiles { process: std::process::id() };
        assert_eq!(rights(Some(Ok(own))).iter().filter(|right| right.is_granted).count(), 2);
        let missing = rights(Some(Err("it hides".to_owned()))).remove(0);
        assert!(!missing.is_granted && missing.advice.ends_with("it hides"), "{missing:?}");
        let gone = rights(Some(Ok(OwnFiles { process: u32::MAX }))).remove(1);
        assert!(gone.advice.starts_with("run petal as root or as the server's user"), "{gone:?}");
    }

    #[test]
    fn only_a_file_of_the_same_size_is_the_tables() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("16385");
        let own = OwnFiles { process: std::process::id() };
        let error = own.check("petal1.cf1", &path, None).unwrap_err();
        assert!(error.contains("16385, which has petal1.cf1, is not seen on this host"), "{error}");
        fs::write(&path, [0; 9]).unwrap();
        assert!(own.check("petal1.cf1", &path, Some(9)).is_ok());
        let error = own.check("petal1.cf1", &path, Some(8192)).unwrap_err();
        assert!(error.ends_with("it has 9 bytes, and the server's has 8192"), "{error}");
        assert!(own.check("petal1.cf1", folder.path(), None).is_err());
        assert_eq!(own.see_all([path.clone(), folder.path().join("gone")]), [path]);
    }
}
