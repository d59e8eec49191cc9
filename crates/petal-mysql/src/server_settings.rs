//! Settings of the whole server. A variable that the server changes while it runs is set by SET
//! GLOBAL, which a restart forgets. Any other is stored by MySQL's SET PERSIST_ONLY; MariaDB has no
//! such statement.

use super::Mysql;
use super::client::Client;
use super::permitted_settings::PERMITTED;
use petal_engine::server_settings::{
    Applies, ChangeableSettings, PermittedSetting, ServerSetting, SettingValues, SettingsLock,
    settings_locked,
};
use petal_engine::{EngineError, Result};
use petal_host::files;
use petal_host::os::meminfo_bytes;

const LOCKING: &str = "locking the server's settings";
/// Whether the lock is this connection's, and the connection that has it.
const LOCK: &str = "SELECT COALESCE(GET_LOCK('petal server settings', 0), 0) = 1, \
                    COALESCE(IS_USED_LOCK('petal server settings'), 0)";

const READING: &str = "reading a setting of the server";

/// "Variable is a read only variable".
const READ_ONLY: u16 = 1238;
const UNITS: [(&str, f64); 4] =
    [("K", 1024.0), ("M", 1_048_576.0), ("G", 1_073_741_824.0), ("T", 1_099_511_627_776.0)];

/// Name, value, kind, smallest and largest value of a variable, and the words of a list.
type VariableRow = (String, Option<String>, String, Option<String>, Option<String>, Option<String>);

impl ChangeableSettings for Mysql {
    fn server_identity(&self) -> Result<String> {
        identity(&mut self.first().connect_to_look()?)
    }

    fn place(&self) -> &'static str {
        "the server's global variables, or mysqld-auto.cnf in its data directory"
    }

    fn lock_settings(&self) -> Result<Box<dyn SettingsLock>> {
        let mut client = self.first().connect_to_look()?;
        match client.ask_row::<(bool, u64)>(LOCKING, LOCK)? {
            (true, _) => Ok(Box::new(LockedSettings(client))),
            (false, holder) => {
                let holder = format!("another petal (connection {holder})");
                Err(settings_locked(&client.server, &holder))
            }
        }
    }

    fn read_setting(&self, name: &str) -> Result<ServerSetting> {
        let refuse = |why: &str| Err(EngineError::Setting(format!("{name}: {why}")));
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return refuse("petal changes no variables with such a name");
        }
        let mut client = self.first().connect_to_look()?;
        let is_mariadb = is_mariadb(&mut client)?;
        let sql = match is_mariadb {
            true => format!(
                "SELECT LOWER(VARIABLE_NAME), GLOBAL_VALUE, VARIABLE_TYPE, NUMERIC_MIN_VALUE, \
                 NUMERIC_MAX_VALUE, ENUM_VALUE_LIST FROM information_schema.SYSTEM_VARIABLES \
                 WHERE VARIABLE_NAME = '{name}' AND VARIABLE_SCOPE <> 'SESSION ONLY'"
            ),
            false => format!(
                "SELECT VARIABLE_NAME, VARIABLE_VALUE, '', MIN_VALUE, MAX_VALUE, NULL \
                 FROM performance_schema.global_variables JOIN performance_schema.variables_info \
                 USING (VARIABLE_NAME) WHERE VARIABLE_NAME = '{name}'"
            ),
        };
        let Some(row) = client.ask::<VariableRow>(READING, &sql)?.into_iter().next() else {
            return refuse(
                "the server has no such global variable; SHOW GLOBAL VARIABLES lists them",
            );
        };
        let permitted = PermittedSetting::find(PERMITTED, name)?;
        let values = permitted.permit(values(&row))?;
        let in_effect = row.1.clone().unwrap_or_default();
        // Its own value: says whether it is read-only, and whether the user may change it.
        let applies = match client.run(&format!("SET GLOBAL {name} = @@GLOBAL.{name}")) {
            Ok(()) => Applies::UntilRestart,
            Err(error) if error.code() == Some(READ_ONLY) => Applies::AfterRestart,
            Err(error) => return Err(client.error(&format!("setting {name}"), &error)),
        };
        let stored = match applies {
            Applies::AfterRestart if is_mariadb => {
                return refuse(
                    "MariaDB changes it only by its option files; make a sweep for each value",
                );
            }
            Applies::AfterRestart => {
                let sql = format!(
                    "SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables \
                     WHERE VARIABLE_NAME = '{name}'"
                );
                client.ask::<String>(READING, &sql)?.into_iter().next()
            }
            _ => Some(in_effect.clone()),
        };
        let is_pending = stored.as_ref().is_some_and(|stored| !values.is_same(stored, &in_effect));
        let memory = permitted.is_memory.then(|| self.memory().unwrap_or(f64::INFINITY));
        Ok(ServerSetting { name: row.0, in_effect, stored, applies, is_pending, values, memory })
    }

    fn store_setting(&self, setting: &ServerSetting, value: Option<&str>) -> Result<()> {
        let name = &setting.name;
        let value = value.map(|value| literal(&setting.values, value)).transpose();
        let value = value.map_err(|why| EngineError::Setting(format!("{name}: {why}")))?;
        let sql = match (setting.applies, value) {
            (Applies::AfterRestart, Some(value)) => format!("SET PERSIST_ONLY {name} = {value}"),
            (_, Some(value)) => format!("SET GLOBAL {name} = {value}"),
            (_, None) => format!("RESET PERSIST IF EXISTS {name}"),
        };
        let mut client = self.first().connect_to_look()?;
        client.send(&format!("changing {name}"), &sql)
    }
}

