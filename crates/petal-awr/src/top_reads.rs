//! Statements and segments with the most physical reads.

use super::figure::Figure;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{SegmentReads, SqlReads};
use super::topic::Topic;

/// Headings of a statement's ID, in later and earlier releases.
pub const SQL_IDS: [&str; 3] = ["sqlid", "oldhashvalue", "hashvalue"];
const READS: [&str; 2] = ["physicalreads", "physicalrds"];

pub fn segments(page: &ParsedReport) -> Vec<SegmentReads> {
    page.tables_of(Topic::SegmentsByReads).flat_map(segments_of).collect()
}

fn segments_of(table: &PageTable) -> Vec<SegmentReads> {
    let of_row = |row: TableRow<'_>| {
        let text = |keys: &[&str]| cell(row, table.column(keys).or(Some(usize::MAX))).to_owned();
        let found = SegmentReads {
            owner: text(&["owner"]),
            tablespace: text(&["tablespacename"]),
            object: text(&["objectname"]),
            part: text(&["subobjectname"]),
            kind: text(&["objtype"]),
            physical_reads: table.count(row, &READS),
            pct_total: table.count(row, &["%total"]),
        };
        (!found.object.is_empty() && has_count(table, row)).then_some(found)
    };
    table.rows.iter().filter_map(of_row).collect()
}

pub fn statements(page: &ParsedReport) -> Vec<SqlReads> {
    page.tables_of(Topic::SqlByReads).flat_map(statements_of).collect()
}

fn statements_of(table: &PageTable) -> Vec<SqlReads> {
    let Some(id) = table.column(&SQL_IDS) else { return Vec::new() };
    let of_row = |row: TableRow<'_>| {
        let found = SqlReads {
            sql_id: Figure::text(cell(row, Some(id)), &table.title)?,
            module: table.text(row, &["sqlmodule"]),
            pdb: table.text(row, &["pdbname"]),
            physical_reads: table.count(row, &READS),
            executions: table.count(row, &["executions"]),
            pct_total: table.count(row, &["%total"]),
            elapsed_s: table.count(row, &["elapsedtimes", "elapsdtimes"]),
        };
        // The lines between are the statements' text.
        (is_id(cell(row, Some(id))) && has_count(table, row)).then_some(found)
    };
    table.rows.iter().filter_map(of_row).collect()
}

/// True if the row has a number of reads; a number too wide for its column is printed as `####`.
fn has_count(table: &PageTable, row: TableRow<'_>) -> bool {
    let reads = cell(row, table.column(&READS).or(Some(usize::MAX)));
    !reads.is_empty() && reads.bytes().all(|byte| byte.is_ascii_digit() || b",.#".contains(&byte))
}

/// True for an SQL ID of 13 characters, or the hash value of older releases.
fn is_id(text: &str) -> bool {
    let is_hash = text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_sql_id = text.len() == 13
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    is_hash || is_sql_id
}

#[cfg(test)]
mod tests {
    use super::super::columns::column;
    use super::super::samples::of_text;

    fn shown(report: &super::super::report::Report, name: &str) -> Option<String> {
        (column(name).unwrap().value)(report).map(|figure| figure.shown())
    }

    #[test]
    fn the_statement_with_the_most_reads_is_known_among_the_lines_of_text() {
        let report = of_text(
            "SQL ordered by Reads             DB/Inst: TULIP/tulip1  Snaps: 10-11\n\
             -> Total Disk Reads:         522,880\n\n   \
                Physical              Reads              Elapsed\n      \
                   Reads  Executions per Exec   %Total   Time (s)   %CPU    %IO    SQL Id\n\
             ----------- ----------- ---------- ------ ---------- ------ ------ -------------\n    \
                 194,859     124,882        1.6   37.3    1,863.0    1.7   98.6 7abc0def1ghi2\n\
             Module: a module of somebody\n\
             select a, b from t where c in (1,2,3) and d = 42 and e between 4711 and 81 523\n \
              17  21\n\n     \
                  70,671           0             13.5      651.8    3.2   96.9 0xyz9wvu8tsr7\n\
             update t set a = 1\n\n                          \
                                       ------------------------------------------------------\n",
        )
        .unwrap();
        let all: Vec<String> = report.sql_by_reads.iter().map(|sql| sql.sql_id.shown()).collect();
        assert_eq!(all, ["7abc0def1ghi2", "0xyz9wvu8tsr7"]);
        assert_eq!(shown(&report, "top_sql_by_reads").as_deref(), Some("7abc0def1ghi2"));
        assert_eq!(shown(&report, "top_sql_read_blocks").as_deref(), Some("194,859"));
        assert_eq!(shown(&report, "top_sql_read_pct").as_deref(), Some("37.3"));
    }

    #[test]
    fn a_number_without_room_is_unknown_and_its_statement_stays_the_first() {
        let report = of_text(
            "SQL ordered by Reads  DB/Inst: TULIP/tulip1  Snaps: 10-11\n\n                      \
                                            CPU      Elapsd     Old\n  \
               Physical Rds   Executions  Rds per Exec   %Total Time (s)  Time (s) Hash Value\n\
             --------------- ------------ -------------- ------ -------- --------- ----------\n\
             ###############      124,585            1.6   37.3    32.06   1861.91 3739063178\n\
             select 1 from t\n\n         \
                      70,411       36,705            1.9   13.5    20.58    648.93 3476971243\n",
        )
        .unwrap();
        assert_eq!(shown(&report, "top_sql_by_reads").as_deref(), Some("3739063178"));
        assert_eq!(shown(&report, "top_sql_read_blocks"), None);
        assert_eq!(report.sql_by_reads.len(), 2);
    }

    #[test]
    fn a_statements_id_is_a_link_on_a_page() {
        let report = of_text(
            "<h3 class=\"awr\">SQL ordered by Reads</h3><ul><li> %Total - Physical Reads</li></ul>\
             <table><tr><th>Physical Reads</th><th>Executions</th><th>Reads per Exec </th>\
             <th>%Total</th><th>Elapsed Time (s)</th><th> SQL Id</th><th>SQL Module</th>\
             <th>SQL Text</th></tr><tr><td>61</td><td>1</td><td>61.00</td><td>89.71</td>\
             <td>2.18</td><td><a class=\"awr\" href=\"#7abc0def1ghi2\">7abc0def1ghi2</a></td>\
             <td>&#160;</td><td>select 1 from <a>t</a></td></tr></table>",
        )
        .unwrap();
        assert_eq!(shown(&report, "top_sql_by_reads").as_deref(), Some("7abc0def1ghi2"));
        assert_eq!(report.sql_by_reads[0].elapsed_s.as_ref().unwrap().number(), Some(2.18));
    }

    #[test]
    fn the_segment_with_the_most_reads_has_its_owner_and_part() {
        let report = of_text(
            "<h3>Segments by Physical Reads</h3><table><tr><th>Owner</th><th>Tablespace Name</th>\
             <th>Object Name</th><th>Subobject Name</th><th>Obj. Type</th><th>Physical Reads</th>\
             <th>%Total</th></tr><tr><td>USER1</td><td>SLOB</td><td>CF1</td><td>P7</td>\
             <td>TABLE PARTITION</td><td>1,234</td><td>56.78</td></tr></table>",
        )
        .unwrap();
        assert_eq!(shown(&report, "top_segment_by_reads").as_deref(), Some("USER1.CF1.P7"));
        assert_eq!(shown(&report, "top_segment_read_blocks").as_deref(), Some("1,234"));
        assert_eq!(shown(&report, "top_segment_read_pct").as_deref(), Some("56.78"));
    }
}
