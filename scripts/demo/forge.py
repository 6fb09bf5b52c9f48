#!/usr/bin/env python3
"""A git server on loopback for the demo: `git http-backend` over the repositories
in a directory, for whoever has the password. Prints its port.

    forge.py DIRECTORY PASSWORD-FILE [PORT]
"""
import base64
import http.server
import os
import subprocess
import sys

ROOT, PASSWORD = sys.argv[1], open(sys.argv[2]).read().strip()


class Forge(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def known(self):
        said = self.headers.get("Authorization", "").partition(" ")[2]
        try:
            return base64.b64decode(said).decode().partition(":")[2] == PASSWORD
        except ValueError:
            return False

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def answer(self):
        body = self.body()
        if not self.known():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="demo"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": ROOT, "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "demo",
            "CONTENT_LENGTH": str(len(body)), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        said = subprocess.run(["/usr/bin/git", "http-backend"], input=body, env=environment,
                              stdout=subprocess.PIPE, check=False).stdout
        head, _, reply = said.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if sys.argv[3:] else 0), Forge)
print(server.server_address[1], flush=True)
server.serve_forever()
