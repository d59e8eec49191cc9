//! The guest: a stock kernel, and a first file system with busybox, petal and an engine's programs.
//! It boots once, until it needs its disk; every order begins by restoring that machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use time::OffsetDateTime;

use crate::archive::Archive;
use crate::engines::{GuestEngine, files_below};
use crate::error::{CutError, failed};
use crate::request::{Accelerator, PowerCutRequest};

/// Modules of a stock kernel, in the order in which they need each other; a built-in module is
/// missing from the kernel's folder.
const MODULES: [&str; 14] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "crc16",
    "crc32c_generic",
    "libcrc32c",
    "crc32c_cryptoapi",
    "mbcache",
    "jbd2",
    "ext4",
];
/// Folders in which the kernel package and busybox may be unpacked.
const ROOTS: [&str; 2] = ["petal-guest", "/"];
/// Kernel options. On a busy host the emulated timer is too slow for the kernel's timer check,
/// which would panic.
const KERNEL_OPTIONS: &str =
    "console=ttyS0 quiet panic=-1 mitigations=off rootfstype=ramfs no_timer_check";
const INIT: &str = include_str!("guest/init.sh");
const WORK: &str = include_str!("guest/work.sh");
const READY: &str = "PETAL-READY";
/// Marks before and after the output of an order; a ledger may precede the output.
const SAID: &str = "PETAL-SAID\n";
const OVER: &str = "PETAL-OVER ";
/// Space for the order, before the ledger on the guest's second disk.
const ORDER_BYTES: usize = 16 << 10;
const ORDER_DISK_BYTES: u64 = 64 << 20;

/// Files of this host from which a guest is made.
pub struct Programs {
    pub kernel: PathBuf,
    pub modules: PathBuf,
    pub busybox: PathBuf,
    pub accelerator: Accelerator,
}

impl Programs {
    /// Finds the programs; `root` is a folder with the unpacked packages.
    pub fn find(root: Option<&Path>, accelerator: Accelerator) -> Result<Self, CutError> {
        for (program, package) in
            [("qemu-system-x86_64", "qemu-system-x86"), ("mkfs.ext4", "e2fsprogs")]
        {
            if in_path(program).is_none() {
                let why = format!("{program} is not installed; install Debian's package {package}");
                return Err(CutError::Failed(why));
            }
        }
        let roots =
            root.map_or_else(|| ROOTS.map(PathBuf::from).to_vec(), |root| vec![root.into()]);
        let missing = |what: &str| {
            let places = roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>();
            CutError::Failed(format!(
                "no {what} for the guest in {}; `sh scripts/powercut-guest.sh` of petal's sources \
                 downloads and unpacks Debian's packages into petal-guest, or name a folder with \
                 them by --guest",
                places.join(" or ")
            ))
        };
        let kernel = roots.iter().find_map(|root| kernel_of(root));
        let (kernel, modules) = kernel.ok_or_else(|| missing("kernel with its modules"))?;
        let of_roots = roots.iter().flat_map(|root| ["bin", "usr/bin"].map(|bin| root.join(bin)));
        let busybox = of_roots.map(|bin| bin.join("busybox")).find(|path| path.exists());
        let busybox = busybox.ok_or_else(|| missing("busybox"))?;
        Ok(Self { kernel, modules, busybox, accelerator })
    }

