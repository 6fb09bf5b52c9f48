#!/usr/bin/env python3
"""Every tool through the official Python SDK, at one door.

    python.py pipe PROGRAM          tool-server mcp
    python.py URL TOKEN             the door for HTTP

Run by sdk.sh. The workspace is the one that lib.sh makes.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


def transport():
    if sys.argv[1] == "pipe":
        environment = {name: os.environ[name] for name in ("TOOL_SOCKET", "PATH")}
        return stdio_client(StdioServerParameters(command=sys.argv[2], args=["mcp"], env=environment))
    client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {sys.argv[2]}"}, timeout=120)
    return streamable_http_client(sys.argv[1], http_client=client)


def calls(directory):
    """Each tool once, what it takes and what it gives; files in a directory of their own."""
    with open(os.path.join(os.path.dirname(__file__), "calls.json")) as file:
        return json.loads(file.read().replace("DIR", directory))


async def drive(mode):
    async with Client(transport(), mode=mode) as client:
        directory = f"py-{mode}"
        names = {tool.name for tool in (await client.list_tools()).tools}
        wanted = [call for call in calls(directory) if "npm" in names or not call[0].startswith("npm")]
        uncalled = names.symmetric_difference(name for name, *_ in wanted)
        assert uncalled <= {"npm_install"}, uncalled
        for name, arguments, expected in wanted:
            # The SDK itself holds the output against the schema of the tool.
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, result)
            for member, value in expected.items():
                assert result.structured_content[member] == value, (name, result)
            assert result.content[0].text, name
        refused = await client.call_tool("read_file", {"path": "../x"})
        assert refused.is_error and "PATH_OUTSIDE_WORKSPACE" in refused.content[0].text, refused
        told = []

        async def progress(at, total, message):
            told.append(message)

        await client.call_tool("run_command", {"argv": ["echo", "told"]}, progress_callback=progress)
        assert "".join(told) == "told\n", told
        listed = (await client.list_resources()).resources
        uri = next(one.uri for one in listed if str(one.uri).endswith(f"/{directory}/a.txt"))
        read = await client.read_resource(uri)
        assert read.contents[0].text == "one\nthree\n", read
        return len(wanted), client.protocol_version


async def main():
    driven = [await drive(mode) for mode in ("auto", "legacy")]
    print(", ".join(f"{count} tools by {version}" for count, version in driven))


asyncio.run(main())
