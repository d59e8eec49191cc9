//! Options of libpq's that petal does not have. They are refused by name, so that nobody believes them
//! to be in force. A value that is libpq's own default asks for nothing, and passes.

use super::address::Environment;
use crate::engine::{EngineError, url_option};

/// Options, variables, values that ask for nothing. Without Kerberos `prefer` is `disable`.
const LEFT: [(&str, &str, &[&str]); 16] = [
    ("gssencmode", "PGGSSENCMODE", &["disable", "prefer"]),
    ("gssdelegation", "PGGSSDELEGATION", &["0"]),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", &["disable"]),
    ("max_protocol_version", "PGMAXPROTOCOLVERSION", &["3.0", "latest"]),
    ("min_protocol_version", "PGMINPROTOCOLVERSION", &["3.0"]),
    ("require_auth", "PGREQUIREAUTH", &[]),
    ("requirepeer", "PGREQUIREPEER", &[]),
    ("requiressl", "PGREQUIRESSL", &["0"]),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", &["TLSv1.3"]),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", &["TLSv1", "TLSv1.1", "TLSv1.2"]),
    ("sslcertmode", "PGSSLCERTMODE", &["allow"]),
    ("sslcompression", "PGSSLCOMPRESSION", &["0"]),
    ("sslcrl", "PGSSLCRL", &[]),
    ("sslcrldir", "PGSSLCRLDIR", &[]),
    ("sslnegotiation", "PGSSLNEGOTIATION", &["postgres"]),
    ("sslsni", "PGSSLSNI", &["1"]),
];

/// Refuses an option: names its value, the rule and what to do.
pub fn refused(key: &str, value: &str, rule: &str, hint: &str) -> EngineError {
    url_option::refused("postgres", key, value, rule, hint)
}

/// Whether an option of libpq's asks for nothing but its default.
pub fn is_default(option: &str, value: &str) -> bool {
    LEFT.iter().any(|(left, _, defaults)| *left == option && defaults.contains(&value))
}

/// Refuses an entry of a service file that asks for what petal does not do.
pub fn check_entry(option: &str, value: &str) -> Result<(), EngineError> {
    match LEFT.iter().any(|(left, ..)| *left == option) && !is_default(option, value) {
        false => Ok(()),
        true => Err(EngineError::Setting(format!(
            "{option}={value} in the service file: petal has no {option}, and does not connect as if \
             it had; take it out, or name the server by a URL"
        ))),
    }
}

/// Refuses the first variable that asks for what petal does not do.
pub fn check_environment(environment: Environment<'_>) -> Result<(), EngineError> {
    for (option, variable, defaults) in LEFT {
        let Some(value) = environment(variable) else { continue };
        if !defaults.contains(&value.as_str()) {
            return Err(EngineError::Setting(format!(
                "{variable}={value}: petal has no {option}, and does not connect as if it had; \
                 unset {variable} for this call (env -u {variable} petal ...)"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_petal_does_not_heed_is_refused_by_name() {
        let refusal = |name: &str, value: &str| {
            let environment = |asked: &str| (asked == name).then(|| value.to_owned());
            check_environment(&environment).map_err(|error| error.to_string())
        };
        insta::assert_snapshot!(refusal("PGSSLCRL", "/etc/revoked.pem").unwrap_err(), @"PGSSLCRL=/etc/revoked.pem: petal has no sslcrl, and does not connect as if it had; unset PGSSLCRL for this call (env -u PGSSLCRL petal ...)");
        assert!(refusal("PGREQUIREAUTH", "scram-sha-256").is_err());
        assert!(refusal("PGGSSENCMODE", "require").is_err());
        assert!(refusal("PGGSSENCMODE", "disable").is_ok());
        assert!(refusal("PGTZ", "UTC").is_ok());
        assert!(check_entry("keepalives", "0").is_ok() && check_entry("sslcrl", "/x").is_err());
        assert!(is_default("gssencmode", "prefer") && !is_default("gssencmode", "require"));
    }
}
