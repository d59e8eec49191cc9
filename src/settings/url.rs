//! Target URLs, and the one type that holds a secret.

use std::collections::BTreeMap;
use std::fmt;

/// A password or its like. It can be used, not shown: neither `Debug` nor `Display` nor serde.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for a driver's connect call only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// `sqlite:DIR?cache=64M`, `postgres://user:password@host/db`, `device:PATH`.
#[derive(Debug, Clone)]
pub struct TargetUrl {
    /// `sqlite`, `postgres`, `mysql`, `oracle`, `device`.
    pub scheme: String,
    /// What follows the scheme, without the password and the options.
    pub rest: String,
    pub password: Option<Secret>,
    /// `?key=value&...`, for the engine to judge.
    pub options: BTreeMap<String, String>,
}

impl TargetUrl {
    /// The URL as it may be shown: a password is `***`.
    pub fn redacted(&self) -> String {
        format!("{}:{}", self.scheme, self.rest)
    }
}
