//! What definitions say of sandbox, gates and signing, and what is wrong in them.

use std::path::Path;
use std::time::Duration;

use crate::definition::gate::{Adapter, Credential, Scheme};
use crate::definition::sandbox::{Confined, Hooks, Network, Sandbox, Sockets};
use crate::definition::{Definition, SyntaxError};
use crate::{Decision, pattern::Pattern};

fn parse(text: &str) -> Result<Definition, SyntaxError> {
    Definition::from_toml("tool", text, None)
}

fn texts(patterns: &[Pattern]) -> Vec<&str> {
    patterns.iter().map(Pattern::as_str).collect()
}

#[test]
fn every_member_of_the_sandbox_is_read() {
    let text = r#"
        [sandbox]
        mode = "strict"
        read = ["/opt/jdk", "/srv/data"]
        write = [
            "/var/cache/tool"]
        sockets = ["unix", "raw"]
        network = "always"
        hooks = "off"
        redact = true
        [[gate]]
        adapter = "http"
        hosts = ["*"]
    "#;
    let definition = parse(text).unwrap();
    let sandbox = definition.sandbox;
    assert_eq!(sandbox.mode, Confined::Strict);
    assert_eq!(sandbox.read, [Path::new("/opt/jdk"), Path::new("/srv/data")]);
    assert_eq!(sandbox.write, [Path::new("/var/cache/tool")]);
    assert_eq!(sandbox.line_of(Path::new("/srv/data")), 4);
    assert_eq!(sandbox.line_of(Path::new("/var/cache/tool")), 6);
    assert_eq!(sandbox.sockets, Sockets { unix: true, udp: false, raw: true });
    assert_eq!((sandbox.network, sandbox.hooks), (Network::Always, Hooks::Off));
    assert!(sandbox.redact && definition.stream && definition.sandbox_said);
    let above = parse("hooks = \"off\"\nredact = true\n[sandbox]\nread = []").unwrap();
    assert!(above.sandbox.redact && above.stream && above.sandbox.hooks == Hooks::Off);
    let off = parse("[sandbox]\nmode = \"off\"").unwrap();
    assert_eq!(off.sandbox.mode, Confined::Off);
    let unsaid = parse("timeout = 1").unwrap();
    assert_eq!((unsaid.sandbox, unsaid.sandbox_said), (Sandbox::default(), false));
    let empty = parse("[sandbox]\nread = []\nwrite = []\nsockets = []").unwrap();
    assert_eq!(empty.sandbox, Sandbox::default());
}

