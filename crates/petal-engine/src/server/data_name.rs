//! The name of petal's data in a server: the beginning of the names of its schemas and tables. A process
//! that only proves a server uses separate data, next to those of runs.

use std::borrow::Cow;

use parking_lot::RwLock;

const PETAL: &str = "petal";
/// Name of the data of `petal prove`.
pub const PROOF: &str = "petal_prove";

static NAME: RwLock<&'static str> = RwLock::new(PETAL);

/// Returns the name of the data in this process: `petal` unless another one was set.
pub fn data_name() -> &'static str {
    *NAME.read()
}

/// Sets the name of the data for this process. Engines that are open then work with other data.
pub fn set_data_name(name: &'static str) {
    *NAME.write() = name;
}

/// Returns a statement that names petal's data with the name of this process.
pub fn named(sql: &str) -> Cow<'_, str> {
    named_as(sql, data_name())
}

fn named_as<'a>(sql: &'a str, name: &str) -> Cow<'a, str> {
    if name == PETAL {
        return sql.into();
    }
    let names = [
        ("'^petal[", format!("'^{name}[")),
        ("'^PETAL[", format!("'^{}[", name.to_uppercase())),
        ("'petal%s", format!("'{name}%s")),
        ("'petal setup'", format!("'{name} setup'")),
        ("petal1", format!("{name}1")),
    ];
    names.iter().fold(sql.to_owned(), |sql, (from, to)| sql.replace(from, to)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_the_data_of_their_process() {
        let sql = "SELECT 'petal setup' FROM petal1.cf1 WHERE name ~ '^petal[1-9]' OR mark LIKE \
                   'petal test data%'";
        assert_eq!(named_as(sql, "petal"), sql);
        assert_eq!(
            named_as(sql, "petal_prove"),
            "SELECT 'petal_prove setup' FROM petal_prove1.cf1 WHERE name ~ '^petal_prove[1-9]' OR \
             mark LIKE 'petal test data%'"
        );
    }
}
