//! Bytes that a run wrote, layer by layer: counted until all of them are on the devices, after all
//! other figures are taken.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use petal_engine::threads::Thread;
use petal_host::files::Folder;
use petal_host::os::{OsSample, Probe};
use petal_record::counters::Counters;
use petal_record::target::TargetDetails;
use petal_record::written::{SeenDrive, WrittenBytes};
use petal_workload::row::changed_columns;

use super::job::{Job, Prepared};
use super::nvme;
use super::sampler::Sampler;

/// Maximum time for the kernel to write its page cache out.
const WRITE_OUT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum wait until a signal is seen.
const SIGNAL_LIMIT: Duration = Duration::from_millis(100);

/// Counts of a run with UPDATEs whose devices are seen, from before its trigger on.
pub struct Writing<'a> {
    job: &'a Job<'a>,
    prepared: &'a Prepared,
    probe: &'a Probe,
    opening_os: OsSample,
    log_folder_bytes: Option<u64>,
    drives: Vec<SeenDrive>,
}

impl<'a> Writing<'a> {
    /// Returns whether a run has such counts, on the host of its database.
    pub fn is_counted(job: &Job<'_>) -> bool {
        job.counts_database() && job.workload.writes(&job.plan)
    }

    /// Begins with the same sample as the run; `None` for other runs.
    pub fn begin(
        job: &'a Job<'a>,
        prepared: &'a Prepared,
        opening_os: Option<&OsSample>,
    ) -> Option<Self> {
        let is_counted = prepared.details.local && Self::is_counted(job);
        let probe = prepared.probe.as_ref().filter(|_| is_counted)?;
        Some(Self {
            job,
            prepared,
            probe,
            opening_os: opening_os?.clone(),
            log_folder_bytes: log_folder_bytes(prepared),
            drives: prepared.devices.as_ref().map(nvme::drives).unwrap_or_default(),
        })
    }

    /// Has the kernel write all out, and counts once more. `None` if the database does not answer.
    pub fn end(self, sampler: &mut Sampler<'_>) -> Option<WrittenBytes> {
        let Self { job, prepared, probe, mut drives, .. } = self;
        let not_written_out = match probe.sees_writes() {
            // The origins alone show how much of it the run wrote.
            false => None,
            true => write_out(job, &prepared.details),
        };
        let counters = Counters::sum(&sampler.counters_until_now(job.snapshot())?)?;
        let os = probe.sample().since(&self.opening_os);
        nvme::look_again(&mut drives);
        let columns = changed_columns(job.settings.redo_stress);
        let width = job.engine.column_bytes(u32::try_from(prepared.target.block_size).ok()?);
        let grown = log_folder_bytes(prepared).zip(self.log_folder_bytes);
        Some(WrittenBytes {
            row_bytes: (columns * width) as u64,
            new_log_files: grown.map(|(now, then)| now.saturating_sub(then)),
            device: os.device().map(|device| device.write_bytes),
            origins: os.counts.write_origins(),
            origins_unseen: prepared.writes_unseen.clone(),
            not_written_out,
            seconds: os.seconds,
            drives,
            ..WrittenBytes::of_database(&counters)
        })
    }
}

/// Has the kernel write out the page cache of the database's file systems. Returns why not all is on
/// the devices, if so.
pub fn write_out(job: &Job<'_>, details: &TargetDetails) -> Option<String> {
    let (sender, written) = mpsc::channel();
    let files =
        [&details.data_files, &details.server_files, &details.log_files].into_iter().flatten();
    let files = files.cloned().collect();
    let write = move || {
        if write_out_file_systems(files).is_err() {
            rustix::fs::sync();
        }
        // Nobody listens after the limit.
        let _ = sender.send(());
    };
    let interrupted = || job.is_interrupted().then(|| "a signal ended the run".to_owned());
    if let Some(why) = interrupted() {
        return Some(why);
    }
    let began = Instant::now();
    if let Err(error) = Thread::named("write out").start(write) {
        return Some(format!("no thread could be started: {error}"));
    }
    while written.recv_timeout(SIGNAL_LIMIT).is_err() {
        if let Some(why) = interrupted() {
            return Some(why);
        }
        if began.elapsed() >= WRITE_OUT_LIMIT {
            let limit_s = WRITE_OUT_LIMIT.as_secs();
            return Some(format!("the kernel had not written all out after {limit_s} s"));
        }
    }
    None
}

/// Fails if a folder cannot be opened, and for a device: its page cache is in no file system of a disk.
fn write_out_file_systems(files: Vec<PathBuf>) -> io::Result<()> {
    let mut done = BTreeSet::new();
    for path in files {
        let found = fs::metadata(&path)?;
        // petal's own database would lose its locks if a file of it were closed.
        let folder = if found.is_dir() { Some(&*path) } else { path.parent() };
        let folder = folder.filter(|_| !found.file_type().is_block_device());
        let folder = Folder::open(folder.ok_or(io::ErrorKind::Unsupported)?)?;
        if folder.file().metadata()?.dev() != found.dev() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        if done.insert(found.dev()) {
            rustix::fs::syncfs(folder.file())?;
        }
    }
    Ok(())
}

/// Bytes of the files in the folder of a server's log. None without one, and if it cannot be read.
fn log_folder_bytes(prepared: &Prepared) -> Option<u64> {
    let details = &prepared.details;
    let is_folder = |path: &&PathBuf| !details.in_process && path.is_dir();
    let folder = details.log_files.iter().find(is_folder)?;
    let sizes = std::fs::read_dir(folder).ok()?.flatten();
    Some(sizes.filter_map(|file| Some(file.metadata().ok()?.len())).sum())
}
