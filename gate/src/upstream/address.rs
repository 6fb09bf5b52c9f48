//! Which addresses may be connected to.
//!
//! Everything that is not on the public Internet is refused, and this machine's own
//! addresses, unless a gate lists their network: names are the caller's to choose, and to
//! change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ipnet::IpNet;

/// Whether it may be connected to by a gate that lists these networks.
pub fn is_allowed(address: IpAddr, private: &[IpNet]) -> bool {
    // ::ffff:127.0.0.1 is 127.0.0.1 to the kernel.
    let address = address.to_canonical();
    if crate::weaken::is("gate-private") {
        return true;
    }
    decide(address, private, is_own)
}

fn decide(address: IpAddr, private: &[IpNet], is_own: impl Fn(IpAddr) -> bool) -> bool {
    let listed = private.iter().any(|net| net.contains(&address));
    listed || (is_public(address) && !is_own(address))
}

/// Whether this machine has it: what is sent there comes from there. What listens on it for
/// this machine alone does not expect others. Nothing is sent to find out.
fn is_own(address: IpAddr) -> bool {
    let any = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    // Which port does not count.
    let from = UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(address, 443))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip().to_canonical() == address)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_own_addresses_are_refused_unless_they_are_listed() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let own = address("2606:4700::1111");
        let (listed, is_it) = (IpNet::from(own), |address| address == own);
        assert!(!decide(own, &[], is_it));
        assert!(decide(own, &[listed], is_it));
        assert!(decide(address("2606:4700::1112"), &[], is_it));
        assert!(!decide(address("10.0.0.1"), &[], is_it));
        // As the kernel says it: any address that leads here comes from there.
        assert!(is_own(address("127.0.0.1")));
        for other in ["1.1.1.1", "203.0.113.7", "2606:4700::1111"] {
            assert!(!is_own(address(other)), "{other}");
        }
        let out = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        if out.connect("1.1.1.1:443").is_ok() {
            let own = out.local_addr().expect("its address").ip();
            assert!(is_own(own), "{own}");
        }
    }
}
