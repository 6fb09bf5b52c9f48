//! A stub of GitHub's API, as far as gh's commands need it.
//!
//! Of a GraphQL query it makes the answer up from the names of the fields, so that
//! every query of gh has one.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use serde_json::{Map, Value, json};

use crate::stage::Seen;

/// What the file of a release holds.
pub(crate) const FILE: &str = "what the release holds\n";

/// Answers gh. `elsewhere` is the base of the links to other hosts.
pub(crate) fn answer(seen: &Seen, elsewhere: &str) -> Response<Full<Bytes>> {
    let (method, target) = seen.line.split_once(' ').unwrap();
    let path = target.split('?').next().unwrap();
    if seen.header("authorization").is_none() {
        // As GitHub: what is private is not there.
        return match path.ends_with("graphql") {
            true => reply(401, &json!({ "message": "Requires authentication" })),
            false => reply(404, &json!({ "message": "Not Found" })),
        };
    }
    if path == "/graphql" || path == "/api/graphql" {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        let mut data = graphql(body["query"].as_str().unwrap());
        // Of a new branch there is no pull request yet.
        let new = body["variables"]["headRefName"] == "fresh";
        if let Some(known) = data.pointer_mut("/repository/pullRequests/nodes").filter(|_| new) {
            *known = json!([]);
        }
        return reply(200, &json!({ "data": data }));
    }
    let path = path.strip_prefix("/api/v3").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (method, parts.as_slice()) {
        ("DELETE", _) => reply(204, &Value::Null),
        (_, [""]) => reply(200, &json!({})),
        (_, ["user"]) => reply(200, &json!({ "login": "o", "id": 1 })),
        (_, ["users", name]) => {
            reply(200, &json!({ "login": name, "type": "User", "node_id": "U_1" }))
        }
        (_, ["repos", "o", "old", ..]) => moved(307, "/repositories/1"),
        (_, ["repositories", "1"]) => reply(200, &repository()),
        (_, ["repos", _, _]) => reply(200, &repository()),
        ("GET", ["repos", _, _, "releases", "assets", _]) => {
            moved(302, &format!("{elsewhere}/file?signature=short-lived"))
        }
        ("POST", ["repos", _, _, "releases", _, "assets"]) => reply(201, &asset()),
        ("GET", ["repos", _, _, "releases"]) => reply(200, &json!([release()])),
        (_, ["repos", _, _, "releases", ..]) => {
            reply(if method == "POST" { 201 } else { 200 }, &release())
        }
        (_, ["repos", _, _, "pulls", _]) => text("diff --git a/x b/x\n"),
        (_, ["repos", _, _, "actions", rest @ ..]) => actions(rest, elsewhere),
        (_, ["repos", _, _, "check-runs" | "check-suites", ..]) => reply(200, &json!([])),
        (_, ["repos", _, _, "labels"]) => {
            reply(201, &json!({ "name": "l", "color": "ff0000", "description": "" }))
        }
        (_, ["repos", _, _, "forks"]) => {
            let mut fork = repository();
            fork["owner"]["login"] = "me".into();
            fork["full_name"] = "me/r".into();
            reply(202, &fork)
        }
        (_, ["gists", ..]) => reply(
            201,
            &json!({ "id": "abc", "html_url": "https://gist.github.com/abc", "files": {} }),
        ),
        (_, ["search", ..]) => {
            reply(200, &json!({ "total_count": 0, "incomplete_results": false, "items": [] }))
        }
        _ => reply(404, &json!({ "message": "Not Found" })),
    }
}

