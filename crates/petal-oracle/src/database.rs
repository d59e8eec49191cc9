//! Link for petal's own work around a run. Its errors name the database and petal's action.

use super::errors::{AtPlace as _, engine_error};
use super::link::{BindValue, Link, LinkError, Row};
use super::sql;
use petal_engine::{EngineError, Result};

/// A link, and the database's name in messages.
pub struct Database {
    pub link: Box<dyn Link>,
    pub place: String,
}

impl Database {
    /// Wraps a new link, or the reason why connecting failed.
    pub fn connected(
        link: Result<Box<dyn Link>, LinkError>,
        place: &str,
        doing: &str,
    ) -> Result<Self> {
        Ok(Self { link: link.at(place, doing)?, place: place.to_owned() })
    }

    /// Returns the rows of a section of `look.sql`.
    pub fn look(&mut self, doing: &str, section: &str) -> Result<Vec<Row>> {
        self.query(doing, &sql::section(sql::LOOK, section), &[])
    }

    /// Returns the rows of an optional section of `look.sql`, or no rows if the user may not read
    /// it.
    pub fn look_if_allowed(&mut self, section: &str) -> Vec<Row> {
        self.link.query(&sql::section(sql::LOOK, section), &[]).unwrap_or_default()
    }

    /// Refuses a package of another user that would run with the rights of petal's own user.
    pub fn refuse_callers_rights(&mut self, owner: &str, package: &str) -> Result<()> {
        let query = sql::section(sql::LOOK, "callers_rights");
        let binds = [BindValue::from(owner), BindValue::from(package)];
        match self.query(&format!("looking at {owner}.{package}"), &query, &binds)?.is_empty() {
            true => Ok(()),
            false => Err(EngineError::Environment(format!(
                "{}: {owner}.{package} is AUTHID CURRENT_USER: {owner}'s code would run with the \
                 rights of petal's user, so petal does not call it; see who changed it",
                self.place
            ))),
        }
    }

    pub fn query(&mut self, doing: &str, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>> {
        self.link.query(sql, binds).map_err(|error| self.error(doing, &error))
    }

    pub fn execute(&mut self, doing: &str, sql: &str) -> Result<()> {
        self.link.execute(sql, &[]).map(|_| ()).map_err(|error| self.error(doing, &error))
    }

    pub fn error(&self, doing: &str, error: &LinkError) -> EngineError {
        engine_error(&self.place, doing, error)
    }
}
