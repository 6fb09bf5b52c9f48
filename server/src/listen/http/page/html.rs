//! The page, from what there is to see.
//!
//! Owns: its HTML. Every text of it passes `escaped` on its way. Must not: look anything up.

use std::fmt::Write as _;

use serde_json::Value;

use super::picture;

/// What answers need: of an operator's page alone.
#[derive(Debug)]
pub(in super::super) struct Forms {
    /// Told to nobody but this page.
    pub(in super::super) nonce: String,
    /// What became of the answer before.
    pub(in super::super) told: Option<(bool, String)>,
}

/// All of it.
pub(super) fn document(view: &Value, forms: Option<&Forms>) -> String {
    let is_operator = forms.is_some();
    let mut page = String::with_capacity(32 * 1024);
    let (version, at) = (text(view, "version"), text(view, "at"));
    let whose = if is_operator { "operator" } else { "caller" };
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>tool-server</title>\n\
         <link rel=\"icon\" href=\"/assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/assets/page.css\">\n\
         <script src=\"/assets/page.js\" defer></script>\n</head>\n\
         <body data-viewer=\"{whose}\">\n\
         <a class=\"skip\" href=\"#main\">To the content</a>\n\
         <header class=\"top\"><h1>tool-server <small>{version}</small></h1>\n\
         <p id=\"live\" class=\"live\"><span class=\"dot\"></span>\
         <span id=\"live-text\">As of <time>{at}</time> UTC. <a href=\"/\">Reload</a></span></p>\
         </header>\n<main id=\"main\">\n",
    )
    .ok();
    if let Some((well, told)) = forms.and_then(|forms| forms.told.as_ref()) {
        let class = if *well { "told" } else { "told wrong" };
        writeln!(page, "<p class=\"{class}\" role=\"status\">{}</p>", escaped(told)).ok();
    }
    page.push_str(&figures(&view["figures"]));
    if is_operator {
        let lines = list(view, "attention");
        let items: String = lines.map(|line| format!("<li>{}</li>\n", said(line))).collect();
        let hidden = if items.is_empty() { " hidden" } else { "" };
        write!(
            page,
            "<section id=\"attention\"{hidden}><h2>Needs a look</h2>\n<ul>\n{items}</ul></section>\n"
        )
        .ok();
    }
    page.push_str(&approvals(view, forms));
    write!(
        page,
        "<div class=\"columns\">\n<div>\n{}{}</div>\n<div>\n{}{}</div>\n</div>\n{}",
        under_way(view, is_operator),
        recent(view, is_operator),
        pictures(&view["figures"]),
        refusals(view, is_operator),
        tools(view, is_operator),
    )
    .ok();
    page.push_str("</main>\n<footer>");
    let name = text(view, "name");
    if is_operator {
        write!(page, "<p>You are the operator <b>{name}</b>: you see all calls.</p>").ok();
    } else {
        write!(
            page,
            "<p>You are <b>{name}</b>. Counts and pictures are of all callers; calls, refusals \
             and questions are your own. Questions are answered by an operator, not here.</p>"
        )
        .ok();
    }
    page.push_str(
        "</footer>\n<p id=\"said\" class=\"unseen\" aria-live=\"polite\"></p>\n</body>\n</html>\n",
    );
    page
}

fn figures(figures: &Value) -> String {
    let mut out = String::from("<dl class=\"figures\">\n");
    for (key, name) in [
        ("running", "running"),
        ("waiting", "waiting for a place"),
        ("asked", "waiting for a person"),
        ("finished", "finished"),
        ("half", "half took"),
        ("uptime", "up for"),
    ] {
        let value = text(figures, key);
        writeln!(out, "<div><dt>{name}</dt><dd data-figure=\"{key}\">{value}</dd></div>").ok();
    }
    out.push_str("</dl>\n");
    out
}

