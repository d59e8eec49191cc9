//! The strength of logins: a later login of a run never gives the password away more easily than the
//! first one did.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use petal_settings::Settings;

/// The protection of a connection, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    Plain,
    /// TLS with any certificate.
    Encrypted,
    /// TLS with a certificate of a trusted authority.
    Verified,
}

/// A method of authentication, the weakest for the user first. A server that asks for nothing gets
/// nothing, and proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoginMethod {
    /// The password in clear text.
    Password,
    Md5,
    None,
    Scram,
    /// SCRAM that is bound to the TLS connection.
    BoundScram,
}

impl fmt::Display for LoginMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password => "password in clear text",
            Self::Md5 => "md5",
            Self::None => "no question",
            Self::Scram => "scram-sha-256",
            Self::BoundScram => "scram-sha-256 with channel binding",
        })
    }
}

/// A login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginStrength {
    pub protection: Protection,
    /// `None` if the driver hides it.
    pub method: Option<LoginMethod>,
}

/// First logins of this process at the servers of a URL. They outlive an engine: a later one, as after
/// a restart of the server, may meet somebody else in its place.
pub struct FirstLogins {
    url: String,
    /// Sessions that follow the data meet another server first in an outage: all have one login.
    is_shared: bool,
}

impl FirstLogins {
    pub fn new(settings: &Settings) -> Self {
        Self { url: settings.db.redacted(), is_shared: settings.reconnect.is_some() }
    }

    /// The first login at one of the servers.
    pub fn at(&self, server: &str) -> KnownLogin {
        static ALL: Mutex<BTreeMap<(String, String), KnownLogin>> = Mutex::new(BTreeMap::new());
        let server = if self.is_shared { "" } else { server };
        ALL.lock().entry((self.url.clone(), server.to_owned())).or_default().clone()
    }
}

/// The first login at a server, which all its connections share.
#[derive(Debug, Clone, Default)]
pub struct KnownLogin(Arc<Mutex<Option<LoginStrength>>>);

impl KnownLogin {
    /// Keeps the first login.
    pub fn keep(&self, login: LoginStrength) {
        self.0.lock().get_or_insert(login);
    }

    /// Refuses a login that is weaker than the first.
    pub fn check(&self, now: LoginStrength) -> Result<(), String> {
        let Some(first) = *self.0.lock() else { return Ok(()) };
        if now.protection < first.protection {
            let words = |protection| match protection {
                Protection::Plain => "no TLS",
                Protection::Encrypted => "TLS",
                Protection::Verified => "TLS with a verified certificate",
            };
            return Err(format!(
                "it offers {}, and the first login had {}",
                words(now.protection),
                words(first.protection)
            ));
        }
        match (now.method, first.method) {
            (Some(now), Some(first)) if now < first => {
                Err(format!("it lets in by {now}, and the first login was by {first}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_login_is_as_strong_as_the_first_or_refused_in_words() {
        use LoginMethod::{BoundScram, Md5, None, Password, Scram};
        let login = |method| LoginStrength { protection: Protection::Plain, method: Some(method) };
        let refuses = |first, now: LoginMethod| {
            let known = KnownLogin::default();
            known.keep(login(first));
            known.keep(login(now));
            known.check(login(now)).is_err()
        };
        let all = [Password, Md5, None, Scram, BoundScram];
        for (at, first) in all.into_iter().enumerate() {
            let refused: Vec<_> = all.into_iter().filter(|&now| refuses(first, now)).collect();
            assert_eq!(refused, all[..at], "{first}");
        }
        let known = KnownLogin::default();
        assert!(known.check(login(Password)).is_ok(), "nothing is known before the first");
        known.keep(LoginStrength { protection: Protection::Encrypted, method: Some(Scram) });
        insta::assert_snapshot!(known.check(login(Scram)).unwrap_err(), @"it offers no TLS, and the first login had TLS");
        let clear = LoginStrength { protection: Protection::Verified, method: Some(Password) };
        insta::assert_snapshot!(known.check(clear).unwrap_err(), @"it lets in by password in clear text, and the first login was by scram-sha-256");
    }
}
