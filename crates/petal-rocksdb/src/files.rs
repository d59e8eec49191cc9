//! Each schema has a file with petal's mark and a load's metadata. Next to it is RocksDB's folder, whose
//! name has the load's number. So a load replaces another by renaming one file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use petal_engine::file_set::{FileFormat, FileOwner};
use petal_engine::keyed::folder::KeyedFormat;
use petal_engine::keyed::meta::{KeyedMeta, Notes};
use petal_engine::on_path::OnPath as _;
use petal_engine::{EngineError, Result};
use petal_model::settings::table::{EngineSupport, support};

/// petal's file of a schema.
#[derive(Debug, Clone, Copy)]
pub struct RocksdbFormat;

impl FileFormat for RocksdbFormat {
    const ENDING: &'static str = ".rocksdb";

    fn support(&self) -> &'static EngineSupport {
        &support::ROCKSDB
    }

    fn owner(&self, file: &File) -> io::Result<FileOwner> {
        Ok(if Self::NOTES.text(file)?.is_some() { FileOwner::Petal } else { FileOwner::Foreign })
    }

    fn remove_sides(&self, path: &Path) -> Result<()> {
        let text = Self::NOTES.text(&*self.open(path).on(path)?).on(path)?.unwrap_or_default();
        match text.lines().find_map(|line| line.strip_prefix("load=")) {
            Some(load) => remove_folder(&folder_of(path, load)),
            None => Ok(()),
        }
    }
}

/// RocksDB's folder of a schema's file, whether it is loaded or still loading.
pub fn folder_of(path: &Path, load: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".loading").unwrap_or(&name);
    path.with_file_name(format!("{name}-{load}"))
}

/// Removes RocksDB's files and its folder. Others' files stay, and are an error.
fn remove_folder(folder: &Path) -> Result<()> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => match about.on(folder)?.is_dir() {
            true => {}
            false => return Err(others_in(folder)),
        },
    }
    for entry in fs::read_dir(folder).on(folder)? {
        let entry = entry.on(folder)?;
        if !is_rocksdbs(&entry.file_name().to_string_lossy()) {
            return Err(others_in(&entry.path()));
        }
    }
    for entry in fs::read_dir(folder).on(folder)? {
        let path = entry.on(folder)?.path();
        fs::remove_file(&path).on(&path)?;
    }
    fs::remove_dir(folder).on(folder)
}

fn others_in(path: &Path) -> EngineError {
    EngineError::Data(format!(
        "{}: it is not RocksDB's, so petal leaves it alone; move it away",
        path.display()
    ))
}

/// True for the names of files that RocksDB makes.
fn is_rocksdbs(name: &str) -> bool {
    ["CURRENT", "IDENTITY", "LOCK", "LOG"].contains(&name)
        || ["MANIFEST-", "OPTIONS-", "LOG.old."].iter().any(|begin| name.starts_with(begin))
        || [".sst", ".log", ".dbtmp"].iter().any(|end| name.ends_with(end))
}

impl KeyedFormat for RocksdbFormat {
    const NOTES: Notes =
        Notes { mark: "petal's RocksDB database\n", offset: 0, example: "rocksdb:DIR" };

    fn inspect(&self, path: &Path, schema: u32) -> Result<KeyedMeta> {
        let meta = KeyedMeta::read(Self::NOTES, &*self.open(path).on(path)?, path, schema)?;
        let folder = folder_of(path, &meta.about.load);
        if folder.join("CURRENT").is_file() {
            return Ok(meta);
        }
        Err(EngineError::Data(format!(
            "{}: RocksDB's folder {} is missing or empty; load it again (petal setup --replace) or remove \
             it (petal drop)",
            path.display(),
            folder.display()
        )))
    }
}
