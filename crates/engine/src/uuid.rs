//! UUIDs in their usual form.

/// The text of a UUID with these bits, except those that say its version and variant.
pub fn uuid(version: u64, high: u64, low: u64) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let high = high & !0xf000 | version << 12;
    let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    let bits = u128::from(high) << 64 | u128::from(low);
    let mut text = String::with_capacity(36);
    for (place, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_form() {
        assert_eq!(uuid(4, 0, 0), "00000000-0000-4000-8000-000000000000");
        let text = uuid(7, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        assert_eq!(text, "01234567-89ab-7def-bedc-ba9876543210");
    }
}
