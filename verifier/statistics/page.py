"""The figures as one HTML page that loads nothing and runs nothing, for a file."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from verifier.statistics.figures import CAVEAT, Figure

_STYLE: Final = """
:root{color-scheme:light dark;--text:#1a1a1a;--ground:#fff;--faint:#5c6066;--edge:#d5d7da;--more:#c2570c;--less:#2b6cb0}
@media(prefers-color-scheme:dark){:root{--text:#ececec;--ground:#16181c;--faint:#a9aeb6;--edge:#3a3e45;
--more:#f59e4b;--less:#74b0f0}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--ground);max-width:46rem;margin:2rem auto;
padding:0 1rem}
svg.chart{max-width:100%;height:auto;display:block;margin:1rem 0}
.shows{color:var(--faint)}
section{border-top:1px solid var(--edge);margin-top:2rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem .2rem 0;text-align:right;border-bottom:1px solid var(--edge)}
th:first-child,td:first-child{text-align:left}
"""
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'"
)


def html_page(title: str, lines: Iterable[str], figures: Iterable[Figure]) -> str:
    """The page. title and lines are any text; they are escaped."""
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>{told}<p><strong>{escape(CAVEAT)}</strong></p>"
        f"{''.join(section(figure) for figure in figures)}</main></body></html>\n"
    )


def section(figure: Figure) -> str:
    """One figure: heading, result, what it shows, drawing, table."""
    return (
        f'<section id="{figure.name}"><h2>{escape(figure.title)}</h2><p>{escape(figure.result)}</p>'
        f'<p class="shows">{escape(figure.shows)}</p>{figure.svg or ""}{_numbers(figure)}</section>'
    )


def _numbers(figure: Figure) -> str:
    table = f'<div class="wide"><table>{"".join(_rows(figure))}</table></div>'
    if figure.svg is None:
        return table
    return f"<details><summary>The same in numbers</summary>{table}</details>"


def _rows(figure: Figure) -> Iterator[str]:
    yield "<thead><tr>"
    yield from (f'<th scope="col">{escape(cell)}</th>' for cell in figure.head)
    yield "</tr></thead><tbody>"
    for first, *rest in figure.rows:
        yield f'<tr><th scope="row">{escape(first)}</th>'
        yield from (f"<td>{escape(cell)}</td>" for cell in rest)
        yield "</tr>"
    yield "</tbody>"
