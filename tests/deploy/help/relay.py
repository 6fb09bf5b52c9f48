#!/usr/bin/env python3
"""Passes on what is said over a Unix socket, descriptors too, and keeps the bytes.

    relay.py LISTEN CONNECT RECORD
"""
import os
import socket
import sys
import threading

LISTEN, CONNECT, RECORD = sys.argv[1:]


def carry(source, target, record):
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(source, 65536, 253)
        except OSError:
            data, fds = b"", []
        if not data and not fds:
            break
        record.write(data)
        record.flush()
        try:
            socket.send_fds(target, [data], fds)
        except OSError:
            pass
        for fd in fds:
            os.close(fd)
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


with open(RECORD, "ab") as record:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(LISTEN)
    os.chmod(LISTEN, 0o666)
    listener.listen()
    while True:
        ours = listener.accept()[0]
        theirs = socket.socket(socket.AF_UNIX)
        theirs.connect(CONNECT)
        for pair in ((ours, theirs), (theirs, ours)):
            threading.Thread(target=carry, args=(*pair, record), daemon=True).start()
