// Keeps the page as it is at this moment, from the server's events. The page is whole without
// it. What was said by anybody becomes text here, never markup.
"use strict";

const operator = document.body.dataset.viewer === "operator";
const RECENT = 60;
const REFUSALS = 20;
const by = (id) => document.getElementById(id);

const made = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const code = (text) => made("code", {}, text);
const state = (word, kind) => made("span", { class: `state ${kind}` }, word);
const cell = (label, ...children) => made("td", { "data-label": label }, ...children);
const said = (value) => (Array.isArray(value) ? value.join(", ") : String(value ?? ""));

// What would turn a line around or hide in it is named.
const shown = (text) => said(text).replace(
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g,
  (c) => `\\u{${c.codePointAt(0).toString(16)}}`,
);

const full = (section, holder, some) => {
  by(section).querySelector(holder).hidden = !some;
  const empty = by(section).querySelector(".empty");
  if (empty) empty.hidden = some;
};

// --- Calls -------------------------------------------------------------------

const began = new Map();

const words = (ms) => {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
};

const row = (call, ...rest) => {
  const what = made("td", { class: "call", "data-label": "Call" }, code(call.command));
  const who = operator ? [cell("Caller", shown(call.who))] : [];
  return made("tr", { "data-id": call.id }, what, ...who, ...rest);
};

const find = (section, id) =>
  [...by(section).querySelectorAll("tbody tr")].find((row) => row.dataset.id === id);

const underWay = (call) => {
  began.set(call.id, performance.now() - call.since_ms);
  const fresh = row(call, cell("State", state(call.state, call.state)), cell("For", words(call.since_ms)));
  const old = find("under-way", call.id);
  if (old) old.replaceWith(fresh);
  else by("under-way").querySelector("tbody").append(fresh);
  full("under-way", "table", true);
};

const overRow = (call) => row(
  call,
  cell("Decision", call.decision),
  cell("Exit", state(call.exit, call.state)),
  cell("Took", call.took),
  cell("At", call.at),
);

const over = (call) => {
  began.delete(call.id);
  find("under-way", call.id)?.remove();
  full("under-way", "table", began.size > 0);
  if (call.again) return;
  const body = by("recent").querySelector("tbody");
  body.prepend(overRow(call));
  while (body.rows.length > RECENT) body.lastElementChild.remove();
  full("recent", "table", true);
};

const refusal = (refused) => {
  const meta = made("p", { class: "meta" }, made("b", {}, shown(refused.tool)), " · ",
    made("span", { class: "code" }, refused.code));
  if (refused.rule) meta.append(" · rule ", code(shown(refused.rule)));
  meta.append(" · ", made("time", {}, refused.at));
  if (operator) meta.append(` · ${shown(refused.who)}`);
  const item = made("li", { "data-id": refused.id }, meta, made("p", {}, shown(refused.message)));
  if (refused.instead) item.append(made("p", { class: "instead" }, shown(refused.instead)));
  return item;
};

const refused = (one) => {
  const list = by("refusals").querySelector("ul");
  list.prepend(refusal(one));
  while (list.children.length > REFUSALS) list.lastElementChild.remove();
  full("refusals", "ul", true);
  by("said").textContent = `Refused: ${one.tool}: ${shown(one.message)}`;
};

// --- Questions ---------------------------------------------------------------

const ROWS = [
  ["rule", "Rule"], ["at", "Stands at"], ["instead", "Instead"], ["peer", "Caller"],
  ["program", "Program"], ["directory", "Directory"], ["repository", "Repository"],
  ["wire", "Asks for"], ["facts", "Facts"], ["also", "Also asked by"], ["environment", "Variables"],
];

const left = (ask) => {
  const seconds = made("span", { class: "left" }, said(ask.left_seconds));
  const line = made("p", { class: "soft" }, `Request ${ask.id} `);
  if (ask.waits) line.append("waits ", seconds, " s more.");
  else line.append("its caller has left; open for ", seconds, " s.");
  return line;
};

const question = (ask) => {
  const article = made("article", { class: "ask", "data-id": ask.id },
    made("h3", {}, code(shown(ask.argv.join(" ")))),
    made("p", { class: "why" }, shown(ask.reason)));
  const hidden = (ask.argv_omitted_bytes ?? 0) + (ask.facts_omitted_bytes ?? 0);
  if (hidden > 0) article.append(made("p", { class: "wrong" }, `${hidden} bytes of this call are not shown.`));
  const facts = made("dl", { class: "facts" });
  for (const [key, name] of ROWS) {
    const value = shown(ask[key]);
    if (value) facts.append(made("dt", {}, name), made("dd", {}, value));
  }
  article.append(facts, left(ask));
  const answers = by("answers");
  if (answers) {
    const forms = answers.content.cloneNode(true);
    for (const input of forms.querySelectorAll("[name=approval]")) input.value = ask.id;
    for (const label of forms.querySelectorAll(".unseen-bytes")) label.hidden = hidden === 0;
    article.append(forms);
  }
  return article;
};

