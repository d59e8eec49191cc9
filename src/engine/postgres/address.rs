//! What a server is called, and the environment that may say so. No file and no URL is read here.

/// One server: a host and port, or a folder with a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A folder if it begins with `/`.
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
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