fn approvals(view: &Value, forms: Option<&Forms>) -> String {
    let waiting = &view["approvals"];
    let asks: String = list(waiting, "waiting").map(|ask| question(ask, forms)).collect();
    let hidden = if asks.is_empty() { " hidden" } else { "" };
    let mut out = format!(
        "<section id=\"approvals\"{hidden}><h2>Waiting for a person</h2>\n\
         <div id=\"asks\">{asks}</div></section>\n"
    );
    if let Some(forms) = forms {
        let standing: String = list(waiting, "standing")
            .map(|grant| {
                let what = format!(
                    "<b>{}</b>, rule <code>{}</code> in {}, for {}, {} s left",
                    text(grant, "tool"),
                    text(grant, "rule"),
                    text(grant, "repository"),
                    text(grant, "caller"),
                    text(grant, "left_seconds"),
                );
                format!(
                    "<li>{what} {}<button name=\"do\" value=\"revoke\">Revoke</button></form></li>\n",
                    form(forms, &text(grant, "id"))
                )
            })
            .collect();
        let hidden = if standing.is_empty() { " hidden" } else { "" };
        write!(
            out,
            "<section id=\"standing\"{hidden}><h2>Approvals that stand</h2>\n<ul>{standing}</ul></section>\n\
             <template id=\"answers\">{}</template>\n<template id=\"revoke\">{}\
             <button name=\"do\" value=\"revoke\">Revoke</button></form></template>\n",
            answers(forms, "", false),
            form(forms, ""),
        )
        .ok();
    }
    out
}

/// One question. Of these members a caller's view has the first alone.
fn question(ask: &Value, forms: Option<&Forms>) -> String {
    let id = text(ask, "id");
    let argv: Vec<String> = list(ask, "argv").map(said).collect();
    let hidden = |key: &str| ask[key].as_u64().unwrap_or(0);
    let omitted = hidden("argv_omitted_bytes").saturating_add(hidden("facts_omitted_bytes"));
    let more = if omitted > 0 {
        format!("<p class=\"wrong\">{omitted} bytes of this call are not shown.</p>")
    } else {
        String::new()
    };
    let left = text(ask, "left_seconds");
    let waits = if ask["waits"].as_bool() == Some(true) {
        format!("waits <span class=\"left\">{left}</span> s more")
    } else {
        format!("its caller has left; open for <span class=\"left\">{left}</span> s")
    };
    let mut rows = String::new();
    for (key, name) in [
        ("rule", "Rule"),
        ("at", "Stands at"),
        ("instead", "Instead"),
        ("peer", "Caller"),
        ("program", "Program"),
        ("directory", "Directory"),
        ("repository", "Repository"),
        ("wire", "Asks for"),
        ("facts", "Facts"),
        ("also", "Also asked by"),
        ("environment", "Variables"),
    ] {
        let value = text(ask, key);
        if !value.is_empty() {
            write!(rows, "<dt>{name}</dt><dd>{value}</dd>").ok();
        }
    }
    let answers = forms.map(|forms| answers(forms, &id, omitted > 0)).unwrap_or_default();
    format!(
        "<article class=\"ask\" data-id=\"{id}\"><h3><code>{argv}</code></h3>\n\
         <p class=\"why\">{reason}</p>{more}\n<dl class=\"facts\">{rows}</dl>\n\
         <p class=\"soft\">Request {id} {waits}.</p>{answers}</article>\n",
        argv = argv.join(" "),
        reason = text(ask, "reason"),
    )
}

/// A form each: what Enter does in one is what the form is for.
fn answers(forms: &Forms, id: &str, unseen: bool) -> String {
    let form = form(forms, id);
    let hidden = if unseen { "" } else { " hidden" };
    let unseen = format!(
        "<label class=\"unseen-bytes\"{hidden}><input type=\"checkbox\" name=\"unseen\" \
         value=\"1\"> although not all is shown</label>"
    );
    format!(
        "<div class=\"answers\">{form}{unseen}<button class=\"yes\" name=\"do\" \
         value=\"approve\">Approve once</button></form>\n\
         {form}{unseen}<label>For <select name=\"for_seconds\"><option value=\"300\">5 minutes\
         </option><option value=\"1800\">30 minutes</option><option value=\"7200\">2 hours\
         </option></select></label><button name=\"do\" value=\"approve_for\">Approve its \
         rule</button></form>\n\
         {form}<label>Reason <input name=\"reason\" maxlength=\"300\" autocomplete=\"off\">\
         </label><button class=\"no\" name=\"do\" value=\"deny\">Deny</button></form></div>"
    )
}

