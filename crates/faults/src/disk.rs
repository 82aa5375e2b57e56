//! What a disk may hold after power was lost.
//!
//! The model is the harshest that the engines are made for. A flush of a file makes everything durable that was written to
//! it before; a flush of the directory does so for names. Everything else may have reached the disk or not, in any order:
//! each write wholly, in part (some of its sectors) or not at all, each cut, creation and removal or not. The length of a
//! file may have reached it without the bytes, which are zeros then.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The files of a directory, by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// A file, whatever its name: a new one under an old name is another.
pub type FileId = u32;

/// What happened to the files, in its order.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Event {
    Create {
        file: FileId,
        name: String,
    },
    Unlink {
        name: String,
    },
    SyncDirectory,
    Write {
        file: FileId,
        offset: u64,
        data: Arc<[u8]>,
    },
    SetLen {
        file: FileId,
        len: u64,
    },
    Sync {
        file: FileId,
    },
    /// A flush that failed: what it should have written is gone, and the system does not try again.
    LostSync {
        file: FileId,
    },
    /// The caller was answered: one more unit of its work must last.
    Acknowledged,
}

impl Event {
    /// The file whose content it changes.
    fn changes(&self) -> Option<FileId> {
        match self {
            Event::Write { file, .. } | Event::SetLen { file, .. } => Some(*file),
            _ => None,
        }
    }

    fn is_of_names(&self) -> bool {
        matches!(self, Event::Create { .. } | Event::Unlink { .. })
    }

    /// A few words, for the report of a violation.
    pub fn words(&self) -> String {
        match self {
            Event::Write { file, offset, data } => format!("write of {} bytes at {offset} of file {file}", data.len()),
            other => format!("{other:?}"),
        }
    }
}

/// What happened from some durable files on.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The files at the beginning; their ids are their places.
    pub base: Image,
    /// What happened then.
    pub events: Vec<Event>,
}

/// What becomes of a change that is not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Fate {
    Kept,
    Dropped,
    /// Only those sectors of a write reach the disk whose bit is set (bits are used again after 64).
    Torn {
        sector: u64,
        kept: u64,
    },
}

/// A disk with what is on it for good, and what may be lost.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    contents: BTreeMap<FileId, Vec<u8>>,
    names: BTreeMap<String, FileId>,
    pending: Vec<Event>,
}

impl Disk {
    /// With durable files.
    pub fn new(base: &Image) -> Self {
        let ids = 0..base.len() as FileId;
        Disk {
            contents: ids.clone().zip(base.values().cloned()).collect(),
            names: base.keys().cloned().zip(ids).collect(),
            pending: Vec::new(),
        }
    }

    /// What may be lost, in its order.
    pub fn pending(&self) -> &[Event] {
        &self.pending
    }

    /// Takes the next event.
    pub fn pass(&mut self, event: &Event) {
        match event {
            Event::Sync { file } => self.settle(|event| event.changes() == Some(*file), true),
            Event::LostSync { file } => self.settle(|event| event.changes() == Some(*file), false),
            Event::SyncDirectory => self.settle(Event::is_of_names, true),
            Event::Acknowledged => {}
            change => self.pending.push(change.clone()),
        }
    }

    fn settle(&mut self, concerned: impl Fn(&Event) -> bool, lasts: bool) {
        let (settled, pending) = std::mem::take(&mut self.pending).into_iter().partition(|event| concerned(event));
        self.pending = pending;
        if lasts {
            let settled: Vec<Event> = settled;
            settled.iter().for_each(|event| self.apply(event, Fate::Kept, false));
        }
    }

    /// The files that a loss of power now leaves, given the fate of each pending change.
    pub fn image(&self, fate: impl Fn(usize) -> Fate, lengths_last: bool) -> Image {
        let mut disk = Disk { pending: Vec::new(), ..self.clone() };
        for (index, event) in self.pending.iter().enumerate() {
            disk.apply(event, fate(index), lengths_last);
        }
        let Disk { mut contents, names, .. } = disk;
        names.into_iter().map(|(name, file)| (name, contents.remove(&file).unwrap_or_default())).collect()
    }

