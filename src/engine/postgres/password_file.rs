//! libpq's password file (`~/.pgpass` or PGPASSFILE): a line `host:port:database:user:password`,
//! where `*` matches all and a backslash takes the next sign as it is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::address::Address;

/// A line for people if others may read it; libpq then leaves it alone, and so does petal.
pub fn open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        format!(
            "{}: the password file is open to others and not used; chmod 600 it",
            path.display()
        )
    })
}

/// The password of the first line that matches.
pub fn find(text: &str, address: &Address, user: &str, database: &str) -> Option<String> {
    let port = address.port.to_string();
    let wanted = [address.host.as_str(), port.as_str(), database, user];
    let matches_host = |key: &str| {
        // A socket goes by its folder, or as this host.
        key == address.host || address.is_socket() && key == "localhost"
    };
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, keys) = fields.split_last()?;
        let matches = keys.len() == wanted.len()
            && keys.iter().zip(wanted).enumerate().all(|(at, (key, wanted))| {
                key == "*" || key == wanted || at == 0 && matches_host(key)
            });
        matches.then(|| password.clone())
    })
}

/// The first four colons part fields; what follows is the password.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        let is_password = fields.len() == 5;
        let sign = match sign {
            ':' if !is_password => {
                fields.push(String::new());
                continue;
            }
            '\\' => signs.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(field) = fields.last_mut() {
            field.push(sign);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str) -> Address {
        Address { host: host.to_owned(), port: 5432, ip: None }
    }

    #[test]
    fn the_first_matching_line_counts() {
        let text = "# a comment:*:*:*:no\n\
                    h1:5433:*:*:wrong port\n\
                    h1:5432:d:u:pa:ss\\\\w\\:ord\n\
                    h1:*:*:*:second\n\
                    localhost:*:*:*:socket\n\
                    too:few:fields\n";
        let find = |host| super::find(text, &address(host), "u", "d");
        assert_eq!(find("h1").as_deref(), Some("pa:ss\\w:ord"));
        assert_eq!(super::find(text, &address("h1"), "other", "d").as_deref(), Some("second"));
        assert_eq!(find("/var/run/postgresql").as_deref(), Some("socket"));
        assert_eq!(find("h2"), None);
        let folder = "/tmp/other:5432:d:u:folder\n/run/pg:5432:d:u:its own\nlocalhost:*:*:*:any\n";
        assert_eq!(super::find(folder, &address("/run/pg"), "u", "d").as_deref(), Some("its own"));
        assert_eq!(super::find(folder, &address("/run"), "u", "d").as_deref(), Some("any"));
    }

    #[test]
    fn a_file_open_to_others_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(open_to_others(&path).unwrap().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(open_to_others(&path), None);
    }
}