fn form(forms: &Forms, id: &str) -> String {
    let nonce = &forms.nonce;
    format!(
        "<form method=\"post\" action=\"/approvals\"><input type=\"hidden\" name=\"nonce\" \
         value=\"{nonce}\"><input type=\"hidden\" name=\"approval\" value=\"{id}\">"
    )
}

fn under_way(view: &Value, is_operator: bool) -> String {
    let rows: String = list(view, "under_way").map(|call| row(call, is_operator, false)).collect();
    table("under-way", "Under way", is_operator, &rows, &["State", "For"], "No call is under way.")
}

fn recent(view: &Value, is_operator: bool) -> String {
    let rows: String = list(view, "recent").map(|call| row(call, is_operator, true)).collect();
    let heads = ["Decision", "Exit", "Took", "At"];
    table("recent", "Recent calls", is_operator, &rows, &heads, "No call has ended yet.")
}

fn table(id: &str, title: &str, who: bool, rows: &str, heads: &[&str], none: &str) -> String {
    let (table, empty) = if rows.is_empty() { (" hidden", "") } else { ("", " hidden") };
    let who = if who { "<th scope=\"col\">Caller</th>" } else { "" };
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    format!(
        "<section id=\"{id}\"><h2>{title}</h2>\n<p class=\"empty\"{empty}>{none}</p>\n\
         <table{table}><thead><tr><th scope=\"col\">Call</th>{who}{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></section>\n"
    )
}

/// A call, under way or over.
fn row(call: &Value, is_operator: bool, over: bool) -> String {
    let state = text(call, "state");
    let cell =
        |label: &str, key: &str| format!("<td data-label=\"{label}\">{}</td>", text(call, key));
    let who = if is_operator { cell("Caller", "who") } else { String::new() };
    let rest = if over {
        let exit = format!(
            "<td data-label=\"Exit\"><span class=\"state {state}\">{}</span></td>",
            text(call, "exit")
        );
        cell("Decision", "decision") + &exit + &cell("Took", "took") + &cell("At", "at")
    } else {
        format!("<td data-label=\"State\"><span class=\"state {state}\">{state}</span></td>")
            + &cell("For", "took")
    };
    format!(
        "<tr data-id=\"{}\"><td class=\"call\" data-label=\"Call\"><code>{}</code></td>{who}{rest}</tr>\n",
        text(call, "id"),
        text(call, "command"),
    )
}

fn refusals(view: &Value, is_operator: bool) -> String {
    let mut items = String::new();
    for refused in list(view, "refusals") {
        let who = if is_operator { format!(" · {}", text(refused, "who")) } else { String::new() };
        let rule = text(refused, "rule");
        let rule = if rule.is_empty() { rule } else { format!(" · rule <code>{rule}</code>") };
        let instead = text(refused, "instead");
        let instead = if instead.is_empty() {
            instead
        } else {
            format!("<p class=\"instead\">{instead}</p>")
        };
        writeln!(
            items,
            "<li data-id=\"{}\"><p class=\"meta\"><b>{}</b> · <span class=\"code\">{}</span>{rule} · \
             <time>{}</time>{who}</p><p>{}</p>{instead}</li>",
            text(refused, "id"),
            text(refused, "tool"),
            text(refused, "code"),
            text(refused, "at"),
            text(refused, "message"),
        )
        .ok();
    }
    let (full, empty) = if items.is_empty() { (" hidden", "") } else { ("", " hidden") };
    format!(
        "<section id=\"refusals\"><h2>Refused</h2>\n<p class=\"empty\"{empty}>Nothing was \
         refused.</p>\n<ul{full}>{items}</ul></section>\n"
    )
}

