//! Seats: which session works on which schema, through which endpoint, in which role.

use serde::{Deserialize, Serialize};

/// A session's place in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// From 1.
    pub session: u32,
    /// Home schema, from 1.
    pub schema: u32,
    /// Endpoint, from 0.
    pub endpoint: u32,
    pub role: Role,
}

/// The kinds of operations that a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A mix by UPDATE_PCT.
    Mixed,
    Reader,
    Writer,
}