    /// Writes the guest's first file system.
    pub fn archive(&self, request: &PowerCutRequest, path: &Path) -> Result<(), CutError> {
        let doing = "making the guest's files";
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut add = |name: &Path, from: &Path| {
            let bytes = fs::read(from).map_err(failed(&format!("reading {}", from.display())))?;
            let name = name.strip_prefix("/").unwrap_or(name).to_owned();
            files.insert(name, bytes);
            Ok::<_, CutError>(())
        };
        let petal = &request.petal;
        let of_engine = request.engine.files()?;
        add(Path::new("bin/busybox"), &self.busybox)?;
        add(Path::new("bin/petal"), petal)?;
        for file in &of_engine {
            add(file, file)?;
        }
        let is_program = |path: &&PathBuf| path.parent().is_some_and(|bin| bin.ends_with("bin"));
        for program in of_engine.iter().filter(is_program).chain([petal, &self.busybox]) {
            for library in libraries(program)? {
                add(&library, &library)?;
            }
        }
        let modules = files_below(&self.modules);
        for (module, number) in MODULES.iter().zip(10..) {
            let of_name = |path: &&PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
                name.split(".ko").next() == Some(module)
            };
            if let Some(path) = modules.iter().find(of_name) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                add(Path::new(&format!("modules/{number}-{name}")), path)?;
            }
        }
        let texts = [
            ("init", INIT),
            ("etc/passwd", "root:x:0:0::/:/bin/sh\npostgres:x:70:70::/tmp:/bin/sh\n"),
            ("etc/group", "root:x:0:\npostgres:x:70:\n"),
        ];
        files.extend(texts.map(|(name, text)| (name.into(), text.as_bytes().to_vec())));
        let file = fs::File::create(path).map_err(failed(doing))?;
        Archive::write(std::io::BufWriter::new(file), &files).map_err(failed(doing))
    }
}

/// A running virtual machine. All of its files are in one folder.
pub struct Machine {
    pub process: Child,
    pub folder: PathBuf,
}

impl Machine {
    /// Boots until the guest waits for an order.
    pub fn boot(programs: &Programs, folder: &Path) -> Result<Self, CutError> {
        Self::start(programs, folder, &["-monitor", "stdio"])
    }

    /// Restores the saved machine.
    pub fn restore(programs: &Programs, folder: &Path) -> Result<Self, CutError> {
        Self::start(programs, folder, &["-incoming", "exec:cat state"])
    }

    fn start(programs: &Programs, folder: &Path, more: &[&str]) -> Result<Self, CutError> {
        fs::write(folder.join("port"), []).map_err(failed("making the guest's port"))?;
        // The machine ends with petal, however petal ends.
        let mut machine = Command::new("setpriv");
        machine.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        match programs.accelerator {
            Accelerator::Kvm => machine.args(["-accel", "kvm", "-cpu", "host"]),
            Accelerator::Tcg => machine.args(["-accel", "tcg,thread=multi"]),
        };
        machine.args(["-m", "512", "-smp", "1", "-display", "none", "-no-reboot", "-nodefaults"]);
        machine.args(["-serial", "file:console", "-initrd", "guest.cpio", "-kernel"]);
        machine.arg(fs::canonicalize(&programs.kernel).map_err(failed("finding the kernel"))?);
        machine.args(["-append", KERNEL_OPTIONS]);
        machine.args([
            "-drive",
            "file.driver=nbd,file.server.type=unix,file.server.path=disk,format=raw,if=virtio,\
             cache=none",
            "-drive",
            "file=order,format=raw,if=virtio,read-only=on",
        ]);
        machine.args(["-device", "virtio-serial-pci"]);
        machine.args(["-chardev", "file,id=port,path=port,append=on"]);
        machine.args(["-device", "virtserialport,chardev=port,name=petal"]).args(more);
        let log = fs::File::create(folder.join("machine.log")).map_err(failed("making a log"))?;
        let said = log.try_clone().map_err(failed("making a log"))?;
        machine.current_dir(folder).stdin(Stdio::piped()).stdout(said).stderr(log);
        // petal handles Ctrl-C, not the machine.
        let process = machine.process_group(0).spawn().map_err(failed("starting qemu"))?;
        Ok(Self { process, folder: folder.to_owned() })
    }

