//! The storage engines that petal knows, by name and by the tables that are there.

use super::client::Client;
use super::innodb::Innodb;
use super::rocksdb::Rocksdb;
use super::storage::Storage;
use petal_engine::Result;

const ALL: [Storage; 2] = [&Innodb, &Rocksdb];

/// The one of this name; None if petal knows none.
pub fn by_name(name: &str) -> Option<Storage> {
    ALL.into_iter().find(|storage| storage.texts().name.eq_ignore_ascii_case(name))
}

pub fn names() -> String {
    ALL.map(|storage| storage.texts().name).join(", ")
}

/// Returns the storage engine of the complete schemas; without any, the first one.
pub fn of_data(client: &mut Client) -> Result<Storage> {
    let sql = "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() \
               AND table_name REGEXP '^petal[1-9][0-9]*_cf1$' LIMIT 1";
    let found: Vec<Option<String>> = client.ask("asking for the storage engine", sql)?;
    let name = found.into_iter().flatten().next();
    Ok(name.and_then(|name| by_name(&name)).unwrap_or(&Innodb))
}
