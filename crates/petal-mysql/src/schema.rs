//! The data's layout in SQL: names, tables, statements of the method, the routine's text; and a
//! load's metadata in a schema's `petalN_meta`. All tables are in the URL's database.

use super::client::Client;
use super::errors::{AtServer as _, NO_SUCH_TABLE};
use super::page_layout::RowGroup;
use super::trust;
use petal_engine::server::data_name::{data_name, named};
use petal_engine::server::failure::not_loaded;
use petal_engine::server::meta_table::{MetaValues, SchemaMeta};
use petal_engine::server::row_layout::{ALL_COLUMNS, each_column, row_columns};
use petal_engine::{EngineError, LoadPlan, Result};
use petal_host::COUNT_MAX;
use petal_host::numbers::whole;
use petal_record::target::LoadedSchema;
use petal_workload::row::COLUMNS;

/// Every table of petal's begins its comment with this.
pub const MARK: &str = "petal test data";
/// The tables of a schema, without its name.
pub const TABLES: [&str; 3] = ["meta", "cf1", "cf2"];
/// Comment of the routine; its number is raised when the text of the routine changes.
pub const ROUTINE_COMMENT: &str = "loop of petal, version 5";

pub fn name(schema: u32) -> String {
    format!("{}{schema}", data_name())
}

/// The name of a schema until its load is complete.
pub fn loading_name(schema: u32) -> String {
    format!("{}{schema}_loading", data_name())
}

/// The name of an old schema until its replacement is complete.
pub fn replaced_name(schema: u32) -> String {
    format!("{}{schema}_replaced", data_name())
}

/// The statements that make the empty tables.
pub fn create_tables(schema: &str, group: &RowGroup) -> Vec<String> {
    let column = |column| {
        let width = if column == COLUMNS + 1 { group.last_column_bytes() } else { group.column };
        format!("c{column} VARCHAR({width})")
    };
    let text = include_str!("sql/tables.sql")
        .replace("{schema}", schema)
        .replace("{columns}", &each_column(ALL_COLUMNS, column, ", "))
        .replace("{mark}", MARK);
    text.split(";\n").map(str::to_owned).collect()
}

/// Makes the index on the key, in place: a rebuilt table would have more than one row a page.
pub fn create_index(schema: &str, unique: bool) -> String {
    let unique = if unique { "UNIQUE " } else { "" };
    format!(
        "ALTER TABLE {schema}_cf1 ADD {unique}INDEX petal_custid (custid), ALGORITHM=INPLACE, \
         LOCK=NONE"
    )
}

pub fn routine(schema: &str) -> String {
    let part = |column: usize| {
        format!("SET v{column} = SUBSTR(fillers, filled + 1 + {} * step, width);", column - 2)
    };
    let assign = format!(
        "{} {} IF kind IN (4, 14) THEN {} SET filled = filled + width + {} * step; \
         ELSE SET filled = filled + width + step; END IF;",
        part(2),
        part(3),
        each_column(4..COLUMNS + 2, part, " "),
        COLUMNS - 1
    );
    let select = |schema: &str| {
        format!(
            "SELECT COUNT(c2) INTO touched FROM {} WHERE custid BETWEEN low AND low + reach",
            main_table(schema)
        )
    };
    let update = |schema: &str, columns: usize| {
        let set = each_column(2..columns + 2, |column| format!("c{column} = v{column}"), ", ");
        format!("UPDATE {} SET {set} WHERE custid BETWEEN low AND low + reach", main_table(schema))
    };
    let ended = "TIMESTAMPDIFF(MICROSECOND, started, moment), \
                 IF(touched = expected, ' ', CONCAT('/', touched, ' '))";
    let declare = |column: usize| format!("DECLARE v{column} TEXT CHARACTER SET latin1;");
    named(include_str!("sql/routine.sql"))
        .replace("{declarations}", &each_column(ALL_COLUMNS, declare, " "))
        .replace("{select_own}", &select(schema))
        .replace("{select_first}", &select(&name(1)))
        .replace("{assign}", &assign)
        .replace("{update_own_two}", &update(schema, 2))
        .replace("{update_own_all}", &update(schema, COLUMNS))
        .replace("{update_first_two}", &update(&name(1), 2))
        .replace("{update_first_all}", &update(&name(1), COLUMNS))
        .replace("{ended}", ended)
        .replace("{comment}", ROUTINE_COMMENT)
        .replace("{schema}", schema)
}

/// The index is named, so that statistics of a table that changes do not decide.
pub fn main_table(schema: &str) -> String {
    format!("{schema}_cf1 FORCE INDEX (petal_custid)")
}

pub fn select(schema: &str) -> String {
    format!("SELECT COUNT(c2) FROM {} WHERE custid BETWEEN ? AND ?", main_table(schema))
}

pub fn scan(schema: &str) -> String {
    format!("SELECT COUNT(c2) FROM {schema}_cf2")
}

/// Whole rows of a range of keys.
pub fn rows(schema: u32) -> String {
    let table = main_table(&name(schema));
    format!("SELECT {} FROM {table} WHERE custid BETWEEN ? AND ?", row_columns())
}

/// Changes the first `changed` columns; the bounds come last.
pub fn update(schema: &str, changed: usize) -> String {
    let set: Vec<String> = (0..changed).map(|at| format!("c{} = ?", at + 2)).collect();
    format!("UPDATE {} SET {} WHERE custid BETWEEN ? AND ?", main_table(schema), set.join(", "))
}

