//! Header blocks of responses: HPACK without the dynamic table.

/// Fields of a response, HPACK-encoded as literals without indexing. It does not depend on a connection's dynamic
/// table, so it can be encoded once and sent on many connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderBlock(Vec<u8>);

impl HeaderBlock {
    /// `:status: 200`.
    pub fn ok() -> Self {
        Self(vec![0x88])
    }

    /// `:status` with three digits.
    pub fn status(status: u16) -> Self {
        // A literal whose name is entry 8 of the static table.
        let mut block = Self(vec![0x08]);
        block.string(status.to_string().as_bytes());
        block
    }

    /// The same with one field more.
    #[must_use]
    pub fn with(mut self, name: &[u8], value: &[u8]) -> Self {
        self.push(name, value);
        self
    }

    /// Adds a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.0.push(0);
        self.string(name);
        self.string(value);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A string literal without Huffman coding: its length as an integer with a 7-bit prefix, then its bytes.
    fn string(&mut self, text: &[u8]) {
        let mut rest = text.len();
        if rest < 127 {
            self.0.push(rest as u8);
        } else {
            self.0.push(127);
            rest -= 127;
            while rest >= 128 {
                self.0.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            self.0.push(rest as u8);
        }
        self.0.extend_from_slice(text);
    }
}
