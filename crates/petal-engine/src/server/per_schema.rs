//! Schemas that a session visits: the known facts of each, the texts of its UPDATEs, and the
//! statements prepared for it.

use std::collections::BTreeMap;

use super::identity::KnownServer;
use super::meta_table::SchemaMeta;
use super::row_layout::UpdateText;
use crate::{EngineError, Result};
use petal_settings::RedoStress;
use petal_workload::op::Operation;
use petal_workload::row::changed_columns;

/// Schemas that a session has visited.
pub struct KnownSchemas {
    /// The number of the session's own.
    pub home: u32,
    metas: BTreeMap<u32, SchemaMeta>,
    redo_stress: RedoStress,
    text: UpdateText,
    known: KnownServer,
}

impl KnownSchemas {
    /// The loads of schemas must be those of `known`.
    pub fn new(home: u32, redo_stress: RedoStress, known: KnownServer) -> Self {
        Self { home, metas: BTreeMap::new(), redo_stress, text: UpdateText::default(), known }
    }

    /// Columns that an UPDATE changes.
    pub fn changed_columns(&self) -> usize {
        changed_columns(self.redo_stress)
    }
}

/// The state of a session that visits schemas.
pub trait SchemaWork {
    fn schemas(&mut self) -> &mut KnownSchemas;

    /// The server's name for people.
    fn server(&self) -> &str;

    /// Refuses a schema that is not loaded.
    fn read_meta(&mut self, schema: u32) -> Result<SchemaMeta>;

    /// Facts about a schema, read when they are first needed.
    fn meta(&mut self, schema: u32) -> Result<&SchemaMeta> {
        let meta = match self.schemas().metas.get(&schema) {
            Some(known) => known.clone(),
            None => {
                let meta = self.read_meta(schema)?;
                let known = self.schemas().known.clone();
                known.check_load(self.server(), schema, &meta.load)?;
                meta
            }
        };
        Ok(self.schemas().metas.entry(schema).or_insert(meta))
    }

    /// Bytes of each column of a schema.
    fn column_bytes(&mut self, schema: u32) -> Result<usize> {
        self.meta(schema).map(SchemaMeta::column_bytes)
    }

    /// Bytes of each column, and whether an UPDATE repeats one column's text in all of them: the
    /// session's own schema and the first, to which hot operations go, have constant text of this
    /// width.
    fn column_shape(&mut self, home: u32) -> Result<(usize, bool)> {
        let (width, is_constant) = self.meta(home)?.column_shape();
        let hot = match self.meta(1) {
            Err(error @ EngineError::WrongServer(_)) => return Err(error),
            hot => hot,
        };
        let is_alike = is_constant && hot.is_ok_and(|hot| hot.column_shape() == (width, true));
        Ok((width, is_alike))
    }

    /// The new text of an UPDATE's columns, `columns` of them.
    fn update_text(&mut self, operation: &Operation, columns: usize) -> Result<&str> {
        let filler = self.meta(operation.schema)?.filler;
        let width = self.column_bytes(operation.schema)?;
        Ok(self.schemas().text.make(filler, operation.stamp, width, columns))
    }
}

/// Statements for each schema that a session visits.
pub struct PerSchema<W, T> {
    prepare: fn(&mut W, u32) -> Result<T>,
    known: BTreeMap<u32, T>,
}

impl<W: SchemaWork, T: Clone> PerSchema<W, T> {
    /// Prepares the session's own schema at once.
    pub fn new(work: &mut W, prepare: fn(&mut W, u32) -> Result<T>) -> Result<Self> {
        let mut all = Self { prepare, known: BTreeMap::new() };
        let home = work.schemas().home;
        all.get(work, home)?;
        Ok(all)
    }

    /// A schema that was not visited before is prepared now, if it is loaded.
    pub fn get(&mut self, work: &mut W, schema: u32) -> Result<T> {
        if let Some(known) = self.known.get(&schema) {
            return Ok(known.clone());
        }
        work.meta(schema)?;
        let prepared = (self.prepare)(work, schema)?;
        self.known.insert(schema, prepared.clone());
        Ok(prepared)
    }
}
