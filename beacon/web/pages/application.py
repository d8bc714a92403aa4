"""The pages, for people: server-rendered, each complete without its script."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from beacon.web.pages import (
    assets,
    counting,
    home_routes,
    host_page_routes,
    keeping,
    log_page_routes,
    round_page_routes,
    session_routes,
    statistics_routes,
    verify_routes,
)

MODULES: Final = (
    home_routes,
    session_routes,
    host_page_routes,
    log_page_routes,
    round_page_routes,
    statistics_routes,
    verify_routes,
    assets,
)


def add_pages(app: web.Application) -> None:
    """Add the routes of every page, and of the files that they use."""
    app[keeping.MADE] = keeping.Made()
    app[counting.COUNTING] = counting.Counting()
    app.on_shutdown.append(counting.release)
    for module in MODULES:
        app.add_routes(module.routes)


def is_page(route: web.AbstractRoute) -> bool:
    """Whether a route is one of these, and not one of the API."""
    return route.handler.__module__.startswith(__package__ or "")
