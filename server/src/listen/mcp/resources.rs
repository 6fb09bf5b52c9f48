//! Files of the workspace as resources.
//!
//! Owns: pages of a list, and the form of contents. Must not: open anything: both go
//! through the tools, with their rules, limits and audit.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tools::in_words;
use super::uri;
use super::way::{Asked, Seen, Visitor, Way, Wrong};

/// Entries that one page is made of.
const PAGE: usize = 500;
/// As deep as a tree goes.
const DEPTH: usize = 64;
/// What `read_file` says of bytes that are no text.
const BYTES: &str = "application/octet-stream";

/// One page.
pub(super) async fn list<W: Way>(
    way: &W,
    cursor: Option<&str>,
    gone: CancellationToken,
    visitor: Option<Visitor>,
) -> Result<ListResourcesResult, ErrorData> {
    let (index, after) = match cursor {
        None => (0, Value::Null),
        Some(cursor) => place(cursor).ok_or_else(|| {
            ErrorData::invalid_params("no cursor of this server: begin again without one", None)
        })?,
    };
    let Some(root) = way.workspaces().get(index) else {
        return Ok(ListResourcesResult::with_all_items(Vec::new()));
    };
    let mut input = json!({"path": root, "depth": DEPTH, "gitignore": true, "limit": PAGE});
    if let (false, Some(input)) = (after.is_null(), input.as_object_mut()) {
        input.insert("after".to_owned(), after);
    }
    let asked = Asked::quiet("list_directory", input, gone, visitor);
    let seen = way.call(asked).await.map_err(silent)?;
    let output = match seen {
        Seen { error: Some(error), .. } => return Err(wrong(&error)),
        Seen { output, .. } => output.unwrap_or_default(),
    };
    let entries = output.get("entries").and_then(Value::as_array).into_iter().flatten();
    let resources = entries.filter_map(|entry| resource(root, entry)).collect();
    let mut page = ListResourcesResult::with_all_items(resources);
    let next = output.get("next").filter(|next| !next.is_null());
    page.next_cursor = match next {
        Some(next) => Some(cursor_of(index, next)),
        None if index + 1 < way.workspaces().len() => Some(cursor_of(index + 1, &Value::Null)),
        None => None,
    };
    Ok(page)
}

/// Where a page begins, for the client to hand back.
fn cursor_of(index: usize, after: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json!([index, after]).to_string())
}

fn place(cursor: &str) -> Option<(usize, Value)> {
    let text = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    serde_json::from_slice(&text).ok()
}

fn resource(root: &str, entry: &Value) -> Option<Resource> {
    if entry.get("type")? != "file" {
        return None;
    }
    let path = entry.get("path")?.as_str()?;
    let absolute = match path.strip_prefix('/') {
        Some(_) => path.to_owned(),
        None => format!("{}/{path}", root.trim_end_matches('/')),
    };
    let resource = Resource::new(uri::of(&absolute), path);
    Some(match entry.get("size").and_then(Value::as_u64) {
        Some(size) => resource.with_size(size),
        None => resource,
    })
}

/// One for each directory of the workspace.
pub(super) fn templates<W: Way>(way: &W) -> ListResourceTemplatesResult {
    let templates = way.workspaces().iter().map(|root| {
        let root = uri::of(root.trim_end_matches('/'));
        ResourceTemplate::new(format!("{root}/{{+path}}"), "workspace file")
            .with_description("A file of the workspace, by its path there.")
    });
    ListResourceTemplatesResult::with_all_items(templates.collect())
}

/// The whole of a file.
pub(super) async fn read<W: Way>(
    way: &W,
    uri: &str,
    gone: CancellationToken,
    visitor: Option<Visitor>,
) -> Result<ReadResourceResult, ErrorData> {
    let none = || {
        let message = format!("no resource: {}: list the resources", uri.escape_default());
        ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
    };
    let path = uri::path(uri).ok_or_else(none)?;
    for encoding in ["utf-8", "base64"] {
        let mut input = json!({"path": path});
        if let ("base64", Some(input)) = (encoding, input.as_object_mut()) {
            input.insert("encoding".to_owned(), encoding.into());
        }
        let asked = Asked::quiet("read_file", input, gone.clone(), visitor.clone());
        let seen = way.call(asked).await.map_err(silent)?;
        let output = match seen {
            // Whether something is there is nobody's business where it is outside.
            Seen { error: Some(error), .. }
                if matches!(error.code.as_str(), "FILE_NOT_FOUND" | "PATH_OUTSIDE_WORKSPACE") =>
            {
                return Err(none());
            }
            Seen { error: Some(error), .. } => return Err(wrong(&error)),
            Seen { output, .. } => output.unwrap_or_default(),
        };
        if output.get("truncated") == Some(&Value::Bool(true)) {
            let message = "the file is longer than a resource may be, 1 MiB: read it by lines \
                           with the tool read_file";
            return Err(ErrorData::invalid_params(message, Some(json!({"uri": uri}))));
        }
        let Some(content) = output.get("content").and_then(Value::as_str) else { continue };
        let media = output.get("media_type").and_then(Value::as_str);
        let contents = match encoding {
            "utf-8" => ResourceContents::text(content, uri).with_mime_type("text/plain"),
            _ => ResourceContents::blob(content, uri).with_mime_type(media.unwrap_or(BYTES)),
        };
        return Ok(ReadResourceResult::new(vec![contents]));
    }
    Err(none())
}

fn wrong(error: &Wrong) -> ErrorData {
    let message = in_words(error);
    match error.code.as_str() {
        "NOT_A_FILE" | "INVALID_INPUT" => ErrorData::invalid_params(message, None),
        _ => ErrorData::internal_error(message, None),
    }
}

fn silent(message: String) -> ErrorData {
    ErrorData::internal_error(message, None)
}
