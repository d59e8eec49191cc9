//! The write ledger: bytes that UPDATEs changed, and all that was written for them, down to the
//! device. A cause is counted by its own layer, so that the device's bytes are a check of the sum.

use serde_json::json;

use petal_host::drive_health::DriveHealth;
use petal_host::numbers::{bytes as size, decimal, or_dash};
use petal_host::os::writes::WriteOrigins;
use petal_record::Run;
use petal_record::conclusions::{LedgerRow, WriteLedger};
use petal_record::counters::CommonCounter;
use petal_record::written::{SeenDrive, WrittenBytes};

use super::judgement::{
    FindingParts, Judgement, NoFinding::Clear, clear_if, known, unknown, warning,
};

/// The share of the device's bytes that may be unexplained.
const UNEXPLAINED_SHARE_MAX: f64 = 0.02;
/// Fewer bytes at the device are not judged: a journal's few blocks are a large share of them.
const DEVICE_BYTES_MIN: u64 = 16 << 20;
/// A full-page image takes at most a block and its header.
const IMAGE_HEADER_BYTES: f64 = 100.0;
/// Fewer seconds do not separate log records from images.
const SECONDS_MIN: usize = 5;

/// Rows with bytes that UPDATEs did not cause.
const APART: [&str; 3] = [OTHERS, "drives, from the host", "flash"];
const OTHERS: &str = "other programs";

const DATABASE: &str = "the database";
const HEALTH: &str = "the drives' health pages";
const KERNEL: &str = "the kernel's block layer";

pub(super) fn of(run: &Run) -> Option<WriteLedger> {
    // The database worked for all hosts.
    let is_part = run.summary.share.as_ref().is_some_and(|share| share.share.of > 1);
    let written = run.details.written.as_ref().filter(|_| !is_part)?;
    let updates = run.summary.ops.update;
    let parts = BytesByCause::of(run, written);
    let per = |bytes: Option<i64>, of: u64| {
        bytes.filter(|_| of > 0).map(|bytes| bytes as f64 / of as f64)
    };
    let row = |(cause, layer, bytes): (&str, &str, Option<i64>)| {
        let caused = bytes.filter(|_| !APART.contains(&cause));
        LedgerRow {
            written: cause.to_owned(),
            layer: layer.to_owned(),
            bytes,
            bytes_per_update: per(caused, updates),
            of_changed: per(caused, parts.changed),
        }
    };
    Some(WriteLedger {
        rows: parts.rows(run, written).into_iter().map(row).collect(),
        amplification: per(parts.device.filter(|_| parts.origins.is_some()), parts.changed),
        unexplained_share: parts
            .unexplained
            .zip(written.device.filter(|&bytes| bytes > 0))
            .map(|(unexplained, device)| unexplained as f64 / device as f64),
        notes: notes(written),
    })
}

/// Bytes by cause. Unknown ones are `None`; a negative one was saved.
struct BytesByCause {
    changed: u64,
    images: Option<u64>,
    log_records: Option<i64>,
    log_blocks: Option<i64>,
    merged: Option<i64>,
    late: Option<u64>,
    uncounted: Option<u64>,
    origins: Option<WriteOrigins>,
    unexplained: Option<i64>,
    /// The bytes of the device, without those of other programs if these are known.
    device: Option<i64>,
}

impl BytesByCause {
    fn of(run: &Run, written: &WrittenBytes) -> Self {
        let images = image_bytes(run, written);
        let origins = written.origins;
        let merged = origins.and_then(|origins| merged(run, written, origins));
        let late = origins.and_then(|origins| counted_late(run, written, origins));
        let uncounted = origins.and_then(|origins| uncounted(run, written, origins));
        let log_blocks = difference(written.log_files, written.log);
        let known = || {
            let origins = origins?;
            let parts = [
                written.log_files?,
                written.pages?,
                written.doublewrite.unwrap_or(0),
                written.new_log_files.unwrap_or(0),
                other_files(run, origins),
                late?,
                uncounted?,
                origins.file_system,
                origins.others,
            ];
            Some(signed(parts.into_iter().fold(0, u64::saturating_add)).saturating_add(merged?))
        };
        Self {
            changed: run.summary.rows.update.saturating_mul(written.row_bytes),
            images,
            log_records: difference(written.log, Some(images.unwrap_or(0))),
            log_blocks,
            merged,
            late,
            uncounted,
            origins,
            unexplained: written
                .device
                .zip(known())
                .map(|(device, known)| signed(device).saturating_sub(known)),
            device: difference(written.device, Some(origins.map_or(0, |origins| origins.others))),
        }
    }

