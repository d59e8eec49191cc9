//! Texts of `sql/*.sql`, and the values filled into them. Each file holds sections, `-- name: x`;
//! petal sends only statements from these files.

use std::collections::BTreeSet;

use super::Tables;
use super::errors::TRANSIENT;
use petal_engine::server::data_name::{data_name, named};
use petal_engine::server::row_layout::{ALL_COLUMNS, each_column, row_columns};
use petal_workload::row::{COLUMNS, STAMP_BYTES};

pub const LOAD: &str = include_str!("sql/load.sql");
pub const LOOK: &str = include_str!("sql/look.sql");
pub const LOOP: &str = include_str!("sql/loop.sql");
pub const OPERATIONS: &str = include_str!("sql/operations.sql");
pub const COUNTERS: &str = include_str!("sql/counters.sql");
pub const REPORTS: &str = include_str!("sql/reports.sql");

/// Comment on each of petal's tables; petal drops only tables with it.
pub const MARK: &str = "petal test data";
/// Hints for access by the index on the key, one block at a time, not by rows collected by block.
const HINT: &str = "/*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) */";
/// Hints for SELECT: with RESULT_CACHE_MODE=FORCE a repeated SELECT would not read.
const SELECT_HINT: &str = "/*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) NO_RESULT_CACHE */";
const SCAN_HINT: &str = "/*+ NO_PARALLEL(t) NO_RESULT_CACHE */";

/// Tablespace of tables and indexes, and the buffer pool of their blocks.
#[derive(Debug, Clone, Copy)]
pub struct DataPlace<'a> {
    /// Tablespace name in the dictionary.
    pub tablespace: &'a str,
    pub buffer_pool: Option<&'a str>,
    pub is_index_in_default_pool: bool,
    /// Set if direct path also writes redo.
    pub is_logged: bool,
}

impl DataPlace<'_> {
    fn of_index(self) -> Self {
        let buffer_pool = self.buffer_pool.filter(|_| !self.is_index_in_default_pool);
        Self { buffer_pool, ..self }
    }

    fn logging(self) -> &'static str {
        if self.is_logged { "LOGGING" } else { "NOLOGGING" }
    }

    fn words(self) -> (String, String) {
        let storage = self.buffer_pool.map(|pool| format!(" STORAGE (BUFFER_POOL {pool})"));
        (identifier(self.tablespace), storage.unwrap_or_default())
    }
}

/// Returns one section without its comments.
pub fn section(file: &str, name: &str) -> String {
    let begins = format!("-- name: {name}\n");
    let after = file.split_once(&begins).map_or("", |(_, after)| after);
    let text = after.split("\n-- name: ").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let meta = ["petal_meta", "PETAL_META"].into_iter();
    meta.fold(named(text.trim()).into_owned(), |text, name| text.replace(name, &meta_name(name)))
}

/// Returns the name of petal_meta in this process, in the case of `name`.
pub fn meta_name(name: &str) -> String {
    let meta = format!("{}_meta", data_name());
    if name.starts_with('P') { meta.to_uppercase() } else { meta }
}

/// Returns one section with values for the names in braces.
pub fn filled(file: &str, name: &str, with: &[(&str, &str)]) -> String {
    with.iter()
        .fold(section(file, name), |text, (key, value)| text.replace(&format!("{{{key}}}"), value))
}

pub fn create_meta(tablespace: &str) -> String {
    filled(LOAD, "create_meta", &[("tablespace", &identifier(tablespace))])
}

pub fn create_table(table: &str, width: usize, place: DataPlace<'_>) -> String {
    let column = |column| format!("c{column} VARCHAR2({width})");
    let columns = each_column(ALL_COLUMNS, column, ", ");
    let (tablespace, storage) = place.words();
    let with = [
        ("table", table),
        ("columns", &columns),
        ("tablespace", &tablespace),
        ("storage", &storage),
        ("logging", place.logging()),
    ];
    filled(LOAD, "create_table", &with)
}

pub fn create_index(table: &str, unique: bool, place: DataPlace<'_>) -> String {
    let unique = if unique { "UNIQUE " } else { "" };
    let (tablespace, storage) = place.of_index().words();
    let with = [
        ("table", table),
        ("unique", unique),
        ("tablespace", &tablespace),
        ("storage", &storage),
        ("logging", place.logging()),
    ];
    filled(LOAD, "create_index", &with)
}

