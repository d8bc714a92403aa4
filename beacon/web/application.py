"""The HTTP API as one aiohttp application."""

from __future__ import annotations

from aiohttp import web

from beacon.web import chain_routes, health_routes, log_routes, session_routes
from beacon.web.middleware import add_headers, observe
from beacon.web.services import SERVICES, Services


def build_web(services: Services) -> web.Application:
    """Routes, problems and headers over the services; starts and stops nothing."""
    app = web.Application(middlewares=[observe], client_max_size=services.settings.limits.body_bytes)
    app[SERVICES] = services
    app.on_response_prepare.append(add_headers)
    for module in (session_routes, chain_routes, log_routes, health_routes):
        app.add_routes(module.routes)
    return app
