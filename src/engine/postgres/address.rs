//! What a server is called, and the environment that may say so. No file and no URL is read here.

use std::net::IpAddr;

/// One server: a host and port, or a folder with a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A folder if it begins with `/`.
    pub host: String,
    pub port: u16,
    /// Where to connect, so that no name is looked up; the host then only names the server.
    pub ip: Option<IpAddr>,
}

impl Address {
    pub fn is_socket(&self) -> bool {
        self.ip.is_none() && self.host.starts_with('/')
    }

    /// As a person names it.
    pub fn name(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The environment by name, so that tests have their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
