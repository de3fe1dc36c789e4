//! The header `traceparent` of W3C's Trace Context.

/// The caller's part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(super) trace: [u8; 16],
    /// The caller's span.
    pub(super) span: [u8; 8],
    /// Whether the caller records its part.
    pub(super) sampled: bool,
}

impl TraceParent {
    /// The name of the header.
    pub(crate) const HEADER: &[u8] = b"traceparent";

    /// `version-trace-span-flags` in lower-case hexadecimal digits. What is malformed counts as absent; later versions may
    /// add fields after a hyphen.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let [version, trace, span, flags] =
            [value.get(..2)?, value.get(3..35)?, value.get(36..52)?, value.get(53..55)?];
        let hyphens = [value[2], value[35], value[52]] == [b'-'; 3];
        let [version] = bytes::<1>(version)?;
        let whole = match version {
            0 => value.len() == 55,
            0xff => false,
            _ => value.get(55).is_none_or(|next| *next == b'-'),
        };
        let (trace, span, [flags]) = (bytes::<16>(trace)?, bytes::<8>(span)?, bytes::<1>(flags)?);
        let known = trace != [0; 16] && span != [0; 8];
        (hyphens && whole && known).then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

/// The bytes that lower-case hexadecimal digits stand for.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparents_are_read_as_the_standard_says() {
        let parse = |text: &str| TraceParent::parse(text.as_bytes());
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = parse(good).expect("the example of the standard");
        assert_eq!((parent.trace[0], parent.span[7], parent.sampled), (0x0a, 0x31, true));
        assert_eq!(parse(&good.replace("-01", "-00")).map(|parent| parent.sampled), Some(false));
        assert!(parse(&good.replacen("00", "cc", 1)).is_some(), "a later version");
        assert!(parse(&format!("{}-more", good.replacen("00", "cc", 1))).is_some());
        for bad in [
            "",
            "00",
            &format!("{good}-more"),
            &good.replacen("00", "ff", 1),
            &good.to_uppercase(),
            &good.replace('-', "_"),
            &good.replace("b7ad6b7169203331", "0000000000000000"),
            &good.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            &good.replacen("0af", "0xf", 1),
            &format!("{}.more", good.replacen("00", "cc", 1)),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
