//! Checks whether a file or a block device is in use; petal then never touches it. A use that the
//! system does not show cannot be excluded.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::target::TargetFile;
use petal_engine::in_use::FileId;
use petal_engine::on_path::OnPath;
use petal_engine::{EngineError, Result};
use petal_host::devices::{Roots, mounted_at, unescaped};
use petal_host::files;

type Number = (u32, u32);

/// Refuses a block device in use, or a file on one: itself, a partition of it, or the whole disk
/// that it is part of. It also refuses if the system does not say. No flag changes that.
pub fn refuse_in_use(there: &TargetFile, roots: &Roots) -> Result<()> {
    let about = there.file.metadata().on(&there.path)?;
    let looked = match number_of_device(&about) {
        Some(number) => device_in_use(number, roots),
        None => file_in_use(FileId::from(&about), roots),
    };
    let (reason, next) = match looked {
        Ok(None) => return Ok(()),
        Ok(Some(reason)) => (reason, "end that use first, or name another target"),
        Err(unseen) => (
            format!("whether it is in use cannot be seen: {unseen}"),
            "let petal read it (mount /proc and /sys, in a container too), or name another target",
        ),
    };
    Err(EngineError::Environment(format!(
        "{}: {reason}; petal never touches a device in use: {next}",
        there.path.display()
    )))
}

/// Description of a use, or a system error if it cannot be determined.
type Use = Result<Option<String>, Unseen>;

/// Error of a file in /proc or /sys that could not be read.
#[derive(Debug)]
struct Unseen(PathBuf, io::Error);

impl fmt::Display for Unseen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.0.display(), self.1)
    }
}

fn with_path<T>(path: &Path, looked: io::Result<T>) -> Result<T, Unseen> {
    looked.map_err(|error| Unseen(path.to_owned(), error))
}

/// Returns the result, or `None` if the path does not exist.
fn with_path_if_exists<T>(path: &Path, looked: io::Result<T>) -> Result<Option<T>, Unseen> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => with_path(path, looked).map(Some),
    }
}

fn names_in(folder: &Path) -> Result<Vec<OsString>, Unseen> {
    let entries = with_path(folder, fs::read_dir(folder))?;
    entries.map(|entry| with_path(folder, entry).map(|entry| entry.file_name())).collect()
}

fn device_in_use(number: Number, roots: &Roots) -> Use {
    let link = roots.sys.join(format!("dev/block/{}:{}", number.0, number.1));
    let folder = with_path(&link, fs::canonicalize(&link))?;
    let swaps = swaps(roots)?;
    // A partition's disk may be used as a whole.
    let disk = folder.parent().filter(|_| folder.join("partition").exists());
    let mut all = vec![folder.clone()];
    all.extend(partitions(&folder)?);
    all.extend(disk.map(Path::to_owned));
    for folder in all {
        let used = match used(&folder, roots, &swaps)? {
            None => held(&folder)?,
            used => used,
        };
        if used.is_some() {
            return Ok(used);
        }
    }
    Ok(None)
}

/// Reports a mount or swap.
fn used(folder: &Path, roots: &Roots, swaps: &[PathBuf]) -> Use {
    let name = name(folder);
    let number = number(folder)?;
    if let Some(point) = mounted(roots, number)?.first() {
        return Ok(Some(format!("{name} is mounted on {}", point.display())));
    }
    let is_it = |swap: &PathBuf| {
        fs::metadata(swap).is_ok_and(|about| number_of_device(&about) == Some(number))
    };
    Ok(swaps.iter().any(is_it).then(|| format!("{name} is swap")))
}

/// Reports volumes, RAIDs and encrypted devices on the device.
fn held(folder: &Path) -> Use {
    let holders = folder.join("holders");
    let holders = with_path_if_exists(&holders, fs::metadata(&holders))?
        .map_or(Ok(Vec::new()), |_| names_in(&holders))?;
    let holders: Vec<_> = holders.iter().map(|holder| holder.to_string_lossy()).collect();
    let name = name(folder);
    Ok((!holders.is_empty()).then(|| format!("{name} is held by {}", holders.join(", "))))
}

/// Reports a use of a file. A file has as many names as hard links, so its number is compared.
fn file_in_use(own: FileId, roots: &Roots) -> Use {
    let is_it = |path: &Path| FileId::of(path).is_ok_and(|it| it == own);
    if swaps(roots)?.iter().any(|swap| is_it(swap)) {
        return Ok(Some("it is swap".to_owned()));
    }
    let devices = roots.sys.join("block");
    for device in names_in(&devices)? {
        let backing = devices.join(&device).join("loop/backing_file");
        let behind = with_path_if_exists(&backing, files::system_text(&backing))?;
        if behind.is_some_and(|path| is_it(Path::new(path.trim_end_matches('\n')))) {
            return Ok(Some(format!("it is behind {}", device.to_string_lossy())));
        }
    }
    Ok(None)
}

fn mounted(roots: &Roots, number: Number) -> Result<Vec<PathBuf>, Unseen> {
    with_path(&roots.proc.join("self/mountinfo"), mounted_at(roots, number))
}

/// Returns files and devices used as swap. A kernel without swap has no such list.
fn swaps(roots: &Roots) -> Result<Vec<PathBuf>, Unseen> {
    let mounts = roots.proc.join("self/mountinfo");
    with_path(&mounts, fs::metadata(&mounts))?; // Or /proc is not there at all.
    let list = roots.proc.join("swaps");
    let text = with_path_if_exists(&list, files::system_text(&list))?.unwrap_or_default();
    let paths = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(paths.map(unescaped).collect())
}

