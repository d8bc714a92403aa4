"""/static: the pages' style, script and pictures, under addresses that name their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from beacon.errors import ApiError
from beacon.web.log_routes import IMMUTABLE

FOLDER: Final = Path(__file__).parent / "static"
PICTURE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Of a picture: its style stands in it, and it does nothing else."""
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

routes: Final = web.RouteTableDef()


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. digest: of its bytes, in the address."""

    name: str
    body: bytes
    content_type: str
    digest: str

    @property
    def address(self) -> str:
        return f"/static/{self.digest}/{self.name}"


@cache
def assets() -> dict[str, Asset]:
    """Every file by its name."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:16]
            found[path.name] = Asset(path.name, body, _TYPES[path.suffix], digest)
    return found


def address(name: str) -> str:
    """Where a file is. Raises KeyError for one that there is none of."""
    return assets()[name].address


@routes.get("/static/{digest}/{name}")
async def static(request: web.Request) -> web.Response:
    """A file of the pages: style, script or picture. What an address gives never changes."""
    found = assets().get(request.match_info["name"])
    if found is None or found.digest != request.match_info["digest"]:
        raise ApiError("not-found", "There is no such file.")
    headers: dict[str, str] = {hdrs.CACHE_CONTROL: IMMUTABLE}
    if found.content_type == "image/svg+xml":
        headers["Content-Security-Policy"] = PICTURE_POLICY
    return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)
