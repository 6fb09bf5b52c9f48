//! `host`, `scheme` and `port`: every way to write an address, and what is known
//! of where it leads.

use crate::support::known;

/// What is known of a word and the host `good.com`.
const HOSTS: &[(&str, &str)] = &[
    ("https://good.com", "yes"),
    ("https://good.com/", "yes"),
    ("https://good.com/a/b?c#d", "yes"),
    ("http://good.com", "yes"),
    ("HTTPS://GOOD.COM/", "yes"),
    ("https://Good.Com./x", "yes"),
    ("https://good.com:443/x", "yes"),
    ("https://good.com:8443/x", "yes"),
    ("https://user@good.com/x", "yes"),
    ("https://user:pass@good.com/x", "yes"),
    ("ssh://git@good.com/o/r.git", "yes"),
    ("ssh://git@good.com:22/o/r.git", "yes"),
    ("git://good.com/o/r", "yes"),
    ("git+ssh://good.com/o/r", "yes"),
    ("ftp://good.com/x", "yes"),
    ("git@good.com:o/r.git", "yes"),
    ("good.com:o/r.git", "yes"),
    ("good.com", "yes"),
    ("good.com/x", "yes"),
    ("good.com:8080/x", "yes"),
    ("GOOD.com", "yes"),
    ("good.com./x", "yes"),
    ("good.com?x", "yes"),
    ("good.com#x", "yes"),
    ("user@good.com/x", "yes"),
    ("https://good.com/{a,b}", "yes"),
    ("https://good.com/[1-3]", "yes"),
    ("https://good.com/@evil.com/", "yes"),
    ("https://good.com/https://evil.com/", "yes"),
    ("https://good.com?@evil.com/", "yes"),
    ("https://good.com#@evil.com/", "yes"),
    ("https://evil.com", "no"),
    ("https://good.com.evil.com/", "no"),
    ("https://good.com@evil.com/", "no"),
    ("https://good.com:443@evil.com/", "no"),
    ("https://evil.com/good.com", "no"),
    ("https://evil.com?good.com", "no"),
    ("https://evil.com#good.com", "no"),
    ("https://evilgood.com/", "no"),
    ("https://sub.good.com/", "no"),
    ("https://good.co/", "no"),
    ("https://good-com/", "no"),
    ("git@evil.com:good.com/r.git", "no"),
    ("evil.com:good.com", "no"),
    ("evil.com/good.com", "no"),
    ("good.com@evil.com:x", "no"),
    ("file:///etc/passwd", "no"),
    ("https://127.0.0.1/", "no"),
    ("https://[::1]/good.com", "no"),
    ("origin", "no"),
    ("/good.com", "no"),
    ("./good.com", "no"),
    ("../good.com", "no"),
    (".", "no"),
    ("-", "no"),
    // One program reads this host, another that.
    ("https://{good,evil}.com/", "unknown"),
    ("https://evil[1-3].com/", "unknown"),
    ("{good.com,evil.com}", "unknown"),
    ("https://good.com{/a,.evil.com/b}", "unknown"),
    ("https://a@good.com@evil.com/", "unknown"),
    ("https://evil.com\\@good.com/", "unknown"),
    ("https://good.com\\.evil.com/", "unknown"),
    ("https:\\\\good.com/", "unknown"),
    ("https:/good.com/", "unknown"),
    ("https:good.com", "unknown"),
    ("https:///good.com/", "unknown"),
    ("https://", "unknown"),
    ("https://@/", "unknown"),
    ("ssh://good.com#@evil.com/x", "unknown"),
    ("ssh://good.com?@evil.com/x", "unknown"),
    ("git://good.com#.evil.com/x", "unknown"),
    ("good.com#@evil.com:x", "unknown"),
    ("good.com?x:@evil.com", "unknown"),
    ("https://good%2ecom/", "unknown"),
    ("https://\u{ff47}ood.com/", "unknown"),
    ("https://good.com /", "unknown"),
    ("https://good.com\t.evil.com/", "unknown"),
    ("ht tps://good.com/", "unknown"),
    ("https://good.com:99999/", "unknown"),
    ("https://good.com:x/", "unknown"),
    ("https://good.com../", "unknown"),
    ("user:good.com@evil.com", "unknown"),
    ("ext::sh -c evil", "unknown"),
    ("ext::https://good.com/", "unknown"),
    ("fd::17/good.com", "unknown"),
    ("://good.com", "unknown"),
    (":good.com", "unknown"),
    ("1://good.com", "unknown"),
    (".good.com", "unknown"),
];

