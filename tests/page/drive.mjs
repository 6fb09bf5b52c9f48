// Drives the two pages in headless Chromium: what comes up live, what can be answered, what
// the browser complains about, and whom it asks. Usage: drive.mjs SERVER CHROMIUM DIRECTORY
// [PICTURES]; run.sh makes these.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import http from "node:http";

const [server, chromium, scratch, pictures] = process.argv.slice(2);
const { chromium: browserType } = createRequire(`${scratch}/`)("playwright-core");

const ALICE = "alices-0123456789abcdef";
const BOB = "bobs-0123456789abcdef";
const OPERATOR = "operators-0123456789abcdef";

// --- A server ----------------------------------------------------------------

for (const name of ["ws", "state", "tools.d", "run"]) mkdirSync(`${scratch}/${name}`, { mode: 0o755 });
const file = (name, text, mode = 0o644) => writeFileSync(`${scratch}/${name}`, text, { mode });
const tool = (name, text) => {
  mkdirSync(`${scratch}/tools.d/${name}`, { recursive: true });
  file(`tools.d/${name}/tool.toml`, text);
};
file("tokens", `alice:${ALICE}\nbob:${BOB}\n`, 0o600);
file("operators", `olga:${OPERATOR}\n`, 0o600);
tool("say", 'binary = "/bin/echo"\ndefault = "allow"\n');
tool("wait", 'binary = "/bin/sh"\ndefault = "allow"\n');
tool("publish", `binary = "/bin/echo"
default = "ask"
[[rule]]
id = "to-everybody"
decision = "ask"
operands = "*"
reason = "this is seen by everybody"
instead = "publish to staging first"
`);
tool("drop", `binary = "/bin/echo"
default = "allow"
[[rule]]
id = "never"
decision = "deny"
operands = "*"
reason = "dropping tables is not for agents"
instead = "write a migration"
`);
tool("gone", 'binary = "/no/such/program"\ndefault = "allow"\n');

// Of the broker's own tools one asks; a link leads to where it does.
mkdirSync(`${scratch}/agent.d`, { mode: 0o755 });
mkdirSync(`${scratch}/ws/live`, { mode: 0o755 });
symlinkSync("live", `${scratch}/ws/draft`);
file("agent.d/write_file.toml", `default = "allow"
[[rule]]
id = "live"
decision = "ask"
operands = { beneath = "${scratch}/ws/live" }
reason = "visitors see this"
`);

const environment = {
  PATH: process.env.PATH,
  WORKSPACE: `${scratch}/ws`,
  TOOL_SERVER_STATE_DIR: `${scratch}/state`,
};
const child = spawn(server, [
  "serve",
  `--workspace=${scratch}/ws`,
  `--tools-dir=${scratch}/tools.d`,
  `--state-dir=${scratch}/state`,
  `--socket=${scratch}/run/tools.sock`,
  `--control-socket=${scratch}/run/control.sock`,
  "--http-listen=127.0.0.1:0",
  `--http-token-file=${scratch}/tokens`,
  "--http-operator-listen=127.0.0.1:0",
  `--http-operator-token-file=${scratch}/operators`,
  `--agent-definitions=${scratch}/agent.d`,
  "--log-format=json",
  ...(process.getuid() === 0 ? ["--definitions-owner=0"] : []),
], { env: environment, stdio: ["ignore", "pipe", "pipe"] });
let log = "";
child.stdout.on("data", (text) => (log += text));
child.stderr.on("data", (text) => (log += text));
child.on("exit", (status) => {
  if (!over) console.error(`the server ended with ${status}:\n${log}`);
});
let over = false;

const until = async (what, look) => {
  for (let waited = 0; waited < 60_000; waited += 50) {
    const found = await look();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`not in time: ${what}\n${log}`);
};
const at = (text) => {
  for (const line of log.split("\n").filter((line) => line.includes(text))) {
    const found = /127\.0\.0\.1:(\d+)/.exec(line);
    if (found) return `http://127.0.0.1:${found[1]}`;
  }
  return null;
};