    fn rows(
        &self,
        run: &Run,
        written: &WrittenBytes,
    ) -> Vec<(&'static str, &'static str, Option<i64>)> {
        let origin = |of: fn(&WriteOrigins) -> u64| self.origins.as_ref().map(of).map(signed);
        let mut rows = vec![("changed columns", "petal", Some(signed(self.changed)))];
        let log = if self.images.is_some() { "log records" } else { "log" };
        rows.push((log, DATABASE, self.log_records));
        if self.images.is_some() {
            rows.push((
                "full-page images",
                "the database, by least squares",
                self.images.map(signed),
            ));
        }
        rows.push(("log, up to whole blocks", DATABASE, self.log_blocks));
        if let Some(bytes @ 1..) = written.new_log_files {
            rows.push(("new log files", "size of the log's folder", Some(signed(bytes))));
        }
        rows.push(("data pages", DATABASE, written.pages.map(signed)));
        if written.doublewrite.is_some() {
            rows.push(("doublewrite", DATABASE, written.doublewrite.map(signed)));
        }
        if let Some(bytes @ 1..) = self.late {
            rows.push(("data pages, counted late", KERNEL, Some(signed(bytes))));
        }
        if let Some(bytes @ 1..) = self.origins.map(|origins| other_files(run, origins)) {
            rows.push(("other files of the database", KERNEL, Some(signed(bytes))));
        }
        if let Some(bytes @ 1..) = self.uncounted {
            rows.push(("direct writes without a count", KERNEL, Some(signed(bytes))));
        }
        if !is_past_the_page_cache(run) || self.merged != Some(0) {
            rows.push(("merged in the page cache", KERNEL, self.merged));
        }
        rows.push(("file system", KERNEL, origin(|origins| origins.file_system)));
        rows.push(("unexplained", "the device less all above", self.unexplained));
        let device = match self.origins {
            Some(_) => "/proc/diskstats, less other programs",
            None => "/proc/diskstats, with other programs",
        };
        rows.push(("device", device, self.device));
        rows.push((OTHERS, KERNEL, origin(|origins| origins.others)));
        if !written.drives.is_empty() {
            let sum = |of: fn(&SeenDrive) -> Option<u64>| {
                let each: Option<Vec<u64>> = written.drives.iter().map(of).collect();
                each.map(|each| signed(each.into_iter().fold(0, u64::saturating_add)))
            };
            rows.push(("drives, from the host", HEALTH, sum(SeenDrive::host_bytes)));
            rows.push(("flash", HEALTH, sum(SeenDrive::flash_bytes)));
        }
        rows
    }
}

fn difference(of: Option<u64>, less: Option<u64>) -> Option<i64> {
    of.zip(less).map(|(of, less)| signed(of).saturating_sub(signed(less)))
}

/// The bytes as a number that may become negative.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn is_past_the_page_cache(run: &Run) -> bool {
    run.details.target.direct_io.as_ref().is_some_and(|direct| direct.used)
}

/// Bytes of data pages that the kernel wrote and the database has not counted yet, as far as it may
/// be behind.
fn counted_late(run: &Run, written: &WrittenBytes, origins: WriteOrigins) -> Option<u64> {
    let pages = written.pages?.saturating_add(written.doublewrite.unwrap_or(0));
    let seen = origins.data.saturating_add(origins.direct);
    Some(seen.saturating_sub(pages).min(run.details.target.pages_counted_late_bytes))
}

