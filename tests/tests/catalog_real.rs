//! Definitions of the catalog with their real programs, against hosts of the test's own.

mod catalog_help;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use catalog_help::{catalog, installed};
use tool_broker_tests::{Server, eventually, run, skipped};

/// A host on loopback with the pages that it is given; the heads of what it was asked.
fn host(pages: Vec<(&'static str, Vec<u8>)>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("an address").port();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    thread::spawn(move || {
        for mut connection in tcp.incoming().flatten() {
            let mut reader = BufReader::new(connection.try_clone().expect("dup"));
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|count| count > 2) {}
            let path = head.split(' ').nth(1).unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            let page = pages.iter().find(|(name, _)| *name == path);
            log.lock().expect("the log").push(head.clone());
            let (status, body) =
                page.map_or(("404 Not Found", &b""[..]), |(_, body)| ("200 OK", body));
            let kind = match body.first() {
                Some(b'{') => "application/json",
                Some(b'<') => "text/html",
                _ => "application/octet-stream",
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
        }
    });
    (port, asked)
}

#[test]
fn pip_of_the_catalog_installs_into_the_workspace_by_its_gate() {
    let test = "pip_of_the_catalog_installs_into_the_workspace_by_its_gate";
    let there = ["/usr/bin/pip", "/usr/bin/python3"].iter().all(|path| Path::new(path).exists());
    if !there {
        return skipped(test, "no /usr/bin/pip and /usr/bin/python3 (python3-pip)");
    }
    let script = "import sys, zipfile, io; b = io.BytesIO(); z = zipfile.ZipFile(b, 'w'); \
        d = 'answer-1.0.dist-info/'; z.writestr('answer.py', 'VALUE = 42\\n'); \
        z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: answer\\nVersion: 1.0\\n'); \
        z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n'); \
        z.writestr(d + 'RECORD', 'answer.py,,\\n'); z.close(); sys.stdout.buffer.write(b.getvalue())";
    let wheel = run(Command::new("/usr/bin/python3").args(["-c", script]), b"").stdout;
    let name = "answer-1.0-py3-none-any.whl";
    let page = format!("<html><body><a href=\"{name}\">{name}</a></body></html>");
    let (port, asked) = host(vec![
        ("/simple/answer/", page.into_bytes()),
        ("/simple/answer/answer-1.0-py3-none-any.whl", wheel),
    ]);
    let server = Server::start(|_| ());
    catalog(&server, &["add", "pip", "python3"]).success();
    // The index is ours; nothing else of the definition is another one.
    let place = installed(&server, "pip", "tool.toml");
    let definition = fs::read_to_string(&place).expect("pip");
    let here = format!("upstream = \"http://127.0.0.1:{port}\"");
    assert!(definition.contains("upstream = \"https://pypi.org\""), "{definition}");
    fs::write(&place, definition.replace("upstream = \"https://pypi.org\"", &here)).expect("write");
    run(&mut server.verb(&["reload"]), b"").success();
    let said = run(server.client("pip").args(["install", "--target", "deps", "answer"]), b"");
    assert_eq!(said.code(), Some(0), "{said:?}\n{}", server.log());
    let python =
        ["-c", "import sys; sys.path.insert(0, 'deps'); import answer; print(answer.VALUE)"];
    assert_eq!(run(server.client("python3").args(python), b"").success(), "42\n");
    let lines = asked.lock().expect("the log").clone();
    assert!(lines.iter().all(|line| line.starts_with("GET /simple/")), "{lines:?}");
    assert!(lines.len() >= 2, "{lines:?}");
    // Nothing else passes.
    let said = run(server.client("pip").args(["download", "https://example.com/x.whl"]), b"");
    assert!(said.refused(126).contains("rule source"), "{said:?}");
    let said = run(server.client("pip").args(["install", "-i", "http://127.0.0.1/", "x"]), b"");
    assert!(said.refused(126).contains("rule index"), "{said:?}");
    let said = run(
        server.client("python3").args(["-m", "pip", "download", "--retries", "0", "answer"]),
        b"",
    );
    assert_ne!(said.code(), Some(0), "python has no way to the index: {said:?}");
    assert_eq!(asked.lock().expect("the log").len(), lines.len());
}

