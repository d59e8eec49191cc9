//! The data's layout in SQL: names, tables, statements of the method, the routine's text; and a
//! load's metadata in a schema's `petal_meta`, without which a schema is not petal's.

use petal_host::numbers::whole;
use tokio_postgres::error::SqlState;

use super::answer::{Columns as _, NonNegative, pairs};
use super::client::Client;
use super::trust;
use petal_engine::server::data_name::{data_name, named};
use petal_engine::server::failure::not_loaded;
use petal_engine::server::meta_table::{MetaValues, SchemaMeta};
use petal_engine::server::row_layout::{ALL_COLUMNS, each_column, row_columns};
use petal_engine::{EngineError, LoadPlan, Result};
use petal_record::target::LoadedSchema;

/// Every schema of petal's begins its comment with this.
pub const MARK: &str = "petal test data";
/// The version in the routine's comment; raised when the text of the routine changes.
pub const ROUTINE_VERSION: u32 = 6;

pub fn name(schema: u32) -> String {
    format!("{}{schema}", data_name())
}

/// The name of a schema until its load is complete.
pub fn loading_name(schema: u32) -> String {
    format!("{}{schema}_loading", data_name())
}

/// The number in a complete schema's name.
pub fn number(name: &str) -> Option<u32> {
    name.strip_prefix(data_name())?.parse().ok()
}

pub fn create_tables(schema: &str, tablespace: Option<&str>) -> String {
    let columns = each_column(ALL_COLUMNS, |column| format!("c{column} pg_catalog.text"), ", ");
    let plain =
        each_column(ALL_COLUMNS, |column| format!("ALTER c{column} SET STORAGE PLAIN"), ", ");
    include_str!("sql/tables.sql")
        .replace("{schema}", schema)
        .replace("{columns}", &columns)
        .replace("{plain}", &plain)
        .replace("{mark}", MARK)
        .replace("{index_tablespace}", &key_in_tablespace(tablespace))
        .replace("{tablespace}", &in_tablespace(tablespace))
}

pub fn create_index(schema: &str, unique: bool, tablespace: Option<&str>) -> String {
    include_str!("sql/index.sql")
        .replace("{schema}", schema)
        .replace("{unique}", if unique { "UNIQUE " } else { "" })
        .replace("{tablespace}", &in_tablespace(tablespace))
}

fn in_tablespace(tablespace: Option<&str>) -> String {
    tablespace.map_or_else(String::new, |name| format!(" TABLESPACE {}", quoted(name)))
}

/// The tablespace of a key's index, which is not its table's unless it is named.
fn key_in_tablespace(tablespace: Option<&str>) -> String {
    tablespace.map_or_else(String::new, |_| format!(" USING INDEX{}", in_tablespace(tablespace)))
}

/// An identifier as SQL wants it.
fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

pub fn schemas() -> String {
    named(include_str!("sql/schemas.sql")).replace("{mark}", MARK)
}

/// The statements that drop petal's objects in a schema, and then the schema. They fail if it holds
/// foreign objects or others were built on it; in one transaction they then do nothing.
pub fn drop(client: &mut Client, schema: &str) -> Result<String> {
    let sql = "SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text \
               FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
               WHERE n.nspname = $1 AND p.proname = 'petal_run' AND p.prokind = 'p'";
    let doing = format!("looking for {schema}.petal_run");
    let rows = client.ask(&doing, sql, &[&schema])?;
    let routines = rows.iter().map(|row| row.read(0)).collect::<Result<Vec<String>>>()?;
    Ok(drop_with(schema, routines.iter().map(String::as_str)))
}

/// The procedures are named with their parameters, as the server has them.
fn drop_with<'a>(schema: &str, procedures: impl Iterator<Item = &'a str>) -> String {
    let procedures: String = procedures.map(|name| format!("DROP PROCEDURE {name};\n")).collect();
    include_str!("sql/drop.sql").replace("{schema}", schema).replace("{procedures}", &procedures)
}

