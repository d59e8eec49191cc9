//! Processors, memory and the parameters that matter to I/O.

use std::collections::BTreeSet;

use super::cluster;
use super::figure::{self, Figure, more_precise, put};
use super::number;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{Cpu, Memory, ReportHeader, ReportParameter};
use super::topic::Topic;

/// Parameters kept: whole names or prefixes.
const PARAMETERS: &str = "
    _db_ _disk_sector _log_ _lgwr _use_ _small_table _serial_direct _adaptive_direct _smm_
    cell_offload cluster_database commit_ compatible cpu_count db_ dbwr_ disk_asynch_io
    dml_locks fast_start filesystemio_options inmemory_size instance_name large_pool_size
    lock_sga log_ memory_ optimizer_index_caching parallel_max_servers pga_aggregate
    pre_page_sga processes recyclebin resource_manager_plan sessions sga_ shared_pool_size
    statistics_level tape_asynch_io timed_ undo_ use_large_pages _asm";
/// Maximum length of a parameter's value.
const VALUE_MAX: usize = 4096;

/// Headings of the CPU count in OS Statistics By Instance, in later and earlier releases.
const CPUS: [&str; 2] = ["cpus", "numcpus"];
const CORES: [&str; 3] = ["core", "cores", "cpucores"];
const SOCKETS: [&str; 3] = ["sckt", "sckts", "cpusckts"];
const BUSY: [&str; 2] = ["busy", "busytimes"];
const IDLE: [&str; 2] = ["idle", "idletimes"];

pub fn cpu(page: &ParsedReport, header: &mut ReportHeader) -> Cpu {
    let mut cpu = Cpu::default();
    if let Some(table) = page.first(Topic::HostCpu)
        && let Some(row) = table.rows.last()
    {
        let percent = |keys: &[&str]| table.count(row, keys);
        cpu.idle_pct = percent(&["%idle", "idle"]);
        cpu.user_pct = percent(&["%user", "user"]);
        cpu.system_pct = percent(&["%system", "system"]);
        cpu.iowait_pct = percent(&["%wio", "wio"]);
        put(&mut header.cpus, percent(&["cpus"]));
    }
    for table in page.tables_of(Topic::OsStatistics) {
        operating_system(table, &mut cpu, header);
    }
    if let Some(table) = page.first(Topic::ClusterOs) {
        return of_cluster(table, page, header);
    }
    with_shares(cpu)
}

/// Computes idle and iowait as shares of the time, if that has more digits.
fn with_shares(mut cpu: Cpu) -> Cpu {
    cpu.printed_idle_pct.clone_from(&cpu.idle_pct);
    let shares = (share(&cpu.idle_s, &cpu), share(&cpu.iowait_s, &cpu));
    cpu.idle_pct = more_precise(cpu.idle_pct.take(), shares.0);
    cpu.iowait_pct = more_precise(cpu.iowait_pct.take(), shares.1);
    cpu
}

/// Returns a part as a share of all processors' time, busy and idle.
fn share(part: &Option<Figure>, cpu: &Cpu) -> Option<Figure> {
    let all = figure::number(&cpu.busy_s)? + figure::number(&cpu.idle_s)?;
    let part = part.as_ref()?;
    let share = part.number()? / all * 100.0;
    (all > 0.0).then_some(())?;
    let how = format!("{}: a share of BUSY_TIME and IDLE_TIME", part.section);
    Figure::computed(share, 100.0 * part.step / all, how)
}

/// Reads the OS statistics. Times are in hundredths of a second, summed over processors.
fn operating_system(table: &PageTable, cpu: &mut Cpu, header: &mut ReportHeader) {
    let name = table.column(&["statistic", "statisticname"]).or(Some(0));
    let Some(value) = table.column(&["value", "total"]) else { return };
    let seconds = |row: TableRow<'_>| {
        let mut figure = table.count_at(row, Some(value))?;
        figure.value = number::Scalar::Decimal(figure.number()? / 100.0);
        figure.step /= 100.0;
        Some(figure)
    };
    for row in table.rows.iter() {
        let place = match cell(row, name) {
            "BUSY_TIME" | "BUSY_TICKS" => &mut cpu.busy_s,
            "IDLE_TIME" | "IDLE_TICKS" => &mut cpu.idle_s,
            "IOWAIT_TIME" | "IOWAIT_TICKS" => &mut cpu.iowait_s,
            "USER_TIME" | "USER_TICKS" => &mut cpu.user_s,
            "SYS_TIME" | "SYS_TICKS" => &mut cpu.system_s,
            "NUM_CPUS" => {
                put(&mut header.cpus, table.count_at(row, Some(value)));
                continue;
            }
            _ => continue,
        };
        put(place, seconds(row));
    }
}