#[test]
fn kubectl_of_the_catalog_reads_a_cluster_with_a_token_that_it_does_not_have() {
    let test = "kubectl_of_the_catalog_reads_a_cluster_with_a_token_that_it_does_not_have";
    if !Path::new("/usr/bin/kubectl").exists() {
        return skipped(test, "no /usr/bin/kubectl");
    }
    let resource = |name: &str, kind: &str| {
        format!(
            "{{\"name\":\"{name}\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"{kind}\",\
             \"verbs\":[\"get\",\"list\",\"delete\",\"create\"]}}"
        )
    };
    let resources = [resource("pods", "Pod"), resource("secrets", "Secret")].join(",");
    let pod = "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"web-1\",\"namespace\":\"default\"}}";
    let json = |text: String| text.into_bytes();
    let (port, asked) = host(vec![
        ("/version", json("{\"major\":\"1\",\"minor\":\"32\",\"gitVersion\":\"v1.32.0\"}".into())),
        ("/api", json("{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}".into())),
        ("/apis", json("{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[]}".into())),
        (
            "/api/v1",
            json(format!(
                "{{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":[{resources}]}}"
            )),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json(format!(
                "{{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"items\":[{pod}]}}"
            )),
        ),
        ("/api/v1/namespaces/default/pods/web-1", json(pod.to_owned())),
        (
            "/api/v1/namespaces/default/secrets",
            json(
                "{\"kind\":\"SecretList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[]}"
                    .into(),
            ),
        ),
    ]);
    let server = Server::start(|setup| {
        setup.file("token", "a-token-of-the-cluster", 0o600);
    });
    catalog(&server, &["add", "kubectl"]).success();
    let place = installed(&server, "kubectl", "tool.toml");
    let definition = fs::read_to_string(&place).expect("kubectl");
    let lines =
        definition.lines().filter(|line| !line.starts_with("ca = ")).map(|line| match line {
            line if line.starts_with("upstream = ") => {
                format!("upstream = \"http://127.0.0.1:{port}\"\n")
            }
            line if line.starts_with("credential = ") => {
                format!("credential = \"file:{}\"\n", server.path("token").display())
            }
            line => format!("{line}\n"),
        });
    fs::write(&place, lines.collect::<String>()).expect("write");
    run(&mut server.verb(&["reload"]), b"").success();
    let config = server.path("state/home/kubectl");
    eventually("setup.sh has run", || {
        run(Command::new("grep").args(["-rq", "kubernetes.default.svc"]).arg(&config), b"").code()
            == Some(0)
    });
    let call = |words: &[&str]| run(server.client("kubectl").args(words), b"");
    let said = call(&["get", "pods", "-o", "name"]);
    assert_eq!(
        (said.code(), said.out()),
        (Some(0), "pod/web-1\n".to_owned()),
        "{said:?}\n{}",
        server.log()
    );
    let heads = || asked.lock().expect("the log").clone();
    let known = |head: &String| {
        head.to_ascii_lowercase().contains("authorization: bearer a-token-of-the-cluster")
    };
    assert!(heads().iter().all(known), "{:?}", heads());
    // It has none itself.
    let found = run(
        Command::new("grep").args(["-r", "a-token-of-the-cluster"]).arg(server.path("state/home")),
        b"",
    );
    assert_eq!(found.code(), Some(1), "{found:?}");
    for (words, rule) in [
        (&["get", "secrets"][..], "rule secrets"),
        (&["delete", "pod", "web-1", "--wait=false"], "rule delete"),
    ] {
        let said = call(words);
        assert!(said.code() != Some(0) && said.err().contains(rule), "{words:?}: {said:?}");
    }
    let passed = |head: &String| head.contains("/secrets") || !head.starts_with("GET ");
    assert!(!heads().iter().any(passed), "{:?}", heads());
}