const call = (base, name, input, token = ALICE) =>
  new Promise((done, failed) => {
    const request = http.request(`${base}/tools/${name}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    }, (response) => {
      let text = "";
      response.on("data", (more) => (text += more));
      response.on("end", () => done(JSON.parse(text)));
    });
    request.on("error", failed);
    request.end(JSON.stringify(input));
  });

// --- A browser ---------------------------------------------------------------

const complaints = [];
const elsewhere = [];
const open = async (browser, base, name, password, more = {}) => {
  const context = await browser.newContext({
    httpCredentials: { username: name, password },
    viewport: { width: 1280, height: 900 },
    ...more,
  });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) complaints.push(said.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${base}/`)) elsewhere.push(request.url());
  });
  await page.goto(`${base}/`);
  if (more.javaScriptEnabled !== false) await page.waitForSelector(".is-live");
  return page;
};
const picture = async (page, name) => {
  if (!pictures) return;
  const fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)
    .catch(() => true);
  if (!fits) console.log(`${name}: wider than the window`);
  await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
};

const results = [];
const test = async (name, body) => {
  try {
    await body();
    assert.deepEqual(complaints, [], "the browser complains");
    assert.deepEqual(elsewhere, [], "the page asks elsewhere");
    results.push(true);
    console.log(`ok ${name}`);
  } catch (error) {
    results.push(false);
    console.log(`not ok ${name}: ${error.stack}`);
    complaints.length = elsewhere.length = 0;
  }
};

const browser = await browserType.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

