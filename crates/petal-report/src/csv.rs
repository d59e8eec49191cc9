//! `timeline.csv`: one row a second. The unit is the end of a column's name; `cpu_*` are percent of
//! all processors. Counts are per row, not rates: divide by `length_s`. [`super::csv_os`] has the
//! columns with a dot. An empty field is unknown. docs/numbers.md describes every column.

use super::csv_os::OsColumns;
use super::exact_rows::ExactRows;
use petal_host::histogram::LatencySummary;
use petal_record::counters::IoCounts;
use petal_record::{Run, Second};
use petal_workload::op::Kind;

type SecondField = fn(&Second) -> Option<String>;
type LatencyFigure = fn(&LatencySummary) -> Option<f64>;

fn count(value: Option<u64>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn decimal(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.3}"))
}

/// Columns that petal itself counts.
const PETAL: [(&str, SecondField); 13] = [
    ("from_s", |second| decimal(Some(second.from_s))),
    ("length_s", |second| decimal(Some(second.length_s))),
    ("sessions", |second| Some(second.sessions.to_string())),
    ("ops", |second| count(Some(second.ops.total))),
    ("ops_select", |second| count(Some(second.ops.select))),
    ("ops_scan", |second| count(Some(second.ops.scan))),
    ("ops_update", |second| count(Some(second.ops.update))),
    ("ops_cut", |second| count(Some(second.ops.cut))),
    ("rows_select", |second| count(Some(second.rows.select))),
    ("rows_scan", |second| count(Some(second.rows.scan))),
    ("rows_update", |second| count(Some(second.rows.update))),
    ("rows_asked", |second| count(second.rows_asked.map(|asked| asked.total()))),
    ("errors", |second| count(Some(second.errors))),
];

/// Columns that the operating system counts for the data's devices and for the processors.
const HOST: [(&str, SecondField); 13] = [
    ("device_read_requests", |second| Some(second.device?.read_requests.to_string())),
    ("device_read_bytes", |second| Some(second.device?.read_bytes.to_string())),
    ("device_read_ms", |second| Some(second.device?.read_ms.to_string())),
    ("device_write_requests", |second| Some(second.device?.write_requests.to_string())),
    ("device_write_bytes", |second| Some(second.device?.write_bytes.to_string())),
    ("device_write_ms", |second| Some(second.device?.write_ms.to_string())),
    ("device_flushes", |second| Some(second.device?.flushes.to_string())),
    ("device_busy_ms", |second| Some(second.device?.busy_ms.to_string())),
    ("cpu_user", |second| decimal(Some(second.cpu?.user))),
    ("cpu_system", |second| decimal(Some(second.cpu?.system))),
    ("cpu_iowait", |second| decimal(Some(second.cpu?.iowait))),
    ("cpu_idle", |second| decimal(Some(second.cpu?.idle))),
    ("cpu_steal", |second| decimal(Some(second.cpu?.steal))),
];

/// Columns of every kind's latency, after [`PETAL`], the database's columns and [`HOST`].
const LATENCIES: [(&str, LatencyFigure); 4] =
    [("mean", |l| l.mean), ("p50", |l| l.p50), ("p99", |l| l.p99), ("max", |l| l.max)];