impl Mysql {
    /// The memory of the server's host, if that is this one.
    fn memory(&self) -> Option<f64> {
        let is_here = self.first().address.is_on_this_host();
        let text = is_here.then(|| files::system_text("/proc/meminfo").ok()).flatten();
        meminfo_bytes(&text?, "MemTotal").map(|bytes| bytes as f64)
    }
}

/// A server's own identity, which its replicas do not have.
pub fn identity(client: &mut Client) -> Result<String> {
    let sql = match is_mariadb(client)? {
        true => "SELECT CONCAT_WS(':', @@hostname, @@port, @@datadir)",
        false => "SELECT @@server_uuid",
    };
    client.ask_row("asking for its identity", sql)
}

/// The connection that has the lock.
struct LockedSettings(Client);

impl SettingsLock for LockedSettings {
    fn is_held(&mut self) -> bool {
        self.0.ask_row::<u32>(LOCKING, "SELECT 1").is_ok()
    }
}

fn is_mariadb(client: &mut Client) -> Result<bool> {
    let version: String = client.ask_row("asking for its version", "SELECT VERSION()")?;
    Ok(version.contains("MariaDB"))
}

fn values((_, value, kind, min, max, words): &VariableRow) -> SettingValues {
    let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<f64>().ok());
    let is_switch = matches!(value.as_deref(), Some("ON" | "OFF"));
    match (words, number(min), number(max)) {
        _ if kind == "BOOLEAN" || (kind.is_empty() && is_switch) => SettingValues::Switch,
        (Some(words), ..) if kind == "ENUM" => {
            SettingValues::Words(words.split(',').map(str::to_owned).collect())
        }
        (_, Some(min), Some(max)) if max > 0.0 => {
            let is_whole = kind != "DOUBLE" && value.as_ref().is_none_or(|v| !v.contains('.'));
            SettingValues::Number { units: UNITS.to_vec(), is_whole, min, max }
        }
        _ => SettingValues::Text,
    }
}

/// A value as SQL. Numbers have no quotes, and no units.
fn literal(values: &SettingValues, text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    match values {
        SettingValues::Number { .. } if is_plain => Ok(text.to_owned()),
        SettingValues::Number { .. } | SettingValues::Switch => values.normal(text),
        _ if text.contains(['\'', '"', '\\']) || text.contains(char::is_control) => {
            Err("petal writes no value with quotes, backslashes or control characters".to_owned())
        }
        _ => Ok(format!("'{text}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_so_that_no_statement_comes_of_them() {
        let row = |kind: &str, value: &str, max: Option<&str>, words: Option<&str>| {
            let own = |text: &str| text.to_owned();
            let min = max.map(|_| own("0"));
            values(&(own("a"), Some(own(value)), own(kind), min, max.map(own), words.map(own)))
        };
        let size = row("BIGINT UNSIGNED", "134217728", Some("18446744073709551615"), None);
        assert_eq!(literal(&size, "1G"), Ok("1073741824".to_owned()));
        assert_eq!(literal(&size, "18446744073709551615"), Ok("18446744073709551615".to_owned()));
        assert!(literal(&size, "1; DROP").is_err() && literal(&size, "").is_err());
        let switch = row("", "ON", Some("0"), None);
        assert_eq!(literal(&switch, "OFF"), Ok("off".to_owned()));
        let method = row("ENUM", "fsync", None, Some("fsync,O_DIRECT"));
        assert!(method.is_same("o_direct", "O_DIRECT"));
        let text = row("VARCHAR", "x", Some("0"), None);
        assert_eq!(literal(&text, "a b"), Ok("'a b'".to_owned()));
        for wrong in ["it's", "a\\", "a\n", "\""] {
            assert!(literal(&text, wrong).is_err(), "{wrong}");
        }
    }
}