/// Bytes that a database's processes wrote past the page cache and its own counters lack.
fn uncounted(run: &Run, written: &WrittenBytes, origins: WriteOrigins) -> Option<u64> {
    if !is_past_the_page_cache(run) {
        return Some(0);
    }
    let counted = [written.log_files?, written.pages?]
        .into_iter()
        .chain(written.doublewrite)
        .chain(written.new_log_files);
    let counted = counted.fold(0, u64::saturating_add);
    let late = counted_late(run, written, origins)?;
    let seen = origins.log.saturating_add(origins.direct);
    Some(seen.saturating_sub(counted.saturating_add(late)))
}

/// Bytes of files such as a binary log: a database that writes its data past the page cache writes
/// only such files through it.
fn other_files(run: &Run, origins: WriteOrigins) -> u64 {
    if is_past_the_page_cache(run) { origins.data } else { 0 }
}

/// Bytes that were overwritten in the page cache before the kernel wrote them, as a negative number.
/// Only files that the database does not sync with each write can have any.
fn merged(run: &Run, written: &WrittenBytes, origins: WriteOrigins) -> Option<i64> {
    let is_durable = run.details.target.durability.as_ref().is_none_or(|known| known.durable);
    let log = match is_durable {
        true => 0,
        false => signed(origins.log).saturating_sub(signed(written.log_files?)),
    };
    let data = match is_past_the_page_cache(run) {
        true => 0,
        false => {
            let pages = written.pages?.saturating_add(written.doublewrite.unwrap_or(0));
            signed(origins.data.saturating_add(origins.direct)).saturating_sub(signed(pages))
        }
    };
    Some(log.min(0).saturating_add(data.min(0)))
}

/// Bytes of the full-page images in the log, of a database that counts images but not their bytes.
/// In each second the log has so many bytes for a row, and so many for an image: least squares over
/// the seconds find both. `None` if the seconds do not separate them.
fn image_bytes(run: &Run, written: &WrittenBytes) -> Option<u64> {
    let images = run.summary.counter(CommonCounter::BlockImages)?;
    let seconds = run.details.timeline.iter().filter_map(|second| {
        let log = second.io.as_ref()?.redo_bytes?;
        Some((second.rows.update as f64, second.block_images? as f64, log as f64))
    });
    let seconds: Vec<_> = seconds.filter(|(rows, ..)| *rows > 0.0).collect();
    if images == 0 {
        return Some(0);
    }
    let sum = |of: fn(&(f64, f64, f64)) -> f64| seconds.iter().map(of).sum::<f64>();
    let (rr, ri, ii) = (sum(|s| s.0 * s.0), sum(|s| s.0 * s.1), sum(|s| s.1 * s.1));
    let (rl, il) = (sum(|s| s.0 * s.2), sum(|s| s.1 * s.2));
    let determinant = rr * ii - ri * ri;
    // If images per row are the same in all seconds, the determinant is 0.
    if seconds.len() < SECONDS_MIN || determinant < rr * ii * 0.02 {
        return None;
    }
    let (each_row, each) = ((rl * ii - il * ri) / determinant, (il * rr - rl * ri) / determinant);
    let most = run.summary.target.block_size as f64 + IMAGE_HEADER_BYTES;
    let bytes = (each * images as f64) as u64;
    (each_row > 0.0 && each > 0.0 && each <= most && bytes <= written.log?).then_some(bytes)
}

/// Reasons why a part of the bytes is unknown.
fn unknowns(written: &WrittenBytes) -> Vec<String> {
    let mut unknowns = Vec::new();
    if written.origins.is_none() {
        let why = written.origins_unseen.as_deref().unwrap_or("they were not counted");
        unknowns.push(format!(
            "file system, other programs and unexplained: - (the kernel's writes are unknown: {why})"
        ));
    }
    for (bytes, place) in [(written.log_files, "log"), (written.pages, "data pages")] {
        if bytes.is_none() {
            unknowns.push(format!(
                "the database does not count the bytes that it writes to its {place}"
            ));
        }
    }
    unknowns
}

fn notes(written: &WrittenBytes) -> Vec<String> {
    let mut notes = unknowns(written);
    if let Some(why) = &written.not_written_out {
        notes.push(format!("a part may be in the page cache still: {why}"));
    }
    notes.extend(written.drives.iter().map(|drive| drive_words(drive, written.seconds)));
    notes
}

