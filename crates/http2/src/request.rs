//! Detects malformed header lists (RFC 9113, sections 8.2 and 8.3).

/// Checks the fields of one request, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Check {
    method: bool,
    scheme: bool,
    path: bool,
    authority: bool,
    /// A regular field came; no pseudo-header may follow.
    regular: bool,
    malformed: bool,
    /// The value of content-length.
    pub(crate) content_length: Option<u64>,
}

impl Check {
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        self.malformed |= has_control_characters(value) && value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        if name.first() == Some(&b':') {
            let seen = match name {
                b":method" => &mut self.method,
                b":scheme" => &mut self.scheme,
                b":path" => &mut self.path,
                b":authority" => &mut self.authority,
                _ => return self.malformed = true,
            };
            let again = std::mem::replace(seen, true);
            self.malformed |= again || self.regular || (name == b":path" && value.is_empty());
            return;
        }
        self.regular = true;
        if is_common(name) {
            return;
        }
        let is_odd = |byte: &u8| byte.is_ascii_uppercase() | !byte.is_ascii_graphic();
        self.malformed |= name.is_empty() | name.iter().fold(false, |odd, byte| odd | is_odd(byte));
        self.malformed |= is_forbidden(name, value);
        if name == b"content-length" {
            self.content_length = std::str::from_utf8(value).ok().and_then(|length| length.parse().ok());
            self.malformed |= self.content_length.is_none();
        }
    }

    pub(crate) fn is_well_formed(&self) -> bool {
        self.method && self.scheme && self.path && !self.malformed
    }
}

/// Fields that most requests have and whose names and values need no further look.
fn is_common(name: &[u8]) -> bool {
    matches!(
        name,
        b"content-type"
            | b"user-agent"
            | b"grpc-timeout"
            | b"grpc-accept-encoding"
            | b"accept-encoding"
            | b"authorization"
    )
}

/// Whether a value has bytes below 0x20. It looks at eight bytes at a time: subtracting from a byte sets its highest bit if it
/// was smaller, or if the highest bit was set before.
fn has_control_characters(value: &[u8]) -> bool {
    const FIRST_PRINTABLE: u64 = 0x2020_2020_2020_2020;
    const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = value.as_chunks::<8>();
    let mut below = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        below |= word.wrapping_sub(FIRST_PRINTABLE) & !word;
    }
    below & HIGHEST_BITS != 0 || rest.iter().any(|byte| *byte < 0x20)
}

/// Connection-specific fields, which are malformed in HTTP/2.
fn is_forbidden(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"te" => value != b"trailers",
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fine(fields: &[(&str, &str)]) -> bool {
        let mut check = Check::default();
        fields.iter().for_each(|(name, value)| check.field(name.as_bytes(), value.as_bytes()));
        check.is_well_formed()
    }

    #[test]
    fn requests_are_checked() {
        let call = [(":method", "POST"), (":scheme", "http"), (":path", "/a/B"), ("te", "trailers")];
        assert!(is_fine(&call));
        assert!(!is_fine(&call[..2]));
        let with = |more: (&'static str, &'static str)| is_fine(&[&call[..], &[more]].concat());
        assert!(with(("grpc-timeout", "1S")));
        assert!(with(("content-length", "12")));
        assert!(with(("x", "tabs\tand letters beyond ASCII: äöü")));
        let wrong_values =
            [("x", "long enough for a word\n"), ("x", "in a\rword, not the last"), ("user-agent", "1234567\0")];
        let others = [("content-length", "many"), ("a name", "x"), ("x", "two\nlines"), ("x", "\0")];
        for wrong in others.into_iter().chain(wrong_values) {
            assert!(!with(wrong), "{wrong:?}");
        }
        for wrong in [(":authority", "late"), ("Upper", "x"), ("connection", "close"), ("te", "gzip"), ("", "")] {
            assert!(!with(wrong), "{wrong:?}");
        }
        assert!(!is_fine(&[call[0], call[0], call[1], call[2]]));
        assert!(!is_fine(&[call[0], call[1], (":path", "")]));
        assert!(!is_fine(&[call[0], call[1], call[2], (":status", "200")]));
    }
}
