//! Where servers are, as URL and environment name them. Reads no file, looks nothing up.

use std::net::IpAddr;
use std::path::Path;

use super::libpq::refused;
use crate::engine::EngineError;
use crate::settings::url::Host;

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

const PORT_DEFAULT: u16 = 5432;
/// Where packages put the socket, most usual first.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The URL's hosts, or else those of `host`, `hostaddr` and what stands in for them.
pub fn addresses(
    named: &[Host],
    given: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Vec<Address>, EngineError> {
    let ports = ports(given("port", "PGPORT").as_deref())?;
    let port_at = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(PORT_DEFAULT);
    let ips = ips(given("hostaddr", "PGHOSTADDR").as_deref())?;
    let hosts: Vec<Host> = match (named, given("host", "PGHOST")) {
        ([], Some(hosts)) => hosts.split(',').map(plain).collect(),
        // An address alone is its own name.
        ([], None) if !ips.is_empty() => {
            let name = |ip: &Option<IpAddr>| ip.map_or_else(default_host, |ip| ip.to_string());
            ips.iter().map(|ip| plain(&name(ip))).collect()
        }
        ([], None) => vec![plain(&default_host())],
        _ => named.to_vec(),
    };
    if !ips.is_empty() && ips.len() != hosts.len() {
        let many = format!("names {} addresses for {} hosts", ips.len(), hosts.len());
        return Err(refused("hostaddr", "...", &many, "give one for each (also in PGHOSTADDR)"));
    }
    let address = |(at, host): (usize, Host)| Address {
        port: host.port.unwrap_or_else(|| port_at(at)),
        ip: ips.get(at).copied().flatten(),
        host: host.host,
    };
    Ok(hosts.into_iter().enumerate().map(address).collect())
}

fn plain(host: &str) -> Host {
    Host { host: host.trim().to_owned(), port: None }
}

/// One for each host; an empty one is looked up by its host's name.
fn ips(text: Option<&str>) -> Result<Vec<Option<IpAddr>>, EngineError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    text.split(',')
        .map(|address| match address.trim() {
            "" => Ok(None),
            address => address.parse().map(Some).map_err(|_| {
                refused(
                    "hostaddr",
                    text,
                    "is no IP address",
                    "names go in host (also in PGHOSTADDR)",
                )
            }),
        })
        .collect()
}

fn ports(text: Option<&str>) -> Result<Vec<u16>, EngineError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    text.split(',')
        .map(|port| match port.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(refused("port", text, "is no port", "give 1 to 65535 (also in PGPORT)")),
        })
        .collect()
}

fn default_host() -> String {
    let socket = format!(".s.PGSQL.{PORT_DEFAULT}");
    let folder = SOCKET_FOLDERS.into_iter().find(|folder| Path::new(folder).join(&socket).exists());
    folder.unwrap_or("localhost").to_owned()
}
