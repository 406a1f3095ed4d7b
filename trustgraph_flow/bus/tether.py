"""Run a program that dies with its parent: ``python tether.py PARENT_PID PROGRAM ARGUMENT…`` (Linux).

A file of its own, run by a bare interpreter: code between fork and exec in a threaded process can hang it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execv(program, sys.argv[2:])
