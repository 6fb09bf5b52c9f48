//! What requests may say, and what they may not.

use super::*;
use proptest::prelude::*;

fn call(json: &str) -> Result<Request, Code> {
    match Incoming::parse(json.as_bytes()) {
        Ok(Incoming::Call(request, More::No)) => Ok(request),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.code),
    }
}

#[test]
fn the_seeds_request_is_known_as_such() {
    let request = call(r#"{"tool":"git","args":["push"],"cwd":"/w"}"#).unwrap();
    assert!(request.seed_only);
    assert_eq!(request.args, [Text::new("push").unwrap()]);
    assert!(!call(r#"{"tool":"git","args":[],"cwd":"/w","id":1}"#).unwrap().seed_only);
}

#[test]
fn bad_messages_have_their_code() {
    let deep = format!("{}{}", r#"{"x":"#, "[".repeat(100_000));
    for (json, code) in [
        ("{", Code::BadJson),
        ("{}}", Code::BadJson),
        (r#"{"tool":"a","tool":"b"}"#, Code::BadJson),
        (deep.as_str(), Code::BadJson),
        (r#"{"tool":1}"#, Code::BadRequest),
        (r#"{"tool":"a","args":"b"}"#, Code::BadRequest),
        (r#"{"tool":"a\u0000"}"#, Code::BadRequest),
        (r#"{"tool":"a","umask":512}"#, Code::BadRequest),
        (r#"{"tool":"a","umask":-1}"#, Code::BadRequest),
        (r#"{"tool":"a","fds":[-1]}"#, Code::BadRequest),
        (r#"{"tool":"a","stdio":"x"}"#, Code::BadRequest),
        (r#"{"tool":"a","more":"x"}"#, Code::BadRequest),
        (r#"{"signal":"KILL"}"#, Code::BadRequest),
        (r#"{"resize":{"rows":70000}}"#, Code::BadRequest),
        (r#"{"query":"x"}"#, Code::BadRequest),
        // Forms that are not in the document, and that serde takes by itself.
        (r#"{"tool":"a","stdio":{"fds":null}}"#, Code::BadRequest),
        (r#"{"signal":{"INT":null}}"#, Code::BadRequest),
        (r#"{"query":{"started":null}}"#, Code::BadRequest),
        (r#"{"resize":[40,120]}"#, Code::BadRequest),
        (r#"{"tool":"a","tty":{"rows":1}}"#, Code::BadRequest),
        (r#"{"tool":"a","tty":{"fds":[0],"modes":[1,2]}}"#, Code::BadRequest),
        (r#"{"tool":"a","id":1e400}"#, Code::BadJson),
    ] {
        assert_eq!(call(json).unwrap_err(), code, "{}", &json[..json.len().min(60)]);
    }
    assert_eq!(Incoming::parse(b"{\"tool\":\"\xff\"}").unwrap_err().code, Code::BadJson);
}

#[test]
fn unknown_members_are_for_later_versions() {
    assert!(call(r#"{"tool":"a","of_the_future":[{"x":1}]}"#).is_ok());
}

#[test]
fn environment_comes_as_a_list_or_an_object() {
    let list = call(r#"{"tool":"a","env":["A=1","B=2","C"]}"#).unwrap().env;
    assert_eq!(call(r#"{"tool":"a","env":{"A":"1","B":"2","C":null}}"#).unwrap().env, list);
}

proptest! {
    /// Wherever a request is cut into messages, the same request comes out.
    #[test]
    fn a_cut_request_is_whole_again(args in proptest::collection::vec("[a-z]{0,6}", 1..5), cut in 0usize..40) {
        let (mut request, mut how) = (Request::default(), More::No);
        let mut messages: Vec<(Vec<String>, &str)> = vec![(vec![], "")];
        let mut seen = 0;
        for arg in &args {
            let at = cut.saturating_sub(seen).min(arg.len());
            let here = seen <= cut && cut < seen + arg.len();
            messages.last_mut().unwrap().0.push(if here { arg[..at].into() } else { arg.clone() });
            if here {
                messages.last_mut().unwrap().1 = r#","more":"string""#;
                messages.push((vec![arg[at..].into()], ""));
            }
            seen += arg.len();
        }
        for (n, (list, tail)) in messages.iter().enumerate() {
            let json = format!("{{\"args\":{}{}}}", serde_json::to_string(list).unwrap(), tail);
            how = if n == 0 {
                match Incoming::parse(json.as_bytes()).unwrap() {
                    Incoming::Call(first, more) => { request = first; more }
                    other => panic!("{other:?}"),
                }
            } else {
                request.join(json.as_bytes(), how).unwrap()
            };
        }
        prop_assert_eq!(how, More::No);
        let got: Vec<_> = request.args.iter().map(|a| String::from_utf8(a.as_bytes().to_vec()).unwrap()).collect();
        prop_assert_eq!(got, args);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(Incoming::parse(&bytes));
    }
}
