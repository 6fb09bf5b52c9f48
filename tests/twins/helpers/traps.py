"""A tool that says which signals come: traps them, makes the file `ready`, and
ends with status 3 after as many as its first argument says.

    traps.py COUNT [SIGNAL...]      all that can be forwarded where none is named
"""
import os
import signal
import sys

names = sys.argv[2:] or ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"]
wanted = {getattr(signal, "SIG" + name) for name in names}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
# An ignored signal is discarded even where it is blocked.
for number in wanted:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
open("ready", "w").close()
for n in range(int(sys.argv[1])):
    print("got", signal.Signals(signal.sigwait(wanted)).name, flush=True)
    open("got%d" % n, "w").close()
sys.exit(3)
