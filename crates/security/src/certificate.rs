//! The subject of a client certificate that was verified.

/// Tags of DER.
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The common name of a certificate's subject (RFC 5280, 4.1.2.6), if it has one.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let mut outer = element(&mut &certificate[..], SEQUENCE)?;
    let mut tbs = element(&mut outer, SEQUENCE)?;
    if tbs.first() == Some(&VERSION) {
        element(&mut tbs, VERSION)?;
    }
    element(&mut tbs, INTEGER)?;
    // Signature algorithm, issuer, validity.
    for _ in 0..3 {
        element(&mut tbs, SEQUENCE)?;
    }
    let mut subject = element(&mut tbs, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let mut set = element(&mut subject, SET)?;
        while !set.is_empty() {
            let mut attribute = element(&mut set, SEQUENCE)?;
            let kind = element(&mut attribute, OBJECT_IDENTIFIER)?;
            let (_, value) = any(&mut attribute)?;
            // The last one is the most specific.
            if kind == COMMON_NAME {
                found = std::str::from_utf8(value).ok();
            }
        }
    }
    found.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The content of the next element, if it has the tag.
fn element<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, content) = any(rest)?;
    (found == tag).then_some(content)
}

/// The next element: its tag and its content.
fn any<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, tail) = rest.split_first()?;
    let (first, mut tail) = tail.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(*first),
        0x81..=0x83 => {
            let (bytes, after) = tail.split_at_checked(usize::from(first & 0x7f))?;
            tail = after;
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (content, tail) = tail.split_at_checked(length)?;
    *rest = tail;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_name_is_found() {
        let mut params = rcgen::CertificateParams::new(["host.example".to_owned()]).expect("parameters");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "An Organisation");
        params.distinguished_name.push(rcgen::DnType::CommonName, "worker-1");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        assert_eq!(common_name(certificate.der()).as_deref(), Some("worker-1"));
    }

    #[test]
    fn junk_has_no_name() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        let der = params.self_signed(&key).expect("a certificate").der().to_vec();
        for end in 0..der.len() {
            common_name(&der[..end]);
        }
        assert_eq!(common_name(b""), None);
        assert_eq!(common_name(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
