//! Settings of the whole server, changed by ALTER SYSTEM: its place is postgresql.auto.conf, which
//! wins over all other files.

use super::answer::Columns as _;
use super::client::Client;
use super::connect::server_version;
use super::permitted_settings::PERMITTED;
use super::plan::{PRIVILEGED, session_settings};
use super::{Postgres, check_version};
use petal_engine::server_settings::{
    Applies, ChangeableSettings, PermittedSetting, ServerSetting, SettingValues, SettingsLock,
    settings_locked,
};
use petal_engine::{EngineError, Result};
use petal_host::files;
use petal_host::os::meminfo_bytes;

const READING: &str = "reading a setting of the server";

const LOCKING: &str = "locking the server's settings";
const LOCK: &str =
    "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('petal server settings'))";

/// Other holders of the lock. Each database has a separate lock, and one view shows all.
const HOLDERS: &str = "\
SELECT 'another petal (server process ' || l.pid || \
       coalesce(', from ' || pg_catalog.host(a.client_addr), '') || ')' \
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid \
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
  AND l.pid <> pg_catalog.pg_backend_pid() \
  AND (l.classid::bigint << 32 | l.objid::bigint) = \
      pg_catalog.hashtext('petal server settings')::bigint";

/// Memory of the server's host, for a role that may read files there.
const MEMORY: &str = "SELECT pg_catalog.pg_read_file('/proc/meminfo', 0, 4096)";

const SETTING: &str = "\
SELECT name, setting, unit, vartype, enumvals, min_val, max_val, context, pending_restart \
FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) = pg_catalog.lower($1)";

/// Settings in MB; the server does not start with fewer than two segments of its log.
const TWO_SEGMENTS: [&str; 2] = ["min_wal_size", "max_wal_size"];
const SEGMENTS: &str = "SELECT 2 * setting::pg_catalog.float8 / 1048576 \
                        FROM pg_catalog.pg_settings WHERE name = 'wal_segment_size'";

const STORED: &str = "\
SELECT setting FROM pg_catalog.pg_file_settings \
WHERE pg_catalog.lower(name) = pg_catalog.lower($1) \
AND sourcefile LIKE '%/postgresql.auto.conf' ORDER BY seqno DESC LIMIT 1";

/// Whether the role may read the entries and have the server read its files again.
const MAY_RELOAD: &str = "\
SELECT pg_catalog.has_table_privilege('pg_catalog.pg_file_settings', 'SELECT') \
AND pg_catalog.has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE') \
AND pg_catalog.has_function_privilege('pg_catalog.pg_reload_conf()', 'EXECUTE')";

const IS_SUPERUSER: &str = "SELECT pg_catalog.current_setting('is_superuser') = 'on'";

/// Question that servers from 15 on answer.
const MAY_ALTER: &str =
    "SELECT pg_catalog.has_parameter_privilege($1::pg_catalog.text, 'ALTER SYSTEM')";

impl ChangeableSettings for Postgres {
    fn server_identity(&self) -> Result<String> {
        let sql = "SELECT system_identifier FROM pg_catalog.pg_control_system()";
        let id: i64 = self.look()?.ask_value("asking for its system identifier", sql, &[])?;
        Ok(format!("system identifier {}", id.cast_unsigned()))
    }

    fn place(&self) -> &'static str {
        "postgresql.auto.conf in its data directory"
    }

    fn lock_settings(&self) -> Result<Box<dyn SettingsLock>> {
        let mut client = self.first()?.connect_to_look("petal settings")?;
        let is_locked: bool = client.ask_value(LOCKING, LOCK, &[])?;
        let holders = client.ask(LOCKING, HOLDERS, &[])?;
        match holders.first() {
            Some(holder) => Err(settings_locked(&client.server, &holder.read::<String>(0)?)),
            None if !is_locked => Err(settings_locked(&client.server, "another petal")),
            None => Ok(Box::new(LockedSettings(client))),
        }
    }

    fn read_setting(&self, name: &str) -> Result<ServerSetting> {
        let mut client = self.look()?;
        let refuse = |why: &str| Err(EngineError::Setting(format!("{name}: {why}")));
        let rows = client.ask(READING, SETTING, &[&name])?;
        let Some(row) = rows.first() else {
            return refuse("the server has no such setting; SHOW ALL lists them");
        };
        let own: String = row.read(0)?;
        let context: String = row.read(7)?;
        let of_session = session_settings(0).into_iter().map(|(name, _)| name);
        if of_session.chain(PRIVILEGED.map(|(name, _)| name)).any(|name| name == own) {
            return refuse(
                "petal sets it in each session, so that the server's value has no effect; leave it out",
            );
        }
        let permitted = PermittedSetting::find(PERMITTED, &own)?;
        check_role(&mut client, &own)?;
        let stored = client.ask(READING, STORED, &[&own])?;
        let mut values = permitted.permit(values(row)?)?;
        if let (SettingValues::Number { min, .. }, true) =
            (&mut values, TWO_SEGMENTS.contains(&&*own))
        {
            *min = client.ask_value::<f64>(READING, SEGMENTS, &[])?.max(*min);
        }
        Ok(ServerSetting {
            in_effect: row.read(1)?,
            stored: stored.first().map(|row| row.read(0)).transpose()?,
            applies: if context == "postmaster" { Applies::AfterRestart } else { Applies::AtOnce },
            is_pending: row.read(8)?,
            memory: permitted
                .is_memory
                .then(|| self.memory(&mut client, &values).unwrap_or(f64::INFINITY)),
            values,
            name: own,
        })
    }

    fn store_setting(&self, setting: &ServerSetting, value: Option<&str>) -> Result<()> {
        let mut client = self.look()?;
        // A name of petal's own list.
        let name = &setting.name;
        let doing = format!("changing {name}");
        let sql = match value {
            Some(value) => {
                let sql = "SELECT pg_catalog.quote_literal($1::pg_catalog.text)";
                let value: String = client.ask_value(&doing, sql, &[&value])?;
                format!("ALTER SYSTEM SET {name} = {value}")
            }
            None => format!("ALTER SYSTEM RESET {name}"),
        };
        client.run(&doing, &sql)?;
        client.run(&doing, "SELECT pg_catalog.pg_reload_conf()")
    }
}

