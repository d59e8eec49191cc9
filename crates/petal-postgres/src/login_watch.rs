//! The log-on: petal reads the server's requests before the driver answers them. One that petal
//! refuses ends the connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use petal_engine::server::login::{KnownLogin, LoginMethod, LoginStrength, Protection};
use petal_engine::server::peer::{self, PeerRule, SocketPeer};

/// Requests for authentication by their numbers in the protocol.
const LET_IN: i32 = 0;
const CLEAR_TEXT: i32 = 3;
const MD5: i32 = 5;
const SASL: i32 = 10;
const BOUND_MECHANISM: &[u8] = b"SCRAM-SHA-256-PLUS\0";

/// Rules for all logins at one server.
#[derive(Clone, Default)]
pub struct LoginRules {
    pub peer: PeerRule,
    pub required: RequiredAuth,
    pub known: KnownLogin,
    /// petal has a password.
    pub gives_password: bool,
    /// The certificate of a server with TLS is verified.
    pub is_verified: bool,
    /// SCRAM may be bound to TLS.
    pub binds: bool,
}

/// libpq's `require_auth`: allowed methods of authentication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequiredAuth {
    names: Vec<String>,
    /// The methods are those that a server may not use.
    is_excluded: bool,
}

impl RequiredAuth {
    const KNOWN: [&str; 6] = ["password", "md5", "gss", "sspi", "scram-sha-256", "none"];

    /// Reads a list; the error is the name that is wrong.
    pub fn parse(list: &str) -> Result<Self, String> {
        let names = list.split(',').map(str::trim).filter(|_| !list.is_empty());
        let is_excluded = list.trim_start().starts_with('!');
        let own = |name: &str| {
            let own = if is_excluded { name.strip_prefix('!') } else { Some(name) };
            let own = own.filter(|own| Self::KNOWN.contains(own));
            own.map(str::to_owned).ok_or_else(|| name.to_owned())
        };
        Ok(Self { names: names.map(own).collect::<Result<_, _>>()?, is_excluded })
    }

    fn allows(&self, method: LoginMethod) -> bool {
        let name = match method {
            LoginMethod::Password => "password",
            LoginMethod::Md5 => "md5",
            LoginMethod::None => "none",
            LoginMethod::Scram | LoginMethod::BoundScram => "scram-sha-256",
        };
        self.names.is_empty() || self.names.iter().any(|own| own == name) != self.is_excluded
    }
}

impl fmt::Display for RequiredAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_excluded { "!" } else { "" };
        let names: Vec<String> = self.names.iter().map(|name| format!("{sign}{name}")).collect();
        f.write_str(&names.join(","))
    }
}

/// The other end of a connection, as far as it is known when it opens.
#[derive(Clone, Copy)]
pub enum OtherEnd {
    Known(SocketPeer),
    Tcp { local: SocketAddr, remote: SocketAddr },
}

/// Why petal does not go on with a server that answers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoginRefusal(pub String);

/// The login on one connection.
pub struct LoginWatch {
    rules: LoginRules,
    end: OtherEnd,
    protection: Protection,
    /// The method that the server has asked for.
    method: LoginMethod,
    /// The server let petal in, and asks for nothing more.
    pub is_over: bool,
}

impl LoginWatch {
    pub fn new(rules: LoginRules, end: OtherEnd, has_tls: bool) -> Self {
        let protection = match (has_tls, rules.is_verified) {
            (false, _) => Protection::Plain,
            (true, false) => Protection::Encrypted,
            (true, true) => Protection::Verified,
        };
        Self { rules, end, protection, method: LoginMethod::None, is_over: false }
    }

    /// Reads the server's request, or its consent. Refuses one that the rules forbid.
    pub fn hear(&mut self, body: &[u8]) -> io::Result<()> {
        let Some((number, rest)) = body.split_first_chunk() else { return Ok(()) };
        match i32::from_be_bytes(*number) {
            LET_IN => self.is_over = true,
            CLEAR_TEXT => self.method = LoginMethod::Password,
            MD5 => self.method = LoginMethod::Md5,
            SASL => self.method = self.mechanism(rest),
            // Later steps of one of these, or requests that the driver refuses.
            _ => return Ok(()),
        }
        let login = LoginStrength { protection: self.protection, method: Some(self.method) };
        self.check_peer()?;
        self.rules.known.check(login).map_err(refusal)?;
        if !self.rules.required.allows(self.method) {
            let (method, required) = (self.method, &self.rules.required);
            return Err(refusal(format!("it lets in by {method}, and require_auth={required}")));
        }
        if self.is_over {
            self.rules.known.keep(login);
        }
        Ok(())
    }

    fn mechanism(&self, mechanisms: &[u8]) -> LoginMethod {
        let is_offered =
            mechanisms.windows(BOUND_MECHANISM.len()).any(|window| window == BOUND_MECHANISM);
        match is_offered && self.rules.binds && self.protection > Protection::Plain {
            true => LoginMethod::BoundScram,
            false => LoginMethod::Scram,
        }
    }

