//! Files of other products and other reports of Oracle's, recognised by their own names.

use super::text::names_report;

/// Bytes that are searched for a name.
const PROBE: usize = 64 << 10;

/// Marks that are all in a file, in upper case, and the file's name.
const KNOWN: [(&[&str], &str); 23] = [
    (&["WORKLOAD DIAGNOSIS REPORT"], "a WDR report of openGauss or GaussDB"),
    (&["OPENGAUSS"], "a report of openGauss"),
    (&["PG_PROFILE"], POSTGRES),
    (&["PGPRO_PWR"], POSTGRES),
    (&["POSTGRES PROFILE"], POSTGRES),
    (&["OCEANBASE"], "a report on OceanBase"),
    (&["KINGBASE"], "a KWR report on KingbaseES"),
    (&["DM AWR REPORT"], "a report on Dameng DM"),
    (&["SQL MONITORING REPORT"], "a SQL Monitor report"),
    (&["SQL_MONITOR_REPORT"], "a SQL Monitor report"),
    (&["/ORAREP/SQLMONITOR/"], "a SQL Monitor report"),
    (&["PERFHUB"], "a Performance Hub page"),
    (&["~~BEGIN-OS-INFORMATION~~"], "a file of AWR-Miner"),
    (&["STATSPACK SQL REPORT FOR"], "a Statspack report of one SQL statement (sprepsql.sql)"),
    (&["AWR INFO REPORT"], "a report on AWR's own data (awrinfo.sql)"),
    (&["UTLESTAT"], "a report of utlbstat.sql and utlestat.sql"),
    (&["SVRMGR>", "PER TRANSACTION"], "a report of utlbstat.sql and utlestat.sql"),
    (&["STATISTIC ", "PER TRANSACT", "PER LOGON"], "a report of utlbstat.sql and utlestat.sql"),
    (
        &["FILE|SESSIONS|ELAPSED|"],
        "a table of SLOB's awr_info.sh; petal compare reads it as a table",
    ),
    (&["\"AWRS\"", "LOAD_PROFILE"], "JSON of jas-min"),
    (&["TOTAL_WAITS", "EVENT"], "the output of a query of views such as v$system_event"),
    (&["SQL> ", "FROM V$"], "the output of a query of v$ views"),
    (&["SQL> ", "DBA_HIST_"], "the output of a query of AWR's views"),
];

const POSTGRES: &str = "a report on PostgreSQL";

/// Marks of another product behind the title that Oracle's reports have.
const UNDER_ITS_TITLE: [(&[&str], &str); 4] = [
    (&["MYSQL"], "a report on MySQL"),
    (&["INNODB"], "a report on MySQL"),
    (&["POSTGRESQL"], POSTGRES),
    (&["OCEANBASE"], "a report on OceanBase"),
];

/// Marks of other products in the first tables, which have Oracle's headings: releases, instances and
/// wait events.
const IN_ITS_TABLES: [(&[&str], &str); 6] = [
    (&["DATAFILEREAD", "WALWRITE"], POSTGRES),
    (&["PALF WRITE"], "a report on OceanBase"),
    (&[" V008R00"], "a KWR report on KingbaseES"),
    (&[" V009R00"], "a KWR report on KingbaseES"),
    (&["DBFILE READ"], "a report on Dameng DM"),
    (&["DMSERVER", "TRX LOCK WAIT"], "a report on Dameng DM"),
];

