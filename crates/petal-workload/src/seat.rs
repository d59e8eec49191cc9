//! Seats: the schema, endpoint and role of each session.

use serde::{Deserialize, Serialize};

/// A session's place in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Number of the session, from 1.
    pub session: u32,
    /// Home schema, from 1.
    pub schema: u32,
    /// Endpoint, from 0.
    pub endpoint: u32,
    pub role: Role,
}

/// The kinds of operations of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A mix by UPDATE_PCT.
    Mixed,
    Reader,
    Writer,
}
