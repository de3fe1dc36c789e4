//! Which header lists are malformed (RFC 9113, sections 8.2 and 8.3).

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
        // Without an early exit the loop is vectorised.
        self.malformed |= value.iter().fold(false, |odd, byte| odd | matches!(byte, 0 | b'\r' | b'\n'));
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
        for wrong in [("content-length", "many"), ("a name", "x"), ("x", "two\nlines"), ("x", "\0")] {
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
