//! Names to addresses, and which of them may be connected to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::large_futures,
    clippy::let_underscore_must_use,
    reason = "a panic is how a test fails, and starting programs is its job"
)]

mod stage;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stage::{Host, Stage, gate, text};
use tool_gate::Answer;
use tool_gate::upstream::resolve::Resolved;
use tool_gate::upstream::{Resolve, Upstream, address};
use tool_policy::definition::gate::{Adapter, Gate};

/// Gives another answer each time, the last for ever.
struct Changing {
    answers: Vec<Vec<IpAddr>>,
    asked: Arc<AtomicUsize>,
}

impl Resolve for Changing {
    fn resolve<'a>(&'a self, _host: &'a str) -> Resolved<'a> {
        let at = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
        let answer = self.answers[at].clone();
        Box::pin(async move { Ok(answer) })
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn stage(gate: Gate, answers: &[&[&str]]) -> (Stage, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let answers = answers.iter().map(|one| one.iter().map(|text| ip(text)).collect()).collect();
    let upstream = Upstream::new(Arc::new(Changing { answers, asked: Arc::clone(&asked) }));
    let allow = |request: &tool_gate::Request| vec![Answer::Allowed; request.parts.len()];
    (Stage::with(vec![gate], upstream, allow).await, asked)
}

#[test]
fn only_public_addresses_may_be_connected_to() {
    for refused in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "169.254.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "100.100.100.200",
        "::",
        "::1",
        "::2",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        "2002:c0a8:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
        "::ffff:0:127.0.0.1",
        "4000::1",
    ] {
        assert!(!address::is_allowed(ip(refused), &[]), "{refused}");
    }
    for allowed in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "128.0.0.1",
        "140.82.121.4",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "2001:4860::8888",
        "64:ff9b::101:101",
        "::ffff:8.8.8.8",
        "2002:101:101::1",
    ] {
        assert!(address::is_allowed(ip(allowed), &[]), "{allowed}");
    }
    let listed = ["10.1.0.0/16".parse().unwrap(), "fd12::/16".parse().unwrap()];
    for (address, allowed) in [
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("10.2.0.1", false),
        ("fd12::1", true),
        ("fd13::1", false),
        ("127.0.0.1", false),
        ("64:ff9b::a01:203", false),
    ] {
        assert_eq!(address::is_allowed(ip(address), &listed), allowed, "{address}");
    }
}

#[tokio::test]
async fn a_name_of_a_private_address_is_refused_unless_its_network_is_listed() {
    let host = Host::saying("reached").await;
    let mut private = gate(Adapter::Http, &["inside.example.com"]);
    private.ports = vec![host.address.port()];
    let url = format!("http://inside.example.com:{}/", host.address.port());
    let listed = private.clone();
    private.private.clear();
    for answers in [&["127.0.0.1"][..], &["::ffff:127.0.0.1"], &["1.1.1.1", "127.0.0.1"]] {
        let (stage, _) = stage(private.clone(), &[answers]).await;
        let output = stage.curl(&["-w", "%{http_code}", &url]).await;
        let said = text(&output.stdout);
        assert!(said.contains("127.0.0.1, a private address") && said.ends_with("403"), "{said}");
    }
    assert_eq!(host.seen().len(), 0);
    let (stage, _) = stage(listed, &[&["127.0.0.1"]]).await;
    assert_eq!(text(&stage.curl(&[&url]).await.stdout), "reached");
}

#[tokio::test]
async fn an_address_that_is_written_as_the_upstream_is_listed_by_that() {
    let host = Host::saying("reached").await;
    let port = host.address.port();
    for (upstream, reached) in [
        (format!("http://127.0.0.1:{port}"), true),
        (format!("http://[::ffff:127.0.0.1]:{port}"), true),
        (format!("http://localhost:{port}"), true),
        (format!("http://inside.example.com:{port}"), false),
        (format!("http://sub.localhost:{port}"), false),
    ] {
        let mut gate = gate(Adapter::Http, &["api.example.com"]);
        gate.upstream = Some(upstream.clone());
        gate.private.clear();
        let (stage, _) = stage(gate, &[&["127.0.0.1"]]).await;
        let said = stage.curl(&["http://api.example.com/"]).await.stdout;
        assert_eq!(text(&said) == "reached", reached, "{upstream}: {}", text(&said));
        assert_eq!(text(&said).contains("a private address"), !reached, "{upstream}");
    }
}