const DAY_S: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;
/// A drive that used less of its endurance gives no estimate of the whole.
const USED_PERCENT_MIN: u8 = 1;

/// Amplification within a drive, its wear at the run's rate, and its temperature.
fn drive_words(drive: &SeenDrive, seconds: f64) -> String {
    let Some((before, after)) = drive.before.as_ref().zip(drive.after.as_ref()) else {
        let why = drive.unseen.as_deref().unwrap_or("it was not read");
        return format!("{}: - (its health is unknown: {why})", drive.name);
    };
    let model = drive.model.as_deref().unwrap_or("model unknown");
    let ratio = |flash: Option<u64>, host: Option<u64>| {
        let pair = flash.zip(host.filter(|&host| host > 0));
        or_dash(pair, |(flash, host)| decimal(flash as f64 / host as f64, 2))
    };
    let flash = match &after.flash_page {
        Some(page) => format!(
            "write amplification in the drive {} in the run, {} over its life ({page})",
            ratio(drive.flash_bytes(), drive.host_bytes()),
            ratio(after.flash_bytes, Some(after.host_bytes)),
        ),
        None => {
            "write amplification in the drive - (it has no known page with the bytes on its flash)"
                .to_owned()
        }
    };
    let day_bytes = drive.host_bytes().filter(|_| seconds > 0.0);
    let day_bytes = day_bytes.map(|bytes| bytes as f64 / seconds * DAY_S);
    let writes = day_bytes.zip(drive.size_bytes.filter(|&size| size > 0));
    let writes = or_dash(writes, |(day, size)| decimal(day / size as f64, 2));
    let life = match day_bytes {
        Some(day) if day > 0.0 && after.used_percent >= USED_PERCENT_MIN => {
            let left = f64::from(100_u8.saturating_sub(after.used_percent));
            let each = after.host_bytes as f64 / f64::from(after.used_percent);
            format!("{} years", decimal(left * each / day / YEAR_DAYS, 1))
        }
        Some(day) if day > 0.0 => {
            "- (too little of its endurance is used for an estimate)".to_owned()
        }
        _ => "- (it counted no bytes from the host in the run)".to_owned(),
    };
    let celsius = |health: &DriveHealth| or_dash(health.temperature_c, |c| c.to_string());
    format!(
        "{} ({model}): {flash}; at this rate {writes} drive writes a day, remaining life {life}; {} % \
         of its endurance used, {} % spare; {} to {} degrees C",
        drive.name,
        after.used_percent,
        after.available_spare_percent,
        celsius(before),
        celsius(after),
    )
}

/// Times that a drive is to be written over before its writes are those of a drive in use, and the
/// share of it that is to be in use meanwhile.
const WRITES_OVER: f64 = 4.0;
const FULL_SHARE: f64 = 0.90;

/// Judges whether the drives were written over often enough for a steady figure.
pub(super) fn preconditioned(run: &Run) -> Judgement {
    let drives = run.details.written.as_ref().map_or(&[][..], |written| &written.drives);
    clear_if(drives.is_empty())?;
    for drive in drives {
        let Some(health) = &drive.before else {
            return unknown(drive_words(drive, 0.0));
        };
        let size_bytes =
            known(drive.size_bytes, &format!("the size of {} is unknown", drive.name))?;
        let times = health.host_bytes as f64 / (size_bytes as f64 * FULL_SHARE);
        if times < WRITES_OVER {
            return warning(
                format!(
                    "{} was written {} times over in its life ({} of {}): a drive writes faster until \
                     it was written over about four times while 90 % full",
                    drive.name,
                    decimal(times, 2),
                    size(health.host_bytes),
                    size(size_bytes)
                ),
                "Fill 90 % of the drive, and write all of it four times over at random before a figure \
                 counts as steady.",
            )
            .with(json!({ "host_bytes": health.host_bytes, "drive_bytes": size_bytes }));
        }
    }
    unknown(
        "the drives were written often enough, but a drive does not report how full it was meanwhile",
    )
}

