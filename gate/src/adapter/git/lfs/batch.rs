//! Which objects are wanted, and the reply rewritten.
//!
//! What goes on is written anew from what was understood: one operation, objects by
//! name and size, plain transfers. What comes back likewise.

use std::collections::HashMap;

use hyper::header::{CONTENT_ENCODING, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value, json};
use url::Url;

use super::handles::{Action, Link, PLACE};
use super::message::{self, Answer, Found, Operation, Said, Wanted};
use crate::adapter::git::place::Place;
use crate::adapter::git::{fetch, report};
use crate::body::{self, Body};
use crate::refusal::Refusal;
use crate::site::{Asked, Site};

const WRONG: Refusal = Refusal::Malformed("its batch of large files is not what git-lfs sends");

struct Batch {
    upload: bool,
    objects: HashMap<String, u64>,
    text: String,
}

pub(super) async fn handle(
    site: &Site,
    mut asked: Asked,
    place: &Place,
) -> Result<Response<Body>, Refusal> {
    if asked.query.is_some() || asked.headers.contains_key(CONTENT_ENCODING) {
        return Err(WRONG);
    }
    let text = std::mem::replace(&mut asked.body, body::empty());
    let batch = read(&body::collect(text, message::REQUEST).await?)?;
    if batch.upload {
        super::write(site, place, "upload large files to").await?;
    } else {
        fetch::permitted(site, place).await?;
    }
    let base = asked.path.strip_suffix("objects/batch").unwrap_or(&asked.path).to_owned();
    let port = if site.port == 80 { String::new() } else { format!(":{}", site.port) };
    let base = format!("http://{}{port}{base}{PLACE}/", site.host);
    // Few answers at once: each may be megabytes.
    let _place = site.grant().git.batch().await;
    let answer = site.send(super::onward(asked, batch.text.clone())).await?;
    if answer.status() != StatusCode::OK {
        return Ok(super::upstream_says(site, answer).await);
    }
    let reply = body::collect(answer.into_body(), message::ANSWER).await;
    let reply = reply.map_err(|_too_long| strange(site))?;
    let reply: Answer = serde_json::from_slice(&reply).map_err(|_unreadable| strange(site))?;
    if reply.transfer.as_deref().is_some_and(|transfer| transfer != "basic") {
        return Err(strange(site));
    }
    let mut rewritten = Vec::new();
    for found in reply.objects.0 {
        let Some((oid, size)) = batch.objects.get_key_value(&found.oid) else { continue };
        rewritten.push(rewrite(site, place, batch.upload, found, (oid, *size), &base));
    }
    Ok(super::json(StatusCode::OK, &json!({ "transfer": "basic", "objects": rewritten })))
}

fn strange(site: &Site) -> Refusal {
    Refusal::Unlisted(format!(
        "{} answers what is no batch of large files, or a longer one than {} bytes or {} objects: ask for fewer at once",
        site.host,
        message::ANSWER,
        message::MOST
    ))
}

fn read(text: &[u8]) -> Result<Batch, Refusal> {
    let said: Wanted = serde_json::from_slice(text).map_err(|_unreadable| WRONG)?;
    let upload = said.operation == Operation::Upload;
    let mut objects = HashMap::new();
    for object in said.objects.0 {
        if !(object.oid.len() == 64 && object.oid.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return Err(WRONG);
        }
        objects.insert(object.oid, object.size);
    }
    let all: Vec<Value> =
        objects.iter().map(|(oid, size)| json!({ "oid": oid, "size": size })).collect();
    let mut anew = Map::new();
    anew.insert("operation".into(), json!(if upload { "upload" } else { "download" }));
    anew.insert("transfers".into(), json!(["basic"]));
    anew.insert("objects".into(), Value::Array(all));
    let name = said.reference.and_then(|one| one.name);
    if let Some(name) = name.filter(|name| super::super::name::is_ref(name.as_bytes())) {
        anew.insert("ref".into(), json!({ "name": name }));
    }
    Ok(Batch { upload, objects, text: Value::Object(anew).to_string() })
}

