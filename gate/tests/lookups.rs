//! Names that nobody answers for: they hold up nobody else.

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

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stage::{Host, Stage, gate};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tool_gate::Answer;
use tool_gate::upstream::resolve::Resolved;
use tool_gate::upstream::{LOOKUPS, LOOKUPS_OF_CALL, Resolve, Upstream};
use tool_policy::definition::gate::Adapter;

/// Like the system's: a lookup has one of some threads until it has its answer, whoever
/// waits for it. Names that begin with `hang` are answered when they are let go.
#[derive(Clone)]
struct Threads {
    free: Arc<Semaphore>,
    /// Let go.
    answers: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
    busy: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Threads {
    fn new() -> Threads {
        Threads {
            free: Arc::new(Semaphore::new(LOOKUPS + 4)),
            answers: Arc::new(Semaphore::new(0)),
            asked: Arc::default(),
            busy: Arc::default(),
            most: Arc::default(),
        }
    }

    fn busy(&self) -> usize {
        self.busy.load(Ordering::SeqCst)
    }

    /// Most at once since this was asked last.
    fn most(&self) -> usize {
        self.most.swap(0, Ordering::SeqCst)
    }
}

impl Resolve for Threads {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolved<'a> {
        let (threads, hangs) = (self.clone(), host.starts_with("hang"));
        threads.asked.fetch_add(1, Ordering::SeqCst);
        let busy = threads.busy.fetch_add(1, Ordering::SeqCst) + 1;
        threads.most.fetch_max(busy, Ordering::SeqCst);
        // Not ended with who waits for it.
        let lookup = tokio::spawn(async move {
            let _thread = threads.free.acquire().await.unwrap();
            if hangs {
                drop(threads.answers.acquire().await.unwrap());
            }
            threads.busy.fetch_sub(1, Ordering::SeqCst);
        });
        Box::pin(async move {
            lookup.await.unwrap();
            Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)])
        })
    }
}

async fn call(upstream: Upstream, port: u16) -> Stage {
    let mut gate = gate(Adapter::Http, &["*.example.com"]);
    gate.ports = vec![port];
    let allow = |request: &tool_gate::Request| vec![Answer::Allowed; request.parts.len()];
    Stage::with(vec![gate], upstream, allow).await
}

fn get(stage: &Stage, name: &str, port: u16) -> Vec<u8> {
    let host = format!("{name}.example.com:{port}");
    stage.head(&[&format!("GET http://{host}/ HTTP/1.1"), &format!("Host: {host}")])
}

/// Waits until it is so.
async fn becomes(what: &str, test: impl Fn() -> bool) {
    let waited = timeout(Duration::from_secs(60), async {
        while !test() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_late| panic!("{what}"));
}

/// Asks for so many names and does not wait, by as many connections as a call may have.
async fn hang(stage: &Stage, from: usize, port: u16) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for name in from..from + tool_gate::grant::CONNECTIONS {
        let mut stream = TcpStream::connect(stage.address).await.unwrap();
        stream.write_all(&get(stage, &format!("hang{name}"), port)).await.unwrap();
        open.push(stream);
    }
    open
}

async fn answers_at_once(stage: &Stage, port: u16) {
    let head = get(stage, "good", port);
    // Held up, it would be refused after a while.
    let answer = stage.raw(&head).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("reached"), "{answer}");
}

#[tokio::test]
async fn names_that_nobody_answers_for_hold_up_no_other_call() {
    let host = Host::saying("reached").await;
    let port = host.address.port();
    let threads = Threads::new();
    let upstream = Upstream::new(Arc::new(threads.clone()));
    let attacker = call(upstream.of_call(), port).await;
    let honest = call(upstream.of_call(), port).await;
    // Over and over, each closed at once: the lookups stay, and they are not more.
    for round in 0..4 {
        let open = hang(&attacker, round * 100, port).await;
        becomes("as many as a call may", || threads.busy() == LOOKUPS_OF_CALL).await;
        answers_at_once(&honest, port).await;
        drop(open);
        sleep(Duration::from_millis(50)).await;
    }
    answers_at_once(&honest, port).await;
    // The call is over, its lookups are not.
    drop(attacker);
    sleep(Duration::from_millis(50)).await;
    assert_eq!(threads.busy(), LOOKUPS_OF_CALL);
    answers_at_once(&honest, port).await;
    assert_eq!(threads.most(), LOOKUPS_OF_CALL + 1);
    threads.answers.add_permits(1);
    becomes("they are over", || threads.busy() == 0).await;
    // Nobody waited for the others any more.
    assert!(threads.most() == 0 && threads.asked.load(Ordering::SeqCst) <= 5 + 1 + LOOKUPS_OF_CALL);
}