    /// Saves the machine and ends it; [`Machine::has_ended`] reports when that is done.
    pub fn save(&mut self) -> Result<(), CutError> {
        let monitor = self.process.stdin.as_mut();
        let order = b"migrate \"exec:cat >state\"\nquit\n";
        monitor
            .map_or(Ok(()), |monitor| monitor.write_all(order))
            .map_err(failed("saving the guest"))
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// True if the guest waits for an order, as it reports through its port.
    pub fn is_ready(&self) -> bool {
        self.said().contains(READY)
    }

    /// Returns an order's output and exit code, or `None` while it runs.
    pub fn outcome(&self) -> Option<(String, u8)> {
        outcome_of(&self.said())
    }

    fn said(&self) -> String {
        let said = fs::read(self.folder.join("port")).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Returns the output of a finished order; else the output of the guest's kernel and qemu.
    pub fn last_words(&self) -> String {
        if let Some((output, _)) = self.outcome() {
            return output.trim().to_owned();
        }
        let read = |name| fs::read(self.folder.join(name)).unwrap_or_default();
        let said = [read("console"), read("machine.log")].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(8)..].join(" | ")
    }
}

impl Drop for Machine {
    /// Kills the machine, as a power failure does.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn outcome_of(said: &str) -> Option<(String, u8)> {
    let (output, end) = said.split_once(SAID)?.1.rsplit_once(OVER)?;
    let (code, _) = end.split_once('\n')?;
    Some((output.to_owned(), code.parse().ok()?))
}

/// Work for a restored guest.
#[derive(Debug, Clone, Copy, Default)]
pub struct GuestWork<'a> {
    /// `load`, `run` or `verify`.
    pub work: &'static str,
    pub settings: &'a [String],
    /// Seed of the run: restored machines would otherwise draw the same random numbers.
    pub seed: u64,
    /// Ledger to verify.
    pub ledger: &'a [u8],
    /// Set if the guest must unmount its disk cleanly.
    pub keeps_disk: bool,
}

impl GuestWork<'_> {
    pub fn write(&self, folder: &Path, engine: GuestEngine) -> Result<(), CutError> {
        let length = self.ledger.len();
        let mut bytes = self.text(engine).into_bytes();
        if bytes.len() > ORDER_BYTES || length as u64 > ORDER_DISK_BYTES / 2 {
            let why = format!("the guest's order or its ledger of {length} bytes is too long");
            return Err(CutError::Failed(why + "; cut earlier, with a lower --within"));
        }
        bytes.resize(ORDER_BYTES, 0);
        bytes.extend_from_slice(self.ledger);
        write_disk(folder, &bytes)
    }

    fn text(&self, engine: GuestEngine) -> String {
        let Self { work, seed, .. } = self;
        let keep = if self.keeps_disk { "yes" } else { "no" };
        let (settings, length) = (self.settings.join(" "), self.ledger.len());
        let now = OffsetDateTime::now_utc().unix_timestamp();
        format!(
            "work={work} seed={seed} keep={keep} now={now} ledger_bytes={length}\n\
             settings='{settings}'\n{}{WORK}",
            engine.script()
        )
    }
}

/// Writes the guest's second disk; without an order the guest waits for one.
pub fn write_disk(folder: &Path, bytes: &[u8]) -> Result<(), CutError> {
    let path = folder.join("order");
    let write = || {
        fs::write(&path, bytes)?;
        fs::OpenOptions::new().write(true).open(&path)?.set_len(ORDER_DISK_BYTES)
    };
    write().map_err(failed("writing the guest's order"))
}

/// Returns the newest kernel of a root that has modules, and those modules.
fn kernel_of(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let kernels = root.join("boot").read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let with_modules = |kernel: PathBuf| {
        let version = kernel.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        let places = ["lib", "usr/lib"].map(|lib| root.join(lib).join("modules").join(&version));
        let modules = places.into_iter().find(|modules| modules.join("kernel").exists())?;
        Some((kernel, modules))
    };
    kernels.filter_map(with_modules).max()
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).collect::<Vec<_>>();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    all.into_iter().chain(system).map(|folder| folder.join(program)).find(|path| path.exists())
}

/// Returns the libraries that a program is linked with, and their loader; empty for a static
/// program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, CutError> {
    let listed = Command::new("ldd").arg(program).output().map_err(failed("starting ldd"))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words = text.split_ascii_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.filter(|word| !word.ends_with(':')).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_complete_and_follows_the_ledger() {
        let refused = "PETALLDG\u{fffd}\nPETAL-SAID\npetal: DB: twice\nPETAL-OVER 2\n";
        assert_eq!(outcome_of(refused), Some(("petal: DB: twice\n".to_owned(), 2)));
        assert_eq!(outcome_of("PETAL-SAID\n{}PETAL-OVER 0\n"), Some(("{}".to_owned(), 0)));
        for end in 1..11 {
            assert_eq!(outcome_of(&refused[..refused.len() - end]), None, "{end}");
        }
    }
}