/// Judges the part of the device's bytes that no layer explains.
pub(super) fn judge(run: &Run) -> Judgement {
    let written = run.details.written.as_ref().ok_or(Clear)?;
    let device = written.device.unwrap_or(0);
    clear_if(device < DEVICE_BYTES_MIN)?;
    let Some(ledger) = of(run) else { return Err(Clear) };
    let Some(share) = ledger.unexplained_share else {
        let why = unknowns(written).into_iter().next();
        return unknown(why.unwrap_or_else(|| "the devices' bytes are unknown".to_owned()));
    };
    clear_if(share.abs() <= UNEXPLAINED_SHARE_MAX)?;
    let bytes = (share.abs() * device as f64) as u64;
    let (what, advice) = match share > 0.0 {
        true => (
            format!("{} more than database, file system and others explain", size(bytes)),
            "Look for work that the database does not count: temporary files, a copy or an \
             archive of its log, other databases on the server.",
        ),
        false => (
            format!("{} less than database, file system and others counted", size(bytes)),
            "Look for writes that are not on these devices: a log on another device, or writes \
             still in the page cache.",
        ),
    };
    warning(
        format!(
            "the write ledger does not add up: the devices wrote {}, {what} ({:.1} %)",
            size(device),
            share.abs() * 100.0
        ),
        advice,
    )
    .with(json!({ "device_write_bytes": device, "unexplained_share": share }))
}

#[cfg(test)]
mod tests {
    use super::super::judgement::NoFinding;
    use super::*;
    use petal_record::counters::IoCounts;
    use petal_record::target::{DirectIo, Durability};
    use petal_record::{Second, fixture};

    const MB: u64 = 1_000_000;

    /// A run whose layers add up: 10 MB changed, 113 MB at the device.
    fn run() -> Run {
        let mut run = fixture::mixed_run();
        (run.summary.ops.update, run.summary.rows.update) = (1000, 10_000);
        run.details.target.direct_io =
            Some(DirectIo { asked: true, used: true, ..DirectIo::default() });
        run.details.written = Some(WrittenBytes {
            row_bytes: 1000,
            log: Some(20 * MB),
            log_files: Some(30 * MB),
            pages: Some(40 * MB),
            doublewrite: Some(35 * MB),
            device: Some(113 * MB),
            origins: Some(WriteOrigins {
                file_system: 5 * MB,
                log: 30 * MB,
                data: 0,
                direct: 75 * MB,
                others: 3 * MB,
            }),
            ..WrittenBytes::default()
        });
        run
    }

    fn bytes(ledger: &WriteLedger, name: &str) -> Option<i64> {
        ledger.rows.iter().find(|row| row.written == name).unwrap().bytes
    }

    #[test]
    fn the_rows_add_up_to_the_device() {
        let ledger = of(&run()).unwrap();
        let causes = ledger.rows.iter().skip(1).take_while(|row| row.written != "device");
        let sum: i64 = causes.map(|row| row.bytes.unwrap()).sum();
        assert_eq!(Some(sum), bytes(&ledger, "device"));
        assert_eq!(bytes(&ledger, "other programs"), Some(3 * MB as i64));
        assert_eq!(bytes(&ledger, "unexplained"), Some(0));
        assert_eq!(bytes(&ledger, "log, up to whole blocks"), Some(10 * MB as i64));
        assert_eq!((ledger.amplification, ledger.unexplained_share), (Some(11.0), Some(0.0)));
        let log = &ledger.rows[1];
        assert_eq!((log.bytes_per_update, log.of_changed), (Some(20_000.0), Some(2.0)));
        let named = |name: &str| ledger.rows.iter().find(|row| row.written == name).unwrap();
        assert_eq!(named("data pages").of_changed, Some(4.0), "not over the row above");
        let others = named("other programs");
        assert_eq!((others.bytes_per_update, others.of_changed), (None, None));
        assert!(matches!(judge(&run()), Err(Clear)));
    }

