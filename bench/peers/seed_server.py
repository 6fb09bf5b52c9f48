"""The seed's protocol, served as the original does it: a thread for each
connection, subprocess.run, one reply with the collected output.

Usage: seed_server.py SOCKET. For measuring only: it runs whatever it is asked.
"""

import json
import os
import socketserver
import struct
import subprocess
import sys


class Call(socketserver.StreamRequestHandler):
    def handle(self):
        length = struct.unpack(">I", self.rfile.read(4))[0]
        request = json.loads(self.rfile.read(length).decode("utf-8"))
        done = subprocess.run(
            [request["tool"], *request["args"]],
            cwd=request["cwd"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        reply = {
            "exit_code": done.returncode % 256,
            "stdout": done.stdout.decode("utf-8", errors="replace"),
            "stderr": done.stderr.decode("utf-8", errors="replace"),
        }
        payload = json.dumps(reply).encode("utf-8")
        self.wfile.write(struct.pack(">I", len(payload)) + payload)


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    # Callers at once wait in line instead of being refused.
    request_queue_size = 1024


def main():
    path = sys.argv[1]
    with Server(path + ".new", Call) as server:
        os.rename(path + ".new", path)
        server.serve_forever()


if __name__ == "__main__":
    main()
