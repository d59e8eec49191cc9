//! The cuts that a user requests.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::by_name;
use crate::disk::DiskKind;
use crate::engines::GuestEngine;

/// Cuts that a user requests.
#[derive(Debug, Clone)]
pub struct PowerCutRequest {
    pub engine: GuestEngine,
    pub cuts: u32,
    pub disk: DiskKind,
    /// Settings of the guest's database, such as `synchronous=off`.
    pub settings: Vec<String>,
    /// Number of cuts for each control; 0 means no controls.
    pub controls: u32,
    /// Longest time from the first commits to the cut.
    pub within: Duration,
    /// Accelerator; `None` means KVM if the processor has it.
    pub accelerator: Option<Accelerator>,
    /// Path of the petal that runs in the guest.
    pub petal: PathBuf,
    /// Folder with the guest's kernel and busybox.
    pub guest: Option<PathBuf>,
    /// Folder in which each cut's ledger and disk are kept.
    pub keep: Option<PathBuf>,
}

/// Way in which qemu executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    Kvm,
    /// Emulation by qemu itself, many times slower.
    Tcg,
}

impl Accelerator {
    pub fn parse(name: &str) -> Result<Self, String> {
        by_name([Self::Kvm, Self::Tcg], Self::name, name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// Chooses KVM if the processor has these flags. Without them, as in many virtual machines, KVM
    /// runs no stock kernel, even if the device exists.
    pub fn of_host() -> Self {
        let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let can = flags.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm");
        match can && fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok() {
            true => Self::Kvm,
            false => Self::Tcg,
        }
    }
}
