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
use crate::adapter::git::fetch;
use crate::adapter::git::place::Place;
use crate::body::{self, Body};
use crate::refusal::Refusal;
use crate::site::{Asked, Site};

/// A batch, there or back, is no longer.
const LONGEST: usize = 8 << 20;

/// So many objects in one.
const MOST: usize = 10_000;

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
    let batch = read(&body::collect(text, LONGEST).await?)?;
    if batch.upload {
        super::write(site, place, "upload large files to").await?;
    } else {
        fetch::permitted(site, place).await?;
    }
    let base = asked.path.strip_suffix("objects/batch").unwrap_or(&asked.path).to_owned();
    let port = if site.port == 80 { String::new() } else { format!(":{}", site.port) };
    let base = format!("http://{}{port}{base}{PLACE}/", site.host);
    let answer = site.send(super::onward(asked, batch.text.clone())).await?;
    if answer.status() != StatusCode::OK {
        return Ok(super::upstream_says(site, answer).await);
    }
    let reply = body::collect(answer.into_body(), LONGEST).await?;
    let reply: Value = serde_json::from_slice(&reply).map_err(|_unreadable| strange(site))?;
    let objects = reply.get("objects").and_then(Value::as_array).ok_or_else(|| strange(site))?;
    let transfer = reply.get("transfer").and_then(Value::as_str).unwrap_or("basic");
    if transfer != "basic" {
        return Err(strange(site));
    }
    let mut rewritten = Vec::new();
    for object in objects.iter().take(MOST) {
        let name = object.get("oid").and_then(Value::as_str);
        let known = name.and_then(|name| batch.objects.get_key_value(name));
        let Some((oid, size)) = known else { continue };
        rewritten.push(rewrite(site, place, &batch, object, (oid, *size), &base));
    }
    Ok(super::json(StatusCode::OK, &json!({ "transfer": "basic", "objects": rewritten })))
}

fn strange(site: &Site) -> Refusal {
    Refusal::Unlisted(format!("{} answers what is no batch of large files", site.host))
}

fn read(text: &[u8]) -> Result<Batch, Refusal> {
    let said: Value = serde_json::from_slice(text).map_err(|_unreadable| WRONG)?;
    let upload = match said.get("operation").and_then(Value::as_str) {
        Some("download") => false,
        Some("upload") => true,
        _ => return Err(WRONG),
    };
    let list = said.get("objects").and_then(Value::as_array).ok_or(WRONG)?;
    if list.len() > MOST {
        return Err(Refusal::TooLong { limit: LONGEST });
    }
    let mut objects = HashMap::new();
    for object in list {
        let oid = object.get("oid").and_then(Value::as_str).ok_or(WRONG)?;
        let size = object.get("size").and_then(Value::as_u64).ok_or(WRONG)?;
        if !(oid.len() == 64 && oid.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return Err(WRONG);
        }
        objects.insert(oid.to_owned(), size);
    }
    let all: Vec<Value> =
        objects.iter().map(|(oid, size)| json!({ "oid": oid, "size": size })).collect();
    let mut anew = Map::new();
    anew.insert("operation".into(), json!(if upload { "upload" } else { "download" }));
    anew.insert("transfers".into(), json!(["basic"]));
    anew.insert("objects".into(), Value::Array(all));
    let name = said.get("ref").and_then(|one| one.get("name")).and_then(Value::as_str);
    if let Some(name) = name.filter(|name| super::super::name::is_ref(name.as_bytes())) {
        anew.insert("ref".into(), json!({ "name": name }));
    }
    Ok(Batch { upload, objects, text: Value::Object(anew).to_string() })
}

/// One object of a reply: its links are kept, and numbers of ours given.
fn rewrite(
    site: &Site,
    place: &Place,
    batch: &Batch,
    object: &Value,
    (oid, size): (&str, u64),
    base: &str,
) -> Value {
    let mut out = Map::new();
    out.insert("oid".into(), json!(oid));
    out.insert("size".into(), json!(size));
    out.insert("authenticated".into(), json!(true));
    if let Some(error) = object.get("error") {
        let code = error.get("code").and_then(Value::as_u64).unwrap_or(500);
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason is given");
        out.insert("error".into(), json!({ "code": code, "message": message }));
        return Value::Object(out);
    }
    let mut actions = Map::new();
    for action in Action::ALL {
        let fits = (action == Action::Download) != batch.upload;
        let said = object.get("actions").and_then(|actions| actions.get(action.as_str()));
        let Some(said) = said.filter(|_| fits) else { continue };
        let link = match link(site, place, said, action, oid, size) {
            Ok(link) => link,
            Err(why) => {
                out.insert("error".into(), json!({ "code": 403, "message": why }));
                return Value::Object(out);
            }
        };
        let number = site.grant().git.handles.keep(link);
        let mut told = Map::new();
        told.insert("href".into(), json!(format!("{base}{number}")));
        for kept in ["expires_in", "expires_at"] {
            if let Some(value) = said.get(kept).filter(|value| value.is_u64() || value.is_string())
            {
                told.insert(kept.into(), value.clone());
            }
        }
        actions.insert(action.as_str().into(), Value::Object(told));
    }
    if !actions.is_empty() {
        out.insert("actions".into(), Value::Object(actions));
    }
    Value::Object(out)
}

fn link(
    site: &Site,
    place: &Place,
    said: &Value,
    action: Action,
    oid: &str,
    size: u64,
) -> Result<Link, String> {
    let bad = || super::refused(&format!("{} gives a link that is none", site.host));
    let href = said.get("href").and_then(Value::as_str).ok_or_else(bad)?;
    let url = Url::parse(href).map_err(|_unreadable| bad())?;
    let route = site.grant().upstream.route(site.gate(), &site.host, site.port);
    let plain = route.is_ok_and(|route| route.url().scheme() == "http");
    if url.scheme() != "https" && !(plain && url.scheme() == "http") {
        return Err(bad());
    }
    let mut headers = Vec::new();
    let none = Map::new();
    for (name, value) in said.get("header").and_then(Value::as_object).unwrap_or(&none) {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_unreadable| bad())?;
        // How a body is framed, and where it goes, is for us to say.
        if matches!(
            name.as_str(),
            "host" | "content-length" | "transfer-encoding" | "connection" | "upgrade" | "te"
        ) {
            continue;
        }
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
        let mut value = value.ok_or_else(bad)?;
        value.set_sensitive(true);
        headers.push((name, value));
    }
    let of = super::owner(site, place);
    Ok(Link { action, of, oid: oid.to_owned(), size, url, headers })
}