try {
  const agents = await until("the server listens", () => at("listening for HTTP"));
  const operators = await until("the operators' door", () => at("listening for operators"));
  const alice = await open(browser, agents, "alice", ALICE);
  const olga = await open(browser, operators, "olga", OPERATOR);
  await picture(alice, "empty");
  await picture(olga, "empty-operator");

  await test("a_live_call_appears_and_moves_to_the_recent_ones", async () => {
    const hostile = "<img src=x onerror=alert(1)>";
    // It lasts until both have seen it.
    const called = call(agents, "wait", { args: ["-c", "until [ -e go ]; do sleep 0.05; done"] });
    for (const page of [alice, olga]) {
      await page.locator("#under-way tr", { hasText: "wait -c" }).waitFor();
    }
    file("ws/go", "");
    await called;
    await call(agents, "say", { args: [hostile, "\u202e"] });
    for (const page of [alice, olga]) {
      await page.locator("#recent tr", { hasText: "wait -c" }).waitFor();
      await page.locator("#recent tr", { hasText: hostile }).waitFor();
      await until("nothing is under way", async () =>
        (await page.locator("#under-way tbody tr").count()) === 0);
      assert.equal(await page.locator("img").count(), 0);
    }
    assert.equal(await alice.locator("#recent th", { hasText: "Caller" }).count(), 0);
  });

  await test("a_refusal_is_shown_with_its_rule_its_reason_and_what_to_do_instead", async () => {
    await call(agents, "drop", { args: ["table", "users"] });
    for (const page of [alice, olga]) {
      const item = page.locator("#refusals li", { hasText: "dropping tables" });
      await item.waitFor();
      assert.match(await item.textContent(), /never/);
      assert.match(await item.textContent(), /write a migration/);
      await until("it is said", async () =>
        /^Refused: drop/.test(await page.locator("#said").textContent()));
      assert.equal(await page.locator("#said").getAttribute("aria-live"), "polite");
    }
  });

  await test("a_caller_sees_nothing_of_another_ones_calls", async () => {
    const finished = async () => Number(await alice.locator("[data-figure=finished]").textContent());
    const before = await finished();
    await call(agents, "say", { args: ["of-bob"] }, BOB);
    await call(agents, "drop", { args: ["of-bob"] }, BOB);
    await olga.locator("#recent tr", { hasText: "say of-bob" }).waitFor();
    await until("the count grows", async () => (await finished()) >= before + 2);
    assert.equal((await alice.content()).includes("of-bob"), false);
    await alice.reload();
    await alice.waitForSelector(".is-live");
    assert.equal((await alice.content()).includes("of-bob"), false);
  });

  await test("an_approval_is_given_in_the_browser", async () => {
    const called = call(agents, "publish", { args: ["release", "1.0"] });
    const seen = alice.locator(".ask", { hasText: "release 1.0" });
    await seen.waitFor();
    assert.equal(await alice.locator("form").count(), 0);
    const ask = olga.locator(".ask", { hasText: "release 1.0" });
    await ask.waitFor();
    await picture(olga, "busy-operator");
    await picture(alice, "busy-caller");
    for (const [name, width, scheme] of [["narrow", 360, "light"], ["narrow-dark", 360, "dark"],
      ["wide", 1600, "light"], ["wide-dark", 1600, "dark"]]) {
      await olga.setViewportSize({ width, height: 900 });
      await olga.emulateMedia({ colorScheme: scheme });
      await picture(olga, `busy-${name}`);
      assert.ok(await olga.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
        `${name}: wider than the window`);
    }
    await olga.emulateMedia({ colorScheme: "light" });
    await olga.setViewportSize({ width: 1280, height: 900 });
    // A reason that is being written stays, whatever happens meanwhile.
    await ask.locator("[name=reason]").fill("half a rea");
    await call(agents, "say", { args: ["meanwhile"] });
    await olga.locator("#recent tr", { hasText: "meanwhile" }).waitFor();
    assert.equal(await ask.locator("[name=reason]").inputValue(), "half a rea");
    await ask.getByRole("button", { name: "Approve once" }).click();
    await olga.locator(".told", { hasText: "approved" }).waitFor();
    const done = await called;
    assert.equal(done.output.stdout, "release 1.0\n");
    await alice.locator("#recent tr", { hasText: "publish release 1.0" }).waitFor();
    await until("the question is gone", async () => (await seen.count()) === 0);
  });

  await test("a_file_is_written_when_it_is_approved_and_not_when_it_is_denied", async () => {
    const real = `${scratch}/ws/live/index.html`;
    const question = (text) => olga.locator(".ask", { hasText: text });
    // By the link's name; the question has the name of what is open.
    const written = call(agents, "write_file", { path: "draft/index.html", content: "welcome" });
    await question(real).waitFor();
    await until("the count has it", async () =>
      (await olga.locator("[data-figure=asked]").first().textContent()) === "1");
    assert.match(await question(real).textContent(), /visitors see this/);
    assert.match(await question(real).textContent(), /welcome/);
    assert.equal(existsSync(real), false);
    await picture(olga, "file-operator");
    await question(real).getByRole("button", { name: "Approve once" }).click();
    assert.equal((await written).success, true);
    assert.equal(readFileSync(real, "utf8"), "welcome");
    await until("the question is gone", async () => (await question(real).count()) === 0);
    const refused = call(agents, "write_file", { path: "live/index.html", content: "defaced" });
    await question("defaced").waitFor();
    await question("defaced").locator("[name=reason]").fill("not that");
    await question("defaced").getByRole("button", { name: "Deny" }).click();
    assert.equal((await refused).error.code, "DENIED");
    assert.match((await refused).error.message, /not that/);
    assert.equal(readFileSync(real, "utf8"), "welcome");
    await olga.locator("#refusals li", { hasText: "not that" }).waitFor();
  });

  await test("without_a_script_all_is_there_and_a_denial_works_by_the_keyboard", async () => {
    const called = call(agents, "publish", { args: ["again"] });
    await olga.locator(".ask", { hasText: "again" }).waitFor();
    const plain = await open(browser, operators, "olga", OPERATOR, { javaScriptEnabled: false });
    await picture(plain, "plain-operator");
    for (const text of ["publish again", "dropping tables", "this is seen by everybody"]) {
      assert.ok((await plain.content()).includes(text), text);
    }
    assert.ok((await plain.locator("#rate path").first().getAttribute("d")) !== null);
    await plain.locator(".ask [name=reason]").focus();
    await plain.keyboard.type("not on <b>Fridays</b>");
    await plain.keyboard.press("Enter");
    await plain.locator(".told", { hasText: "denied" }).waitFor();
    const refused = await called;
    assert.equal(refused.error.code, "DENIED");
    assert.match(refused.error.message, /not on <b>Fridays/);
    await olga.locator("#refusals li", { hasText: "not on <b>Fridays" }).waitFor();
    await plain.context().close();
  });

  await test("tools_change_as_they_change_on_disk", async () => {
    assert.equal(await olga.locator("#tools tr", { hasText: "fresh" }).count(), 0);
    tool("fresh", 'binary = "/bin/true"\n');
    await call(agents, "fresh", { args: [] });
    for (const page of [alice, olga]) {
      await page.locator("#tools tr", { hasText: "fresh" }).waitFor();
    }
  });

  await test("an_agents_token_does_not_open_the_operators_page", async () => {
    const context = await browser.newContext({ httpCredentials: { username: "alice", password: ALICE } });
    const page = await context.newPage();
    const answer = await page.goto(`${operators}/`).catch((error) => String(error));
    assert.ok(typeof answer === "string" || answer.status() === 401);
    await context.close();
  });
} finally {
  await browser.close();
  over = true;
  child.kill("SIGTERM");
}
const bad = results.filter((well) => !well).length;
console.log(`page: ${results.length - bad} passed, ${bad} failed`);
process.exitCode = bad === 0 && results.length > 0 ? 0 : 1;