#[test]
fn every_member_of_a_gate_is_read() {
    let text = r#"
        [[gate]]
        adapter = "git"
        hosts = ["GitHub.com", "10.1.2.3", "[::1]"]
        ports = [8443]
        repositories = ["me/*", "*/docs"]
        credential = "file:/run/secrets/github_token"
        scheme = "basic:me"
        upstream = "https://mirror.example/git/"
        ca = "/etc/ssl/own.pem"
        private = ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32", "0.0.0.0/0"]
        default = "ask"
        lfs = true

        [[gate]]
        adapter = "npm"
        hosts = ["*.example.com"]
        methods = ["GET", "PUT"]
        paths = ["/@me/*", "*"]
        credential = "command:/usr/bin/token --for npm"
        credential_ttl = 60
        scheme = "header:X-Token"
    "#;
    let gates = parse(text).unwrap().gates;
    let [git, npm] = gates.as_slice() else { panic!("{gates:?}") };
    assert_eq!((git.line, git.adapter), (2, Adapter::Git));
    assert_eq!(texts(&git.hosts), ["github.com", "10.1.2.3", "::1"]);
    assert_eq!(git.ports, [8443]);
    assert_eq!(texts(&git.repositories), ["me/*", "*/docs"]);
    let credential = git.credential.clone().unwrap();
    assert_eq!(credential, Credential::File("/run/secrets/github_token".into()));
    assert_eq!(git.scheme, Scheme::Basic("me".into()));
    assert_eq!(git.upstream.as_deref(), Some("https://mirror.example/git"));
    assert_eq!(git.ca.as_deref(), Some(Path::new("/etc/ssl/own.pem")));
    assert_eq!(git.private, ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32", "0.0.0.0/0"]);
    assert_eq!((git.default, git.lfs), (Decision::Ask, true));
    assert_eq!(npm.line, 15);
    assert_eq!(npm.methods, ["GET", "PUT"]);
    assert_eq!(texts(&npm.paths), ["/@me/*", "*"]);
    let words = ["/usr/bin/token", "--for", "npm"].map(str::to_owned).to_vec();
    let ttl = Duration::from_secs(60);
    assert_eq!(npm.credential, Some(Credential::Command { words, ttl }));
    assert_eq!(npm.scheme, Scheme::Header("X-Token".into()));
}

#[test]
fn headers_that_pass_beside_the_usual_ones_are_named() {
    let text =
        "[[gate]]\nadapter = \"http\"\nhosts = [\"a.b\"]\nheaders = [\"anthropic-*\", \"x-app\"]";
    assert_eq!(texts(&parse(text).unwrap().gates[0].headers), ["anthropic-*", "x-app"]);
}

#[test]
fn a_gates_defaults_are_its_adapters() {
    for (adapter, scheme, default) in [
        ("git", Scheme::Basic("x-access-token".into()), Decision::Allow),
        ("github", Scheme::Token, Decision::Ask),
        ("npm", Scheme::Bearer, Decision::Deny),
        ("http", Scheme::Bearer, Decision::Ask),
    ] {
        let text = format!("[[gate]]\nadapter = \"{adapter}\"\nhosts = [\"a.example\"]");
        let gate = parse(&text).unwrap().gates.remove(0);
        assert_eq!((gate.scheme, gate.default, gate.lfs), (scheme, default, false), "{adapter}");
        assert_eq!((gate.credential, gate.upstream), (None, None));
    }
}

#[test]
fn a_signing_key_is_named_and_has_a_default() {
    let signing = parse("\n[signing]\nkey = \"file:/run/key\"").unwrap().signing.unwrap();
    assert_eq!((signing.line, signing.default), (2, Decision::Allow));
    assert_eq!(signing.key, Credential::File("/run/key".into()));
    let asks = "[signing]\nkey = \"env:KEY\"\ndefault = \"ask\"";
    assert_eq!(parse(asks).unwrap().signing.unwrap().default, Decision::Ask);
}

#[test]
fn what_is_wrong_in_the_sandbox_has_its_line() {
    let gate = "[[gate]]\nadapter = \"http\"\nhosts = [\"a.b\"]";
    let cases = [
        ("sandbox = 1", 1, "sandbox must be a table"),
        ("[sandbox]\nx = 1", 2, "[sandbox] x is not a member"),
        ("[sandbox]\n\nmode = \"loose\"", 3, "mode must be one of strict, off, not \"loose\""),
        ("[sandbox]\nmode = true", 2, "must be a string"),
        ("[sandbox]\nread = \"/opt\"", 2, "read must be a list of strings"),
        ("[sandbox]\nread = [\n\"/opt\",\n\"opt\"]", 4, "an absolute path without .."),
        ("[sandbox]\nread = [\"/a/../etc\"]", 2, "an absolute path without .."),
        ("[sandbox]\nwrite = [\"/\"]", 2, "less than all that there is"),
        ("[sandbox]\nread = [1]", 2, "each of read must be a string"),
        ("[sandbox]\nread = [\"/a\",\n\"/a\"]", 3, "\"/a\" is in read twice"),
        ("[sandbox]\nsockets = [\"tcp\"]", 2, "one of unix, udp, raw, not \"tcp\""),
        ("[sandbox]\nsockets = [\"udp\", \"udp\"]", 2, "twice"),
        ("[sandbox]\nnetwork = \"all\"", 2, "network must be one of verbs, always, never"),
        ("[sandbox]\nnetwork = \"always\"", 1, "needs a [[gate]]"),
        ("[sandbox]\nhooks = \"no\"", 2, "hooks must be one of run, off"),
        ("[sandbox]\nredact = \"yes\"", 2, "redact must be true or false"),
        ("[sandbox]\nmode = \"off\"\nredact = false", 3, "no effect with mode = \"off\""),
        (&format!("[sandbox]\nmode = \"off\"\n{gate}"), 3, "gets no credential"),
        ("[sandbox]\nmode = \"off\"\n[signing]\nkey = \"env:K\"", 3, "gets no credential"),
        (&format!("[sandbox]\nnetwork = \"never\"\n{gate}"), 3, "gate has no effect"),
        ("[signing]\n", 1, "needs a key"),
        ("[signing]\nkey = \"KEY\"", 2, "key must be \"file:/PATH\""),
        ("[signing]\nkey = 1", 2, "key must be a string"),
        ("[signing]\nkey = \"env:K\"\ndefault = \"no\"", 3, "default must be"),
        ("[signing]\nkey = \"env:K\"\nformat = \"ssh\"", 3, "[signing] format is not a member"),
    ];
    for (text, line, message) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error:?}");
        assert!(error.message.contains(message), "{text}: {error:?}");
    }
}

