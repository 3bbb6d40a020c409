//! `nvidia-smi -L`: which GPUs there are, and their MIG instances.

use super::error::{DumpError, Fault, Found, Place};
use super::grid::MOST_GPUS;
use super::remark::{About, Remark};
use super::text::Line;

/// What `nvidia-smi -L` tells of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The GPUs in the order of their lines.
    pub gpus: Vec<ListedGpu>,
    /// What could not be read.
    pub remarks: Vec<Remark>,
}

/// A GPU of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGpu {
    /// Its number in the tool.
    pub index: u32,
    /// Its model.
    pub model: String,
    /// What tells it from all others; `None` where somebody blanked it.
    pub uuid: Option<String>,
    /// Its MIG instances.
    pub instances: Vec<Instance>,
}

/// A MIG instance of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its profile, such as `3g.40gb`.
    pub profile: String,
    /// Its number on the GPU.
    pub index: u32,
    /// What tells it from all others; `None` where somebody blanked it.
    pub uuid: Option<String>,
}

/// How the tool begins a line on a GPU that it can't look at.
const UNABLE: &str = "Unable to determine the device handle";

/// The number of a GPU, if a line is of one.
pub(super) fn index(line: &Line<'_>) -> Option<u32> {
    let (index, _) = line.trimmed().strip_prefix("GPU ")?.split_once(':')?;
    number(index)
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// So many letters of what the tool says are kept.
const MOST_WORDS: usize = 200;

impl List {
    pub(super) fn read(lines: &[Line<'_>]) -> Result<List, DumpError> {
        let mut list = List {
            gpus: Vec::new(),
            remarks: Vec::new(),
        };
        for line in lines {
            let text = line.trimmed();
            if text.starts_with(UNABLE) {
                let words = text.replace('\t', " ").chars().take(MOST_WORDS).collect();
                list.remark(line, About::Tool { words });
            } else if let Some(index) = index(line) {
                list.gpu(line, index)?;
            } else if text.starts_with("MIG ") {
                list.instance(line)?;
            }
        }
        Ok(list)
    }

    fn remark(&mut self, line: &Line<'_>, about: About) {
        let at = line.first().map_or(0, |word| word.at);
        self.remarks.push(Remark {
            place: line.place(at),
            about,
        });
    }

    fn gpu(&mut self, line: &Line<'_>, index: u32) -> Result<(), DumpError> {
        let first = line
            .first()
            .map_or(Place { line: 1, column: 1 }, |word| line.place(word.at));
        let refuse = |fault| Err(DumpError::new(first, Found::text(line.trimmed()), fault));
        if self.gpus.len() >= MOST_GPUS {
            return refuse(Fault::TooMany);
        }
        let (before, uuid) = before_and_uuid(line)?;
        let uuid = identity(uuid, "GPU-");
        let same = |gpu: &ListedGpu| gpu.index == index || (uuid.is_some() && gpu.uuid == uuid);
        if self.gpus.iter().any(same) {
            return refuse(Fault::Twice);
        }
        if uuid.is_none() {
            self.remark(line, About::Uuid);
        }
        let model = before.split_once(':').map_or("", |(_, model)| model);
        self.gpus.push(ListedGpu {
            index,
            model: model.trim().to_owned(),
            uuid,
            instances: Vec::new(),
        });
        Ok(())
    }

    fn instance(&mut self, line: &Line<'_>) -> Result<(), DumpError> {
        let (before, uuid) = before_and_uuid(line)?;
        let uuid = identity(uuid, "MIG-");
        if uuid.is_none() {
            self.remark(line, About::Uuid);
        }
        let told = profile_and_index(before);
        match (told, self.gpus.last_mut()) {
            (Some((profile, index)), Some(gpu)) => {
                let profile = profile.to_owned();
                gpu.instances.push(Instance { profile, index, uuid });
            }
            (_, Some(_) | None) => {
                let key = before.trim().to_owned();
                self.remark(line, About::Value { key });
            }
        }
        Ok(())
    }
}

/// Of `MIG 3g.40gb     Device  0:`.
fn profile_and_index(text: &str) -> Option<(&str, u32)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["MIG", profile, "Device", index] => Some((profile, number(index.strip_suffix(':')?)?)),
        _ => None,
    }
}

/// What stands before `(UUID: ...)`, and what stands in it.
fn before_and_uuid<'l>(line: &'l Line<'_>) -> Result<(&'l str, &'l str), DumpError> {
    let inside = line.trimmed().strip_suffix(')');
    let parts = inside.and_then(|text| text.rsplit_once("(UUID:"));
    match parts {
        Some((before, uuid)) => Ok((before, uuid.trim())),
        None => Err(line.refuse_end(Fault::Uuid)),
    }
}

/// A UUID, unless somebody blanked it, by zeros or by letters that are no digits.
pub(super) fn identity(text: &str, prefix: &str) -> Option<String> {
    let digits = text.strip_prefix(prefix)?;
    let digits = digits.strip_prefix("GPU-").unwrap_or(digits);
    let known = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'/';
    let blank = digits.bytes().all(|byte| matches!(byte, b'0' | b'-' | b'/'));
    let whole = (36..=48).contains(&digits.len());
    (whole && !blank && digits.bytes().all(known)).then(|| text.to_owned())
}