/// Writes the metadata of a load of this plan.
pub fn write_meta(client: &mut Client, plan: &LoadPlan, schema: u32) -> Result<()> {
    let sql = format!("INSERT INTO {}_meta VALUES (?, ?)", loading_name(schema));
    for (key, value) in SchemaMeta::entries(plan) {
        let written = client.execute(sql.as_str(), (key, value));
        written.at(&client.server, "writing petal_meta")?;
    }
    Ok(())
}

pub fn read_meta(client: &mut Client, schema: u32) -> Result<SchemaMeta> {
    trust::check_tables(client, &name(schema), &TABLES)?;
    let table = format!("{}_meta", name(schema));
    let rows: Vec<(String, String)> = client
        .query(&format!("SELECT name, value FROM {table}"))
        .map_err(|error| match error.code() {
            Some(NO_SUCH_TABLE) => not_loaded(&client.server, schema),
            _ => client.error(&format!("reading {table}"), &error),
        })?;
    let values = rows.into_iter().collect();
    SchemaMeta::read(schema, &MetaValues { values, place: &client.server, of: table })
}

/// The schema under this name with its sizes as the server's statistics have them.
pub fn with_sizes(meta: &SchemaMeta, client: &mut Client, name: &str) -> Result<LoadedSchema> {
    let (main, index) = table_bytes(client, &format!("{name}_cf1"))?;
    table_bytes(client, &format!("{name}_cf2"))?;
    let rows_bytes = meta.rows * u64::from(meta.block_bytes);
    if main < rows_bytes {
        return Err(EngineError::Data(format!(
            "{}: {name}_cf1 has {main} bytes, fewer than its {} rows take; load it again (petal \
             setup --replace)",
            client.server,
            meta.rows,
            main = whole(main)
        )));
    }
    Ok(meta.loaded(main, index))
}

/// Bytes of a table that must be there, and of its other indexes if the server says them.
pub fn table_bytes(client: &mut Client, table: &str) -> Result<(u64, Option<u64>)> {
    let sql = format!(
        "SELECT data_length, index_length FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = '{table}'"
    );
    let found: Vec<(Option<u64>, Option<u64>)> =
        client.ask(&format!("asking the size of {table}"), &sql)?;
    match found.first() {
        Some((Some(data), index)) if *data <= COUNT_MAX => {
            Ok((*data, index.filter(|index| *index <= COUNT_MAX)))
        }
        _ => Err(EngineError::Data(format!(
            "{}: {table} is missing or unusable; load the data again (petal setup --replace)",
            client.server
        ))),
    }
}

/// The database's name as MariaDB spells it in its folder and in its views of files; MySQL has no such letters.
const IN_FILES: &str = "CAST(CONVERT(DATABASE() USING filename) AS BINARY)";

/// Bytes of a table's file; None if the user may not see files.
pub fn file_bytes(client: &mut Client, table: &str) -> Option<u64> {
    let views = [("innodb_sys_tablespaces", IN_FILES), ("innodb_tablespaces", "DATABASE()")];
    let of_view = |(view, database): (&str, &str)| {
        let sql = format!(
            "SELECT file_size FROM information_schema.{view} WHERE name = CONCAT({database}, '/{table}')"
        );
        client.query::<u64>(&sql).ok()?.pop().filter(|bytes| *bytes > 0)
    };
    views.into_iter().find_map(of_view)
}

/// The path of a table's file in the data directory; None if the server does not say it to this user.
pub fn path(client: &mut Client, table: &str) -> Option<String> {
    let questions = [
        format!("SELECT CONCAT(CONVERT({IN_FILES} USING latin1), '/{table}.ibd')"),
        format!(
            "SELECT path FROM information_schema.innodb_datafiles JOIN \
             information_schema.innodb_tablespaces USING (space) \
             WHERE name = CONCAT(DATABASE(), '/{table}')"
        ),
    ];
    questions.iter().find_map(|sql| client.query(sql).ok()?.pop())
}

/// Every table by a name of petal's, and whether it carries the mark.
pub fn tables(client: &mut Client) -> Result<Vec<(String, bool)>> {
    let sql = format!(
        "SELECT table_name, COALESCE(table_comment, '') LIKE '{MARK}%' \
         FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND table_name REGEXP '^petal[1-9][0-9]*_((loading|replaced)_)?(meta|cf1|cf2)$' \
         ORDER BY LENGTH(table_name), table_name"
    );
    let rows: Vec<(String, i64)> = client.ask("looking for petal's tables", &named(&sql))?;
    Ok(rows.into_iter().map(|(name, is_marked)| (name, is_marked != 0)).collect())
}

/// The schema of a complete schema's table.
pub fn number_of(table: &str) -> Option<u32> {
    table.strip_prefix(data_name())?.strip_suffix("_meta")?.parse().ok()
}

/// Takes the table's statistics again.
pub fn analyze(client: &mut Client, table: &str) -> Result<()> {
    let sql = format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {table}");
    let lines: Vec<(String, String, String, String)> =
        client.ask(&format!("analyzing {table}"), &sql)?;
    match lines.iter().find(|line| line.2.eq_ignore_ascii_case("error")) {
        None => Ok(()),
        Some(line) => Err(EngineError::Database(format!(
            "{}: analyzing {table}: {}; see the server's log",
            client.server, line.3
        ))),
    }
}
