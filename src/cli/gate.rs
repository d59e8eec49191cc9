//! The guard before every page: who may ask for it.

use std::net::{IpAddr, SocketAddr};

use rand::TryRng as _;
use subtle::ConstantTimeEq as _;

use super::failure::{CommandError, Exit};
use super::http::{HttpAnswer, HttpRequest};

/// Admits requests to this server by this host's address, with the token in their path.
pub struct Gate {
    address: SocketAddr,
    token: String,
}

impl Gate {
    /// A gate with a new token of 128 random bits.
    pub fn new(address: SocketAddr) -> Result<Self, CommandError> {
        let mut drawn = [0; 16];
        rand::rngs::SysRng.try_fill_bytes(&mut drawn).map_err(|error| {
            CommandError::new(
                Exit::Environment,
                format!("a token cannot be drawn: {error}; the kernel has to give random bytes"),
            )
        })?;
        let token = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { address, token })
    }

    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
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
        if !self.is_own(host) {
            return Err(forbidden("open petal by the URL that it printed: it answers to no name"));
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

    /// True if a Host header names an address of this server, as no name of another server's does
    /// that was made to lead here (DNS rebinding).
    fn is_own(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let own = self.address.ip();
        let is_own = |named: IpAddr| own.is_unspecified() || named == own;
        port == self.address.port().to_string()
            && (name == "localhost" || bare.parse().is_ok_and(is_own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(address: &str) -> Gate {
        Gate::new(address.parse().unwrap()).unwrap()
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
        let gate = gate("127.0.0.1:8080");
        let path = format!("/{}/", gate.token);
        for own in ["127.0.0.1:8080", "localhost:8080"] {
            assert!(gate.admit(&asked(&path, own)).is_ok(), "{own}");
        }
        let others =
            ["", "127.0.0.1", "localhost", "localhost:80", "evil.example:8080", "10.0.0.1:8080"];
        for other in others {
            assert!(gate.admit(&asked(&path, other)).is_err(), "{other}");
        }
        let request = HttpRequest { host: None, ..asked(&path, "") };
        assert!(gate.admit(&request).is_err(), "no host");
        let (wide, six) = (super::tests::gate("0.0.0.0:8080"), super::tests::gate("[::1]:8080"));
        assert!(wide.is_own("10.0.0.1:8080") && !wide.is_own("db1:8080"));
        assert!(six.is_own("[::1]:8080") && !six.is_own("[::2]:8080"));
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
