//! The guard before every page: who may ask for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rand::TryRng as _;
use subtle::ConstantTimeEq as _;

use super::http::{HttpAnswer, HttpRequest};

/// Admits requests with the token in their path, by an address, localhost or a name that the caller
/// gave.
pub struct Gate {
    address: SocketAddr,
    names: Vec<String>,
    token: String,
}

impl Gate {
    /// A gate with a new token of 128 random bits; an error says why it cannot be drawn.
    pub fn new(address: SocketAddr, names: Vec<String>) -> Result<Self, String> {
        let mut drawn = [0; 16];
        rand::rngs::SysRng.try_fill_bytes(&mut drawn).map_err(|error| {
            format!("a token cannot be drawn: {error}; the kernel has to give random bytes")
        })?;
        let token = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { address, names, token })
    }

    pub fn url(&self) -> String {
        let place = match self.names.first() {
            Some(name) => format!("{name}:{}", self.address.port()),
            None => reachable(self.address).to_string(),
        };
        format!("http://{place}/{}/", self.token)
    }

    /// A warning if other hosts reach the server.
    pub fn warning(&self) -> Option<String> {
        let address = self.address;
        (!address.ip().is_loopback()).then(|| {
            format!(
                "every host that reaches {address} can read these records with the URL, and HTTP is not \
                 encrypted"
            )
        })
    }

    /// The path behind the token, or the refusal.
    pub fn admit<'a>(&self, request: &HttpRequest<'a>) -> Result<&'a str, HttpAnswer> {
        let forbidden = |reason: &str| HttpAnswer::refusal("403 Forbidden", reason);
        let host = request.host.unwrap_or_default();
        if !self.is_admitted(host) {
            return Err(forbidden(
                "open petal by an address or localhost: it answers to no name but those of --host-name",
            ));
        }
        if request.origin.is_some_and(|origin| origin != format!("http://{host}")) {
            return Err(forbidden("petal answers no page of another server"));
        }
        let path = request.path.strip_prefix('/').unwrap_or_default();
        let (token, path) = path.split_once('/').unwrap_or((path, ""));
        match bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            true => Ok(path),
            false => Err(forbidden("open the URL that petal printed (with its token)")),
        }
    }

    /// True if a Host header is an address, localhost or a name of this server, as no name is that was
    /// made to lead here (DNS rebinding). Tunnels and containers have ports of their own.
    fn is_admitted(&self, host: &str) -> bool {
        let end = host.find(']').map(|end| end + 1).or_else(|| host.find(':'));
        let (name, port) = host.split_at(end.unwrap_or(host.len()));
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_port =
            port.is_empty() || port.strip_prefix(':').is_some_and(|it| it.parse::<u16>().is_ok());
        let mut names = self.names.iter().map(String::as_str).chain(["localhost"]);
        is_port
            && (bare.parse::<IpAddr>().is_ok() || names.any(|own| own.eq_ignore_ascii_case(bare)))
    }
}

/// The address at which others reach a server: for one at all addresses of this host, the one that its
/// packets to other hosts have.
fn reachable(address: SocketAddr) -> SocketAddr {
    // Addresses of examples: connecting only looks for the route, and sends nothing.
    let route = |from: IpAddr, to: &str| -> io::Result<IpAddr> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(to)?;
        Ok(socket.local_addr()?.ip())
    };
    let four = || route(Ipv4Addr::UNSPECIFIED.into(), "192.0.2.1:9");
    let six = || route(Ipv6Addr::UNSPECIFIED.into(), "[2001:db8::1]:9");
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => four().unwrap_or(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => six().or_else(|_| four()).unwrap_or(Ipv6Addr::LOCALHOST.into()),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(address: &str) -> Gate {
        Gate::new(address.parse().unwrap(), Vec::new()).unwrap()
    }

    fn asked<'a>(path: &'a str, host: &'a str) -> HttpRequest<'a> {
        HttpRequest { path, query: "", host: Some(host), origin: None }
    }

    #[test]
    fn only_the_printed_url_is_admitted() {
        let gate = gate("127.0.0.1:8080");
        let other = super::tests::gate("127.0.0.1:8080");
        assert_ne!(gate.token, other.token);
        let url = gate.url();
        let (host, path) = url.strip_prefix("http://").unwrap().split_at("127.0.0.1:8080".len());
        assert_eq!(path.len(), 1 + 32 + 1);
        assert_eq!(gate.admit(&asked(path, host)).ok(), Some(""));
        let deep = format!("{path}record/1/");
        assert_eq!(gate.admit(&asked(&deep, host)).ok(), Some("record/1/"));
        let cut = &path[..path.len() - 2];
        let others = format!("/{}/", other.token);
        for wrong in ["/", "", "//", cut, &others, &format!("/x{path}")] {
            assert!(gate.admit(&asked(wrong, host)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_leads_here_is_not_the_host() {
        let mut gate = gate("127.0.0.1:8080");
        let path = format!("/{}/", gate.token);
        let own = [
            "127.0.0.1:8080",
            "localhost:8080",
            "127.0.0.1",
            "localhost",
            "LOCALHOST:9999",
            "[::1]:80",
            "[fe80::1]",
            "10.0.0.1:9999",
        ];
        for own in own {
            assert!(gate.admit(&asked(&path, own)).is_ok(), "{own}");
        }
        let others = [
            "",
            ":8080",
            "evil.example:8080",
            "evil.example",
            "localhost.evil.example:8080",
            "db1:8080",
            "127.0.0.1:8080:8080",
            "localhost:x",
            "[::1]x",
            "[evil]:80",
            "127.0.0.1.evil.example",
        ];
        for other in others {
            assert!(gate.admit(&asked(&path, other)).is_err(), "{other}");
        }
        let request = HttpRequest { host: None, ..asked(&path, "") };
        assert!(gate.admit(&request).is_err(), "no host");
        gate.names = vec!["db1".to_owned()];
        assert!(gate.is_admitted("db1:9999") && gate.is_admitted("DB1"));
        assert!(!gate.is_admitted("db1.evil.example") && !gate.is_admitted("db2:9999"));
    }

    #[test]
    fn the_url_leads_to_a_server_at_all_addresses() {
        let host = |gate: &Gate| gate.url().split('/').nth(2).map(str::to_owned).unwrap();
        assert_eq!(host(&gate("127.0.0.1:8080")), "127.0.0.1:8080");
        for wide in ["0.0.0.0:8080", "[::]:8080"] {
            let gate = gate(wide);
            let shown: SocketAddr = host(&gate).parse().unwrap();
            assert!(!shown.ip().is_unspecified() && shown.port() == 8080, "{shown}");
            assert!(gate.is_admitted(&host(&gate)));
        }
        let named = Gate { names: vec!["db1".to_owned()], ..gate("0.0.0.0:8080") };
        assert_eq!(host(&named), "db1:8080");
    }

    #[test]
    fn a_page_of_another_server_is_refused() {
        let gate = gate("127.0.0.1:8080");
        let path = format!("/{}/", gate.token);
        let from = |origin| HttpRequest { origin: Some(origin), ..asked(&path, "127.0.0.1:8080") };
        assert!(gate.admit(&from("http://127.0.0.1:8080")).is_ok());
        for other in ["null", "http://evil.example", "https://127.0.0.1:8080", ""] {
            assert!(gate.admit(&from(other)).is_err(), "{other}");
        }
    }
}