    #[test]
    fn more_and_less_than_explained_are_findings_with_their_sign() {
        let with = |device: u64| {
            let mut run = run();
            run.details.written.as_mut().unwrap().device = Some(device * MB);
            (of(&run).unwrap(), judge(&run))
        };
        let (ledger, judged) = with(120);
        assert_eq!(bytes(&ledger, "unexplained"), Some(7 * MB as i64));
        assert!(judged.unwrap().message.contains("more than"));
        let (ledger, judged) = with(103);
        assert_eq!(bytes(&ledger, "unexplained"), Some(-10 * MB as i64));
        assert!(judged.unwrap().message.contains("less than database"));
        assert!(matches!(with(115).1, Err(Clear)), "within 2 %");
    }

    #[test]
    fn without_the_kernels_counts_nothing_is_unexplained_and_the_reason_is_there() {
        let mut run = run();
        let written = run.details.written.as_mut().unwrap();
        (written.origins, written.origins_unseen) = (None, Some("it needs root".to_owned()));
        let ledger = of(&run).unwrap();
        assert_eq!((bytes(&ledger, "unexplained"), ledger.unexplained_share), (None, None));
        assert_eq!(ledger.amplification, None, "other programs may have written a part");
        assert_eq!(bytes(&ledger, "data pages"), Some(40 * MB as i64));
        assert!(ledger.notes[0].contains("it needs root"), "{:?}", ledger.notes);
        assert!(why_unknown(judge(&run)).contains("it needs root"));
    }

