"""`python -m tests.jailed UNIT MODULE ...`: a program under the system calls that a unit leaves it, as systemd has it.

What SystemCallFilter= names is expanded by systemd-analyze and loaded by libseccomp; MemoryDenyWriteExecute= is asked of
kernels that have it (6.3). The other directives need a systemd that runs.
"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

LIBRARY = "libseccomp.so.2"
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM = 1
PR_SET_NO_NEW_PRIVS, PR_SET_MDWE, REFUSE_EXEC_GAIN = 38, 65, 1


def members(name):
    """The names of the system calls of a group of systemd's, such as @system-service; a name alone is its own."""
    if not name.startswith("@"):
        return {name}
    command = ["systemd-analyze", "syscall-filter", name]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = [line.strip() for line in shown.splitlines()[1:] if line.strip() and "#" not in line]
    return {one for part in listed for one in members(part)}


def filtered(unit):
    """The names of the system calls that a unit allows."""
    allowed = members("@default")
    for line in re.findall(r"(?m)^SystemCallFilter=(.+)$", unit.read_text()):
        named = {name for group in line.removeprefix("~").split() for name in members(group)}
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


def load(names):
    """Allow this process and its children these system calls alone; any other one is EPERM."""
    seccomp, libc = ctypes.CDLL(LIBRARY), ctypes.CDLL(None)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(ERRNO | EPERM)))
    for name in sorted(names):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0 and seccomp.seccomp_rule_add(rules, ctypes.c_uint32(ALLOW), number, 0):
            raise OSError(name)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or seccomp.seccomp_load(rules):
        raise OSError("the filter could not be loaded")


def main(unit, *command):
    names = filtered(Path(unit))
    if "\nMemoryDenyWriteExecute=yes\n" in Path(unit).read_text():
        ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)
    load(names)
    os.execv(sys.executable, [sys.executable, "-m", *command])


if __name__ == "__main__":
    main(*sys.argv[1:])