pub fn analyze(schema: &str) -> String {
    include_str!("sql/analyze.sql").replace("{schema}", schema)
}

pub fn routine(schema: &str) -> String {
    let declare = |column| format!("v{column} pg_catalog.text;");
    let declarations = each_column(ALL_COLUMNS, declare, " ");
    let assign_one = each_column(
        ALL_COLUMNS,
        |column| match column {
            2 => "v2 := filler || tail;".to_owned(),
            3 => "v3 := v2; IF kind IN (4, 14) THEN".to_owned(),
            _ => format!("v{column} := v2;"),
        },
        " ",
    );
    let assign_all = each_column(
        ALL_COLUMNS,
        |column| {
            let at = column - 2;
            let text = format!("v{column} := pg_catalog.substr(filler, 1 + {at} * width, width);");
            if column == 4 { format!("IF kind IN (4, 14) THEN {text}") } else { text }
        },
        " ",
    );
    let selects = |schema: &str| {
        let select = select_of(schema, "first_key", "first_key + reach");
        include_str!("sql/selects.sql").trim_end().replace("{select}", &select)
    };
    named(include_str!("sql/routine.sql"))
        .replace("{selects_own}", &selects(schema))
        .replace("{selects_first}", &selects(&name(1)))
        .replace("{schema}", schema)
        .replace("{declarations}", &declarations)
        .replace("{assign_one}", &(assign_one + " END IF;"))
        .replace("{assign_all}", &(assign_all + " END IF;"))
        .replace("{two}", "c2 = v2, c3 = v3")
        .replace(
            "{all}",
            &each_column(ALL_COLUMNS, |column| format!("c{column} = v{column}"), ", "),
        )
}

pub fn select(schema: &str) -> String {
    select_of(schema, "$1", "$2")
}

/// OFFSET 0 keeps the plan, and hands only c2 to the aggregate: without it the executor prepares
/// for all columns each time, and copies the first row whole.
fn select_of(schema: &str, low: &str, high: &str) -> String {
    format!(
        "SELECT pg_catalog.count(c2) FROM (SELECT c2 FROM {schema}.cf1 \
         WHERE custid BETWEEN {low} AND {high} OFFSET 0) AS visited"
    )
}

pub fn scan(schema: &str) -> String {
    format!("SELECT pg_catalog.count(c2) FROM {schema}.cf2")
}

/// Whole rows of a range of keys.
pub fn rows(schema: u32) -> String {
    format!("SELECT {} FROM {}.cf1 WHERE custid BETWEEN $1 AND $2", row_columns(), name(schema))
}

/// Changes the first `changed` columns.
pub fn update(schema: &str, changed: usize) -> String {
    let set = each_column(2..changed + 2, |column| format!("c{column} = ${}", column + 1), ", ");
    format!("UPDATE {schema}.cf1 SET {set} WHERE custid BETWEEN $1 AND $2")
}

/// Writes the metadata of a load of this plan.
pub fn write_meta(client: &mut Client, plan: &LoadPlan, schema: u32) -> Result<()> {
    let name = loading_name(schema);
    let sql = format!("INSERT INTO {name}.petal_meta VALUES ($1, $2)");
    for (key, value) in SchemaMeta::entries(plan) {
        client.ask("writing petal_meta", &sql, &[&key, &value])?;
    }
    Ok(())
}

pub fn read_meta(client: &mut Client, schema: u32) -> Result<SchemaMeta> {
    let name = name(schema);
    trust::check_schema(client, &name)?;
    let rows = client.query(&format!("SELECT key, value FROM {name}.petal_meta"), &[]).map_err(
        |error| match error.code() {
            Some(code) if *code == SqlState::UNDEFINED_TABLE => not_loaded(&client.server, schema),
            _ => client.error(&format!("reading {name}.petal_meta"), &error),
        },
    )?;
    let values = pairs(&rows)?;
    let of = format!("{name}.petal_meta");
    SchemaMeta::read(schema, &MetaValues { values, place: &client.server, of })
}

