//! The load profile. A per-second figure comes only from a column that says so.

use super::figure::Figure;
use super::number::{self, Printed, Scalar};
use super::page::{Page, Table, cell};
use super::report::{Kind, Load, LoadProfile};
use super::topic::{self, Topic};

pub fn read(page: &Page, kind: Kind) -> LoadProfile {
    let mut profile = LoadProfile::default();
    page.tables_of(Topic::LoadProfile).for_each(|table| instance(table, &mut profile));
    if kind == Kind::Awrg
        && let Some(table) = page.first(Topic::ClusterPerSecond)
    {
        cluster(table, &mut profile);
    }
    profile
}

fn instance(table: &Table, profile: &mut LoadProfile) {
    let second = table.column(&["persecond"]);
    let transaction = table.column(&["pertransaction"]);
    for row in &table.rows {
        let Some(load) = line(profile, &topic::key(cell(row, Some(0)))) else { continue };
        let figure = |at| Figure::read(cell(row, at), &table.title, number::count);
        if load.per_second.is_none() && load.per_transaction.is_none() {
            *load = Load {
                per_second: second.and_then(|at| figure(Some(at))),
                per_transaction: transaction.and_then(|at| figure(Some(at))),
            };
        }
    }
}

fn line<'p>(profile: &'p mut LoadProfile, label: &str) -> Option<&'p mut Load> {
    Some(match label {
        "dbtimes" => &mut profile.db_time,
        "dbcpus" => &mut profile.db_cpu,
        "backgroundcpus" => &mut profile.background_cpu,
        "redosize" | "redosizebytes" => &mut profile.redo_bytes,
        "logicalreads" | "logicalreadblocks" => &mut profile.logical_reads,
        "blockchanges" => &mut profile.block_changes,
        "physicalreads" | "physicalreadblocks" => &mut profile.physical_reads,
        "physicalwrites" | "physicalwriteblocks" => &mut profile.physical_writes,
        "readiorequests" => &mut profile.read_requests,
        "writeiorequests" => &mut profile.write_requests,
        "readiomb" => &mut profile.read_mb,
        "writeiomb" => &mut profile.write_mb,
        "usercalls" => &mut profile.user_calls,
        "parses" | "parsessql" => &mut profile.parses,
        "hardparses" | "hardparsessql" => &mut profile.hard_parses,
        "logons" => &mut profile.logons,
        "executes" | "executessql" => &mut profile.executes,
        "rollbacks" => &mut profile.rollbacks,
        "transactions" => &mut profile.transactions,
        _ => return None,
    })
}

/// The cluster's row of the rates per second. Its redo is in units of 1024 bytes.
fn cluster(table: &Table, profile: &mut LoadProfile) {
    let instance = table.column(&["i#", "i"]).or(Some(0));
    let Some(row) = table.rows.iter().find(|row| cell(row, instance) == "Sum") else { return };
    let rate = |keys: &[&str]| {
        let at = table.column(keys)?;
        Figure::read(cell(row, Some(at)), &table.title, number::count)
    };
    profile.logical_reads.per_second = rate(&["logicalreadss"]);
    profile.physical_reads.per_second = rate(&["physicalreadss"]);
    profile.physical_writes.per_second = rate(&["physicalwritess"]);
    profile.block_changes.per_second = rate(&["blockchangess"]);
    profile.user_calls.per_second = rate(&["usercallss"]);
    profile.executes.per_second = rate(&["execss"]);
    profile.parses.per_second = rate(&["parsess"]);
    profile.logons.per_second = rate(&["logonss"]);
    profile.transactions.per_second = rate(&["txnss"]);
    profile.redo_bytes.per_second = rate(&["redosizes"]).or_else(|| {
        let kilobytes = table.column(&["redosizeks"])?;
        let printed = cell(row, Some(kilobytes));
        let mut figure = Figure::read(printed, &table.title, |text| {
            let printed = number::count(text)?;
            let value = Scalar::Decimal(printed.number() * 1024.0);
            Some(Printed { value, step: printed.step * 1024.0 })
        })?;
        figure.as_printed = Some(format!("{printed} (k)"));
        Some(figure)
    });
}