/// Reads a cluster's processors, summed over its hosts if no two instances share one.
fn of_cluster(table: &PageTable, page: &ParsedReport, header: &mut ReportHeader) -> Cpu {
    let rows = cluster::instance_rows(table);
    let mut cpu = cluster_cpu(table, &rows);
    let hosts = cluster::listed(page).map(|(table, rows)| {
        let at = table.column(&["host"]);
        rows.iter().map(|row| cell(*row, at)).collect::<BTreeSet<_>>().len()
    });
    if hosts == Some(rows.len()) {
        let all = |keys: &[&str]| cluster::sum(table, &rows, table.column(keys), number::count);
        (header.cpus, header.cores) = (all(&CPUS), all(&CORES));
        header.sockets = all(&SOCKETS);
    }
    if let Some(row) = cluster::total(table) {
        // Use the printed values if the report sums them itself.
        (cpu.busy_s, cpu.idle_s) = (table.count(row, &BUSY), table.count(row, &IDLE));
    }
    with_shares(cpu)
}

/// Sums the processors' time of some rows. Waits for I/O are shares of each row's own time.
pub fn cluster_cpu(table: &PageTable, rows: &[TableRow<'_>]) -> Cpu {
    let sum = |keys: &[&str]| cluster::sum(table, rows, table.column(keys), number::count);
    let waited = |row: &TableRow<'_>| {
        let figure = |keys: &[&str]| table.count(*row, keys);
        let (share, busy, idle) = (figure(&["%wio"])?, figure(&BUSY)?, figure(&IDLE)?);
        let all = (busy.number()? + idle.number()?) / 100.0;
        let how = format!("{}: % WIO of Busy and Idle", table.title);
        Figure::computed(share.number()? * all, share.step * all, how)
    };
    let waits: Option<Vec<Figure>> = rows.iter().map(waited).collect();
    let iowait = waits.and_then(|all| Figure::sum(&all, all.first()?.section.to_string()));
    let alone = |key: &str| match rows {
        [row] => table.count(*row, &[key]),
        _ => None,
    };
    with_shares(Cpu {
        busy_s: sum(&BUSY),
        idle_s: sum(&IDLE),
        iowait_s: iowait,
        idle_pct: alone("%idl"),
        user_pct: alone("%usr"),
        system_pct: alone("%sys"),
        iowait_pct: alone("%wio"),
        ..Cpu::default()
    })
}

/// Reads the processors and memory of an instance's host.
pub fn of_instance(table: &PageTable, row: TableRow<'_>, header: &mut ReportHeader) {
    (header.cpus, header.cores) = (table.count(row, &CPUS), table.count(row, &CORES));
    header.sockets = table.count(row, &SOCKETS);
}

