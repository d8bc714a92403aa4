"""A real Chromium, driven by Playwright: a test that needs it skips without, but fails where CI is set."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pytest

from tests.outside_tools import need_chromium


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """A browser of Playwright's async interface."""
    path = need_chromium()
    try:
        playwright = import_module("playwright.async_api")
    except ImportError:
        message = "Playwright is not installed"
        if os.environ.get("CI"):
            pytest.fail(f"{message}, and CI is set")
        pytest.skip(message)
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def tab(
    browser: Any, base: str | tuple[str, ...] = "", *, failing: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[Any]:
    """A page of its own, phone-wide unless `viewport` is given. Whatever it loads from elsewhere than `base`, and every
    error of its script or of its policy, fails the test. failing: ends of the addresses whose requests may fail.
    options: of Playwright's new_context.
    """
    context = await browser.new_context(**{"viewport": {"width": 360, "height": 740}} | options)
    wrong: list[str] = []

    def bad(said: Any) -> bool:
        return said.type in {"error", "warning"} and not said.location["url"].endswith(failing)

    try:
        page = await context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: wrong.append(said.text) if bad(said) else None)
        page.on("request", lambda asked: None if asked.url.startswith(base) else wrong.append(f"loads {asked.url}"))
        yield page
    finally:
        await context.close()
    assert wrong == []


async def overflow(page: Any) -> int:
    """How many pixels the page is wider than its window; 0 when nothing has to be scrolled sideways."""
    width: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width
