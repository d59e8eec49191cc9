//! Round trips of messages between instances of a cluster.

use super::figure::Figure;
use super::number::{count, duration_us};
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::InterconnectPing;
use super::topic::{self, Topic};

/// Reads the pings of each target. Single-instance reports print no unit with the figures; only
/// releases known to print milliseconds are read.
pub fn pings(page: &ParsedReport, release: &str) -> Vec<InterconnectPing> {
    let is_in_ms = ["11.", "12.1."].iter().any(|known| release.starts_with(known));
    let tables = page.tables_of(Topic::Pings);
    tables.flat_map(|table| of_table(table, is_in_ms.then_some(1e3))).collect()
}

fn of_table(table: &PageTable, unit: Option<f64>) -> Vec<InterconnectPing> {
    // A cluster's report has a group of columns for each message size, with the unit in the time's
    // heading.
    let of_group = |group: &str, key: &str| {
        let columns = table.columns.iter();
        columns.clone().position(|it| topic::key(&it.group) == group && it.key == key)
    };
    let own = |beginning: &str| table.column_where(|key| key.starts_with(beginning));
    let columns = |size: &str, count: &str, latency: &str| {
        let of_cluster = of_group(size, "avgtimeus");
        let latency = of_cluster.or_else(|| own(latency));
        let count = of_group(size, "pingcount").or_else(|| own(count));
        (count, latency, if of_cluster.is_some() { Some(1.0) } else { unit })
    };
    let small = columns("500bytes", "500bpin", "avglatency500b");
    let large = columns("8kbytes", "8kpin", "avglatency8k");
    let (source, target) = (table.column(&["src"]), table.column(&["targetinstance", "target"]));
    let mut last_source = None;
    let of_row = |row: TableRow<'_>| {
        let figure = |(counted, at, unit): (Option<usize>, Option<usize>, Option<f64>)| {
            let pings = Figure::read(cell(row, counted), &table.title, count);
            let parse = |text: &str| duration_us(text, Some(unit?));
            let latency = Figure::read(cell(row, at), &table.title, parse);
            // Without a ping there is no time, whatever is printed.
            let latency = latency.filter(|_| pings.as_ref().and_then(Figure::number) > Some(0.0));
            (pings, latency)
        };
        // A source is printed only in the first of its rows.
        last_source = Figure::text(cell(row, source), &table.title).or(last_source.take());
        let ((pings_500b, latency_500b_us), (pings_8k, latency_8k_us)) =
            (figure(small), figure(large));
        let ping = InterconnectPing {
            source: last_source.clone(),
            target: Figure::text(cell(row, target), &table.title)?,
            pings_500b,
            latency_500b_us,
            pings_8k,
            latency_8k_us,
        };
        (ping.pings_500b.is_some() || ping.pings_8k.is_some()).then_some(ping)
    };
    table.rows.iter().filter_map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::columns::value;
    use super::super::samples::of_text;

    /// Returns a single-instance report of a release that prints these figures for its two targets.
    fn of_instance(release: &str) -> String {
        format!(
            "WORKLOAD REPOSITORY report for\n\n\
             DB Name         DB Id    Instance     Inst Num Startup Time    Release     RAC\n\
             ------------ ----------- ------------ -------- --------------- ----------- ---\n\
             TULIP         1234567890 tulip1              1 01-Jun-24 08:00 {release:11} YES\n\n\
             Interconnect Ping Latency Stats                DB/Inst: TULIP/tulip1  Snaps: 2-3\n\
             -> Average and standard deviation of ping latency is given in miliseconds\n\n   \
                Target 500B Pin Avg Latency      Stddev  8K Ping Avg Latency      Stddev\n \
              Instance    Count    500B msg    500B msg    Count      8K msg      8K msg\n\
             --------- -------- ----------- ----------- -------- ----------- -----------\n        \
                     1      283        1.69         .92      283        9.68         .91\n        \
                     2      283        1.75        1.13      283        1.83        1.63\n        \
                     3        0         .00         .00        0         .00         .00\n",
        )
    }

    #[test]
    fn the_slowest_round_trip_is_one_to_another_instance() {
        let report = of_text(&of_instance("11.2.0.4.0")).unwrap();
        assert_eq!(value(&report, "ping_500b_us"), Some(1750.0));
        assert_eq!(value(&report, "ping_8k_us"), Some(1830.0));
        assert_eq!(report.interconnect_pings.len(), 3);
        // Without a ping there is no time.
        assert_eq!(report.interconnect_pings[2].latency_8k_us, None);
    }

    #[test]
    fn a_release_whose_unit_is_not_known_has_pings_and_no_times() {
        let report = of_text(&of_instance("19.0.0.0.0")).unwrap();
        assert_eq!(value(&report, "ping_8k_us"), None);
        assert_eq!(report.interconnect_pings[0].pings_8k.as_ref().unwrap().number(), Some(283.0));
    }

    #[test]
    fn a_clusters_pings_name_source_target_and_unit() {
        let row = |source: &str, target: &str, small: &str, large: &str| {
            format!(
                "<tr><td>{source}</td><td>{target}</td><td>51,819</td><td>{small}</td>\
                 <td>0.01</td><td>51,819</td><td>{large}</td><td>0.01</td></tr>"
            )
        };
        let report = of_text(&format!(
            "<h3>Ping Statistics</h3><table><tr><th colspan=\" 2\">Instance#</th>\
             <th colspan=\" 3\">500 bytes</th><th colspan=\" 3\">8 Kbytes</th></tr>\
             <tr><th>Src</th><th>Target</th><th>Ping Count</th><th>Avg   Time(us)</th>\
             <th>Std Dev</th><th>Ping Count</th><th>Avg   Time(us)</th><th>Std Dev</th></tr>\
             {}{}{}</table>",
            row("1", "1", "99", "99"),
            row("<div class=\"hidden\">1</div>", "2", "6", "9"),
            row("2", "1", "7", "10")
        ))
        .unwrap();
        assert_eq!(value(&report, "ping_500b_us"), Some(7.0));
        assert_eq!(value(&report, "ping_8k_us"), Some(10.0));
    }
}
