//! Log pages of NVMe drives about their health: bytes from the host and bytes on the flash, wear,
//! temperature. The caller reads the pages from a drive.
//!
//! Layouts: NVM Express Base Specification 2.0, figure 207 (page 02h); OCP Datacenter NVMe SSD
//! Specification 2.0, section 4.8.6 (page C0h); Intel's and Solidigm's product specifications, which
//! nvme-cli and smartmontools read alike (page CAh).

use serde::{Deserialize, Serialize};

/// Bytes of each page here.
pub const PAGE_BYTES: usize = 512;
/// Number of the standard page.
pub const HEALTH_PAGE: u8 = 0x02;
/// A data unit is 1,000 blocks of 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;
const ZERO_CELSIUS_KELVIN: i32 = 273;
/// The GUID of OCP's page in its last 16 bytes, as they lie there.
const OCP_GUID: [u8; 16] = [
    0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5, 0xAF,
];
/// Vendors whose page CAh is known: Intel and Solidigm.
const INTEL_VENDORS: [u16; 2] = [0x8086, 0x025E];
const INTEL_ENTRY_BYTES: usize = 12;
const INTEL_FLASH_BYTES_KEY: u8 = 0xF4;
const INTEL_UNIT_BYTES: u64 = 32 << 20;

/// Figures of a drive at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveHealth {
    /// Bits of the standard page: spare, temperature, reliability, read only, backup.
    pub critical_warning: u8,
    /// Degrees Celsius; null if the drive does not report it.
    pub temperature_c: Option<i32>,
    pub available_spare_percent: u8,
    /// Endurance used, by the vendor's estimate; it may exceed 100.
    pub used_percent: u8,
    /// Bytes from the host over the drive's life, in steps of 512,000.
    pub host_bytes: u64,
    /// Bytes written to the flash over the drive's life; null without a known page.
    pub flash_bytes: Option<u64>,
    /// The page with those bytes.
    pub flash_page: Option<String>,
}

impl DriveHealth {
    /// Reads the standard page. `None` if it is too short.
    pub fn of_page(page: &[u8]) -> Option<Self> {
        let page: &[u8; PAGE_BYTES] = page.get(..PAGE_BYTES)?.try_into().ok()?;
        let kelvin = i32::from(u16::from_le_bytes([page[1], page[2]]));
        Some(Self {
            critical_warning: page[0],
            temperature_c: (kelvin > 0).then_some(kelvin - ZERO_CELSIUS_KELVIN),
            available_spare_percent: page[3],
            used_percent: page[5],
            host_bytes: clamped(number_at(page, 48)?.saturating_mul(DATA_UNIT_BYTES)),
            ..Self::default()
        })
    }

    /// Adds the bytes of a vendor's page, if it is the expected one.
    pub fn with_flash(self, page: FlashPage, bytes: &[u8]) -> Self {
        match page.flash_bytes(bytes) {
            None => self,
            Some(flash) => {
                let flash_page = Some(page.name().to_owned());
                Self { flash_bytes: Some(flash), flash_page, ..self }
            }
        }
    }
}

/// A page with the bytes on the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashPage {
    Ocp,
    Intel,
}

impl FlashPage {
    /// Pages that a vendor's drive may have, by its PCI number. OCP's page is known by its GUID, so
    /// that any drive may be asked for it.
    pub fn of_vendor(vendor: Option<u16>) -> Vec<Self> {
        let intel = vendor.is_some_and(|vendor| INTEL_VENDORS.contains(&vendor));
        if intel { vec![Self::Ocp, Self::Intel] } else { vec![Self::Ocp] }
    }

    pub fn number(self) -> u8 {
        match self {
            Self::Ocp => 0xC0,
            Self::Intel => 0xCA,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ocp => "OCP page C0h",
            Self::Intel => "Intel page CAh",
        }
    }

    fn flash_bytes(self, page: &[u8]) -> Option<u64> {
        let page = page.get(..PAGE_BYTES)?;
        match self {
            Self::Ocp => {
                let is_ocp = page.ends_with(&OCP_GUID);
                is_ocp.then(|| number_at(page, 0)).flatten().map(clamped)
            }
            Self::Intel => {
                let mut entries = page.chunks_exact(INTEL_ENTRY_BYTES);
                let entry = entries.find(|entry| entry[0] == INTEL_FLASH_BYTES_KEY)?;
                // Six bytes behind the key, its padding and the normalised value.
                let mut raw = [0; 8];
                raw[..6].copy_from_slice(&entry[5..11]);
                u64::from_le_bytes(raw).checked_mul(INTEL_UNIT_BYTES)
            }
        }
    }
}

