"""A server that knows only the seed's protocol. Usage: seed_server.py SOCKET MODE

It reads `tool`, `args` and `cwd` of one request, ignores every other member,
and sends one reply `{"exit_code", "stdout", "stderr"}`. It has never heard of
operations, descriptors, streams or several messages: a request without `tool`
gets an error like any unknown tool. Each request is appended, as it came, to
SOCKET.log as a line of JSON.

MODE: "run" runs the tool; "close" closes without a reply; "half" sends half a
reply; "error" replies with `error`; "large" announces too long a reply.
"""

import json
import os
import socket
import struct
import subprocess
import sys


def receive_exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def answer(request, mode):
    tool = request.get("tool")
    if mode == "error" or not tool:
        return {"exit_code": 1, "stdout": "", "stderr": "", "error": f"Unknown tool: {tool}"}
    done = subprocess.run(
        [tool, *request.get("args", [])],
        cwd=request["cwd"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return {
        "exit_code": done.returncode % 256,
        "stdout": done.stdout.decode("utf-8", errors="replace"),
        "stderr": done.stderr.decode("utf-8", errors="replace"),
    }


def serve(connection, path, mode):
    prefix = receive_exactly(connection, 4)
    if prefix is None:
        return
    payload = receive_exactly(connection, struct.unpack(">I", prefix)[0])
    if payload is None:
        return
    request = json.loads(payload.decode("utf-8"))
    with open(path + ".log", "a", encoding="utf-8") as log:
        log.write(json.dumps(request) + "\n")
    if mode == "close" and request.get("tool"):
        return
    reply = json.dumps(answer(request, mode)).encode("utf-8")
    data = struct.pack(">I", len(reply)) + reply
    if mode == "half" and request.get("tool"):
        data = data[: len(data) // 2]
    if mode == "large" and request.get("tool"):
        data = struct.pack(">I", 65537) + b"{" * 65537
    connection.sendall(data)


def main():
    path, mode = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)
    while True:
        connection, _ = listener.accept()
        try:
            serve(connection, path, mode)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()


if __name__ == "__main__":
    main()
