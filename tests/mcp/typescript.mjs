// Every tool through the official TypeScript SDK, at one door.
//
//   node typescript.mjs MODULES pipe PROGRAM
//   node typescript.mjs MODULES URL TOKEN
//
// Run by sdk.sh; MODULES is the directory that has node_modules.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

const [modules, where, what] = process.argv.slice(2);
const require = createRequire(`${modules}/package.json`);
const load = async (name) =>
    import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const transport = where === "pipe"
    ? new StdioClientTransport({
          command: what, args: ["mcp"],
          env: { TOOL_SOCKET: process.env.TOOL_SOCKET, PATH: process.env.PATH },
      })
    : new StreamableHTTPClientTransport(new URL(where), {
          requestInit: { headers: { Authorization: `Bearer ${what}` } },
      });
const client = new Client({ name: "tests", version: "1" }, { capabilities: {} });
await client.connect(transport);
// With the list the SDK has the schemas, and holds every output against its own.
const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name).sort();
// Each tool once, what it takes and what it gives; files in a directory of their own.
const all = JSON.parse(readFileSync(new URL("calls.json", import.meta.url), "utf8").replaceAll("DIR", "ts"));
const calls = all.filter(([name]) => names.includes("npm") || !name.startsWith("npm"));
const called = names.includes("npm") ? names : names.filter((name) => name !== "npm_install");
assert.deepEqual(calls.map(([name]) => name).sort(), called);
for (const [name, input, expected] of calls) {
    const result = await client.callTool({ name, arguments: input });
    assert(!result.isError, JSON.stringify(result));
    for (const [member, value] of Object.entries(expected)) {
        assert.deepEqual(result.structuredContent[member], value, name);
    }
    assert(result.content[0].text, name);
}
const refused = await client.callTool({ name: "read_file", arguments: { path: "../x" } });
assert(refused.isError && refused.content[0].text.includes("PATH_OUTSIDE_WORKSPACE"));
const told = [];
await client.callTool({ name: "run_command", arguments: { argv: ["echo", "told"] } }, undefined, {
    onprogress: ({ message }) => told.push(message),
});
assert.equal(told.join(""), "told\n");
const { resources } = await client.listResources();
const { uri } = resources.find((one) => one.uri.endsWith("/ts/a.txt"));
const read = await client.readResource({ uri });
assert.equal(read.contents[0].text, "one\nthree\n");
await client.close();
console.log(`${calls.length} tools`);
process.exit(0);
