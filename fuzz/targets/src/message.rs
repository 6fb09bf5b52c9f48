//! A caller's messages, requests that come in several of them, and replies.

use tool_protocol::json::{Form, Object, Writer};
use tool_protocol::limits::{MAX_DEPTH, MAX_FRAME, MAX_ID};
use tool_protocol::request::{Input, More};
use tool_protocol::{
    Code, Control, Id, Incoming, Output, Refusal, Reply, Request, Stdio, Terminal, Text, frame,
};

use crate::json::{Json, Rules, parse};
use crate::source::Source;

/// One message, and several of which each goes on where the one before ended.
/// Lines of the input are messages.
pub fn incoming(data: &[u8]) {
    let mut open: Option<(Request, More)> = None;
    for payload in data.split(|byte| *byte == b'\n') {
        let said = one(payload);
        if let Some((request, how)) = &mut open {
            let before = request.clone();
            match request.join(payload, *how) {
                Ok(next) => {
                    joined(&before, request, payload, *how);
                    *how = next;
                }
                Err(refusal) => understood(&refusal),
            }
        } else if let Some(Incoming::Call(request, more)) = said
            && more != More::No
        {
            open = Some((request, more));
        }
    }
}

/// A refusal is one that a program and a person can read.
fn understood(refusal: &Refusal) {
    assert!(matches!(refusal.code, Code::BadJson | Code::BadRequest), "{refusal:?}");
    let message = &refusal.message;
    assert!(!message.is_empty() && message.chars().count() <= 601);
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

/// One message, beside what the document says of it.
pub(crate) fn one(payload: &[u8]) -> Option<Incoming> {
    let said = Incoming::parse(payload);
    let form = parse(payload, Rules::Strict, MAX_DEPTH).filter(Json::no_member_twice);
    let id = Incoming::id_of(payload);
    match said {
        Ok(said) => {
            let form = form.expect("what is taken is JSON without a member twice");
            assert!(matches!(form, Json::Object(_)) || frame::split(payload).is_err());
            if let Json::Object(_) = form {
                means(&form, &said);
                assert!(Object::new(payload).is_ok());
            }
            if let Incoming::Call(Request { id: Some(said), .. }, _)
            | Incoming::Op(_, Some(said))
            | Incoming::Control(Control::Signal(_, Some(said))) = &said
            {
                assert_eq!(Some(said), id.as_ref());
            }
            Some(said)
        }
        Err(refusal) => {
            understood(&refusal);
            if form.as_ref().is_none_or(|form| !form.numbers_fit()) {
                return None;
            }
            assert_eq!(refusal.code, Code::BadRequest, "{}", refusal.message);
            None
        }
    }
}

/// A string of the protocol, as docs/protocol.md has it.
fn string(value: &Json) -> Option<Vec<u8>> {
    use base64::Engine;
    match value {
        Json::Text(text) => Some(text.clone()),
        Json::Object(members) => match members.as_slice() {
            [(name, Json::Text(text))] if name == b"b64" => {
                base64::engine::general_purpose::STANDARD.decode(text).ok()
            }
            _ => None,
        },
        _ => None,
    }
}

fn strings(value: Option<&Json>) -> Vec<Vec<u8>> {
    match value {
        Some(Json::List(list)) => list.iter().map(|one| string(one).expect("a string")).collect(),
        Some(Json::Null) | None => Vec::new(),
        Some(other) => panic!("taken for a list: {other:?}"),
    }
}

fn environment(value: Option<&Json>) -> Vec<Vec<u8>> {
    let Some(Json::Object(members)) = value else { return strings(value) };
    let line = |(name, value): &(Vec<u8>, Json)| match value {
        Json::Null => name.clone(),
        value => [name.as_slice(), b"=", &string(value).expect("a string")].concat(),
    };
    let mut lines: Vec<_> = members.iter().map(line).collect();
    lines.sort();
    lines
}

fn id(value: Option<&Json>) -> Option<Id> {
    match value? {
        Json::Null => None,
        Json::Text(text) => {
            assert!(text.len() <= MAX_ID);
            Some(Id::String(String::from_utf8(text.clone()).expect("UTF-8")))
        }
        number => Some(Id::Number(number.integer()?.try_into().ok()?)),
    }
}

fn bytes(list: &[Text]) -> Vec<Vec<u8>> {
    list.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// What was read is what is written there.
fn means(form: &Json, said: &Incoming) {
    let member = |name| form.member(name).filter(|value| **value != Json::Null);
    match said {
        Incoming::Tool(call) => {
            let tool = member("tool").map(|value| string(value).expect("a string"));
            assert_eq!(Some(call.tool.as_bytes().to_vec()), tool);
            assert_eq!(call.id, id(member("id")));
            match &call.input {
                Input::Here(_) => assert!(member("input").is_some()),
                Input::Follows(bytes) => {
                    let said = member("input_bytes").and_then(Json::integer);
                    assert_eq!(said.and_then(|said| usize::try_from(said).ok()), Some(*bytes));
                }
            }
            for other in ["args", "cwd", "stdio", "fds", "env", "umask", "more", "tty"] {
                assert!(member(other).is_none(), "{other} beside an input");
            }
        }
        Incoming::Call(request, more) => {
            let text = |name| member(name).map(|value| string(value).expect("a string"));
            let known = |text: &Option<Text>| text.as_ref().map(|text| text.as_bytes().to_vec());
            assert_eq!((known(&request.tool), known(&request.cwd)), (text("tool"), text("cwd")));
            assert_eq!(bytes(&request.args), strings(member("args")));
            let mut env = bytes(&request.env);
            if matches!(member("env"), Some(Json::Object(_))) {
                env.sort();
            }
            assert_eq!(env, environment(member("env")));
            assert_eq!(request.id, id(member("id")));
            let all = request.args.iter().chain(&request.env);
            assert!(all.clone().all(|text| !text.as_bytes().contains(&0)));
            assert!(request.size() >= all.map(|text| text.as_bytes().len()).sum());
            assert!(request.umask.is_none_or(|umask| umask <= 0o777));
            let expected = match member("more") {
                Some(Json::Bool(true)) => More::Lists,
                Some(Json::Text(_)) => More::String,
                _ => More::No,
            };
            assert_eq!(*more, expected);
            let stdio = member("stdio").map(|value| string(value).expect("a word"));
            let expected = match stdio.as_deref() {
                Some(b"stream") => Stdio::Stream,
                Some(b"fds") => Stdio::Fds,
                Some(b"buffered") | None => Stdio::Buffered,
                Some(other) => panic!("taken for stdio: {}", other.escape_ascii()),
            };
            assert_eq!(request.stdio, expected);
            assert!(!matches!(member("stdio"), Some(Json::Object(_))));
            terminals(&request.tty, member("tty"));
            let others = ["stdio", "fds", "env", "umask", "id", "more", "tty", "window", "once"];
            assert_eq!(request.seed_only, others.iter().all(|name| member(name).is_none()));
            let abouts = ["op", "signal", "resize", "foreground", "terminal", "query"];
            assert!(abouts.iter().all(|name| member(name).is_none()));
            drop(request.check());
        }
        Incoming::Op(op, named) => {
            assert_eq!(member("op"), Some(&Json::Text(op.clone().into_bytes())));
            assert_eq!(*named, id(member("id")));
        }
        Incoming::Control(Control::Terminal(typed)) => {
            assert_eq!(member("terminal").and_then(string).as_ref(), Some(typed));
        }
        Incoming::Control(Control::Foreground(is)) => {
            assert_eq!(member("foreground"), Some(&Json::Bool(*is)));
        }
        Incoming::Control(Control::Signal(_, named)) => {
            assert!(matches!(member("signal"), Some(Json::Text(_))));
            assert_eq!(*named, id(member("id")));
        }
        Incoming::Control(Control::Resize(size)) => {
            let resize = member("resize").expect("resize");
            assert_eq!((rows(resize, "rows"), rows(resize, "cols")), (size.rows, size.cols));
        }
        Incoming::Control(Control::QueryStarted) => {
            assert_eq!(member("query"), Some(&Json::Text(b"started".to_vec())));
        }
    }
}

/// Rows or columns; 0 where they are not there.
fn rows(of: &Json, name: &str) -> u16 {
    assert!(matches!(of, Json::Object(_)), "taken for a size: {of:?}");
    of.member(name).map_or(0, |value| {
        value.integer().and_then(|number| number.try_into().ok()).expect("a number of lines")
    })
}

fn terminals(known: &[Terminal], said: Option<&Json>) {
    let said = match said {
        None => &[],
        Some(Json::List(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    assert_eq!(known.len(), said.len());
    for (known, said) in known.iter().zip(said) {
        assert_eq!((rows(said, "rows"), rows(said, "cols")), (known.size.rows, known.size.cols));
        let flag = |name| said.member(name).is_none_or(|value| *value == Json::Bool(true));
        let expected = (flag("controlling"), flag("foreground"));
        assert_eq!((known.controlling, known.foreground), expected);
        let Some(Json::List(fds)) = said.member("fds") else { panic!("no fds in {said:?}") };
        let fds = fds.iter().map(|fd| fd.integer().expect("a number"));
        assert!(fds.eq(known.fds.iter().map(|fd| i128::from(*fd))));
    }
}

/// A continuation adds to the ends of the lists and changes nothing else.
fn joined(before: &Request, after: &Request, payload: &[u8], how: More) {
    let form = parse(payload, Rules::Strict, MAX_DEPTH).expect("what is taken is JSON");
    if !matches!(form, Json::Object(_)) {
        return;
    }
    let grown = |mut list: Vec<Vec<u8>>, more: Vec<Vec<u8>>| {
        let mut more = more.into_iter();
        if how == More::String
            && let Some(first) = more.next()
        {
            list.last_mut().expect("a string that goes on").extend(first);
        }
        list.extend(more);
        list
    };
    assert_eq!(bytes(&after.args), grown(bytes(&before.args), strings(form.member("args"))));
    assert_eq!(bytes(&after.env), grown(bytes(&before.env), strings(form.member("env"))));
    let rest = Request { args: before.args.clone(), env: before.env.clone(), ..after.clone() };
    assert_eq!(rest, *before);
}

/// Lists of strings, written as a client does in messages of any size, are read
/// as they were.
pub fn request(data: &[u8]) {
    let mut source = Source::new(data);
    let room = 64 + source.below(300);
    let mut lists = [Vec::new(), Vec::new()];
    while !source.is_empty() && lists[0].len() + lists[1].len() < 60 {
        let list = usize::from(source.flag());
        let text = source.bytes();
        lists[list].push(text.into_iter().filter(|byte| *byte != 0).collect::<Vec<u8>>());
    }
    let messages = written(&lists, room);
    let mut messages = messages.iter();
    let first = messages.next().expect("a message");
    let Ok(Incoming::Call(mut request, mut more)) = Incoming::parse(first) else {
        panic!("not a call: {}", first.escape_ascii());
    };
    for payload in messages {
        assert_ne!(more, More::No, "the request ends before its last message");
        more = request.join(payload, more).expect("the rest of a request");
    }
    assert_eq!(more, More::No);
    assert_eq!((bytes(&request.args), bytes(&request.env)), (lists[0].clone(), lists[1].clone()));
    assert_eq!(request.size(), lists.iter().flatten().map(|text| text.len() + 9).sum::<usize>());
}

/// The messages of a request: one string after another, cut where a message is
/// full.
fn written(lists: &[Vec<Vec<u8>>; 2], room: usize) -> Vec<Vec<u8>> {
    let names = [b"args".as_slice(), b"env"];
    let mut messages = Vec::new();
    for (name, list) in names.iter().zip(lists) {
        for text in list {
            let form = Form::of(text);
            let mut at = 0;
            // A string that is cut goes on in the next message; then what that
            // one says of the other list must be nothing.
            loop {
                let mut place = vec![0; room];
                let mut writer = Writer::new(&mut place);
                let taken = writer.piece(&text[at..], form, room);
                at += taken;
                assert!(taken > 0 || text.is_empty(), "{room} is room for a character");
                let cut = at < text.len();
                let more: &[u8] = if cut { b"\"string\"" } else { b"true" };
                let head = [b"{\"", *name, b"\":["].concat();
                let message = [&head, writer.written(), b"],\"more\":", more, b"}"];
                messages.push(message.concat());
                if !cut {
                    break;
                }
            }
        }
    }
    messages.push(b"{}".to_vec());
    messages
}

/// A reply of any content fits a frame, is read by both readers, and says what
/// it was made of.
pub fn reply(data: &[u8]) {
    let mut source = Source::new(data);
    let choice = source.byte();
    let mut output = |exact| {
        let bytes = source.bytes();
        if exact { Output::Exact(bytes) } else { Output::Lossy(bytes) }
    };
    let stdout = (choice & 1 != 0).then(|| output(choice & 2 == 0));
    let stderr = (choice & 4 != 0).then(|| output(choice & 2 == 0));
    let code = Code::ALL[source.below(Code::ALL.len())];
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let id = match choice & 0x18 {
        0 => None,
        8 => Some(Id::Number(i64::from(source.byte()) - 128)),
        _ => Some(Id::String(text(source.bytes()).chars().take(20).collect())),
    };
    let refusal = Refusal::new(code, text(source.bytes())).by(&text(source.bytes()));
    assert!(!refusal.message.chars().any(char::is_control), "{:?}", refusal.message);
    let refused = Reply::refused(refusal);
    assert_eq!(refused.exit_code, code.exit_status());
    let reply = Reply { stdout, stderr, id, ..refused };

    let payload = reply.to_payload();
    assert!(!payload.is_empty() && payload.len() <= MAX_FRAME);
    assert!(matches!(frame::split(&payload), Ok((frame::Kind::Json, _))));
    let form = parse(&payload, Rules::Strict, MAX_DEPTH).expect("a reply is JSON");
    assert!(form.no_member_twice());
    let said = form.member("code").and_then(string).expect("a code");
    let said = Code::parse(std::str::from_utf8(&said).expect("UTF-8")).expect("a code");
    assert_eq!(form.member("exit_code").and_then(Json::integer), Some(said.exit_status().into()));
    if let Some(Id::Number(number)) = reply.id {
        assert_eq!(form.member("id").and_then(Json::integer), Some(number.into()));
    }
    let whole = serde_json::to_vec(&reply).expect("JSON");
    if whole.len() > MAX_FRAME {
        assert_eq!(said, Code::OutputTooLarge);
        return;
    }
    assert_eq!(payload, whole);
    assert_eq!(said, code);
    assert_eq!(form.member("error").and_then(string), reply.error.map(String::into_bytes));
    for (name, output) in [("stdout", &reply.stdout), ("stderr", &reply.stderr)] {
        let said = form.member(name).map(|value| string(value).expect("a string"));
        match output {
            Some(Output::Exact(bytes)) => assert_eq!(said.as_ref(), Some(bytes)),
            Some(Output::Lossy(bytes)) => {
                let plain = matches!(form.member(name), Some(Json::Text(_)));
                assert!(plain && said == Some(String::from_utf8_lossy(bytes).into_owned().into()));
            }
            None => assert_eq!(said, None),
        }
    }
    let mut object = Object::new(&payload).expect("an object");
    while object.next_member().expect("a member").is_some() {}
}
