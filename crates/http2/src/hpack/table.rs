//! The static and the dynamic table (RFC 7541, sections 2.3 and 4), which share one index space.
//!
//! Names and values of the dynamic table lie one after another in one buffer, in the order of insertion. Evicting an
//! entry only moves the start of the live part; once the dead part is larger than the table's size, the live part is
//! moved to the front. So a table that is in use allocates nothing, and each byte is moved about once.
//!
//! What holds: the sizes of the entries never sum up to more than the table's current size, which is never more than
//! its maximum.

use std::collections::VecDeque;

/// Bytes that an entry counts for beyond its name and value (section 4.1).
pub(super) const FIELD_OVERHEAD_BYTES: usize = 32;

/// The size of the table until an update: the default of SETTINGS_HEADER_TABLE_SIZE.
const INITIAL_BYTES: usize = 4096;

/// The fields of the static table; the first one has index 1.
pub(super) static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Both tables.
#[derive(Debug)]
pub(super) struct Table {
    /// Newest first.
    fields: VecDeque<Place>,
    /// Names and values, oldest first, after those of evicted entries.
    buffer: Vec<u8>,
    /// The sizes of the fields, summed up.
    bytes: usize,
    /// The current size, as of the last dynamic table size update.
    bytes_limit: usize,
    /// The largest size to which the table may be changed.
    bytes_max: usize,
}

/// Where a field of the dynamic table lies: its value follows its name.
#[derive(Clone, Copy, Debug)]
struct Place {
    name_start: usize,
    value_start: usize,
    end: usize,
}

impl Place {
    fn bytes(self) -> usize {
        self.end - self.name_start + FIELD_OVERHEAD_BYTES
    }
}

impl Table {
    pub(super) fn new(bytes_max: usize) -> Self {
        let bytes_limit = bytes_max.min(INITIAL_BYTES);
        Self { fields: VecDeque::new(), buffer: Vec::new(), bytes: 0, bytes_limit, bytes_max }
    }

    /// Name and value of the field with this index, from 1.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let place = self.fields.get(index - STATIC.len())?;
        Some((&self.buffer[place.name_start..place.value_start], &self.buffer[place.value_start..place.end]))
    }

    /// Inserts an entry. One that is larger than the table empties it, which is no error (section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let name_start = self.buffer.len();
        let value_start = name_start + name.len();
        let place = Place { name_start, value_start, end: value_start + value.len() };
        let Some(bytes_left) = self.bytes_limit.checked_sub(place.bytes()) else {
            self.evict(0);
            return;
        };
        self.evict(bytes_left);
        self.buffer.extend_from_slice(name);
        self.buffer.extend_from_slice(value);
        self.bytes += place.bytes();
        self.fields.push_front(place);
        self.compact();
    }

    /// Applies a dynamic table size update; `false` if it is larger than allowed.
    #[must_use]
    pub(super) fn resize(&mut self, bytes_limit: usize) -> bool {
        if bytes_limit > self.bytes_max {
            return false;
        }
        self.bytes_limit = bytes_limit;
        self.evict(bytes_limit);
        true
    }

    /// Removes the oldest fields until the rest is no larger than this.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(place) = self.fields.pop_back()
        {
            self.bytes -= place.bytes();
        }
    }

    /// Moves the live part to the front, once the dead part is large.
    fn compact(&mut self) {
        let unused = self.fields.back().map_or(self.buffer.len(), |oldest| oldest.name_start);
        if unused <= self.bytes_limit {
            return;
        }
        self.buffer.drain(..unused);
        for place in &mut self.fields {
            place.name_start -= unused;
            place.value_start -= unused;
            place.end -= unused;
        }
    }

    /// Bytes that names and values take, used or not.
    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The sizes of the fields, summed up.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
