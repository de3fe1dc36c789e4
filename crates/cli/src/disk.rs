//! Watches the free space of the disk, and warns before commits fail.

use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Less than this is short, and so is less than a twentieth of the disk.
const FREE_MIN: u64 = 1 << 30;
/// Pause before the log repeats that space is short.
const WARNING_INTERVAL: Duration = Duration::from_secs(600);

/// Free and total bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes that an ordinary user may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

impl Room {
    /// The disk that a directory is on, if the system tells.
    pub fn of(place: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(place).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Self { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
    }

    /// Whether the operator should free some.
    pub fn is_short(self) -> bool {
        self.free < self.total / 20 || self.free < FREE_MIN
    }
}

/// Looks at the disk now and then.
#[derive(Debug, Default)]
pub struct Watch {
    warned: Option<Instant>,
}

impl Watch {
    /// Reports the free space and says in the log if it is short.
    pub fn check(&mut self, place: &Path) {
        let Some(room) = Room::of(place) else { return };
        segno_server::report_disk_free(room.free);
        if self.is_news(room) {
            let mib = |bytes: u64| bytes / (1024 * 1024);
            tracing::warn!(
                "the disk of {} has {} MiB of {} MiB free: free some space, since commits fail when there is none",
                place.display(),
                mib(room.free),
                mib(room.total)
            );
        }
    }

    /// Whether space is short and that was not said lately.
    fn is_news(&mut self, room: Room) -> bool {
        if !room.is_short() {
            self.warned = None;
            return false;
        }
        let is_news = self.warned.is_none_or(|then| then.elapsed() >= WARNING_INTERVAL);
        if is_news {
            self.warned = Some(Instant::now());
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_space_is_said_once() {
        let gib = |free: u64, total: u64| Room { free: free << 30, total: total << 30 };
        let mut watch = Watch::default();
        assert!(!watch.is_news(gib(10, 100)));
        assert!(watch.is_news(gib(4, 100)), "less than a twentieth");
        assert!(!watch.is_news(gib(4, 100)), "it was said");
        assert!(!watch.is_news(gib(6, 100)), "there is room again");
        assert!(watch.is_news(gib(0, 2)), "and short again");
        assert!(Room::of(Path::new("/")).is_some_and(|room| room.free <= room.total));
    }
}