/// One object of a reply: its links are kept, and numbers of ours given.
fn rewrite(
    site: &Site,
    place: &Place,
    upload: bool,
    found: Found,
    (oid, size): (&str, u64),
    base: &str,
) -> Value {
    let mut out = Map::new();
    out.insert("oid".into(), json!(oid));
    out.insert("size".into(), json!(size));
    out.insert("authenticated".into(), json!(true));
    if let Some(fault) = found.error {
        let message = fault.message.as_deref().unwrap_or("no reason is given");
        let message = report::plain(message);
        let code = fault.code.unwrap_or(500);
        out.insert("error".into(), json!({ "code": code, "message": message }));
        return Value::Object(out);
    }
    let mut actions = Map::new();
    let (mut download, mut upload_to, mut verify) = (None, None, None);
    if let Some(said) = found.actions {
        (download, upload_to, verify) = (said.download, said.upload, said.verify);
    }
    for action in Action::ALL {
        let said = match action {
            Action::Download => download.take().filter(|_| !upload),
            Action::Upload => upload_to.take().filter(|_| upload),
            Action::Verify => verify.take().filter(|_| upload),
        };
        let Some(said) = said else { continue };
        let link = match link(site, place, &said, action, oid, size) {
            Ok(link) => link,
            Err(why) => {
                out.insert("error".into(), json!({ "code": 403, "message": why }));
                return Value::Object(out);
            }
        };
        let number = site.grant().git.handles.keep(link);
        let mut told = Map::new();
        told.insert("href".into(), json!(format!("{base}{number}")));
        if crate::weaken::is("gate-links") {
            told.insert("href".into(), json!(said.href));
            let headers = said.header.iter().flat_map(|headers| &headers.0);
            let headers: Map<_, _> =
                headers.map(|(name, value)| (name.clone(), json!(value))).collect();
            told.insert("header".into(), Value::Object(headers));
        }
        if let Some(seconds) = said.expires_in {
            told.insert("expires_in".into(), json!(seconds));
        }
        if let Some(time) = &said.expires_at {
            told.insert("expires_at".into(), json!(report::plain(time)));
        }
        actions.insert(action.as_str().into(), Value::Object(told));
    }
    if !actions.is_empty() {
        out.insert("actions".into(), Value::Object(actions));
    }
    Value::Object(out)
}

/// A link and what goes with it are no longer, together.
const LONGEST: usize = 32 << 10;

fn link(
    site: &Site,
    place: &Place,
    said: &Said,
    action: Action,
    oid: &str,
    size: u64,
) -> Result<Link, String> {
    let bad = || super::refused(&format!("{} gives a link that is none", site.host));
    let none = Vec::new();
    let said_beside = said.header.as_ref().map_or(&none, |headers| &headers.0);
    let beside: usize = said_beside.iter().map(|(name, value)| name.len() + value.len()).sum();
    if said.href.len() + beside > LONGEST {
        return Err(bad());
    }
    let url = Url::parse(&said.href).map_err(|_unreadable| bad())?;
    let route = site.grant().upstream.route(site.gate(), &site.host, site.port);
    let plain = route.is_ok_and(|route| route.url().scheme() == "http");
    if url.scheme() != "https" && !(plain && url.scheme() == "http") {
        return Err(bad());
    }
    let mut headers = Vec::new();
    for (name, value) in said_beside {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_unreadable| bad())?;
        // How a body is framed, and where it goes, is for us to say.
        if matches!(
            name.as_str(),
            "host" | "content-length" | "transfer-encoding" | "connection" | "upgrade" | "te"
        ) {
            continue;
        }
        let mut value = HeaderValue::from_str(value).map_err(|_unreadable| bad())?;
        value.set_sensitive(true);
        headers.push((name, value));
    }
    let of = super::owner(site, place);
    Ok(Link { action, of, oid: oid.to_owned(), size, url, headers })
}
