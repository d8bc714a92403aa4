"""Finds a Python of at least a version that can make environments: prints its path, or exits with 1.

`python3 interpreter.py 3.12` needs nothing but a Python 3: .ci/run calls it before anything is installed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROBE = "import sys, venv, ensurepip; sys.exit(sys.version_info < tuple(map(int, sys.argv[1].split('.'))))"


def candidates():
    """This one, those on the path, newest first, and those of pyenv, which its shims may hide."""
    yield sys.executable
    for name in [f"python3.{minor}" for minor in range(19, 10, -1)] + ["python3"]:
        yield shutil.which(name)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(map(str, root.glob("versions/3.*/bin/python3")), reverse=True)


def find(version):
    """The path of a Python of at least this version ("3.12"), or None."""
    for path in candidates():
        if path and subprocess.run([path, "-c", PROBE, version], capture_output=True, check=False).returncode == 0:
            return path
    return None


if __name__ == "__main__":
    found = find(sys.argv[1])
    print(found or "")
    sys.exit(found is None)