/// Returns the statement that creates a tablespace of this size for loads. If the database does not
/// manage files itself, the file name is an example. `block_bytes` is given if it differs from the
/// database's.
pub fn create_tablespace(
    tablespace: &str,
    bytes: u64,
    has_managed_files: bool,
    block_bytes: Option<u32>,
) -> String {
    let name = identifier(tablespace);
    let file = match has_managed_files {
        true => String::new(),
        false => format!(" '/path/{}01.dbf'", name.trim_matches('"').to_lowercase()),
    };
    let block_size = block_bytes.map(|bytes| format!("BLOCKSIZE {bytes} ")).unwrap_or_default();
    let with = [
        ("tablespace", name.as_str()),
        ("file", &file),
        ("size", &format!("{}G", bytes.div_ceil(1 << 30).max(1))),
        ("block_size", &block_size),
    ];
    filled(LOAD, "create_tablespace", &with).split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn insert(name: &str, table: &str) -> String {
    let binds: Vec<String> = (1..=COLUMNS + 1).map(|at| format!(":{at}")).collect();
    filled(LOAD, name, &[("table", table), ("binds", &binds.join(", "))])
}

/// Returns a name as an identifier: plain names become upper case, others are quoted.
pub fn identifier(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|sign| sign.is_ascii_alphanumeric() || "_$#".contains(sign));
    match is_plain {
        true => name.to_ascii_uppercase(),
        false => format!("\"{}\"", name.replace('"', "")),
    }
}

/// Returns the name as it is in the dictionary.
pub fn dictionary_name(name: &str) -> String {
    identifier(name).trim_matches('"').to_owned()
}

pub fn select(tables: &Tables) -> String {
    filled(OPERATIONS, "select", &[("select_hint", SELECT_HINT), ("main", &tables.main)])
}

/// Returns the query for whole rows in a range of keys.
pub fn rows(tables: &Tables) -> String {
    filled(OPERATIONS, "rows", &[("columns", &row_columns()), ("main", &tables.main)])
}

pub fn scan(tables: &Tables) -> String {
    filled(OPERATIONS, "scan", &[("scan_hint", SCAN_HINT), ("scan", &tables.scan)])
}

/// Returns the query that reads the blocks between two rows by several at a time.
pub fn rowid_range(tables: &Tables) -> String {
    filled(OPERATIONS, "rowid_range", &[("main", &tables.main)])
}

/// Returns the query for the address of each `step`th row, in the order of the blocks.
pub fn rowid_steps(tables: &Tables, step: u64) -> String {
    filled(LOOK, "rowid_steps", &[("main", &tables.main), ("step", &step.to_string())])
}

/// Returns EXPLAIN PLAN of a statement, with numbers in place of its binds: it is explained, not
/// executed.
pub fn explain(id: &str, statement: &str) -> String {
    filled(LOOK, "explain", &[("id", id), ("statement", &statement.replace(':', ""))])
}

/// Returns the UPDATE; its binds are the texts of the changed columns, then the keys.
pub fn update(tables: &Tables, changed: usize) -> String {
    let set = each_column(2..changed + 2, |column| format!("c{column} = :{}", column - 1), ", ");
    let (low, high) = ((changed + 1).to_string(), (changed + 2).to_string());
    filled(
        OPERATIONS,
        "update",
        &[("hint", HINT), ("main", &tables.main), ("set", &set), ("low", &low), ("high", &high)],
    )
}

/// Returns the loop for a session with home schema `home`, and schema 1 in `hot`. It has a branch
/// for each of `letters`, and names only the tables they need.
pub fn run_batch(
    home: &Tables,
    hot: &Tables,
    letters: &BTreeSet<char>,
    changed: usize,
    commit_wait: bool,
) -> String {
    let set = each_column(2..changed + 2, |column| format!("c{column} = v{column}"), ", ");
    let commit = match commit_wait {
        true => section(OPERATIONS, "commit_and_wait"),
        false => "COMMIT".to_owned(),
    };
    let branch = |letter: &char| {
        let (tables, name) = match letter {
            'S' => (home, "select_branch"),
            'C' => (home, "scan_branch"),
            'U' => (home, "update_branch"),
            's' => (hot, "select_branch"),
            'c' => (hot, "scan_branch"),
            _ => (hot, "update_branch"),
        };
        let letter = letter.to_string();
        filled(LOOP, name, &[("letter", &letter), ("main", &tables.main), ("scan", &tables.scan)])
    };
    let branches = letters.iter().map(branch).collect::<Vec<_>>().join("\n");
    let declarations = match letters.contains(&'U') || letters.contains(&'u') {
        true => take_texts(changed),
        false => String::new(),
    };
    filled(
        LOOP,
        "run_batch",
        &[
            ("transient", &sqlcodes(&TRANSIENT)),
            ("declarations", &declarations),
            ("branches", &branches.replace('\n', "\n                ")),
            ("set", &set),
            ("commit", &commit),
            ("hint", HINT),
            ("select_hint", SELECT_HINT),
            ("scan_hint", SCAN_HINT),
        ],
    )
}

