//! Options of libpq's that petal does not have. They are refused by name, so that nobody believes them
//! to be in force. A value that is libpq's own default asks for nothing, and passes.

use super::address::Environment;
use crate::engine::EngineError;

/// An option, its variable, and the values that ask for nothing.
struct Left {
    option: &'static str,
    variable: &'static str,
    defaults: &'static [&'static str],
}

const fn left(
    option: &'static str,
    variable: &'static str,
    defaults: &'static [&'static str],
) -> Left {
    Left { option, variable, defaults }
}

/// Where there is no Kerberos, `prefer` is the same as `disable`.
const LEFT: [Left; 16] = [
    left("gssencmode", "PGGSSENCMODE", &["disable", "prefer"]),
    left("gssdelegation", "PGGSSDELEGATION", &["0"]),
    left("load_balance_hosts", "PGLOADBALANCEHOSTS", &["disable"]),
    left("max_protocol_version", "PGMAXPROTOCOLVERSION", &["3.0", "latest"]),
    left("min_protocol_version", "PGMINPROTOCOLVERSION", &["3.0"]),
    left("require_auth", "PGREQUIREAUTH", &[]),
    left("requirepeer", "PGREQUIREPEER", &[]),
    left("requiressl", "PGREQUIRESSL", &["0"]),
    left("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", &["TLSv1.3"]),
    left("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", &["TLSv1", "TLSv1.1", "TLSv1.2"]),
    left("sslcertmode", "PGSSLCERTMODE", &["allow"]),
    left("sslcompression", "PGSSLCOMPRESSION", &["0"]),
    left("sslcrl", "PGSSLCRL", &[]),
    left("sslcrldir", "PGSSLCRLDIR", &[]),
    left("sslnegotiation", "PGSSLNEGOTIATION", &["postgres"]),
    left("sslsni", "PGSSLSNI", &["1"]),
];

/// Refuses an option: names its value, the rule and what to do.
pub fn refused(key: &str, value: &str, rule: &str, hint: &str) -> EngineError {
    EngineError::Setting(format!("DB=postgres:...?{key}={value}: {key} {rule}; {hint}"))
}

/// Whether an option of libpq's asks for nothing but its default.
pub fn is_default(option: &str, value: &str) -> bool {
    LEFT.iter().any(|left| left.option == option && left.defaults.contains(&value))
}

/// Refuses an entry of a service file that asks for what petal does not do.
pub fn check_entry(option: &str, value: &str) -> Result<(), EngineError> {
    match LEFT.iter().any(|left| left.option == option) && !is_default(option, value) {
        false => Ok(()),
        true => Err(EngineError::Setting(format!(
            "{option}={value} in the service file: petal has no {option}, and does not connect as if \
             it had; take it out, or name the server by a URL"
        ))),
    }
}

/// Refuses the first variable that asks for what petal does not do.
pub fn check_environment(environment: Environment<'_>) -> Result<(), EngineError> {
    for left in &LEFT {
        let Left { option, variable, defaults } = left;
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