/// The connection that has the lock.
struct LockedSettings(Client);

impl SettingsLock for LockedSettings {
    fn is_held(&mut self) -> bool {
        self.0.ask_value::<i32>(LOCKING, "SELECT 1", &[]).is_ok()
    }
}

impl Postgres {
    /// Connects for short questions that no signal ends: settings are also put back after one.
    fn look(&self) -> Result<Client> {
        let mut client = self.first()?.connect_to_look("petal")?;
        check_version(&mut client)?;
        Ok(client)
    }

    /// The memory of the server's host in units of a setting, as the server or this host says.
    fn memory(&self, client: &mut Client, values: &SettingValues) -> Option<f64> {
        let SettingValues::Number { units, .. } = values else { return None };
        let (_, byte) = units.iter().find(|(name, _)| *name == "B")?;
        let by_server = client.ask_if_allowed::<String>(READING, MEMORY, &[]).ok().flatten();
        let is_here = self.first().is_ok_and(|server| server.is_on_this_host());
        let by_host = || is_here.then(|| files::system_text("/proc/meminfo").ok()).flatten();
        Some(meminfo_bytes(&by_server.or_else(by_host)?, "MemTotal")? as f64 * byte)
    }
}

fn check_role(client: &mut Client, name: &str) -> Result<()> {
    if client.ask_value::<bool>(READING, IS_SUPERUSER, &[])? {
        return Ok(());
    }
    let may_grant = server_version(client)? >= 150_000;
    if may_grant
        && client.ask_value::<bool>(READING, MAY_ALTER, &[&name])?
        && client.ask_value::<bool>(READING, MAY_RELOAD, &[])?
    {
        return Ok(());
    }
    let grants = match may_grant {
        true => format!(
            ", or run as a superuser: GRANT ALTER SYSTEM ON PARAMETER {name}; GRANT SELECT ON \
             pg_file_settings; GRANT EXECUTE ON FUNCTION pg_show_all_file_settings(), \
             pg_reload_conf()"
        ),
        false => String::new(),
    };
    Err(EngineError::Environment(format!(
        "{}: {name}: the role may not change it; use a superuser{grants}",
        client.server
    )))
}

fn values(row: &tokio_postgres::Row) -> Result<SettingValues> {
    let (unit, kind): (Option<String>, String) = (row.read(2)?, row.read(3)?);
    let words: Option<Vec<String>> = row.read(4)?;
    let bound = |column: usize, default: f64| -> Result<f64> {
        let text: Option<String> = row.read(column)?;
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(default))
    };
    Ok(match kind.as_str() {
        "bool" => SettingValues::Switch,
        "enum" => SettingValues::Words(words.unwrap_or_default()),
        "integer" | "real" => SettingValues::Number {
            units: units(unit.as_deref().unwrap_or_default()),
            is_whole: kind == "integer",
            min: bound(5, f64::MIN)?,
            max: bound(6, f64::MAX)?,
        },
        _ => SettingValues::Text,
    })
}

/// The units that a value may be given in, each in units of the setting, such as `8kB` or `ms`.
fn units(of_setting: &str) -> Vec<(&'static str, f64)> {
    const MEMORY: [(&str, f64); 5] = [
        ("B", 1.0),
        ("kB", 1024.0),
        ("MB", 1_048_576.0),
        ("GB", 1_073_741_824.0),
        ("TB", 1_099_511_627_776.0),
    ];
    const TIME: [(&str, f64); 6] =
        [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("min", 60e6), ("h", 3600e6), ("d", 86_400e6)];
    let digits = of_setting.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (count, unit) = (digits.parse().unwrap_or(1.0), &of_setting[digits.len()..]);
    let table = |units: &[(&'static str, f64)]| -> Option<Vec<(&'static str, f64)>> {
        let base = units.iter().find(|(name, _)| *name == unit)?.1 * count;
        Some(units.iter().map(|(name, size)| (*name, size / base)).collect())
    };
    table(&MEMORY).or_else(|| table(&TIME)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_setting() {
        let size = |of: &str, unit: &str| units(of).into_iter().find(|u| u.0 == unit).map(|u| u.1);
        assert_eq!(size("8kB", "GB"), Some(131_072.0));
        assert_eq!(size("MB", "GB"), Some(1024.0));
        assert_eq!(size("min", "h"), Some(60.0));
        assert_eq!(size("ms", "s"), Some(1000.0));
        assert_eq!((size("s", "GB"), size("", "MB")), (None, None));
    }
}
