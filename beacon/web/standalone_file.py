"""The one Python file that checks a session with nothing but the standard library: three modules' code, then the data.

The data is base64 alone, in a string of its own, so that nothing that a host or a player wrote can end that string.
"""

from __future__ import annotations

import ast
import base64
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Final

from verifier.encoding import encode_json
from verifier.fetch import main_chains

_MODULES: Final = ("standalone_tools.py", "standalone_session.py", "standalone.py")
_LINE: Final = 75  # bytes, 100 characters
_END: Final = '''

# --- the session's transcript, and drand's main networks, both in base64 ----------------------------------------------

DOCUMENT = """
{document}"""
CHAINS = """
{chains}"""

if __name__ == "__main__":
    sys.exit(main(base64.b64decode(DOCUMENT), base64.b64decode(CHAINS)))
'''


def standalone_file(document: bytes) -> bytes:
    """The program for one transcript, UTF-8. It takes some time for a long one: not for the event loop."""
    end = _END.format(document="".join(_base64_lines(document)), chains="".join(_base64_lines(_chains())))
    return (program() + end).encode("utf-8")


@lru_cache(maxsize=1)
def program() -> str:
    """The code, which is the same for every session."""
    modules = [_Module(name) for name in _MODULES]
    imports = sorted(set().union(*(one.imports for one in modules)), key=lambda line: (line.startswith("from"), line))
    head = f'"""{modules[-1].docstring}"""\n\nfrom __future__ import annotations\n\n' + "\n".join(imports)
    return head + "\n\n" + "\n\n\n".join(one.body for one in modules) + "\n"


class _Module:
    """A module of the verifier, taken apart: docstring, imports of the standard library, all that follows them."""

    def __init__(self, name: str) -> None:
        source = resources.files("verifier").joinpath(name).read_text(encoding="utf-8")
        tree = ast.parse(source)
        self.docstring = ast.get_docstring(tree, clean=False) or ""
        found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        lines = source.splitlines()
        self.imports = {ast.unparse(node) for node in found if not _own(node)}
        self.body = "\n".join(lines[found[-1].end_lineno or 0 :]).strip("\n")


def _own(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in {"verifier", "__future__"}


def _chains() -> bytes:
    """Drand's main networks, a retired one with its last round."""
    ends = {chain.hash.hex(): {"last_round": chain.last_round} for chain in main_chains().values() if chain.last_round}
    return encode_json(
        [info | ends.get(info["hash"], {}) for info in (chain.as_dict() for chain in main_chains().values())]
    )


def _base64_lines(data: bytes) -> Iterator[str]:
    view = memoryview(data)
    for start in range(0, len(view), _LINE):
        yield base64.b64encode(view[start : start + _LINE]).decode("ascii") + "\n"
