//! `lspci -t` and `-tv`: the tree as it is drawn.
//!
//! ```text
//! -+-[0000:40]-+-01.1-[41-48]----00.0-[42-48]--+-00.0-[43]----00.0  NVIDIA Corporation Device 2bb5
//!  |           |                               \-01.0-[44]----00.0  NVIDIA Corporation Device 2bb5
//!  |           \-07.1-[49]----00.0  Advanced Micro Devices, Inc. [AMD] Device 14ac
//!  \-[0000:00]---00.0  ...
//! ```
//! A bus stands in brackets, its devices behind it. Where they are several, each begins with `+-`, the last with `\-`, all in
//! one column: that column is what tells which bus a later line goes on with.

use std::collections::{BTreeMap, BTreeSet};

use super::super::error::{DumpError, Fault, Found};
use super::super::text::Line;
use super::{Buses, MOST_DEVICES, Pci, PciAddress, PciDevice};

/// A domain and a bus.
type Bus = (u32, u8);

/// Whether a line is the first of a tree.
pub(in super::super) fn is_tree(line: &Line<'_>) -> bool {
    let text = line.trimmed();
    let root = text.strip_prefix("-+-[").or_else(|| text.strip_prefix("-["));
    root.and_then(|root| root.split_once(']'))
        .is_some_and(|(root, _)| root_bus(root).is_some())
}

pub(in super::super) fn read(lines: &[Line<'_>]) -> Result<Pci, DumpError> {
    let mut reader = Reader::default();
    for line in lines {
        let drawn = line.trimmed().starts_with(['-', '+', '|', '\\']);
        if !drawn {
            break;
        }
        reader.line(line)?;
    }
    match lines.first() {
        Some(line) if reader.pci.devices.is_empty() => Err(line.refuse_end(Fault::NoDevice)),
        Some(_) | None => Ok(reader.pci),
    }
}

/// `0000:c0`.
fn root_bus(text: &str) -> Option<Bus> {
    let (domain, bus) = text.split_once(':')?;
    let plain = (4..=8).contains(&domain.len());
    Some((u32::from_str_radix(domain, 16).ok().filter(|_| plain)?, two(bus)?))
}

/// `c1` or `c1-c8`.
fn buses(text: &str) -> Option<Buses> {
    let (secondary, subordinate) = text.split_once('-').unwrap_or((text, text));
    Some(Buses {
        secondary: two(secondary)?,
        subordinate: two(subordinate)?,
    })
}

fn two(text: &str) -> Option<u8> {
    let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(text, 16).ok().filter(|_| plain)
}

#[derive(Default)]
struct Reader {
    pci: Pci,
    addresses: BTreeSet<PciAddress>,
    /// Columns in which devices of a bus begin, while there are more to come.
    branches: BTreeMap<usize, Bus>,
}

/// Where reading is within a line.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// The bus that the next device is on.
    bus: Option<Bus>,
    /// The device that the next bracket is of.
    device: Option<usize>,
    /// Whether a device has come in this line.
    named: bool,
}

impl Reader {
    fn line(&mut self, line: &Line<'_>) -> Result<(), DumpError> {
        let text = line.text.trim_end();
        let mut cursor = Cursor::default();
        let mut at = 0;
        while let Some(next) = text.as_bytes().get(at) {
            let rest = text.get(at..).unwrap_or_default();
            at += match next {
                b' ' if cursor.named => {
                    self.name(cursor, rest);
                    return Ok(());
                }
                b' ' | b'-' | b'|' | b'\t' => 1,
                b'+' | b'\\' => {
                    self.branch(at, *next, &mut cursor);
                    1
                }
                b'[' => self.bracket(rest, &mut cursor).ok_or_else(|| refuse(line, at, rest))?,
                _ => self.device(line, at, rest, &mut cursor)?,
            };
        }
        Ok(())
    }

    /// A column in which devices of one bus begin: of the bus before it in this line, or in a line above.
    fn branch(&mut self, column: usize, mark: u8, cursor: &mut Cursor) {
        self.branches.split_off(&(column + 1));
        match cursor.bus {
            Some(bus) => {
                self.branches.insert(column, bus);
            }
            None => cursor.bus = self.branches.get(&column).copied(),
        }
        if mark == b'\\' {
            self.branches.remove(&column);
        }
    }

    /// A root bus, or the buses behind the device before it; how long it is.
    fn bracket(&mut self, rest: &str, cursor: &mut Cursor) -> Option<usize> {
        let (inside, _) = rest.strip_prefix('[')?.split_once(']')?;
        match (cursor.device.take(), cursor.bus) {
            (Some(device), Some((domain, _))) => {
                // Some write the domain here, too.
                let buses = buses(inside.rsplit_once(':').map_or(inside, |(_, buses)| buses))?;
                self.pci.bridge(device, buses);
                cursor.bus = Some((domain, buses.secondary));
            }
            (None, None) => cursor.bus = Some(root_bus(inside)?),
            (Some(_), None) | (None, Some(_)) => return None,
        }
        Some(inside.len() + 2)
    }

    /// A device such as `01.1`; how long it is.
    fn device(&mut self, line: &Line<'_>, at: usize, rest: &str, cursor: &mut Cursor) -> Result<usize, DumpError> {
        const LENGTH: usize = 4;
        let told = rest.get(..LENGTH);
        let known = told.zip(cursor.bus).filter(|_| cursor.device.is_none());
        let address = known.and_then(|(slot, (domain, bus))| format!("{domain:04x}:{bus:02x}:{slot}").parse().ok());
        let Some(address) = address else {
            return Err(refuse(line, at, rest));
        };
        if !self.addresses.insert(address) {
            return Err(DumpError::new(line.place(at), Found::text(rest), Fault::Twice));
        }
        if self.pci.devices.len() >= MOST_DEVICES {
            return Err(DumpError::new(line.place(at), Found::text(rest), Fault::TooManyDevices));
        }
        cursor.device = Some(self.pci.devices.len());
        cursor.named = true;
        self.pci.devices.push(PciDevice::new(address));
        Ok(LENGTH)
    }

    /// The name of the device before it.
    fn name(&mut self, cursor: Cursor, rest: &str) {
        let device = cursor.device.and_then(|place| self.pci.devices.get_mut(place));
        if let Some(device) = device {
            device.name = Some(rest.trim().to_owned()).filter(|name| !name.is_empty());
        }
    }
}

fn refuse(line: &Line<'_>, at: usize, rest: &str) -> DumpError {
    DumpError::new(line.place(at), Found::text(rest), Fault::Branch)
}
