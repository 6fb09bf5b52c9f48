"""A tool in raw mode that says each byte that is typed, up to a q."""
import os
import sys
import termios
import tty

before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"ready\r\n")
key = b""
while key != b"q":
    key = os.read(0, 1)
    os.write(1, b"%02x\r\n" % ord(key))
termios.tcsetattr(0, termios.TCSADRAIN, before)
print("end")
