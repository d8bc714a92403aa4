"""The demo's programs: the real ones, each in a process of its own, stopped in any case."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Final

import click

WIDTH: Final = 80
"""Columns of what the demo says."""
START_SECONDS: Final = 20.0
_URL: Final = re.compile(rb"http://127\.0\.0\.1:\d+")


class DemoError(click.ClickException):
    """The demo could not go on; the message says where."""


async def beacon(*arguments: str) -> str:
    """Run `beacon` to its end; what it wrote. Raises DemoError."""
    code, output = await run("beacon", *arguments)
    if code != 0:
        raise DemoError(f"beacon {arguments[0]} failed: {output.strip()}")
    return output


async def run(program: str, *arguments: str) -> tuple[int, str]:
    """Run one of our programs to its end; its exit code, and what it wrote (standard error only where it failed)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        program,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
    )
    output, errors = await process.communicate()
    text = output.decode()
    return process.returncode or 0, text if text.strip() else errors.decode()


@contextlib.asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[str]:
    """Run one of our servers while the block runs; the URL that it says it listens on."""
    async with started(*arguments) as (url, _):
        yield url


@contextlib.asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """As `serving`, and the process."""
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "beacon",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(),
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                url = None
                while url is None:
                    line = await process.stdout.readline()
                    if not line:
                        errors.seek(0)
                        reason = errors.read().decode(errors="replace").strip()
                        raise DemoError(f"beacon {arguments[0]} ended before it listened:\n{reason[-2000:]}")
                    url = _URL.search(line)
            yield url.group().decode(), process
        except TimeoutError as error:
            raise DemoError(f"beacon {arguments[0]} did not listen within {START_SECONDS:.0f} seconds") from error
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), START_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def _environment() -> dict[str, str]:
    """The caller's environment without settings of a service of its own."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("BEACON_")}
