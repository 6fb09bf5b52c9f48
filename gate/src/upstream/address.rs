//! Which addresses may be connected to.
//!
//! Everything that is not on the public Internet is refused, unless a gate lists its
//! network: names are the caller's to choose, and to change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Whether it may be connected to by a gate that lists these networks.
pub fn is_allowed(address: IpAddr, private: &[IpNet]) -> bool {
    // ::ffff:127.0.0.1 is 127.0.0.1 to the kernel.
    let address = address.to_canonical();
    if crate::weaken::is("gate-private") {
        return true;
    }
    is_public(address) || private.iter().any(|net| net.contains(&address))
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, ..)
            | (100, 64..=127, _) // of carriers
            | (169, 254, _) // link-local, and the metadata services of clouds
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99) // 6to4 relays
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224..=255, ..) // multicast, reserved, broadcast
    ) && address.octets() != [168, 63, 129, 16] // a cloud's metadata
}

fn v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e, f) {
        // Addresses that stand for an IPv4 one: NAT64, 6to4.
        (0x64, 0xff9b, 0, 0, 0, 0) => inner(g, h),
        (0x2002, ..) => inner(b, c),
        // Of networks' own NAT64, Teredo, documentation and the like.
        (0x2001, 0..=0x1ff, ..) | (0x2001, 0xdb8, ..) | (0x3fff, 0..=0xfff, ..) => false,
        // The rest of what is handed out; everything else is local or not in use.
        (0x2000..=0x3fff, ..) => true,
        _ => false,
    }
}
