//! The guest: a stock kernel, and a first file system with busybox, petal and the kernel's modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::super::RunError;
use super::archive::Archive;
use super::{Circle, Disk, failed, own_program};

/// Modules of a stock kernel, in the order in which they need each other; those that it has built in
/// are missing there.
const MODULES: [&str; 10] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "crc16",
    "jbd2",
    "ext4",
];

/// Ends what the guest tells by its port.
const OVER: &str = "PETAL-OVER";

/// The guest's first program. What to do stands on the kernel's command line.
const INIT: &str = "\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
mount -t ext4 -o noatime /dev/vda /mnt || echo the file system cannot be mounted
work=$(sed 's/.*petal=//' /proc/cmdline | tr , ' ')
set -- $work
export HOME=/ NO_OS_PERF_DATA=TRUE OUT=/tmp
port=$(ls /dev/vport*)
cd /tmp
case $1 in
run) petal run -s 1 -t 2 --update-pct 100 --work-unit 4 --run-time 100000 --db \"$2\" --ledger $port ;;
verify) cat /dev/vdb >ledger; petal verify ledger --json >verdict 2>why
    cat verdict why >$port; echo PETAL-OVER >$port ;;
esac
poweroff -f
";

/// Programs and files that a guest is made of.
pub struct Programs {
    kernel: PathBuf,
    modules: PathBuf,
    has_kvm: bool,
}

impl Programs {
    /// The kernel's modules lie where its package puts them: beside its `boot`.
    pub fn find(kernel: Option<&Path>) -> Result<Self, RunError> {
        let kernel = match kernel {
            Some(kernel) => kernel.to_owned(),
            None => newest_kernel().ok_or_else(|| {
                RunError::Environment(
                    "no kernel in /boot for the guest: install linux-image-cloud-amd64, or unpack \
                     it (apt-get download, dpkg -x) and name its boot/vmlinuz by --kernel"
                        .to_owned(),
                )
            })?,
        };
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = name.strip_prefix("vmlinuz-").unwrap_or_default().to_owned();
        let root = kernel.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let modules = root.join("lib/modules").join(version).join("kernel");
        if !modules.exists() {
            return Err(RunError::Environment(format!(
                "{}: its modules are not in {}",
                kernel.display(),
                modules.display()
            )));
        }
        for (program, package) in [
            ("qemu-system-x86_64", "qemu-system-x86"),
            ("nbdkit", "nbdkit"),
            ("mkfs.ext4", "e2fsprogs"),
            ("busybox", "busybox-static"),
        ] {
            if in_path(program).is_none() {
                return Err(RunError::Environment(format!(
                    "{program} is not installed (Debian's package {package})"
                )));
            }
        }
        Ok(Self { kernel, modules, has_kvm: has_kvm() })
    }

    pub fn accelerator(&self) -> &'static str {
        if self.has_kvm { "kvm" } else { "tcg" }
    }

    /// Writes the guest's first file system.
    pub fn archive(&self, path: &Path) -> Result<(), RunError> {
        let doing = "making the guest's files";
        let file = fs::File::create(path).map_err(failed(doing))?;
        let mut archive = Archive::new(std::io::BufWriter::new(file));
        let petal = own_program()?;
        let mut folders: BTreeSet<PathBuf> =
            ["bin", "dev", "proc", "sys", "mnt", "tmp", "modules"].map(PathBuf::from).into();
        let mut files = vec![("init".to_owned(), INIT.as_bytes().to_vec())];
        let mut add = |name: String, from: &Path| {
            let bytes = fs::read(from).map_err(failed(&format!("reading {}", from.display())))?;
            files.push((name, bytes));
            Ok::<_, RunError>(())
        };
        add("bin/busybox".to_owned(), &in_path("busybox").unwrap_or_default())?;
        add("bin/petal".to_owned(), &petal)?;
        for library in libraries(&petal)? {
            let name = library.strip_prefix("/").unwrap_or(&library);
            folders.extend(
                name.ancestors().skip(1).filter(|path| path.parent().is_some()).map(Path::to_owned),
            );
            add(name.display().to_string(), &library)?;
        }
        for (module, number) in MODULES.iter().zip(10..) {
            if let Some(path) = find_below(&self.modules, &format!("{module}.ko")) {
                add(format!("modules/{number}-{module}.ko"), &path)?;
            }
        }
        for folder in folders {
            archive.folder(&folder.display().to_string()).map_err(failed(doing))?;
        }
        for (name, bytes) in files {
            archive.file(&name, &bytes).map_err(failed(doing))?;
        }
        archive.end().map_err(failed(doing))
    }
}