fn pictures(figures: &Value) -> String {
    format!(
        "<section id=\"pictures\"><h2>Calls by second</h2>\n<figure>{rate}<figcaption>the last two \
         minutes; refused ones in <span class=\"key\">red</span></figcaption></figure>\n\
         <h2>How long they took</h2>\n<figure>{durations}<figcaption>half <span \
         data-figure=\"half\">{half}</span>, nineteen of twenty <span data-figure=\"most\">{most}\
         </span></figcaption></figure></section>\n",
        rate = picture::rate(figures),
        durations = picture::durations(figures),
        half = text(figures, "half"),
        most = text(figures, "most"),
    )
}

fn tools(view: &Value, is_operator: bool) -> String {
    let runs = if is_operator { "<th scope=\"col\">Runs</th>" } else { "" };
    let rows: String = list(view, "tools").map(|tool| tool_row(tool, is_operator)).collect();
    format!(
        "<section id=\"tools\"><h2>Tools</h2>\n<table><thead><tr><th scope=\"col\">Tool</th>\
         <th scope=\"col\">State</th><th scope=\"col\">Rules</th><th scope=\"col\">Confinement\
         </th>{runs}</tr></thead>\n<tbody>\n{rows}</tbody></table></section>\n"
    )
}

fn tool_row(tool: &Value, is_operator: bool) -> String {
    let state = text(tool, "state");
    let class = if state == "ok" { "ok" } else { "look" };
    let why = text(tool, "why");
    let why = if why.is_empty() { why } else { format!("<p class=\"soft\">{why}</p>") };
    let runs = if is_operator {
        format!("<td data-label=\"Runs\"><code>{}</code></td>", text(tool, "runs"))
    } else {
        String::new()
    };
    format!(
        "<tr><td data-label=\"Tool\"><code>{}</code></td><td data-label=\"State\"><span \
         class=\"state {class}\">{state}</span>{why}</td><td data-label=\"Rules\">{}</td>\
         <td data-label=\"Confinement\">{}</td>{runs}</tr>\n",
        text(tool, "name"),
        text(tool, "rules"),
        text(tool, "sandbox"),
    )
}

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of[key].as_array().into_iter().flatten()
}

/// A member, escaped; nothing where there is none.
fn text(of: &Value, key: &str) -> String {
    said(&of[key])
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text),
        Value::Array(all) => all.iter().map(said).collect::<Vec<_>>().join(", "),
        other => escaped(&other.to_string()),
    }
}

/// Nothing in it is markup, wherever it stands; what would turn a line around or hide in it
/// is named.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => {
                write!(out, "\\u{{{:x}}}", u32::from(character)).ok();
            }
            other if other.is_control() && other != '\n' => {
                write!(out, "\\u{{{:x}}}", u32::from(other)).ok();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_was_said_is_markup() {
        let evil = "</code><script>alert('1')</script>\"><img src=x onerror=alert(2)>\u{202e}&";
        let call = json!({"id": evil, "command": evil, "who": evil, "state": evil, "exit": evil});
        let ask = json!({"id": evil, "reason": evil, "argv": [evil], "rule": evil, "wire": [evil]});
        let view = json!({
            "name": evil, "version": evil, "attention": [evil], "under_way": [call], "recent": [call],
            "refusals": [{"message": evil, "instead": evil, "rule": evil, "id": evil}],
            "approvals": {"waiting": [ask], "standing": [{"tool": evil, "repository": evil}]},
            "tools": [{"name": evil, "why": evil, "state": evil}], "figures": {"uptime": evil},
        });
        let forms = Forms { nonce: "n".into(), told: Some((true, evil.into())) };
        let page = document(&view, Some(&forms));
        assert!(!page.contains("<img") && !page.contains("alert('1')"), "{page}");
        assert!(!page.contains("\"><") || !page.contains("\"><img"), "{page}");
        assert!(!page.contains('\u{202e}') && page.contains("&lt;script&gt;"));
        assert_eq!(page.matches("<script").count(), 1);
    }
}