pub fn timeline(run: &Run) -> ExactRows<'_> {
    let name = |(name, _): (&'static str, SecondField)| name;
    let latency_names = Kind::ALL.iter().flat_map(|kind| {
        LATENCIES.iter().map(move |(figure, _)| format!("{}_{figure}_us", kind.name()))
    });
    let os = OsColumns::of(run);
    let names = PETAL.map(name).into_iter().chain(IoCounts::NAMES).chain(HOST.map(name));
    let names: Vec<String> =
        names.map(str::to_owned).chain(latency_names).chain(os.names()).collect();
    let rows = run.details.timeline.iter().map(move |second| {
        let shown = |(_, field): (&str, SecondField)| field(second);
        let database = (0..IoCounts::NAMES.len()).map(|at| count(second.io?.each()[at]));
        let fields = PETAL.map(shown).into_iter().chain(database).chain(HOST.map(shown));
        let latencies = Kind::ALL.iter().flat_map(|kind| {
            let latency = second.latency_us.get(kind.name());
            LATENCIES.iter().map(move |(_, figure)| decimal(latency.and_then(figure)))
        });
        let fields = fields.chain(latencies).chain(os.fields(second));
        fields.map(Option::unwrap_or_default).collect::<Vec<_>>()
    });
    ExactRows::new(names, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn a_row_a_second_and_unknown_is_empty() {
        let mut run = fixture::mixed_run();
        run.details.timeline.truncate(2);
        run.details.timeline[1].io = None;
        run.details.timeline[1].cpu = None;
        insta::assert_snapshot!(timeline(&run).csv().unwrap(), @"
        from_s,length_s,sessions,ops,ops_select,ops_scan,ops_update,ops_cut,rows_select,rows_scan,rows_update,rows_asked,errors,logical_reads,physical_read_blocks,physical_read_requests,physical_read_bytes,physical_write_blocks,physical_write_requests,physical_write_bytes,log_read_blocks,redo_bytes,commits,log_syncs,device_read_requests,device_read_bytes,device_read_ms,device_write_requests,device_write_bytes,device_write_ms,device_flushes,device_busy_ms,cpu_user,cpu_system,cpu_iowait,cpu_idle,cpu_steal,select_mean_us,select_p50_us,select_p99_us,select_max_us,scan_mean_us,scan_p50_us,scan_p99_us,scan_max_us,update_mean_us,update_p50_us,update_p99_us,update_max_us,mpstat.%usr,mpstat.%nice,mpstat.%sys,mpstat.%iowait,mpstat.%irq,mpstat.%soft,mpstat.%steal,mpstat.%idle,mpstat.busiest.CPU,mpstat.busiest.%busy,vmstat.r,vmstat.b,vmstat.swpd,vmstat.free,vmstat.buff,vmstat.cache,vmstat.si,vmstat.so,vmstat.in,vmstat.cs,meminfo.MemAvailable,meminfo.Dirty,meminfo.Writeback,sar.majflt/s,psi.cpu.some,psi.cpu.full,psi.io.some,psi.io.full,psi.memory.some,psi.memory.full,sar.rxpck/s,sar.txpck/s,sar.rxkB/s,sar.txkB/s,sar.rxerr/s,sar.txerr/s,sar.retrans/s,petal.%CPU,server.%CPU,log_writer.%CPU,cgroup.%CPU,cgroup.nr_throttled,cgroup.throttled_ms,petal.cgroup.%CPU,petal.cgroup.nr_throttled,petal.cgroup.throttled_ms,iostat.vda.r/s,iostat.vda.rkB/s,iostat.vda.rrqm/s,iostat.vda.r_await,iostat.vda.w/s,iostat.vda.wkB/s,iostat.vda.wrqm/s,iostat.vda.w_await,iostat.vda.f/s,iostat.vda.aqu-sz,iostat.vda.%util,iostat.vda.in_flight
        0.000,1.000,8,900,720,0,180,0,46080,0,11520,57600,0,172800,58500,58500,479232000,0,0,0,1620,94648320,180,180,58500,479232000,3900,540,94648320,300,180,970,20.000,24.500,30.000,25.000,0.500,7917.315,7360.511,,78104.000,,,,,12803.950,12296.191,,101304.000,20.000,0.000,5.000,30.000,0.500,19.000,0.500,25.000,0.000,49.000,2.000,5.000,0.000,2097152.000,44032.000,20971520.000,0.000,0.000,61000.000,122000.000,23068672.000,64.000,0.000,0.000,12.000,0.000,93.000,41.000,0.000,0.000,,,,,,,,42.000,,,,,,,,,58500.000,468000.000,3.000,0.067,540.000,92430.000,7.000,0.556,180.000,4.200,97.000,8.000
        1.000,1.000,8,935,748,0,187,0,47872,0,11968,59840,0,,,,,,,,,,,,60775,497868800,4051,561,98329088,300,187,970,,,,,,7886.551,7323.647,,78192.000,,,,,12926.428,12460.031,,101392.000,20.000,0.000,5.000,30.000,0.500,19.000,0.500,25.000,0.000,50.000,3.000,5.000,0.000,2097152.000,44032.000,20971520.000,0.000,0.000,61000.000,122000.000,23068672.000,64.000,0.000,0.000,12.000,0.000,93.000,41.000,0.000,0.000,,,,,,,,42.000,,,,,,,,,60775.000,486200.000,3.000,0.067,561.000,96024.500,7.000,0.535,187.000,4.351,97.000,8.000
        ");
    }

    #[test]
    fn columns_add_up_to_the_run() {
        let run = fixture::mixed_run();
        let text = timeline(&run).csv().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let sum = |name: &str| -> u64 {
            let at = names.iter().position(|known| known == name).unwrap();
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            reader.records().map(|row| row.unwrap()[at].parse::<u64>().unwrap()).sum()
        };
        assert_eq!(sum("ops_update"), run.summary.ops.update);
        assert_eq!(Some(sum("physical_read_bytes")), run.details.io.physical_read_bytes);
        assert_eq!(sum("device_write_bytes"), run.details.device.unwrap().write_bytes);
        let unique: std::collections::BTreeSet<&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