    fn why_unknown(judged: Judgement) -> String {
        match judged {
            Err(NoFinding::Unknown(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_reason_of_an_unknown_share_is_never_a_note_of_a_drive() {
        let mut run = run();
        let written = run.details.written.as_mut().unwrap();
        written.pages = None;
        written.drives = vec![SeenDrive::default()];
        written.not_written_out = Some("a signal ended the run".to_owned());
        assert!(why_unknown(judge(&run)).contains("data pages"));
    }

    #[test]
    fn pages_that_a_database_counts_late_are_a_row_up_to_its_limit() {
        let mut run = run();
        run.details.target.direct_io = None;
        run.details.target.pages_counted_late_bytes = 6 * MB;
        let written = run.details.written.as_mut().unwrap();
        let origins = written.origins.as_mut().unwrap();
        (written.device, origins.data, origins.direct) = (Some(122 * MB), 84 * MB, 0);
        let ledger = of(&run).unwrap();
        assert_eq!(bytes(&ledger, "data pages, counted late"), Some(6 * MB as i64));
        assert_eq!(bytes(&ledger, "unexplained"), Some(3 * MB as i64));
    }

    #[test]
    fn files_in_the_page_cache_next_to_direct_data_are_a_row() {
        let mut run = run();
        let written = run.details.written.as_mut().unwrap();
        written.device = Some(120 * MB);
        written.origins.as_mut().unwrap().data = 7 * MB;
        let ledger = of(&run).unwrap();
        assert_eq!(bytes(&ledger, "other files of the database"), Some(7 * MB as i64));
        assert_eq!(bytes(&ledger, "unexplained"), Some(0));
    }

    #[test]
    fn direct_writes_that_the_database_does_not_count_are_a_row() {
        let mut run = run();
        let written = run.details.written.as_mut().unwrap();
        written.device = Some(115 * MB);
        written.origins.as_mut().unwrap().direct = 77 * MB;
        let ledger = of(&run).unwrap();
        assert_eq!(bytes(&ledger, "direct writes without a count"), Some(2 * MB as i64));
        assert_eq!(bytes(&ledger, "unexplained"), Some(0));
    }

    #[test]
    fn the_page_cache_merges_data_and_never_a_log_that_is_synced() {
        let mut run = run();
        run.details.target.direct_io = None;
        let written = run.details.written.as_mut().unwrap();
        written.device = Some(83 * MB);
        let origins = written.origins.as_mut().unwrap();
        (origins.data, origins.direct, origins.log) = (50 * MB, 0, 25 * MB);
        let ledger = of(&run).unwrap();
        assert_eq!(bytes(&ledger, "merged in the page cache"), Some(-25 * MB as i64));
        assert_eq!(bytes(&ledger, "unexplained"), Some(-5 * MB as i64));
        run.details.target.durability = Some(Durability { durable: false, setting: String::new() });
        let ledger = of(&run).unwrap();
        assert_eq!(bytes(&ledger, "merged in the page cache"), Some(-30 * MB as i64));
        assert_eq!(bytes(&ledger, "unexplained"), Some(0));
    }

    #[test]
    fn a_drives_own_amplification_and_life_come_from_its_pages() {
        let health = |host: u64, flash: u64| DriveHealth {
            temperature_c: Some(40),
            used_percent: 10,
            available_spare_percent: 100,
            host_bytes: host,
            flash_bytes: Some(flash),
            flash_page: Some("OCP page C0h".to_owned()),
            ..DriveHealth::default()
        };
        let mut run = run();
        let written = run.details.written.as_mut().unwrap();
        written.seconds = DAY_S;
        written.drives = vec![SeenDrive {
            name: "nvme0n1".to_owned(),
            model: Some("fast".to_owned()),
            size_bytes: Some(100 * MB),
            before: Some(health(3650 * MB, 5000 * MB)),
            after: Some(health(3770 * MB, 5300 * MB)),
            ..SeenDrive::default()
        }];
        let ledger = of(&run).unwrap();
        assert_eq!(bytes(&ledger, "drives, from the host"), Some(120 * MB as i64));
        assert_eq!(bytes(&ledger, "flash"), Some(300 * MB as i64));
        let words = "nvme0n1 (fast): write amplification in the drive 2.50 in the run, 1.41 over its \
                     life (OCP page C0h); at this rate 1.20 drive writes a day, remaining life 0.8 \
                     years; 10 % of its endurance used, 100 % spare; 40 to 40 degrees C";
        assert_eq!(ledger.notes, [words]);
        assert!(matches!(preconditioned(&run), Err(NoFinding::Unknown(_))), "how full is unknown");
        let drive = &mut run.details.written.as_mut().unwrap().drives[0];
        drive.before.as_mut().unwrap().host_bytes = 359 * MB;
        let found = preconditioned(&run).unwrap();
        assert!(found.message.contains("written 3.99 times over"), "{}", found.message);
        let drive = &mut run.details.written.as_mut().unwrap().drives[0];
        drive.size_bytes = None;
        let same = drive.before.clone();
        drive.after = same;
        assert!(drive_words(drive, DAY_S).contains("it counted no bytes from the host in the run"));
        assert_eq!(why_unknown(preconditioned(&run)), "the size of nvme0n1 is unknown");
        run.details.written.as_mut().unwrap().drives[0].before = None;
        assert!(why_unknown(preconditioned(&run)).contains("its health is unknown"));
    }

    #[test]
    fn the_seconds_separate_images_from_records() {
        let mut run = run();
        let second = |rows: u64, images: u64| {
            let mut second = Second { block_images: Some(images), ..Second::default() };
            second.rows.update = rows;
            let redo_bytes = Some(rows * 300 + images * 5000);
            second.io = Some(IoCounts { redo_bytes, ..IoCounts::default() });
            second
        };
        let of_images = |each: fn(u64) -> u64, run: &mut Run| {
            run.details.timeline = (1..=8).map(|n| second(1000 + n, each(n))).collect();
            let images: u64 = (1..=8).map(each).sum();
            run.summary.counters.insert(CommonCounter::BlockImages.name().to_owned(), images);
            let log = run.details.timeline.iter().map(|one| one.io.unwrap().redo_bytes.unwrap());
            run.details.written.as_mut().unwrap().log = Some(log.sum());
            bytes(&of(run).unwrap(), "log records")
        };
        let rows: i64 = (1..=8).map(|n| 1000 + n).sum();
        let records = of_images(|n| 900 / n, &mut run).unwrap();
        assert!((records - rows * 300).abs() <= 1, "{records}");
        assert_eq!(of_images(|_| 0, &mut run), Some(rows * 300));
        // As many in each second: nothing separates them.
        run.details.timeline = (1..=8).map(|_| second(1000, 100)).collect();
        run.summary.counters.insert(CommonCounter::BlockImages.name().to_owned(), 800);
        assert!(of(&run).unwrap().rows.iter().all(|row| row.written != "full-page images"));
    }
}
