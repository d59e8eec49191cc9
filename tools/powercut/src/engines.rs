//! Engines that a guest can run: their programs, orders and controls.

use std::path::{Path, PathBuf};

use crate::by_name;
use crate::disk::DiskKind;
use crate::error::CutError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEngine {
    Sqlite,
    Postgres,
}

impl GuestEngine {
    pub fn parse(name: &str) -> Result<Self, String> {
        by_name([Self::Sqlite, Self::Postgres], Self::name, name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    /// Returns the shell functions with which the guest starts and stops the engine.
    pub fn script(self) -> &'static str {
        match self {
            Self::Sqlite => include_str!("guest/sqlite.sh"),
            Self::Postgres => include_str!("guest/postgres.sh"),
        }
    }

    /// Returns disks and settings that are known to lose commits.
    pub fn controls(self) -> Vec<(DiskKind, Option<&'static str>)> {
        let settings: &[&str] = match self {
            Self::Sqlite => &["synchronous=off"],
            Self::Postgres => &["synchronous_commit=off", "fsync=off"],
        };
        let honest = settings.iter().map(|&setting| (DiskKind::Honest, Some(setting)));
        std::iter::once((DiskKind::Lying, None)).chain(honest).collect()
    }

    /// Returns the programs of this host that the guest gets, with their files and libraries.
    pub fn files(self) -> Result<Vec<PathBuf>, CutError> {
        match self {
            Self::Sqlite => Ok(Vec::new()),
            Self::Postgres => postgres_files(Path::new("/usr/lib/postgresql")).ok_or_else(|| {
                CutError::Failed(
                    "no PostgreSQL in /usr/lib/postgresql for the guest: install Debian's package \
                     postgresql"
                        .to_owned(),
                )
            }),
        }
    }
}

/// Returns the files of the newest version.
fn postgres_files(installed: &Path) -> Option<Vec<PathBuf>> {
    let versions = installed.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(|path| version(path).unwrap_or(0))?;
    let programs = ["postgres", "initdb", "pg_ctl"].map(|name| newest.join("bin").join(name));
    let shared = Path::new("/usr/share/postgresql").join(newest.file_name()?);
    let is_needed = |path: &PathBuf| {
        let path = path.to_string_lossy();
        !["/bitcode/", "/man/", "/llvmjit", "/pgxs/"].iter().any(|part| path.contains(part))
    };
    let below = [newest.join("lib"), shared].into_iter().flat_map(|folder| files_below(&folder));
    Some(programs.into_iter().chain(below.filter(is_needed)).collect())
}

pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}