#[test]
fn an_address_leads_to_the_host_that_every_program_reads_in_it() {
    assert!(HOSTS.len() >= 60, "{}", HOSTS.len());
    for (word, wanted) in HOSTS {
        assert_eq!(known("{ host = \"good.com\" }", word.as_bytes()), *wanted, "{word}");
        let opposite = match *wanted {
            "yes" => "no",
            "no" => "yes",
            other => other,
        };
        let not = "{ not = { host = [\"good.com\"] } }";
        assert_eq!(known(not, word.as_bytes()), opposite, "not {word}");
    }
    assert_eq!(known("{ host = \"good.com\" }", b"https://good.com/\xff"), "unknown");
    assert_eq!(known("{ host = \"good.com\" }", b""), "no");
}

#[test]
fn hosts_may_be_patterns_and_addresses() {
    for (host, word, wanted) in [
        ("*.good.com", "https://a.b.good.com/", "yes"),
        ("*.good.com", "https://good.com/", "no"),
        ("*.good.com", "https://evilgood.com/", "no"),
        ("*", "https://anything/", "yes"),
        ("*", "file:///x", "yes"),
        ("*", "/x", "no"),
        ("127.0.0.1", "http://127.0.0.1/", "yes"),
        ("127.0.0.1", "http://127.1/", "yes"),
        ("127.0.0.1", "http://0x7f.0.0.1/", "yes"),
        ("127.0.0.1", "http://2130706433/", "yes"),
        ("127.0.0.1", "http://0177.0.0.1/", "yes"),
        ("127.0.0.1", "ssh://0x7f.1/", "yes"),
        ("127.0.0.1", "2130706433:80/x", "yes"),
        ("::1", "http://[::1]/", "yes"),
        ("::1", "http://[0:0:0:0:0:0:0:1]:80/", "yes"),
        ("::1", "[::1]:path", "yes"),
        ("::1", "git@[::1]:path", "yes"),
        ("::1", "http://[::2]/", "no"),
        ("::1", "http://[::1%25eth0]/", "unknown"),
        ("localhost", "http://LOCALHOST:8080", "yes"),
    ] {
        let matcher = format!("{{ host = \"{host}\" }}");
        assert_eq!(known(&matcher, word.as_bytes()), wanted, "{host} {word}");
    }
}

#[test]
fn a_scheme_and_a_port_narrow_a_host() {
    let https = "{ host = \"good.com\", scheme = \"https\" }";
    let ports = "{ host = \"good.com\", port = [443, 8443] }";
    for (word, scheme, port) in [
        ("https://good.com/", "yes", "yes"),
        ("https://good.com:8443/", "yes", "yes"),
        ("https://good.com:80/", "yes", "no"),
        ("http://good.com/", "no", "no"),
        ("http://good.com:443/", "no", "yes"),
        ("ssh://good.com/", "no", "no"),
        ("git@good.com:x", "no", "no"),
        // curl takes http, and another scheme for some names or by an option.
        ("good.com/x", "unknown", "unknown"),
        ("good.com:443/x", "unknown", "yes"),
        ("good.com:80/x", "unknown", "no"),
        ("https://evil.com/", "no", "no"),
    ] {
        assert_eq!(known(https, word.as_bytes()), scheme, "{word}");
        assert_eq!(known(ports, word.as_bytes()), port, "{word}");
    }
    assert_eq!(known("{ host = \"*\", scheme = \"file\" }", b"FILE:///etc/passwd"), "yes");
    assert_eq!(known("{ host = \"*\", scheme = [\"ext\", \"fd\"] }", b"ext::sh -c x"), "unknown");
    assert_eq!(known("{ host = \"x\", scheme = \"ssh\" }", b"git+ssh://x/"), "no");
}