#[tokio::test]
async fn the_address_that_was_looked_at_is_the_one_that_is_connected_to() {
    // A name that is public when it is looked at and private a moment later.
    let trap = Host::saying("the trap").await;
    let mut gate = gate(Adapter::Http, &["turning.example.com"]);
    gate.ports = vec![trap.address.port()];
    gate.private = vec!["127.0.0.2/32".to_owned()];
    let (stage, asked) = stage(gate, &[&["127.0.0.2"], &["127.0.0.1"]]).await;
    let url = format!("http://turning.example.com:{}/", trap.address.port());
    // Nobody listens at the first; the second is not tried for it.
    let output = stage.curl(&["-w", "%{http_code}", &url]).await;
    assert!(text(&output.stdout).contains("cannot be reached"), "{}", text(&output.stdout));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let output = stage.curl(&["-w", "%{http_code}", &url]).await;
    assert!(text(&output.stdout).contains("a private address"), "{}", text(&output.stdout));
    assert_eq!(trap.seen().len(), 0);
}

#[tokio::test]
async fn tunnels_to_private_addresses_are_refused_too() {
    let host = Host::saying("").await;
    let mut gate = gate(Adapter::Http, &["inside.example.com", "169.254.169.254", "fd00:ec2::254"]);
    gate.ports = vec![80];
    gate.private.clear();
    let (stage, _) = stage(gate, &[&["169.254.169.254"]]).await;
    for target in ["inside.example.com:443", "169.254.169.254:80", "[fd00:ec2::254]:80"] {
        let head = format!("CONNECT {target} HTTP/1.1");
        let answer = stage.raw(&stage.head(&[&head, &format!("Host: {target}")])).await;
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("private address"),
            "{answer}"
        );
    }
    for url in ["http://169.254.169.254/latest", "http://[fd00:ec2::254]/latest"] {
        let output = stage.curl(&["-g", url]).await;
        assert!(text(&output.stdout).contains("private address"), "{url}");
    }
    assert_eq!(host.seen().len(), 0);
}

/// Where an answer leads is the host's to say: it must not lead into a network that the
/// gate lists for its own hosts.
#[tokio::test]
async fn a_redirect_that_is_followed_here_does_not_lead_into_private_networks() {
    let inner = Host::saying("what is inside").await;
    let port = inner.address.port();
    for (to, goes) in [
        (format!("http://other.example:{port}/"), false),
        (format!("http://localhost:{port}/"), false),
        (format!("http://127.0.0.2:{port}/"), false),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), false),
        // The gate's own host, under another port.
        (format!("http://127.0.0.1:{port}/"), true),
    ] {
        let location = to.clone();
        let registry = Host::start(move |_| {
            let answer = hyper::Response::builder().status(302).header("location", &location);
            answer.body(Default::default()).unwrap()
        })
        .await;
        let mut npm = gate(Adapter::Npm, &["registry.example"]);
        npm.upstream = Some(registry.url());
        let (stage, _) = stage(npm, &[&["127.0.0.1"]]).await;
        let url = "http://registry.example/left/-/left-1.0.0.tgz";
        let output = stage.curl(&["-w", " %{http_code}", url]).await;
        let said = text(&output.stdout);
        assert_eq!(said.ends_with("what is inside 200"), goes, "{to}: {said}");
        assert_eq!(said.contains("a private address"), !goes, "{to}: {said}");
    }
    assert_eq!(inner.seen().len(), 1);
}
