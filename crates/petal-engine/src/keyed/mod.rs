//! Code that databases of keys and values share: one table from the number of a block to a row, and
//! one for scans. An engine brings the calls of its database.

pub mod folder;
pub mod load;
pub mod meta;
pub mod rows;
pub mod session;
pub mod writer;
