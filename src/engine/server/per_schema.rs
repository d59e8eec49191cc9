//! Statements that a session prepared for each schema that it visits.

use std::collections::BTreeMap;

use crate::engine::Result;

/// The state of a session that prepares statements.
pub trait SchemaWork {
    /// The number of the session's own schema.
    fn home(&self) -> u32;

    /// Refuses a schema that is not loaded.
    fn check_loaded(&mut self, schema: u32) -> Result<()>;
}

pub struct PerSchema<W, T> {
    prepare: fn(&mut W, u32) -> Result<T>,
    known: BTreeMap<u32, T>,
}

impl<W: SchemaWork, T: Clone> PerSchema<W, T> {
    /// Prepares the session's own schema at once.
    pub fn new(work: &mut W, prepare: fn(&mut W, u32) -> Result<T>) -> Result<Self> {
        let mut all = Self { prepare, known: BTreeMap::new() };
        all.get(work, work.home())?;
        Ok(all)
    }

    /// A schema that was not visited before is prepared now, if it is loaded.
    pub fn get(&mut self, work: &mut W, schema: u32) -> Result<T> {
        if let Some(known) = self.known.get(&schema) {
            return Ok(known.clone());
        }
        work.check_loaded(schema)?;
        let prepared = (self.prepare)(work, schema)?;
        self.known.insert(schema, prepared.clone());
        Ok(prepared)
    }
}