fn actions(rest: &[&str], elsewhere: &str) -> Response<Full<Bytes>> {
    let flow =
        json!({ "id": 3, "name": "ci", "path": ".github/workflows/ci.yml", "state": "active" });
    let date = "2024-01-01T00:00:00Z";
    let run = json!({
        "id": 7, "name": "ci", "display_title": "t", "status": "completed", "conclusion": "success",
        "event": "push", "head_branch": "main", "head_sha": "a".repeat(40), "workflow_id": 3,
        "run_number": 1, "run_attempt": 1, "run_started_at": date, "created_at": date,
        "updated_at": date, "html_url": "https://github.com/o/r/actions/runs/7",
        "url": "https://api.github.com/repos/o/r/actions/runs/7",
        "jobs_url": "https://api.github.com/repos/o/r/actions/runs/7/jobs",
        "logs_url": "https://api.github.com/repos/o/r/actions/runs/7/logs",
        "repository": repository(), "head_repository": repository(),
    });
    match rest {
        ["runs"] => reply(200, &json!({ "total_count": 1, "workflow_runs": [run] })),
        ["runs", _] => reply(200, &run),
        ["runs", _, "jobs"] => reply(
            200,
            &json!({ "total_count": 1, "jobs": [{
            "id": 11, "run_id": 7, "name": "build", "status": "completed", "conclusion": "success",
            "started_at": date, "completed_at": date, "html_url": "x",
            "steps": [{ "name": "one", "number": 1, "status": "completed", "conclusion": "success" }],
        }] }),
        ),
        ["runs", _, "logs"] => moved(302, &format!("{elsewhere}/logs?signature=short-lived")),
        ["runs", _, "artifacts"] => reply(200, &json!({ "total_count": 0, "artifacts": [] })),
        ["workflows"] => reply(200, &json!({ "total_count": 1, "workflows": [flow] })),
        ["workflows", _, "dispatches" | "enable" | "disable"] | ["runs", _, "rerun" | "cancel"] => {
            reply(204, &Value::Null)
        }
        ["workflows", _] => reply(200, &flow),
        ["secrets", "public-key"] => reply(
            200,
            &json!({ "key_id": "1", "key": "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=" }),
        ),
        ["secrets", _] => reply(201, &json!({})),
        ["secrets"] => reply(200, &json!({ "total_count": 0, "secrets": [] })),
        _ => reply(404, &json!({ "message": "Not Found" })),
    }
}

fn repository() -> Value {
    json!({
        "id": 1, "node_id": "R_1", "name": "r", "full_name": "o/r", "fork": true,
        "owner": { "login": "o", "node_id": "U_1" }, "default_branch": "main",
        "created_at": "2024-01-01T00:00:00Z", "clone_url": "https://github.com/o/r.git",
        "html_url": "https://github.com/o/r",
    })
}

fn asset() -> Value {
    json!({
        "id": 9, "name": "a.txt", "size": 7, "state": "uploaded", "label": "",
        "url": "https://api.github.com/repos/o/r/releases/assets/9",
    })
}

fn release() -> Value {
    let api = "https://api.github.com/repos/o/r";
    json!({
        "id": 5, "tag_name": "v1", "name": "v1", "draft": false, "prerelease": false,
        "html_url": "https://github.com/o/r/releases/v1", "url": format!("{api}/releases/5"),
        "upload_url": "https://uploads.github.com/repos/o/r/releases/5/assets{?name,label}",
        "tarball_url": format!("{api}/tarball/v1"), "zipball_url": format!("{api}/zipball/v1"),
        "author": { "login": "o" }, "created_at": "2024-01-01T00:00:00Z",
        "published_at": "2024-01-01T00:00:00Z", "assets": [asset()],
    })
}

pub(crate) fn reply(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = Response::builder().status(status);
    let response = response.header("content-type", "application/json; charset=utf-8");
    let response = response.header("x-oauth-scopes", "repo, workflow, gist, read:org");
    response.header("set-cookie", "a=b").body(Full::new(body.into())).unwrap()
}