#[test]
fn what_is_wrong_in_a_gate_has_its_line() {
    let cases = [
        ("git", "x = 1", "[[gate]] x is not a member"),
        ("ftp", "", "adapter must be one of git, github, npm, http, not \"ftp\""),
        ("git", "hosts = []", "hosts is empty"),
        ("git", "hosts = \"a.b\"", "a list of strings"),
        ("git", "hosts = [\"*.b\"]", "each of hosts must be the name of one host"),
        ("http", "hosts = [\"https://a.b\"]", "without scheme, port and path"),
        ("http", "hosts = [\"a.b:80\"]", "without scheme, port and path"),
        ("http", "hosts = [\"a.b/x\"]", "without scheme"),
        ("http", "hosts = [\"a*.b\"]", "without scheme"),
        ("http", "hosts = [\"0x7f.1\"]", "without scheme"),
        ("http", "hosts = [\".a\"]", "without scheme"),
        ("http", "hosts = [\"\"]", "without scheme"),
        ("http", "hosts = [\"a\", \"a\"]", "twice"),
        ("http", "ports = [0]", "from 1 to 65535"),
        ("http", "ports = [65536]", "from 1 to 65535"),
        ("http", "ports = [80, 80]", "twice"),
        ("http", "ports = \"80\"", "must be a list"),
        ("http", "repositories = [\"a/b\"]", "repositories is for git gates, this one is http"),
        ("github", "lfs = true", "lfs is for git gates"),
        ("git", "methods = [\"GET\"]", "methods is for http and npm gates"),
        ("github", "paths = [\"/\"]", "paths is for http and npm gates"),
        ("git", "repositories = [\"a/b.git\"]", "without .git"),
        ("git", "repositories = [\"/a/b\"]", "OWNER/NAME"),
        ("http", "methods = [\"get\"]", "capital letters"),
        ("git", "headers = [\"x-own\"]", "headers is for http gates"),
        ("http", "headers = [\"*\"]", "a header's name in small letters"),
        ("http", "headers = [\"x-*\"]", "a header's name in small letters"),
        ("http", "headers = [\"X-Own\"]", "a header's name in small letters"),
        ("http", "headers = [\"a*b-own\"]", "a header's name in small letters"),
        ("http", "headers = [\"authorization\"]", "a header that may pass"),
        ("http", "headers = [\"x-original-url\"]", "a header that may pass"),
        ("http", "paths = [\"x\"]", "begins with /"),
        ("http", "paths = [\"/x?y\"]", "begins with /"),
        ("http", "credential = \"abc\"", "credential must be \"file:/PATH\""),
        ("http", "credential_ttl = 60", "of the form command:"),
        ("http", "credential = \"env:A\"\ncredential_ttl = 60", "of the form command:"),
        ("http", "credential = \"command:/x\"\ncredential_ttl = 0", "1 to 86400"),
        ("http", "scheme = \"bearer\"", "scheme has no effect without a credential"),
        ("http", "credential = \"env:A\"\nscheme = \"header:A B\"", "not a header's name"),
        ("http", "credential = \"env:A\"\nscheme = \"header:Host\"", "cannot be set"),
        ("http", "credential = \"env:A\"\nscheme = \"digest\"", "scheme must be"),
        ("http", "upstream = \"a.b\"", "upstream must be a URL"),
        ("http", "upstream = \"ftp://a.b\"", "upstream must be a URL"),
        ("http", "upstream = \"https://u:p@a.b\"", "a user or a password"),
        ("http", "upstream = \"https://a.b/?q\"", "no ? and no #"),
        ("http", "ca = \"own.pem\"", "the absolute path of a file"),
        ("http", "private = [\"10.0.0.0\"]", "a network"),
        ("http", "private = [\"10.0.0.1/8\"]", "nothing behind its bits"),
        ("http", "private = [\"10.0.0.0/33\"]", "a network"),
        ("http", "private = [\"::/+1\"]", "a network"),
        ("http", "default = \"no\"", "default must be"),
        ("git", "lfs = 1", "lfs must be true or false"),
    ];
    for (adapter, member, message) in cases {
        let hosts = if member.starts_with("hosts") { "" } else { "hosts = [\"a.b\"]" };
        let text = format!("[[gate]]\nadapter = \"{adapter}\"\n{hosts}\n{member}\n");
        let error = parse(&text).unwrap_err();
        let lines: &[usize] = if adapter == "ftp" { &[2] } else { &[4, 5] };
        assert!(lines.contains(&error.line), "{text}: {error:?}");
        assert!(error.message.contains(message), "{text}: {error:?}");
    }
    let whole = [
        ("[gate]\nadapter = \"git\"", 1, "write [[gate]]"),
        ("\n[[gate]]\nhosts = [\"a\"]", 2, "a gate needs an adapter"),
        ("[[gate]]\nadapter = \"git\"", 1, "a gate needs hosts"),
        (
            "[[gate]]\nadapter = \"http\"\nhosts = [\"*\"]\ncredential = \"env:A\"",
            1,
            "everybody would get it",
        ),
        (
            "[[gate]]\nadapter = \"http\"\nhosts = [\"a\"]\n\n[[gate]]\nadapter = \"http\"\nhosts = [\"b\", \"A\"]",
            5,
            "the one of line 1 are about the same",
        ),
    ];
    for (text, line, message) in whole {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error:?}");
        assert!(error.message.contains(message), "{text}: {error:?}");
    }
    let many = "[[gate]]\nadapter = \"git\"\nhosts = [\"a.b\"]\nrepositories = [\"me/x\"]\n\
                [[gate]]\nadapter = \"git\"\nhosts = [\"a.b\"]\nrepositories = [\"me/y\"]\n";
    assert_eq!(parse(many).unwrap().gates.len(), 2);
}
