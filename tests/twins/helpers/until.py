"""A tool that says `ready`, waits for the file `go`, and makes the file `went`.
It has no child: a shell whose child is stopped between vfork and exec cannot be
stopped itself, natively either."""
import os
import time

print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
open("went", "w").close()