    /// Refuses the user at the other end before the password goes there.
    fn check_peer(&self) -> io::Result<()> {
        let is_asked = self.method != LoginMethod::None && self.rules.gives_password;
        let is_needed = is_asked && self.protection < Protection::Verified;
        if !is_needed && self.rules.peer.required().is_none() {
            return Ok(());
        }
        let gone = io::ErrorKind::ConnectionReset;
        let peer = match self.end {
            OtherEnd::Known(peer) => peer,
            OtherEnd::Tcp { local, remote } => match peer::look(local, remote, true) {
                Ok(peer) => peer.ok_or(gone)?,
                // One that has left is no stranger.
                Err(error) if error.kind() == gone => return Err(error),
                Err(error) => {
                    return Err(refusal(format!("petal cannot see which user answers: {error}")));
                }
            },
        };
        self.rules.peer.check(peer).map_err(refusal)
    }
}

fn refusal(why: String) -> io::Error {
    io::Error::other(LoginRefusal(why))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const STRANGER: OtherEnd = OtherEnd::Known(SocketPeer::User(4_000_000_000));
    const FRIEND: OtherEnd = OtherEnd::Known(SocketPeer::User(0));

    fn request(number: i32, more: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes(), more].concat()
    }

    fn with_password() -> LoginRules {
        LoginRules { gives_password: true, binds: true, ..LoginRules::default() }
    }

    #[test]
    fn a_peer_that_has_left_is_a_lost_connection_and_no_stranger() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        drop(listener.accept().unwrap());
        let mut watch = LoginWatch::new(with_password(), OtherEnd::Tcp { local, remote }, false);
        let error = watch.hear(&request(CLEAR_TEXT, b"")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }

    /// The refusal of a login by these requests.
    fn refused(
        rules: &LoginRules,
        end: OtherEnd,
        tls: bool,
        requests: &[Vec<u8>],
    ) -> Option<String> {
        let mut watch = LoginWatch::new(rules.clone(), end, tls);
        requests.iter().find_map(|request| watch.hear(request).err()).map(|why| why.to_string())
    }

    #[test]
    fn only_a_trusted_user_of_this_host_gets_the_password() {
        let ask = [request(CLEAR_TEXT, b"")];
        let rules = with_password();
        assert!(refused(&rules, STRANGER, false, &ask).unwrap().contains("user 4000000000"));
        assert!(refused(&rules, STRANGER, true, &ask).is_some(), "any certificate will do");
        assert_eq!(refused(&rules, FRIEND, false, &ask), None);
        assert_eq!(refused(&rules, OtherEnd::Known(SocketPeer::Elsewhere), false, &ask), None);
        let verified = LoginRules { is_verified: true, ..with_password() };
        assert_eq!(refused(&verified, STRANGER, true, &ask), None);
        assert!(refused(&verified, STRANGER, false, &ask).is_some(), "without TLS");
        // Nothing to give: only a user that the caller named is looked for.
        assert_eq!(refused(&LoginRules::default(), STRANGER, false, &[request(LET_IN, b"")]), None);
        let peer = PeerRule::new(Some("root")).unwrap();
        let named = LoginRules { peer, ..LoginRules::default() };
        assert!(refused(&named, STRANGER, false, &[request(LET_IN, b"")]).is_some());
        let unseen = OtherEnd::Tcp {
            local: SocketAddr::from(([127, 0, 0, 1], 1)),
            remote: SocketAddr::from(([127, 0, 0, 1], 2)),
        };
        assert!(refused(&rules, unseen, false, &ask).unwrap().contains("cannot see"));
    }

    #[test]
    fn a_later_login_is_not_by_a_weaker_method_or_with_less_tls() {
        let rules = with_password();
        let scram = request(SASL, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let let_in = request(LET_IN, b"");
        assert_eq!(refused(&rules, FRIEND, true, &[scram.clone(), let_in.clone()]), None);
        let plain = refused(&rules, FRIEND, false, std::slice::from_ref(&scram));
        assert!(plain.unwrap().contains("no TLS"));
        for weaker in [request(CLEAR_TEXT, b""), request(MD5, b"salt"), let_in] {
            let refused = refused(&rules, FRIEND, true, &[weaker]).unwrap();
            assert!(refused.contains("the first login was by scram-sha-256"), "{refused}");
        }
        let unbound = refused(&rules, FRIEND, true, &[request(SASL, b"SCRAM-SHA-256\0\0")]);
        assert!(unbound.unwrap().ends_with("with channel binding"));
    }

    #[test]
    fn require_auth_is_read_as_libpq_does() {
        let requests = [
            ("password", request(CLEAR_TEXT, b"")),
            ("md5", request(MD5, b"")),
            ("scram-sha-256", request(SASL, b"SCRAM-SHA-256\0\0")),
            ("none", request(LET_IN, b"")),
        ];
        let allowed = |list: &str| -> Vec<&str> {
            let required = RequiredAuth::parse(list).unwrap();
            assert_eq!(required.to_string(), list);
            let rules = || LoginRules { required: required.clone(), ..with_password() };
            let is_allowed =
                |request: &Vec<u8>| refused(&rules(), FRIEND, false, std::slice::from_ref(request));
            let allowed = requests.iter().filter(|(_, it)| is_allowed(it).is_none());
            allowed.map(|(name, _)| *name).collect()
        };
        assert_eq!(allowed(""), ["password", "md5", "scram-sha-256", "none"]);
        assert_eq!(allowed("scram-sha-256,gss"), ["scram-sha-256"]);
        assert_eq!(allowed("!password,!none"), ["md5", "scram-sha-256"]);
        for wrong in ["scram", "md5,!none", "!md5,none", ","] {
            assert!(RequiredAuth::parse(wrong).is_err(), "{wrong}");
        }
    }
}
