//! The engines of this build. A new engine is one line in each of the two lists.

use std::sync::Arc;

use super::{Capabilities, Engine, EngineError};
use crate::settings::Settings;

/// Opens the engine that the URL names. A new engine is one line here.
pub fn open(settings: &Settings) -> Result<Arc<dyn Engine>, EngineError> {
    match settings.db.scheme.as_str() {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(super::sqlite::Sqlite::open(settings)?)),
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Arc::new(super::postgres::Postgres::open(settings)?)),
        #[cfg(feature = "oracle")]
        "oracle" => Ok(Arc::new(super::oracle::Oracle::open(settings)?)),
        #[cfg(feature = "device")]
        "device" => Ok(Arc::new(super::device::Device::open(settings)?)),
        other => Err(EngineError::Setting(format!(
            "DB={}: this petal has no engine for {other}:; it has {}",
            settings.db.redacted(),
            schemes().join(", ")
        ))),
    }
}

/// The engines of this build, in the order in which people should read of them.
pub const ALL: &[&Capabilities] = &[
    #[cfg(feature = "sqlite")]
    &super::sqlite::CAPABILITIES,
    #[cfg(feature = "postgres")]
    &super::postgres::CAPABILITIES,
    #[cfg(feature = "oracle")]
    &super::oracle::CAPABILITIES,
    #[cfg(feature = "device")]
    &super::device::CAPABILITIES,
];

fn schemes() -> Vec<String> {
    ALL.iter().map(|engine| format!("{}:", engine.scheme)).collect()
}
