//! The bytes of stored states and code: LEB128 varints, zigzag for signed numbers, texts with their length before them.
//! Reading checks everything; a count is never larger than what is left to read.

use std::sync::Arc;

use crate::interface::Payload;

/// Writes bytes.
#[derive(Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub fn flag(&mut self, flag: bool) {
        self.bytes.push(flag.into());
    }

    pub fn number(&mut self, number: impl Into<u64>) {
        let mut number = number.into();
        while number >= 0x80 {
            #[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        #[expect(clippy::cast_possible_truncation, reason = "less than 128")]
        self.bytes.push(number as u8);
    }

    pub fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    pub fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    pub fn double(&mut self, number: f64) {
        self.bytes.extend_from_slice(&number.to_bits().to_le_bytes());
    }

    pub fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// A payload. That of JSON or null without other metadata is the common case.
    pub fn payload(&mut self, payload: &Payload) {
        match payload.metadata.as_slice() {
            [(name, value)] if name == "encoding" && value == b"json/plain" => self.byte(1),
            [(name, value)] if name == "encoding" && value == b"binary/null" => self.byte(2),
            metadata => {
                self.byte(0);
                self.count(metadata.len());
                for (name, value) in metadata {
                    self.text(name);
                    self.blob(value);
                }
            }
        }
        self.blob(&payload.data);
    }

    pub fn payloads(&mut self, payloads: &[Payload]) {
        self.count(payloads.len());
        payloads.iter().for_each(|payload| self.payload(payload));
    }
}

/// Memory of a payload, and of a piece of its metadata, besides the bytes.
const PAYLOAD_BYTES: usize = 96;

/// Why bytes cannot be read.
pub(crate) type Damage = &'static str;

/// Reads bytes.
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
    /// Bytes of memory that what is read may still take.
    memory: usize,
}

impl<'b> Reader<'b> {
    /// Reads bytes. What they stand for may take this much memory.
    pub const fn new(bytes: &'b [u8], memory: usize) -> Self {
        Self { rest: bytes, memory }
    }

    /// Counts memory before it is taken: a few bytes can stand for many.
    pub fn allocate(&mut self, bytes: usize) -> Result<(), Damage> {
        self.memory = self.memory.checked_sub(bytes).ok_or("it takes too much memory")?;
        Ok(())
    }

    pub fn byte(&mut self) -> Result<u8, Damage> {
        let (first, rest) = self.rest.split_first().ok_or("it ends early")?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn flag(&mut self) -> Result<bool, Damage> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag is neither 0 nor 1"),
        }
    }

    pub fn number(&mut self) -> Result<u64, Damage> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return if byte == 0 && shift > 0 { Err("a number is not in its shortest form") } else { Ok(number) };
            }
        }
        Err("a number is too long")
    }

    pub fn small(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.number()?).map_err(|_| "a number is too large")
    }

    /// The number of things that follow, each of at least one byte.
    pub fn count(&mut self) -> Result<usize, Damage> {
        let count = usize::try_from(self.number()?).map_err(|_| "a count is too large")?;
        if count > self.rest.len() { Err("a count is too large") } else { Ok(count) }
    }

    pub fn signed(&mut self) -> Result<i64, Damage> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub fn double(&mut self) -> Result<f64, Damage> {
        let bytes = self.exact(8)?.try_into().map_err(|_| "it ends early")?;
        Ok(f64::from_bits(u64::from_le_bytes(bytes)))
    }

    pub fn exact(&mut self, count: usize) -> Result<&'b [u8], Damage> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("it ends early")?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn blob(&mut self) -> Result<&'b [u8], Damage> {
        let count = self.count()?;
        self.exact(count)
    }

    pub fn text(&mut self) -> Result<&'b str, Damage> {
        str::from_utf8(self.blob()?).map_err(|_| "a text is not UTF-8")
    }

    pub fn string(&mut self) -> Result<String, Damage> {
        self.text().map(str::to_owned)
    }

    pub fn shared(&mut self) -> Result<Arc<str>, Damage> {
        self.text().map(Arc::from)
    }

    pub fn payload(&mut self) -> Result<Payload, Damage> {
        self.allocate(PAYLOAD_BYTES)?;
        let encoding = |value: &[u8]| vec![("encoding".to_owned(), value.to_vec())];
        let metadata = match self.byte()? {
            1 => encoding(b"json/plain"),
            2 => encoding(b"binary/null"),
            0 => {
                let mut metadata = Vec::new();
                for _ in 0..self.count()? {
                    self.allocate(PAYLOAD_BYTES)?;
                    metadata.push((self.string()?, self.blob()?.to_vec()));
                }
                metadata
            }
            _ => return Err("a payload has no such form"),
        };
        Ok(Payload { metadata, data: self.blob()?.to_vec() })
    }

    pub fn payloads(&mut self) -> Result<Vec<Payload>, Damage> {
        let count = self.count()?;
        (0..count).map(|_| self.payload()).collect()
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Damage> {
        if self.rest.is_empty() { Ok(()) } else { Err("something follows its end") }
    }
}

/// A checksum of 64 bits. Each step is a bijection of what was before and of the eight bytes it takes, so a change within
/// eight bytes is always noticed.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = (bytes.len() as u64).wrapping_mul(FACTOR) ^ 0x6a09_e667_f3bc_c908;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 29;
    }
    hash
}
