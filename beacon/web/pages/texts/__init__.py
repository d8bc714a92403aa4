"""What the pages say, in one file a language: `en.toml`.

A text is named by its place, as `home.title`. In it, `**strong**`, `*emphasis*` and `` `code` `` are markup, and
`{name}` is a value, which is escaped unless it is markup already. A text that depends on a number is a table of `one`
and `other`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

FOLDER: Final = Path(__file__).parent
_MARKS: Final = (
    (re.compile(r"\*\*(.+?)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"\*(.+?)\*"), r"<em>\1</em>"),
    (re.compile(r"`(.+?)`"), r"<code>\1</code>"),
)


class Texts:
    """The texts of one language."""

    def __init__(self, language: str, table: Mapping[str, Any]) -> None:
        """table: of texts, and of tables of them."""
        self.language: Final = language
        self.texts: Final = dict(_flat(table))
        self._marked: Final = {name: _marked(text) for name, text in self.texts.items()}

    def text(self, name: str, /, **values: object) -> Markup:
        """A text as HTML. Raises KeyError for a name or a value that there is none of."""
        marked = self._marked[name]
        return marked.format(**values) if values else marked

    def count(self, name: str, number: int, /, **values: object) -> Markup:
        """The text for this many, which may show `{n}`."""
        form = "one" if number == 1 else "other"
        return self.text(f"{name}.{form}", n=f"{number:,}", **values)

    def has(self, name: str) -> bool:
        return name in self.texts


@cache
def texts(language: str = "en") -> Texts:
    """The texts of a language that there is a file of."""
    return Texts(language, tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8")))


def _marked(text: str) -> Markup:
    html = str(escape(text))
    for mark, tags in _MARKS:
        html = mark.sub(tags, html)
    return Markup(html)  # noqa: S704 - escaped above, and ours


def _flat(table: Mapping[str, Any], place: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{place}{name}.")
        else:
            found.append((f"{place}{name}", str(value)))
    return found