/// A number of 16 bytes.
fn number_at(page: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(page.get(at..at + 16)?.try_into().ok()?))
}

fn clamped(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The standard page of a drive at 38 degrees, with 3 % of its endurance used.
    fn page(units_written: u128) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        page[1..3].copy_from_slice(&311u16.to_le_bytes());
        (page[3], page[4], page[5]) = (99, 10, 3);
        page[32..48].copy_from_slice(&u128::MAX.to_le_bytes());
        page[48..64].copy_from_slice(&units_written.to_le_bytes());
        page[64..80].copy_from_slice(&u128::MAX.to_le_bytes());
        page
    }

    fn ocp(bytes: u128) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        page[..16].copy_from_slice(&bytes.to_le_bytes());
        page[16..32].copy_from_slice(&u128::MAX.to_le_bytes());
        page[496..].copy_from_slice(&OCP_GUID);
        page
    }

    fn intel(units: u64) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        for (place, key) in [0xAB, 0xAC, 0xF4, 0xF5].into_iter().enumerate() {
            let entry = &mut page[place * INTEL_ENTRY_BYTES..][..INTEL_ENTRY_BYTES];
            (entry[0], entry[3]) = (key, 100);
            let raw = if key == 0xF4 { units } else { 77 };
            entry[5..11].copy_from_slice(&raw.to_le_bytes()[..6]);
        }
        page
    }

    #[test]
    fn the_standard_page_is_read_field_by_field() {
        let health = DriveHealth::of_page(&page(2_000_000)).unwrap();
        let expected = DriveHealth {
            temperature_c: Some(38),
            available_spare_percent: 99,
            used_percent: 3,
            host_bytes: 1_024_000_000_000,
            ..DriveHealth::default()
        };
        assert_eq!(health, expected);
        assert_eq!(DriveHealth::of_page(&page(1)[..511]), None);
        let silent = DriveHealth::of_page(&[0; PAGE_BYTES]).unwrap();
        assert_eq!(silent.temperature_c, None, "0 kelvin is no temperature");
    }

    /// A page of qemu's drive after a run that wrote 11 MB, recorded in a guest.
    #[test]
    fn a_recorded_page_is_read() {
        let text = include_str!("../../../tests/data/nvme/qemu-health.hex");
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        let page: Vec<u8> = digits.chunks(2).map(|pair| byte(pair).unwrap()).collect();
        let expected = DriveHealth {
            temperature_c: Some(50),
            host_bytes: 0x3A * 512_000,
            ..DriveHealth::default()
        };
        assert_eq!(DriveHealth::of_page(&page), Some(expected));
    }

    #[test]
    fn a_vendors_page_is_believed_only_if_it_is_that_page() {
        let health = || DriveHealth::of_page(&page(1)).unwrap();
        let flash = |page: FlashPage, bytes: &[u8]| health().with_flash(page, bytes).flash_bytes;
        assert_eq!(flash(FlashPage::Ocp, &ocp(7_000)), Some(7_000));
        let mut other = ocp(7_000);
        other[511] ^= 1;
        assert_eq!(flash(FlashPage::Ocp, &other), None);
        assert_eq!(flash(FlashPage::Intel, &intel(3)), Some(3 * (32 << 20)));
        assert_eq!(flash(FlashPage::Intel, &ocp(0)), None);
        assert_eq!(FlashPage::of_vendor(Some(0x144D)), [FlashPage::Ocp]);
        assert_eq!(FlashPage::of_vendor(Some(0x8086)), [FlashPage::Ocp, FlashPage::Intel]);
    }

    proptest! {
        #[test]
        fn no_page_upsets_the_reader(page in prop::collection::vec(any::<u8>(), 0..600)) {
            let health = DriveHealth::of_page(&page);
            prop_assert_eq!(health.is_some(), page.len() >= PAGE_BYTES);
            for kind in [FlashPage::Ocp, FlashPage::Intel] {
                let _ = health.clone().unwrap_or_default().with_flash(kind, &page);
            }
        }

        #[test]
        fn units_and_bytes_come_back(units in 0u64..1 << 40) {
            let health = DriveHealth::of_page(&page(units.into())).unwrap();
            prop_assert_eq!(health.host_bytes, units * 512_000);
            let flash = health.with_flash(FlashPage::Ocp, &ocp(u128::from(units)));
            prop_assert_eq!(flash.flash_bytes, Some(units));
        }
    }
}
