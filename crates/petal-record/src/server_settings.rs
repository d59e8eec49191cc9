//! The journal of a sweep's changes to its server's settings: it is written before the first change
//! and marked as done when the original values are back, so that a killed sweep's changes are known.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{RecordError, RecordFolder, format, input, moment};
use petal_settings::trust;

pub const FORMAT: &str = "petal-server-settings/1";
pub const NAME: &str = "server-settings.json";
const WANTED: &str = "a journal of server settings";

/// The original state of every setting that a sweep changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsJournal {
    pub format: String,
    /// The target, without secrets.
    pub db: String,
    /// An identity of the server that it keeps after a restart.
    pub server: String,
    /// The place of stored values, for a person.
    pub place: String,
    /// UTC, RFC 3339.
    pub changed_at: String,
    /// Time at which all values were back; `None` while they may be the sweep's.
    pub restored_at: Option<String>,
    pub settings: Vec<ChangedSetting>,
}

/// A setting as it was before the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    pub name: String,
    /// The stored value; `None` without one.
    pub stored: Option<String>,
    pub in_effect: String,
    /// The values of the sweep.
    pub values: Vec<String>,
}

/// The origin of a value that is stored now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastWriter {
    /// The original value.
    Original,
    Sweep,
    SomebodyElse,
}

impl ChangedSetting {
    /// Decides who stored a value. `is_same` compares two texts of the setting's values.
    pub fn last_writer(
        &self,
        now: Option<&str>,
        is_same: impl Fn(&str, &str) -> bool,
    ) -> LastWriter {
        let is = |other: &str| now.is_some_and(|now| is_same(now, other));
        match self.stored.as_deref() {
            None if now.is_none() => LastWriter::Original,
            Some(original) if is(original) => LastWriter::Original,
            _ if self.values.iter().any(|value| is(value)) => LastWriter::Sweep,
            _ => LastWriter::SomebodyElse,
        }
    }
}

impl SettingsJournal {
    pub fn is_open(&self) -> bool {
        self.restored_at.is_none()
    }

    /// Writes the journal durably, whole or not at all.
    pub fn save(&self, folder: &RecordFolder) -> Result<PathBuf, RecordError> {
        folder.write_json(NAME, "the journal of server settings", self)
    }

    /// Marks it as done, and writes it.
    pub fn close(&mut self, folder: &RecordFolder) -> Result<PathBuf, RecordError> {
        self.restored_at = Some(moment::exact(OffsetDateTime::now_utc()));
        self.save(folder)
    }
}

/// Reads the journal of a sweep's folder; `None` without one. Refuses a file that others could have
/// written, because petal gives its values to a server.
pub fn read(folder: &RecordFolder) -> Result<Option<SettingsJournal>, RecordError> {
    let path = folder.path().join(NAME);
    let unread = |source| RecordError::io("read", &path, source);
    let file = match folder.opened().and_then(|folder| folder.read(NAME.as_ref())) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(unread)?,
    };
    let about = file.metadata().map_err(unread)?;
    let trusted = trust::check_owner(&about).and_then(|()| trust::check_writers(&about));
    trusted.map_err(|why| RecordError::Damaged { path: path.clone(), wanted: WANTED, why })?;
    let text = input::bounded(&path, file, about.len(), input::BYTES_MAX)?;
    format::parse(&path, &text, FORMAT, WANTED).map(Some)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use std::fs;

    fn setting(stored: Option<&str>) -> ChangedSetting {
        ChangedSetting {
            name: "a".to_owned(),
            stored: stored.map(str::to_owned),
            in_effect: "16384".to_owned(),
            values: vec!["1GB".to_owned(), "4GB".to_owned()],
        }
    }

    #[test]
    fn a_value_is_the_original_the_sweeps_or_somebody_elses() {
        let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        let by = |stored, now| setting(stored).last_writer(now, same);
        assert_eq!(by(None, None), LastWriter::Original);
        assert_eq!(by(Some("2GB"), Some("2gb")), LastWriter::Original);
        // The original value may be one of the sweep's.
        assert_eq!(by(Some("1GB"), Some("1GB")), LastWriter::Original);
        assert_eq!(by(None, Some("4gb")), LastWriter::Sweep);
        assert_eq!(by(Some("2GB"), Some("1GB")), LastWriter::Sweep);
        assert_eq!(by(None, Some("2GB")), LastWriter::SomebodyElse);
        // Somebody removed the entry.
        assert_eq!(by(Some("2GB"), None), LastWriter::SomebodyElse);
    }

    #[test]
    fn a_journal_is_open_until_it_is_closed_and_is_not_taken_from_others() {
        let place = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(place.path());
        assert_eq!(read(&folder).unwrap(), None);
        let mut journal = SettingsJournal {
            format: FORMAT.to_owned(),
            db: "postgres://petal@one/d".to_owned(),
            server: "7".to_owned(),
            place: "a file".to_owned(),
            changed_at: "2026-01-01T00:00:00Z".to_owned(),
            restored_at: None,
            settings: vec![setting(None), setting(Some("it's"))],
        };
        let path = journal.save(&folder).unwrap();
        let read_back = || read(&folder).map(Option::unwrap);
        assert!(read_back().unwrap() == journal && journal.is_open());
        journal.close(&folder).unwrap();
        assert!(!read_back().unwrap().is_open());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read_back().unwrap_err().to_string().contains("others than its owner"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(4711), None).is_ok() {
            assert!(read_back().is_err(), "another user's journal is taken");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(read(&folder).is_err());
    }
}