const approvals = (listing) => {
  const asks = by("asks");
  const open = new Map([...asks.children].map((article) => [article.dataset.id, article]));
  let fresh = 0;
  for (const ask of listing.waiting) {
    const known = open.get(ask.id);
    open.delete(ask.id);
    // Whoever writes a reason there goes on writing it.
    if (known) known.querySelector("p.soft").replaceWith(left(ask));
    else {
      asks.append(question(ask));
      fresh += 1;
    }
  }
  for (const article of open.values()) article.remove();
  by("approvals").hidden = listing.waiting.length === 0;
  if (fresh > 0) by("said").textContent = `${fresh} more waiting for a person`;
  if (operator) standing(listing.standing);
};

const standing = (grants) => {
  const list = by("standing").querySelector("ul");
  list.replaceChildren(...grants.map((grant) => {
    const form = by("revoke").content.cloneNode(true);
    form.querySelector("[name=approval]").value = grant.id;
    return made("li", {}, made("span", {}, made("b", {}, grant.tool), ", rule ", code(grant.rule),
      ` in ${shown(grant.repository)}, for ${shown(grant.caller)}, ${grant.left_seconds} s left`), form);
  }));
  by("standing").hidden = grants.length === 0;
};

// --- Figures and pictures ----------------------------------------------------

const bars = (values, step, height, most = Math.max(1, ...values)) =>
  values.map((value, index) => {
    const high = Math.max(1, Math.floor((value * (height - 1)) / most));
    return value > 0 ? `M${index * step} ${height}v-${high}h${step - 1}v${high}z` : "";
  }).join("");
const sum = (values) => values.reduce((all, one) => all + one, 0);

const figures = (now) => {
  for (const element of document.querySelectorAll("[data-figure]")) {
    const text = said(now[element.dataset.figure]);
    if (element.textContent !== text) element.textContent = text;
  }
  const most = Math.max(1, ...now.calls);
  const [all, bad] = by("rate").children;
  all.setAttribute("d", bars(now.calls, 4, 60, most));
  bad.setAttribute("d", bars(now.refused, 4, 60, most));
  by("rate").setAttribute("aria-label",
    `${sum(now.calls)} calls in the last two minutes, ${sum(now.refused)} refused, at most ${Math.max(0, ...now.calls)} in a second`);
  by("durations").firstElementChild.setAttribute("d", bars(now.durations, 20, 70));
  by("durations").setAttribute("aria-label",
    `Half of all calls took ${now.half}, nineteen of twenty ${now.most}`);
};

const tools = (all) => {
  by("tools").querySelector("tbody").replaceChildren(...all.map((tool) => {
    const how = cell("State", state(tool.state, tool.state === "ok" ? "ok" : "look"));
    if (tool.why) how.append(made("p", { class: "soft" }, shown(tool.why)));
    const runs = operator ? [cell("Runs", code(shown(tool.runs)))] : [];
    return made("tr", {}, cell("Tool", code(tool.name)), how, cell("Rules", shown(tool.rules)),
      cell("Confinement", shown(tool.sandbox)), ...runs);
  }));
};

const attention = (lines) => {
  const section = by("attention");
  if (!section) return;
  section.querySelector("ul").replaceChildren(...lines.map((line) => made("li", {}, shown(line))));
  section.hidden = lines.length === 0;
};

// --- Events ------------------------------------------------------------------

const all = (view) => {
  began.clear();
  by("under-way").querySelector("tbody").replaceChildren();
  view.under_way.forEach(underWay);
  full("under-way", "table", view.under_way.length > 0);
  by("recent").querySelector("tbody").replaceChildren(...view.recent.map(overRow));
  full("recent", "table", view.recent.length > 0);
  by("refusals").querySelector("ul").replaceChildren(...view.refusals.map(refusal));
  full("refusals", "ul", view.refusals.length > 0);
  approvals(view.approvals);
  figures(view.figures);
  tools(view.tools);
  attention(view.attention ?? []);
};

const tell = (kind, text) => {
  by("live").className = `live ${kind}`;
  by("live-text").textContent = text;
};

const handlers = { state: all, began: underWay, changed: underWay, ended: over, refused, approvals,
  figures, tools, attention };

const listen = () => {
  const events = new EventSource("/events");
  for (const [name, handle] of Object.entries(handlers)) {
    events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
  events.addEventListener("open", () => tell("is-live", "Live"));
  events.addEventListener("error", () => {
    tell("is-lost", "The server does not answer; what you see may be old. Trying again…");
    if (events.readyState !== EventSource.CLOSED) return;
    setTimeout(listen, 10_000);
  });
};

setInterval(() => {
  for (const [id, since] of began) {
    const time = find("under-way", id)?.lastElementChild;
    if (time) time.textContent = words(performance.now() - since);
  }
  for (const span of document.querySelectorAll(".left")) {
    span.textContent = String(Math.max(0, Number(span.textContent) - 1));
  }
}, 1000);

listen();