fn text(body: &'static str) -> Response<Full<Bytes>> {
    Response::builder().body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

pub(crate) fn moved(status: u16, to: &str) -> Response<Full<Bytes>> {
    Response::builder().status(status).header("location", to).body(Full::default()).unwrap()
}

fn graphql(text: &str) -> Value {
    use apollo_parser::cst::Definition;
    let tree = apollo_parser::Parser::new(text).parse();
    assert_eq!(tree.errors().count(), 0, "{text}");
    let document = tree.document();
    let operation = document.definitions().find_map(|one| match one {
        Definition::OperationDefinition(one) => one.selection_set(),
        _ => None,
    });
    object(&operation.unwrap(), &document, &[])
}

fn object(
    selection: &apollo_parser::cst::SelectionSet,
    document: &apollo_parser::cst::Document,
    path: &[String],
) -> Value {
    use apollo_parser::cst::{Definition, Selection};
    let mut members = Map::new();
    let mut add = |value: Value| members.extend(value.as_object().unwrap().clone());
    for one in selection.selections() {
        match one {
            Selection::Field(field) => {
                let name = field.name().unwrap().text().to_string();
                let alias = field.alias().and_then(|alias| alias.name());
                let alias = alias.map_or(name.clone(), |alias| alias.text().to_string());
                let value = match field.selection_set() {
                    None => leaf(&name, path),
                    Some(inner) => {
                        let path = [path, std::slice::from_ref(&name)].concat();
                        let value = object(&inner, document, &path);
                        match name.as_str() {
                            "nodes" | "edges" | "fields" | "enumValues" => json!([value]),
                            "reactionGroups" => json!([]),
                            "parent" | "milestone" | "mergedBy" | "mergeCommit"
                            | "autoMergeRequest" => Value::Null,
                            _ if EMPTY.contains(&name.as_str()) => emptied(value),
                            _ => value,
                        }
                    }
                };
                add(json!({ alias: value }));
            }
            Selection::InlineFragment(inline) => {
                add(object(&inline.selection_set().unwrap(), document, path));
            }
            Selection::FragmentSpread(spread) => {
                let name = spread.fragment_name().unwrap().name().unwrap().text().to_string();
                let found = document.definitions().find_map(|one| match one {
                    Definition::FragmentDefinition(one)
                        if one.fragment_name().unwrap().name().unwrap().text() == name.as_str() =>
                    {
                        one.selection_set()
                    }
                    _ => None,
                });
                add(object(&found.unwrap(), document, path));
            }
        }
    }
    Value::Object(members)
}

/// Lists that have nothing in them.
const EMPTY: [&str; 12] = [
    "closingIssuesReferences",
    "reviews",
    "latestReviews",
    "reviewRequests",
    "comments",
    "projectCards",
    "projectItems",
    "labels",
    "assignees",
    "projects",
    "projectsV2",
    "reviewThreads",
];

fn emptied(mut value: Value) -> Value {
    for name in ["nodes", "edges"] {
        if value.get(name).is_some() {
            value[name] = json!([]);
        }
    }
    if value.get("totalCount").is_some() {
        value["totalCount"] = 0.into();
    }
    value
}

fn leaf(name: &str, path: &[String]) -> Value {
    let last = path.last().map(String::as_str).unwrap_or_default();
    let within = |word: &str| path.iter().any(|part| part.to_lowercase().contains(word));
    let kind = if within("issueorpull") {
        "issue"
    } else if within("pull") {
        "pull"
    } else if within("issue") {
        "issue"
    } else {
        ""
    };
    match name {
        "id" if kind == "pull" => "PR_1".into(),
        "id" if kind == "issue" => "I_1".into(),
        "id" => "R_1".into(),
        "number" | "totalCount" | "issueCount" | "additions" | "deletions" | "changedFiles"
        | "databaseId" | "stargazerCount" => 1.into(),
        "hasIssuesEnabled" | "viewerCanUpdate" => true.into(),
        _ if name.ends_with("Allowed") => true.into(),
        "locked" | "maintainerCanModify" => false.into(),
        _ if name.starts_with("is") || name.starts_with("has") || name.starts_with("requires") => {
            false.into()
        }
        _ if name.ends_with("At") || name.ends_with("Date") => "2024-01-01T00:00:00Z".into(),
        "login" => "o".into(),
        "name" if last.ends_with("epository") => "r".into(),
        "name" => "main".into(),
        "nameWithOwner" => "o/r".into(),
        "state" => "OPEN".into(),
        "mergeable" => "MERGEABLE".into(),
        "mergeStateStatus" => "CLEAN".into(),
        "viewerPermission" => "ADMIN".into(),
        "headRefName" => "feature".into(),
        "baseRefName" => "main".into(),
        "url" if kind == "pull" => "https://github.com/o/r/pull/1".into(),
        "url" if kind == "issue" => "https://github.com/o/r/issues/1".into(),
        "url" => "https://github.com/o/r".into(),
        "__typename" if kind == "pull" => "PullRequest".into(),
        "__typename" => "Issue".into(),
        "oid" | "headRefOid" => "a".repeat(40).into(),
        "endCursor" => "".into(),
        _ => "text".into(),
    }
}