/// A guest at work.
pub struct Guest {
    machine: Child,
    console: PathBuf,
}

impl Guest {
    /// `port`: the file into which its port leads, and one that it gets as a second disk.
    pub fn boot(
        circle: &Circle<'_>,
        disk: &Disk,
        work: &str,
        (port, second): (&Path, Option<&Path>),
    ) -> Result<Self, RunError> {
        let console = circle.path("console");
        let mut machine = Command::new("qemu-system-x86_64");
        match circle.programs.has_kvm {
            true => machine.args(["-accel", "kvm", "-cpu", "host"]),
            false => machine.args(["-accel", "tcg,thread=multi"]),
        };
        machine.args(["-m", "512", "-smp", "1", "-display", "none", "-no-reboot"]);
        machine.args(["-nodefaults", "-serial"]).arg(format!("file:{}", console.display()));
        machine.arg("-kernel").arg(&circle.programs.kernel);
        machine.arg("-initrd").arg(circle.path("guest.cpio"));
        let work = work.replace(' ', ",");
        machine.args(["-append", &format!("console=ttyS0 quiet panic=-1 petal={work}")]);
        let socket = disk.socket.display();
        machine.arg("-drive").arg(format!(
            "file.driver=nbd,file.server.type=unix,file.server.path={socket},format=raw,if=virtio,\
             cache=none"
        ));
        if let Some(second) = second {
            let file = second.display();
            machine.arg("-drive").arg(format!("file={file},format=raw,if=virtio,snapshot=on"));
        }
        machine.args(["-device", "virtio-serial-pci", "-chardev"]);
        machine.arg(format!("file,id=port,path={},append=on", port.display()));
        machine.args(["-device", "virtserialport,chardev=port,name=petal"]);
        let log = fs::File::create(circle.path("machine.log")).map_err(failed("making a log"))?;
        let started = machine.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Ok(Self { machine: started.map_err(failed("starting qemu"))?, console })
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.machine.try_wait(), Ok(None))
    }

    pub fn last_words(&self) -> String {
        let said = fs::read(&self.console).unwrap_or_default();
        let log = fs::read(self.console.with_file_name("machine.log")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned() + &String::from_utf8_lossy(&log);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(8)..].join(" | ")
    }

    /// As when its power fails.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a guest has told all by its port.
pub fn is_over(port: &Path) -> bool {
    fs::read_to_string(port).is_ok_and(|said| said.contains(OVER))
}

/// A processor that cannot virtualise, as in a virtual machine of this kind itself, runs no stock
/// kernel by KVM, though the device may be there.
fn has_kvm() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let can = flags.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    can && fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

fn newest_kernel() -> Option<PathBuf> {
    let kernels = fs::read_dir("/boot").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_one = |path: &PathBuf| path.to_string_lossy().starts_with("/boot/vmlinuz-");
    kernels.filter(is_one).max()
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).collect::<Vec<_>>();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    all.into_iter().chain(system).map(|folder| folder.join(program)).find(|path| path.exists())
}

/// The libraries that a program is linked with, and the one that loads them.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, RunError> {
    let listed = Command::new("ldd").arg(program).output().map_err(failed("starting ldd"))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let words = text.split_ascii_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn find_below(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let is_folder = path.is_dir();
        if is_folder && let Some(found) = find_below(&path, name) {
            return Some(found);
        }
        if !is_folder && entry.file_name() == name {
            return Some(path);
        }
    }
    None
}
