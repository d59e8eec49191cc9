//! The engines of this build, in the order in which people read of them: one entry each.

use std::sync::Arc;

use petal_engine::{Engine, EngineError, Result};
use petal_settings::Settings;
use petal_settings::table::support;

/// An engine that can be opened.
struct RegisteredEngine {
    support: &'static support::EngineSupport,
    open: fn(&Settings) -> Result<Arc<dyn Engine>>,
}

static REGISTERED: &[RegisteredEngine] = &[
    #[cfg(feature = "sqlite")]
    RegisteredEngine {
        support: &support::SQLITE,
        open: |s| Ok(Arc::new(petal_sqlite::Sqlite::open(s)?)),
    },
    #[cfg(feature = "redb")]
    RegisteredEngine {
        support: &support::REDB,
        open: |s| Ok(Arc::new(petal_redb::Redb::open(s)?)),
    },
    #[cfg(feature = "lmdb")]
    RegisteredEngine {
        support: &support::LMDB,
        open: |s| Ok(Arc::new(petal_lmdb::Lmdb::open(s)?)),
    },
    #[cfg(feature = "postgres")]
    RegisteredEngine {
        support: &support::POSTGRES,
        open: |s| Ok(Arc::new(petal_postgres::Postgres::open(s)?)),
    },
    #[cfg(feature = "mysql")]
    RegisteredEngine {
        support: &support::MYSQL,
        open: |s| Ok(Arc::new(petal_mysql::Mysql::open(s)?)),
    },
    #[cfg(feature = "oracle")]
    RegisteredEngine {
        support: &support::ORACLE,
        open: |s| Ok(Arc::new(petal_oracle::Oracle::open(s)?)),
    },
    #[cfg(feature = "device")]
    RegisteredEngine {
        support: &support::DEVICE,
        open: |s| Ok(Arc::new(petal_device::Device::open(s)?)),
    },
    #[cfg(feature = "scripted")]
    RegisteredEngine { support: &support::SCRIPTED, open: petal_scripted::Scripted::open },
];

/// The GRANT statements that an administrator sends before petal's first run; None if no engine
/// of this build needs any.
#[cfg(feature = "oracle")]
pub const GRANTS: Option<&str> = Some(petal_oracle::GRANTS);
#[cfg(not(feature = "oracle"))]
pub const GRANTS: Option<&str> = None;

/// Opens the engine that the URL names.
pub fn open(settings: &Settings) -> Result<Arc<dyn Engine>> {
    let scheme = settings.db.scheme.as_str();
    let Some(entry) = REGISTERED.iter().find(|entry| entry.support.scheme == scheme) else {
        let schemes = REGISTERED.iter().map(|entry| format!("{}:", entry.support.scheme));
        return Err(EngineError::Setting(format!(
            "DB={}: this petal has no engine for {scheme}:; it has {}",
            settings.db.redacted(),
            schemes.collect::<Vec<_>>().join(", ")
        )));
    };
    (entry.open)(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_settings::url::TargetUrl;

    #[test]
    fn every_engine_has_its_place_in_the_table_of_support() {
        for entry in REGISTERED {
            assert!(std::ptr::eq(support::of(entry.support.scheme).unwrap(), entry.support));
        }
    }

    #[test]
    fn an_entry_and_a_column_of_support_are_all_that_opens_an_engine() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("scripted:{}?select_us=5", folder.path().display());
        let settings = Settings { db: TargetUrl::parse(&url).unwrap(), ..Settings::default() };
        let engine = open(&settings).unwrap();
        assert_eq!(engine.support().scheme, "scripted");
        assert_eq!(engine.loaded().unwrap(), []);
    }
}