fn partitions(folder: &Path) -> Result<Vec<PathBuf>, Unseen> {
    let names = names_in(folder)?.into_iter();
    Ok(names.map(|name| folder.join(name)).filter(|it| it.join("partition").exists()).collect())
}

/// Returns the number of a block device, or `None` for any other file.
fn number_of_device(about: &Metadata) -> Option<Number> {
    let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    about.file_type().is_block_device().then_some(number)
}

fn number(folder: &Path) -> Result<Number, Unseen> {
    let path = folder.join("dev");
    let text = with_path(&path, files::system_text(&path))?;
    let number = text
        .trim()
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    number.ok_or_else(|| Unseen(path, io::Error::other("it holds no device number")))
}

fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().replace('!', "/")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::devices::recorded::Recorded;

    #[test]
    fn a_partition_volume_or_disk_in_use_is_found() {
        let tree = Recorded::of(concat!(
            "/sys/dev/block/8:0 -> ../../devices/sda\n",
            "/sys/dev/block/8:1 -> ../../devices/sda/sda1\n",
            "/sys/dev/block/8:2 -> ../../devices/sda/sda2\n",
            "/sys/dev/block/8:16 -> ../../devices/sdb\n",
            "/sys/dev/block/8:32 -> ../../devices/sdc\n",
            "/sys/dev/block/8:33 -> ../../devices/sdc/sdc1\n",
            "/sys/devices/sda/dev = 8:0\n",
            "/sys/devices/sda/sda1/dev = 8:1\n",
            "/sys/devices/sda/sda1/partition = 1\n",
            "/sys/devices/sda/sda2/dev = 8:2\n",
            "/sys/devices/sda/sda2/partition = 2\n",
            "/sys/devices/sdb/dev = 8:16\n",
            "/sys/devices/sdb/holders/md0 = \n",
            "/sys/devices/sdc/dev = 8:32\n",
            "/sys/devices/sdc/sdc1/dev = 8:33\n",
            "/sys/devices/sdc/sdc1/partition = 1\n",
            "/sys/dev/block/8:49 -> ../../devices/sdd/sdd1\n",
            "/sys/devices/sdd/dev = 8:48\n",
            "/sys/devices/sdd/holders/mpatha = \n",
            "/sys/devices/sdd/sdd1/dev = 8:49\n",
            "/sys/devices/sdd/sdd1/partition = 1\n",
            "/proc/self/mountinfo\n",
            "  30 27 8:1 / /data rw - xfs /dev/none1 rw\n",
            "  31 27 8:32 / /whole rw - xfs /dev/none2 rw\n",
        ));
        let roots = tree.roots();
        let used = |number| device_in_use(number, &roots).unwrap();
        assert_eq!(used((8, 1)).unwrap(), "sda1 is mounted on /data");
        assert_eq!(used((8, 0)).unwrap(), "sda1 is mounted on /data", "its partition");
        assert_eq!(used((8, 2)), None, "a sibling is free");
        assert_eq!(used((8, 16)).unwrap(), "sdb is held by md0");
        assert_eq!(used((8, 33)).unwrap(), "sdc is mounted on /whole", "its disk");
        assert_eq!(used((8, 49)).unwrap(), "sdd is held by mpatha", "its disk");
    }

    #[test]
    fn a_file_behind_a_loop_device_or_in_swap_is_found_by_any_of_its_names() {
        let place = tempfile::tempdir().unwrap();
        let [behind, other_name, swap, other_swap, free] =
            ["behind", "other-name", "swap", "other-swap", "free"]
                .map(|name| place.path().join(name));
        for path in [&behind, &swap, &free] {
            fs::write(path, b"x").unwrap();
        }
        fs::hard_link(&behind, &other_name).unwrap();
        fs::hard_link(&swap, &other_swap).unwrap();
        let tree = Recorded::of(&format!(
            "/proc/self/mountinfo = \n/sys/block/loop7/loop/backing_file = {}\n/proc/swaps\n  Filename Type Size Used \
             Priority\n  {} file 1 0 -2\n",
            behind.display(),
            swap.display(),
        ));
        let used = |path: &Path| file_in_use(FileId::of(path).unwrap(), &tree.roots()).unwrap();
        for path in [&behind, &other_name] {
            assert_eq!(used(path).unwrap(), "it is behind loop7");
        }
        for path in [&swap, &other_swap] {
            assert_eq!(used(path).unwrap(), "it is swap");
        }
        assert_eq!(used(&free), None);
    }

    #[test]
    fn a_target_that_the_system_does_not_show_is_not_free() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("petal.dat");
        fs::write(&path, "x").unwrap();
        let there = TargetFile::find(&path).unwrap().unwrap();
        let refused = |text: &str| refuse_in_use(&there, &Recorded::of(text).roots());
        let (mounts, block) = ("/proc/self/mountinfo = \n", "/sys/block/sda/dev = 8:0\n");
        assert!(refused(&format!("{mounts}{block}")).is_ok());
        for (shown, missing) in [(mounts, "sys/block"), (block, "proc/self/mountinfo")] {
            let message = refused(shown).unwrap_err().to_string();
            assert!(message.contains("cannot be seen") && message.contains(missing), "{message}");
        }
        let loop_of_nobody = "/sys/block/loop1/loop/backing_file/is/a/folder = \n";
        let message = refused(&format!("{mounts}{loop_of_nobody}")).unwrap_err().to_string();
        assert!(message.contains("backing_file"), "{message}");
        let tree = Recorded::of(&format!("{mounts}{block}"));
        assert!(device_in_use((8, 0), &tree.roots()).unwrap_err().to_string().contains("8:0"));
    }
}
