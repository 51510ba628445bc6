//! Classifies addresses outside the public network: this machine, private networks, and addresses that no host has.
//!
//! Pure: must not resolve names or connect. Callers use it to keep requests away from what only this machine reaches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns what an address is if it is not public; `None` for a public one.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => classify_ipv4(address),
        IpAddr::V6(address) => classify_ipv6(address),
    }
}

const HERE: &str = "this machine";
const PRIVATE: &str = "in a private network";
const LINK: &str = "a link-local address, where clouds keep credentials";
const NOWHERE: &str = "not a public address";

fn classify_ipv4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0 | 127, ..] => Some(HERE),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Some(PRIVATE),
        [169, 254, ..] => Some(LINK),
        [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => {
            Some(NOWHERE)
        }
        _ => None,
    }
}

fn classify_ipv6(address: Ipv6Addr) -> Option<&'static str> {
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        classify_ipv4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some(HERE),
        // An IPv4 address inside an IPv6 address: mapped, compatible, translated, 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x2002, high, low, ..] => inner(high, low),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Some(PRIVATE),
        [0xfe80..=0xfebf, ..] => Some(LINK),
        // Teredo and other tunnels, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(NOWHERE),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(NOWHERE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses_are_told_from_others() {
        for (address, expected) in [
            ("1.1.1.1", None),
            ("93.184.216.34", None),
            ("172.15.0.1", None),
            ("172.32.0.1", None),
            ("100.63.0.1", None),
            ("100.128.0.1", None),
            ("192.167.1.1", None),
            ("223.255.255.255", None),
            ("2606:4700::1111", None),
            ("2a00:1450::1", None),
            ("64:ff9b::101:101", None),
            ("2002:0101:0101::1", None),
            ("::ffff:1.1.1.1", None),
            ("127.0.0.1", Some(HERE)),
            ("127.255.0.9", Some(HERE)),
            ("0.0.0.0", Some(HERE)),
            ("0.1.2.3", Some(HERE)),
            ("::", Some(HERE)),
            ("::1", Some(HERE)),
            ("::ffff:127.0.0.1", Some(HERE)),
            ("::127.0.0.1", Some(HERE)),
            ("64:ff9b::7f00:1", Some(HERE)),
            ("2002:7f00:1::", Some(HERE)),
            ("10.1.2.3", Some(PRIVATE)),
            ("172.16.0.1", Some(PRIVATE)),
            ("172.31.255.255", Some(PRIVATE)),
            ("192.168.0.1", Some(PRIVATE)),
            ("100.100.100.200", Some(PRIVATE)),
            ("::ffff:10.0.0.1", Some(PRIVATE)),
            ("fd00:ec2::254", Some(PRIVATE)),
            ("fec0::1", Some(PRIVATE)),
            ("64:ff9b:1::1", Some(PRIVATE)),
            ("169.254.169.254", Some(LINK)),
            ("::ffff:169.254.169.254", Some(LINK)),
            ("fe80::1", Some(LINK)),
            ("192.0.0.192", Some(NOWHERE)),
            ("198.18.0.1", Some(NOWHERE)),
            ("203.0.113.7", Some(NOWHERE)),
            ("224.0.0.1", Some(NOWHERE)),
            ("255.255.255.255", Some(NOWHERE)),
            ("ff02::1", Some(NOWHERE)),
            ("2001::1", Some(NOWHERE)),
            ("2001:db8::1", Some(NOWHERE)),
            ("100::1", Some(NOWHERE)),
            ("5f00::1", Some(NOWHERE)),
        ] {
            assert_eq!(not_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