/// The schema under this name with its sizes as they are now.
pub fn with_sizes(meta: &SchemaMeta, client: &mut Client, name: &str) -> Result<LoadedSchema> {
    let main = relation_bytes(client, &format!("{name}.cf1"))?;
    let index = relation_bytes(client, &format!("{name}.cf1_custid"))?;
    relation_bytes(client, &format!("{name}.cf2"))?;
    if main < meta.rows * u64::from(meta.block_bytes) {
        return Err(EngineError::Data(format!(
            "{}: {name}.cf1 has {main} bytes, fewer than its {} rows take; load it again (petal \
             setup --replace)",
            client.server,
            meta.rows,
            main = whole(main)
        )));
    }
    Ok(meta.loaded(main, index))
}

/// Bytes of a table or index that must be there.
pub fn relation_bytes(client: &mut Client, relation: &str) -> Result<u64> {
    let sql = "SELECT pg_catalog.pg_relation_size(pg_catalog.to_regclass($1))";
    let doing = format!("asking the size of {relation}");
    let bytes: Option<NonNegative> = client.ask_value(&doing, sql, &[&relation])?;
    bytes.map(|NonNegative(bytes)| bytes).ok_or_else(|| {
        EngineError::Data(format!(
            "{}: {relation} is missing; load the data again (petal setup --replace)",
            client.server
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::server::row_layout::column_bytes;
    use petal_workload::row::COLUMNS;

    #[test]
    fn nothing_is_left_to_fill_in() {
        for text in [
            create_tables("petal1_loading", Some("fast \"disk")),
            create_index("petal1", true, None),
            analyze("petal1"),
            drop_with("petal1", ["petal1.petal_run(integer)"].into_iter()),
            routine("petal3"),
        ] {
            assert!(!text.contains('{') && !text.contains("petal_schema"), "{text}");
        }
        let placed = create_tables("p", Some("a\"b"));
        assert!(
            placed.contains("PRIMARY KEY USING INDEX TABLESPACE \"a\"\"b\", value"),
            "{placed}"
        );
        assert_eq!(placed.matches(" TABLESPACE \"a\"\"b\"").count(), 4, "{placed}");
        assert!(schemas().contains("LIKE 'petal test data%'"));
    }

    #[test]
    fn three_versions_of_a_row_fit_in_a_page() {
        for block in [4096u32, 8192, 16384, 32768] {
            // Header of the tuple, key, and each text with its length.
            let row = 24 + 8 + COLUMNS * (4 + column_bytes(block)) + 4;
            assert!(3 * (row + 12) + 24 <= block as usize, "{block}");
            // The fill factor keeps a second loaded row out.
            let reserved = block as usize * 9 / 10;
            assert!(2 * row + reserved > block as usize - 24, "{block}");
        }
    }

    #[test]
    fn a_drop_needs_no_language_and_takes_only_procedures_that_are_there() {
        let none = drop_with("petal1", [].into_iter());
        assert!(!none.contains("DO ") && !none.contains("PROCEDURE"), "{none}");
        let two = ["petal1.petal_run(integer)", "petal1.petal_run(bigint)"];
        let statements = drop_with("petal1", two.into_iter());
        let at = |text: &str| statements.find(text).unwrap();
        for one in two {
            let procedure = at(&format!("DROP PROCEDURE {one};"));
            assert!(at("DROP TABLE") < procedure && procedure < at("DROP SCHEMA"));
        }
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!(number(&name(12)), Some(12));
        assert_eq!(number(&loading_name(12)), None);
    }

    #[test]
    fn updates_change_as_many_columns_as_asked() {
        insta::assert_snapshot!(update("petal2", 2), @"UPDATE petal2.cf1 SET c2 = $3, c3 = $4 WHERE custid BETWEEN $1 AND $2");
        assert!(update("petal2", COLUMNS).contains("c20 = $21"));
    }
}
