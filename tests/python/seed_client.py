"""A client that knows only the seed's protocol: one length-prefixed JSON
request, one reply. Usage: seed_client.py [--half-close] TOOL ARGS...

Reads TOOL_SOCKET. Prints the reply's stdout and stderr, its `error` as a line
on stderr, and ends with its exit code.
"""

import json
import os
import socket
import struct
import sys


def receive_exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionError("the server closed the connection")
        data += chunk
    return data


def main():
    words = sys.argv[1:]
    half_close = words[:1] == ["--half-close"]
    if half_close:
        words = words[1:]
    request = {"tool": words[0], "args": words[1:], "cwd": os.getcwd()}
    payload = json.dumps(request).encode("utf-8")

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(os.environ["TOOL_SOCKET"])
    connection.sendall(struct.pack(">I", len(payload)) + payload)
    if half_close:
        connection.shutdown(socket.SHUT_WR)

    length = struct.unpack(">I", receive_exactly(connection, 4))[0]
    if length > 65536:
        raise ValueError(f"a reply of {length} bytes")
    reply = json.loads(receive_exactly(connection, length).decode("utf-8"))
    connection.close()

    # A strict reader: these three are there, and of these types.
    assert isinstance(reply["exit_code"], int), reply
    assert isinstance(reply["stdout"], str), reply
    assert isinstance(reply["stderr"], str), reply
    sys.stdout.buffer.write(reply["stdout"].encode("utf-8"))
    sys.stderr.buffer.write(reply["stderr"].encode("utf-8"))
    if reply.get("error"):
        sys.stderr.write("error: " + reply["error"] + "\n")
    sys.stdout.flush()
    sys.exit(reply["exit_code"])


if __name__ == "__main__":
    main()
