//! Which addresses are those of the public internet.
//!
//! A server that calls URLs of its users must not be a way into the network of its owner. All that is special about an address is in the
//! tables of this file; what is in neither is public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of IPv4 that are not public: first address, length of the prefix, kind.
const SPECIAL_V4: [(Ipv4Addr, u32, &str); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an address of this host"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "an address of a carrier's network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "an address of a cloud's metadata"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "reserved"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "reserved"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "reserved"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Networks of IPv6 that are not public, the narrower first. Those in the last row are all that were not handed out.
const SPECIAL_V6: [(Ipv6Addr, u32, &str); 12] = [
    (Ipv6Addr::UNSPECIFIED, 128, "an address of this host"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "private"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "reserved"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "reserved"),
    (Ipv6Addr::UNSPECIFIED, 3, "reserved"),
    (Ipv6Addr::new(0x4000, 0, 0, 0, 0, 0, 0, 0), 2, "reserved"),
    (Ipv6Addr::new(0x8000, 0, 0, 0, 0, 0, 0, 0), 1, "reserved"),
];

/// Networks of IPv6 whose addresses stand for one of IPv4: first address, length of the prefix, the bit at which the other begins.
const EMBEDDED_V4: [(Ipv6Addr, u32, u32); 4] = [
    // Mapped and compatible addresses, NAT64, 6to4.
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 96),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96, 96),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 96),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 16),
];

/// The kind of an address that is not public; `None` if it is.
pub fn kind_of(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            SPECIAL_V4.iter().find(|(first, prefix, _)| is_in_v4(address, *first, *prefix)).map(|(_, _, kind)| *kind)
        }
        IpAddr::V6(address) => match address {
            Ipv6Addr::UNSPECIFIED | Ipv6Addr::LOCALHOST => special_v6(address),
            address => match embedded(address) {
                Some(inner) => kind_of(inner.into()),
                None => special_v6(address),
            },
        },
    }
}

/// Whether an address is in a network.
pub(crate) fn is_in(address: IpAddr, first: IpAddr, prefix: u32) -> bool {
    match (address.to_canonical(), first) {
        (IpAddr::V4(address), IpAddr::V4(first)) => is_in_v4(address, first, prefix),
        (IpAddr::V6(address), IpAddr::V6(first)) => is_in_v6(address, first, prefix),
        _ => false,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    SPECIAL_V6.iter().find(|(first, prefix, _)| is_in_v6(address, *first, *prefix)).map(|(_, _, kind)| *kind)
}

/// The address of IPv4 for which one of IPv6 stands.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let (_, _, begin) = EMBEDDED_V4.iter().find(|(first, prefix, _)| is_in_v6(address, *first, *prefix))?;
    Some(Ipv4Addr::from((address.to_bits() >> (96 - begin)) as u32))
}

fn is_in_v4(address: Ipv4Addr, first: Ipv4Addr, prefix: u32) -> bool {
    let differing = address.to_bits() ^ first.to_bits();
    differing.leading_zeros() >= prefix
}

fn is_in_v6(address: Ipv6Addr, first: Ipv6Addr, prefix: u32) -> bool {
    let differing = address.to_bits() ^ first.to_bits();
    differing.leading_zeros() >= prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_public_or_of_a_kind() {
        let cases = [
            ("8.8.8.8", None),
            ("0.0.0.0", Some("an address of this host")),
            ("0.1.2.3", Some("an address of this host")),
            ("9.255.255.255", None),
            ("10.0.0.0", Some("private")),
            ("10.255.255.255", Some("private")),
            ("11.0.0.0", None),
            ("100.63.255.255", None),
            ("100.64.0.1", Some("an address of a carrier's network")),
            ("100.100.100.200", Some("an address of a carrier's network")),
            ("100.128.0.0", None),
            ("127.0.0.1", Some("loopback")),
            ("127.255.255.254", Some("loopback")),
            ("168.63.129.16", Some("an address of a cloud's metadata")),
            ("168.63.129.17", None),
            ("169.253.255.255", None),
            ("169.254.169.254", Some("link-local")),
            ("172.15.255.255", None),
            ("172.16.0.1", Some("private")),
            ("172.31.255.255", Some("private")),
            ("172.32.0.0", None),
            ("192.0.0.192", Some("reserved")),
            ("192.0.2.1", Some("reserved")),
            ("192.168.1.1", Some("private")),
            ("198.19.0.1", Some("reserved")),
            ("198.20.0.0", None),
            ("224.0.0.1", Some("multicast")),
            ("239.255.255.255", Some("multicast")),
            ("255.255.255.255", Some("reserved")),
            ("::", Some("an address of this host")),
            ("::1", Some("loopback")),
            ("::2", Some("an address of this host")),
            ("::7f00:1", Some("loopback")),
            ("::ffff:127.0.0.1", Some("loopback")),
            ("::ffff:10.1.2.3", Some("private")),
            ("::ffff:8.8.8.8", None),
            ("64:ff9b::a9fe:a9fe", Some("link-local")),
            ("64:ff9b::808:808", None),
            ("64:ff9b:1::1", Some("reserved")),
            ("2002:7f00:1::1", Some("loopback")),
            ("2002:808:808::1", None),
            ("2001::1", Some("reserved")),
            ("2001:db8::1", Some("reserved")),
            ("2001:4860:4860::8888", None),
            ("2606:4700::1", None),
            ("3fff::1", Some("reserved")),
            ("4000::1", Some("reserved")),
            ("fc00::1", Some("private")),
            ("fd00:ec2::254", Some("private")),
            ("fe80::1", Some("link-local")),
            ("fec0::1", Some("private")),
            ("ff02::1", Some("multicast")),
            ("9000::1", Some("reserved")),
        ];
        for (address, kind) in cases {
            assert_eq!(kind_of(address.parse().expect("an address")), kind, "{address}");
        }
    }
}
