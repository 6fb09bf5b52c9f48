"""A tool that says the size of its terminal each time that it changes, as often
as its argument says."""
import os
import signal
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
signal.signal(signal.SIGWINCH, lambda *_: None)
size = os.get_terminal_size(1)
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    while os.get_terminal_size(1) == size:
        signal.sigwait([signal.SIGWINCH])
    size = os.get_terminal_size(1)
    print(size.lines, size.columns, flush=True)