    fn apply(&mut self, event: &Event, fate: Fate, lengths_last: bool) {
        match event {
            Event::Write { file, offset, data } => {
                let content = self.contents.entry(*file).or_default();
                write(content, *offset, data, fate, lengths_last);
            }
            Event::SetLen { file, len } if fate == Fate::Kept => self.contents.entry(*file).or_default().resize(*len as usize, 0),
            Event::Create { file, name } if fate == Fate::Kept => drop(self.names.insert(name.clone(), *file)),
            Event::Unlink { name } if fate == Fate::Kept => drop(self.names.remove(name)),
            _ => {}
        }
    }
}

fn write(content: &mut Vec<u8>, offset: u64, data: &[u8], fate: Fate, lengths_last: bool) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    if fate == Fate::Kept || lengths_last {
        content.resize(content.len().max(end), 0);
    }
    match fate {
        Fate::Dropped => {}
        Fate::Kept => content[start..end].copy_from_slice(data),
        Fate::Torn { sector, kept } => {
            for (number, at) in (offset / sector..(end as u64).div_ceil(sector)).enumerate() {
                if kept >> (number % 64) & 1 == 1 {
                    let (from, to) = (start.max((at * sector) as usize), end.min(((at + 1) * sector) as usize));
                    content.resize(content.len().max(to), 0);
                    content[from..to].copy_from_slice(&data[from - start..to - start]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(file: FileId, offset: u64, data: &[u8]) -> Event {
        Event::Write { file, offset, data: data.into() }
    }

    fn disk(base: &[(&str, &[u8])], events: &[Event]) -> Disk {
        let mut disk = Disk::new(&base.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect());
        events.iter().for_each(|event| disk.pass(event));
        disk
    }

    #[test]
    fn a_flush_makes_its_own_file_durable_and_no_other() {
        let events = [written(0, 1, b"XY"), written(1, 0, b"Z"), Event::Sync { file: 0 }];
        let image = disk(&[("a", b"1234"), ("b", b"5")], &events).image(|_| Fate::Dropped, false);
        assert_eq!((&image["a"][..], &image["b"][..]), (&b"1XY4"[..], &b"5"[..]));
    }

    #[test]
    fn what_a_failed_flush_lost_comes_back_by_no_later_one() {
        let events = [written(0, 0, b"X"), Event::LostSync { file: 0 }, written(0, 1, b"Y"), Event::Sync { file: 0 }];
        assert_eq!(disk(&[("a", b"12")], &events).image(|_| Fate::Kept, false)["a"], b"1Y");
    }

    #[test]
    fn names_last_once_the_directory_is_flushed() {
        let events = [Event::Create { file: 1, name: "b".into() }, written(1, 0, b"B"), Event::Sync { file: 1 }];
        let mut disk = disk(&[("a", b"A")], &events);
        assert_eq!(disk.image(|_| Fate::Dropped, false).len(), 1);
        disk.pass(&Event::SyncDirectory);
        disk.pass(&Event::Unlink { name: "a".into() });
        assert_eq!(disk.image(|_| Fate::Dropped, false).into_values().collect::<Vec<_>>(), [b"A", b"B"]);
        assert_eq!(disk.image(|_| Fate::Kept, false).into_keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_torn_write_leaves_some_of_its_sectors() {
        let disk = disk(&[("a", &[0; 1024])], &[written(0, 256, &[1; 1024])]);
        let image = |kept, lengths_last| disk.image(move |_| Fate::Torn { sector: 512, kept }, lengths_last).remove("a").unwrap();
        assert_eq!(image(0b010, false), [[0; 512], [1; 512]].concat());
        assert_eq!(image(0b001, true), [&[0; 256][..], &[1; 256], &[0; 768]].concat());
        assert_eq!(image(0b100, false), [&[0; 1024][..], &[1; 256]].concat());
    }
}