/// Returns the variables of an UPDATE's columns, and the procedure that sets them.
fn take_texts(changed: usize) -> String {
    let columns = 2..changed + 2;
    let declare = |column| format!("v{column} VARCHAR2(4000);");
    let assign_one = |column| match column {
        2 => format!("v2 := SUBSTRB(fillers, filler_at, {STAMP_BYTES}) || tail;"),
        _ => format!("v{column} := v2;"),
    };
    let assign_all = |column| {
        format!("v{column} := SUBSTRB(fillers, filler_at + {} * width, width);", column - 2)
    };
    filled(
        LOOP,
        "take_texts",
        &[
            ("variables", &each_column(columns.clone(), declare, "\n    ")),
            ("assign_all", &each_column(columns.clone(), assign_all, "\n            ")),
            ("assign_one", &each_column(columns, assign_one, "\n            ")),
            ("changed", &changed.to_string()),
            ("stamp_bytes", &STAMP_BYTES.to_string()),
        ],
    )
}

/// Returns error codes in the form of PL/SQL: `ORA-00060` is -60.
fn sqlcodes(codes: &[&str]) -> String {
    let numbers =
        codes.iter().map(|code| code.trim_start_matches(|sign: char| !('1'..='9').contains(&sign)));
    numbers.map(|number| format!("-{number}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use petal_settings::RedoStress;
    use petal_workload::row::changed_columns;

    /// Returns every statement that petal can send, filled in, by the name of its section: for a
    /// grammar check, and for people to read.
    pub fn all() -> Vec<(String, String)> {
        let (home, hot) = (Tables::own(2), Tables::own(1));
        let place = DataPlace {
            tablespace: "iops",
            buffer_pool: Some("KEEP"),
            is_index_in_default_pool: false,
            is_logged: false,
        };
        let mut all = vec![
            ("create_tablespace".to_owned(), create_tablespace("iops", 1 << 40, true, Some(16384))),
            ("create_table".to_owned(), create_table(&home.main, 128, place)),
            ("create_index".to_owned(), create_index(&home.main, true, place)),
            ("insert_rows".to_owned(), insert("insert_rows", &home.main)),
            ("insert_direct".to_owned(), insert("insert_direct", &home.main)),
            ("select".to_owned(), select(&home)),
            ("scan".to_owned(), scan(&Tables::of_slob(2))),
            ("rows".to_owned(), rows(&home)),
            ("rowid_range".to_owned(), rowid_range(&home)),
            ("rowid_steps".to_owned(), rowid_steps(&home, 16)),
            ("update".to_owned(), update(&home, 2)),
            ("run_batch".to_owned(), run_batch(&home, &hot, &letters("SCUscu"), 2, true)),
            ("explain".to_owned(), explain("petal 1", &select(&home))),
            ("explain of UPDATE".to_owned(), explain("petal 1", &update(&home, 2))),
        ];
        // Without the declarations of an UPDATE, and with the maximum of them.
        for kinds in ["S", "U"] {
            let block = run_batch(&home, &hot, &letters(kinds), COLUMNS, false);
            all.push((format!("run_batch of {kinds}"), block));
        }
        for file in [LOAD, LOOK, OPERATIONS, COUNTERS, REPORTS] {
            for name in names(file) {
                if all.iter().any(|(known, _)| *known == name) {
                    continue;
                }
                let with = [
                    ("table", home.main.as_str()),
                    ("mark", MARK),
                    ("sid", "1"),
                    ("serial", "2"),
                    ("instance", ", @1"),
                    ("tablespace", "IOPS"),
                    ("source", hot.main.as_str()),
                ];
                all.push((name.to_owned(), filled(file, name, &with)));
            }
        }
        all
    }

    pub fn letters(of: &str) -> BTreeSet<char> {
        of.chars().collect()
    }

    fn names(file: &str) -> impl Iterator<Item = &str> {
        file.lines().filter_map(|line| line.strip_prefix("-- name: "))
    }

    #[test]
    fn sections_have_texts_and_names_of_their_own() {
        let files = [LOAD, LOOK, LOOP, OPERATIONS, COUNTERS, REPORTS];
        let named: Vec<&str> = files.iter().flat_map(|file| names(file)).collect();
        assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len());
        for (name, text) in all() {
            assert!(!text.is_empty() && !text.contains(['{', '}']), "{name}: {text}");
            assert!(!text.ends_with(';') || text.ends_with("END;"), "{name}: {text}");
        }
    }

    /// Returns the objects of SYS and PERFSTAT that a text names, in the form of a GRANT.
    fn objects_of_others(text: &str) -> BTreeSet<String> {
        let words = text.split(|sign: char| !sign.is_ascii_alphanumeric() && !"_$.".contains(sign));
        let granted = ["gv_$", "v_$", "dba_", "dbms_workload"];
        let object = |word: &str| {
            let word = word.to_lowercase();
            let (owner, name) = word.split_once('.')?;
            let is_granted = match owner {
                "perfstat" => true,
                "sys" => granted.iter().any(|begin| name.starts_with(begin)),
                _ => false,
            };
            let name = name.split('.').next().unwrap_or_default();
            is_granted.then(|| format!("{owner}.{name}"))
        };
        words.filter_map(object).collect()
    }

    #[test]
    fn the_grants_are_exactly_the_used_privileges() {
        let used: BTreeSet<String> =
            all().iter().flat_map(|(_, text)| objects_of_others(text)).collect();
        let grants = crate::GRANTS.lines();
        let granted: BTreeSet<String> = grants
            .filter_map(|line| line.split_once("GRANT ")?.1.split_once(" ON "))
            .filter_map(|(_, object)| Some(object.split_once(" TO petal")?.0.to_owned()))
            .filter(|object| !object.starts_with("user1."))
            .collect();
        assert_eq!(used, granted);
        assert!(granted.len() > 20, "{granted:?}");
    }

    #[test]
    fn names_are_the_databases_capitals_unless_they_cannot_be() {
        assert_eq!(identifier("iops"), "IOPS");
        assert_eq!(identifier("My Space"), "\"My Space\"");
        assert_eq!(identifier("a\"b"), "\"ab\"");
        assert_eq!(dictionary_name("iops_8k"), "IOPS_8K");
    }

    #[test]
    fn statements_of_each_redo_stress() {
        let tables = Tables::own(3);
        insta::assert_snapshot!(select(&tables), @"SELECT /*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) NO_RESULT_CACHE */ COUNT(c2) FROM petal3_cf1 t WHERE custid BETWEEN :1 AND :2");
        insta::assert_snapshot!(scan(&tables), @"SELECT /*+ NO_PARALLEL(t) NO_RESULT_CACHE */ COUNT(c2) FROM petal3_cf2 t");
        insta::assert_snapshot!(update(&tables, changed_columns(RedoStress::Lite)), @"UPDATE /*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) */ petal3_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4");
        assert!(
            update(&tables, changed_columns(RedoStress::Heavy))
                .contains("c20 = :19 WHERE custid BETWEEN :20 AND :21")
        );
        insta::assert_snapshot!(create_index("petal1_cf1", true, DataPlace { tablespace: "fast", buffer_pool: Some("KEEP"), is_index_in_default_pool: true, is_logged: false }), @"CREATE UNIQUE INDEX petal1_cf1_custid ON petal1_cf1 (custid) NOLOGGING TABLESPACE FAST");
    }

    #[test]
    fn the_loop_names_only_what_its_operations_need() {
        let (home, hot) = (Tables::of_slob(2), Tables::of_slob(1));
        let names = |kinds| {
            let block = run_batch(&home, &hot, &letters(kinds), 2, true);
            let words = ["user2.cf1", "user2.cf2", "user1.cf1", "user1.cf2", "UPDATE", "COMMIT"];
            words.into_iter().filter(|word| block.contains(word)).collect::<Vec<_>>()
        };
        assert_eq!(names("S"), ["user2.cf1"]);
        assert_eq!(names("SC"), ["user2.cf1", "user2.cf2"]);
        assert_eq!(names("Ss"), ["user2.cf1", "user1.cf1"]);
        assert_eq!(names("SU"), ["user2.cf1", "UPDATE", "COMMIT"]);
        assert_eq!(names("u"), ["user1.cf1", "UPDATE", "COMMIT"]);
    }

    #[test]
    fn the_loop_commits_as_it_is_reported() {
        let (home, hot) = (Tables::own(2), Tables::of_slob(1));
        let all = letters("SCUscu");
        let waiting = run_batch(&home, &hot, &all, 2, true);
        assert!(waiting.contains("COMMIT WRITE IMMEDIATE WAIT;"));
        assert!(waiting.contains("SQLCODE NOT IN (-60, -8177, -1555, -54)"));
        assert!(waiting.contains("petal2_cf1") && waiting.contains("user1.cf2"));
        let slobs = run_batch(&home, &hot, &all, COLUMNS, false);
        assert!(slobs.contains("                    COMMIT;") && !slobs.contains("WAIT"));
        assert!(
            slobs.contains("c20 = v20")
                && slobs.contains("v20 := SUBSTRB(fillers, filler_at + 18 * width, width);")
        );
    }
}