#[tokio::test]
async fn all_calls_together_leave_threads_for_other_work() {
    let host = Host::saying("reached").await;
    let port = host.address.port();
    let threads = Threads::new();
    let upstream = Upstream::new(Arc::new(threads.clone()));
    let mut calls = Vec::new();
    for _ in 0..LOOKUPS {
        let stage = call(upstream.of_call(), port).await;
        let mut open = Vec::new();
        for name in 0..LOOKUPS_OF_CALL + 1 {
            let mut stream = TcpStream::connect(stage.address).await.unwrap();
            stream.write_all(&get(&stage, &format!("hang{name}"), port)).await.unwrap();
            open.push(stream);
        }
        calls.push((stage, open));
    }
    becomes("as many as there may be", || threads.busy() == LOOKUPS).await;
    assert_eq!(threads.most(), LOOKUPS);
    // Who waits for a place has its turn when there is one.
    let last = call(upstream.of_call(), port).await;
    threads.answers.add_permits(1);
    answers_at_once(&last, port).await;
    assert!(threads.most() <= LOOKUPS);
}

#[tokio::test]
async fn a_name_that_is_being_looked_up_is_not_looked_up_again_by_its_call() {
    let host = Host::saying("reached").await;
    let port = host.address.port();
    let threads = Threads::new();
    let upstream = Upstream::new(Arc::new(threads.clone()));
    let stage = call(upstream.of_call(), port).await;
    let head = get(&stage, "hang", port);
    let asked = async {
        sleep(Duration::from_millis(100)).await;
        assert_eq!((threads.busy(), threads.asked.load(Ordering::SeqCst)), (1, 1));
        // The call's other place is free.
        answers_at_once(&stage, port).await;
        threads.answers.add_permits(1);
    };
    let (one, two, three, ()) =
        tokio::join!(stage.raw(&head), stage.raw(&head), stage.raw(&head), asked);
    for answer in [one, two, three] {
        assert!(answer.ends_with("reached"), "{answer}");
    }
    assert_eq!(threads.asked.load(Ordering::SeqCst), 2);
    // An answer is not kept.
    let other = call(upstream.of_call(), port).await;
    answers_at_once(&other, port).await;
}

/// The names are the host's own choice there.
#[tokio::test]
async fn names_that_redirects_lead_to_are_bounded_too() {
    let count = Arc::new(AtomicUsize::new(0));
    let registry = Host::start(move |_| {
        let to = format!("http://hang{}.example.net/", count.fetch_add(1, Ordering::SeqCst));
        let answer = hyper::Response::builder().status(302).header("location", to);
        answer.body(Default::default()).unwrap()
    })
    .await;
    let threads = Threads::new();
    let upstream = Upstream::new(Arc::new(threads.clone()));
    let mut npm = gate(Adapter::Npm, &["registry.example"]);
    npm.upstream = Some(registry.url());
    let allow = |request: &tool_gate::Request| vec![Answer::Allowed; request.parts.len()];
    let stage = Stage::with(vec![npm], upstream, allow).await;
    let target = "GET http://registry.example/left/-/left-1.0.0.tgz HTTP/1.1";
    let head = stage.head(&[target, "Host: registry.example"]);
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(stage.address).await.unwrap();
        stream.write_all(&head).await.unwrap();
        open.push(stream);
    }
    becomes("all are asked for", || registry.seen().len() == 8).await;
    becomes("as many as a call may", || threads.busy() == LOOKUPS_OF_CALL).await;
    assert_eq!(threads.most(), LOOKUPS_OF_CALL);
}
