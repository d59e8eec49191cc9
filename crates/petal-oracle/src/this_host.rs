//! An instance on petal's own host, and its files there. HOST_NAME is its evidence, or the instance's
//! process PMON, whose root folder has the files of an instance in a container.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use petal_host::files;

/// An instance that runs on this host.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalInstance {
    /// Root folder that its processes see.
    root: PathBuf,
}

impl LocalInstance {
    /// Finds the first of these instances, by names and hosts, that runs here.
    pub fn find(instances: &[(String, String)]) -> Option<Self> {
        let own_name = rustix::system::uname();
        let own_name = own_name.nodename().to_string_lossy();
        instances
            .iter()
            .find_map(|(name, host)| Self::of(Path::new("/proc"), &own_name, name, host))
    }

    fn of(proc: &Path, own_name: &str, instance: &str, host: &str) -> Option<Self> {
        let is_own = short(host) == short(own_name) && short(host) != "localhost";
        let roots = pmon_roots(proc, instance);
        let is_its = |root: &PathBuf| {
            let named = files::text(root.join("etc/hostname")).unwrap_or_default();
            is_own || !host.is_empty() && short(named.trim()) == short(host)
        };
        match roots.into_iter().find(is_its) {
            Some(root) => Some(Self { root }),
            None => is_own.then(|| Self { root: PathBuf::from("/") }),
        }
    }

    /// Returns the instance's files that this host shows.
    pub fn files(&self, files: &[String]) -> Vec<PathBuf> {
        let there = files.iter().map(|file| self.root.join(file.trim_start_matches('/')));
        there.filter(|file| file.is_file()).collect()
    }

    /// Returns the instance's disks that are block devices of this host.
    pub fn disks(&self, disks: &[String]) -> Vec<PathBuf> {
        let is_block = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|disk| disk.file_type().is_block_device())
        };
        disks.iter().map(PathBuf::from).filter(is_block).collect()
    }
}

/// The name of a host without its domain.
fn short(host: &str) -> String {
    host.split('.').next().unwrap_or_default().to_lowercase()
}

/// Returns the root folders of processes with the name of the instance's PMON: `ora_pmon_ORCL`,
/// `db_pmon_FREE`.
fn pmon_roots(proc: &Path, instance: &str) -> Vec<PathBuf> {
    let ending = format!("_pmon_{instance}");
    let is_pmon = |process: &PathBuf| {
        let name = files::system_text(process.join("cmdline")).unwrap_or_default();
        !instance.is_empty() && name.trim_end_matches('\0').ends_with(&ending)
    };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.map(|entry| entry.path()).filter(is_pmon);
    processes.map(|process| process.join("root")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_here_by_its_host_or_by_the_process_of_its_container() {
        let proc = tempfile::tempdir().unwrap();
        let root = proc.path().join("77/root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir_all(root.join("opt/oradata")).unwrap();
        fs::write(root.join("opt/oradata/users01.dbf"), "").unwrap();
        fs::write(root.join("etc/hostname"), "4f0c9a\n").unwrap();
        fs::write(proc.path().join("77/cmdline"), "db_pmon_FREE\0").unwrap();
        let of = |instance: &str, host: &str| {
            LocalInstance::of(proc.path(), "db7.example.com", instance, host).map(|it| it.root)
        };
        assert_eq!(of("FREE", "4f0c9a"), Some(root.clone()));
        // Another container's instance of the same name, another host, and no names.
        assert_eq!(of("FREE", "77aa"), None);
        assert_eq!(of("ORCL", "4f0c9a"), None);
        assert_eq!(of("", ""), None);
        assert_eq!(of("ORCL", "localhost"), None);
        assert_eq!(of("ORCL", "DB7"), Some(PathBuf::from("/")));
        // A file of the container that this host also has is the container's.
        let files = ["/opt/oradata/users01.dbf", "/etc/passwd", "+DATA/x.dbf"].map(str::to_owned);
        let here = LocalInstance::of(proc.path(), "db7", "FREE", "4f0c9a").unwrap();
        assert_eq!(here.files(&files), [root.join("opt/oradata/users01.dbf")]);
        assert_eq!(
            here.disks(&["/etc/passwd".to_owned(), "AFD:DATA1".to_owned()]),
            [""; 0].map(PathBuf::from)
        );
    }
}