/// Names a file that is not a report of a kind that petal reads.
pub fn name(text: &str) -> Option<&'static str> {
    let begin: String = text.chars().take(PROBE).collect();
    let title = title(&begin);
    let upper = begin.get(..title.unwrap_or(begin.len())).unwrap_or_default().to_ascii_uppercase();
    let all = |marks: &[&str]| marks.iter().all(|mark| upper.contains(mark));
    if let Some((_, name)) = KNOWN.iter().find(|(marks, _)| all(marks)) {
        return Some(name);
    }
    let behind = begin.get(title?..)?.to_ascii_uppercase();
    let is_other = |marks: &[&str]| marks.iter().all(|mark| behind.contains(mark));
    let find = |known: &[(&[&str], &'static str)]| {
        known.iter().find(|(marks, _)| is_other(marks)).map(|(_, name)| *name)
    };
    let has_ids = ["DB ID", "DBID", "SNAP ID"].iter().any(|own| behind.contains(own));
    find(&IN_ITS_TABLES).or_else(|| find(&UNDER_ITS_TITLE).filter(|_| !has_ids))
}

/// Returns the position of the first title of a report.
fn title(text: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive(['\n', '\r', '>']).find_map(|part| {
        let from = at + part.len() - part.trim_start_matches([' ', '\t', '#', '*', '|', '"']).len();
        at += part.len();
        text.get(from..).is_some_and(names_report).then_some(from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::SAMPLES;

    #[test]
    fn files_are_called_by_their_own_names() {
        for (begin, expected) in [
            ("SQL Monitoring Report\n\nSQL Text\n----\nselect 1\nGlobal Stats\n", "SQL Monitor"),
            ("<html><base href=\"x\"><script src=\"/orarep/perfhub/all.js\">", "Performance Hub"),
            ("~~BEGIN-OS-INFORMATION~~\nSTAT_NAME STAT_VALUE\n--------- ----\n", "AWR-Miner"),
            ("\nSTATSPACK SQL report for Old Hash Value: 17  Module: m\n\nDB Name\n", "sprepsql"),
            ("~~~~~~~~~~~~~~~\nAWR INFO Report\n~~~~~~~~~~~~~~~\nReport generated at\n", "awrinfo"),
            (
                "SQL> Rem  Total system statistics\nStatistic   Total  Per Transaction  Per Logon  Per Second\n",
                "utlbstat",
            ),
            ("{\"awrs\":[{\"file_name\":\"a.html\",\"load_profile\":[]}]}", "jas-min"),
            ("FILE|SESSIONS|ELAPSED|DB CPU|DB Tm|EXECUTES|\na|1|300|1|1|9|\n", "awr_info.sh"),
            (
                "EVENT                TOTAL_WAITS TIME_WAITED\n----- ----- -----\nlog file sync 1 2\n",
                "v$",
            ),
            ("<html><head><title>openGauss WDR Workload Diagnosis Report</title>", "openGauss"),
            ("<h1>WORKLOAD REPOSITORY report for</h1><th>mysql version</th>", "MySQL"),
            ("<title>pg_profile report</title><h1>WORKLOAD REPOSITORY report for</h1>", "Postgre"),
            ("<h1>Postgres profile report: WORKLOAD REPOSITORY report for</h1>DB Id", "Postgre"),
            ("WORKLOAD REPOSITORY report for\n\nDB Name: t  OceanBase 4.2.1.0\n", "OceanBase"),
            ("WORKLOAD REPOSITORY report for\nDB Id\npalf write   1,000  10\n", "OceanBase"),
            ("KingbaseES KWR Report\nWORKLOAD REPOSITORY report for\nDB Id\n", "KingbaseES"),
            ("WORKLOAD REPOSITORY report for\nDB Id\n12-Jul-24 V008R006C0 NO", "KingbaseES"),
            ("<title>DM AWR report</title><h1>WORKLOAD REPOSITORY report for", "Dameng"),
            ("WORKLOAD REPOSITORY report for\nDB Id\n<td>dbfile read</td>", "Dameng"),
        ] {
            assert!(name(begin).is_some_and(|name| name.contains(expected)), "{begin}");
        }
        for (sample, text) in SAMPLES {
            assert_eq!(name(text), None, "{sample}");
        }
        // The session before a report may query what it likes.
        let session =
            "WORKLOAD REPOSITORY report for\nDB Name  DB Id\nSQL> select 1 from v$session\n";
        assert_eq!(name(session), None);
    }
}