/// Sums the buffer cache and the log buffer of some rows, which are in megabytes.
pub fn caches(table: &PageTable, rows: &[TableRow<'_>]) -> Memory {
    let mib = f64::from(1 << 20);
    let bytes = |text: &str| Some(number::count(text)?.scaled(mib));
    let begin = |group: &str| {
        table
            .columns
            .iter()
            .position(|column| super::topic::key(&column.group) == group && column.key == "begin")
    };
    let sum = |column| cluster::sum(table, rows, column, bytes);
    Memory {
        buffer_cache_bytes: sum(begin("dbcache")),
        shared_pool_bytes: sum(begin("sharedpool")),
        log_buffer_bytes: sum(table.column(&["logbuffer"])),
        ..Memory::default()
    }
}

pub fn memory(page: &ParsedReport) -> Memory {
    let mut memory = Memory::default();
    if let Some(table) = page.first(Topic::ClusterCaches) {
        memory = caches(table, &cluster::instance_rows(table));
    }
    for topic in [Topic::CacheSizes, Topic::Memory] {
        for table in page.tables_of(topic) {
            table.lines().for_each(|line| labels(&line, table, &mut memory));
        }
    }
    memory
}

/// Reads a line such as `Buffer Cache: 728M 728M Std Block Size: 8K`: the value at the beginning,
/// then the value at the end if present.
fn labels(line: &str, table: &PageTable, memory: &mut Memory) {
    let words = |label: &str| {
        let at = line.find(label)?;
        let rest = line.get(at + label.len()..)?;
        Some(rest.split_whitespace().take_while(|word| number::data(word).is_some()))
    };
    let nth = |label: &str, nth: usize, factor: f64| {
        let word = words(label)?.nth(nth)?;
        let mut figure = Figure::read(word, &table.title, number::data)?;
        if factor != 1.0 {
            figure.value = number::Scalar::Decimal((figure.number()? * factor).round());
            figure.step *= factor;
        }
        Some(figure)
    };
    let mib = f64::from(1 << 20);
    put(&mut memory.buffer_cache_bytes, nth("Buffer Cache:", 0, 1.0));
    put(&mut memory.buffer_cache_end_bytes, nth("Buffer Cache:", 1, 1.0));
    let shared = nth("Shared Pool Size:", 0, 1.0).or_else(|| nth("Shared Pool:", 0, 1.0));
    put(&mut memory.shared_pool_bytes, shared);
    put(&mut memory.log_buffer_bytes, nth("Log Buffer:", 0, 1.0));
    put(&mut memory.block_bytes, nth("Std Block Size:", 0, 1.0));
    put(&mut memory.host_bytes, nth("Host Mem (MB):", 0, mib));
    put(&mut memory.sga_bytes, nth("SGA use (MB):", 0, mib));
    put(&mut memory.pga_bytes, nth("PGA use (MB):", 0, mib));
}

pub fn parameters(page: &ParsedReport, notes: &mut Vec<String>) -> Vec<ReportParameter> {
    let mut all: Vec<ReportParameter> = Vec::new();
    for table in page.tables_of(Topic::Parameters) {
        let Some(name_at) = table.column(&["parametername"]).or(Some(0)) else { continue };
        let value = table.column(&["beginvalue", "value"]);
        // Without its blanks, the upper half of the heading is over the first column.
        let end = table.column_where(|key| key.starts_with("endvalue"));
        let end = end.filter(|at| *at != name_at).or_else(|| table.column(&["ifdifferent"]));
        let instance = table.column(&["i"]);
        let mut is_kept = false;
        let mut above: Option<TableRow<'_>> = None;
        for row in table.rows.iter() {
            let name = cell(row, Some(name_at));
            let text = |at| Figure::text(cell(row, at), &table.title);
            if name.is_empty() {
                // A long value continues on the next line.
                if let (true, Some(last), Some(above)) = (is_kept, all.last_mut(), above) {
                    for (at, figure) in [(value, &mut last.value), (end, &mut last.end_value)] {
                        let rest = cell(row, at);
                        if rest.is_empty() || fills(table, above, at) {
                            lengthen(figure, rest);
                        } else {
                            notes.push(format!("{}: {rest} is of no parameter", table.title));
                            is_kept = false;
                        }
                    }
                }
                above = Some(row);
                continue;
            }
            above = Some(row);
            is_kept = PARAMETERS.split_whitespace().any(|kept| name.starts_with(kept));
            if is_kept {
                all.push(ReportParameter {
                    name: name.to_owned(),
                    instance: instance.map(|at| cell(row, Some(at)).to_owned()),
                    value: text(value),
                    end_value: end.and_then(|at| text(Some(at))),
                });
            }
        }
    }
    all
}

/// True if a cell needs all of its column, as one does that goes on in the next line.
fn fills(table: &PageTable, row: TableRow<'_>, at: Option<usize>) -> bool {
    table.widths.is_empty() || at.is_some_and(|at| table.may_be_cut(at, cell(row, Some(at))))
}

/// Appends the next line of a long value.
pub fn lengthen(figure: &mut Option<Figure>, rest: &str) {
    let Some(figure) = figure else { return };
    if let number::Scalar::Text(text) = &mut figure.value
        && text.len() + rest.len() < VALUE_MAX
    {
        text.push_str(rest);
    }
}

/// Returns a parameter's value at the beginning, if the report shows it.
pub fn parameter<'p>(parameters: &'p [ReportParameter], name: &str) -> Option<&'p Figure> {
    parameters.iter().find(|known| known.name == name).and_then(|known| known.value.as_ref())
}
