"""`beacon demo`: a short backgammon match on this machine, from the seal to the verdict, and three attempts to cheat.

The devnet, the service, two witnesses and the verifier are the real programs in processes of their own, on loopback
ports; the demo is the game host and its two players. The chain is the devnet's and the host a sandbox host: a test, not
a game.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beacon.cli_common import Refused
from beacon.client import sign_contribution
from beacon.demo_processes import START_SECONDS, WIDTH, DemoError, beacon, run, serving, started
from beacon.demo_vanish import Kept, finish
from verifier.encoding import encode_json

ORIGIN: Final = "localhost/fair-beacon-demo"
HOST: Final = "demo"
PERIOD: Final = 2
TURNS: Final = 20
PLAYED: Final = 8
"""Turns before the operator vanishes, if it does."""
ROW: Final = 4
INDENT: Final = 16
CLAIM_INDENT: Final = 26
FACES: Final = "⚀⚁⚂⚃⚄⚅"
FILES: Final = ("transcript.json", "verdict.txt", "chain.json", "log.vkey", "witnesses.policy")
WITNESSES: Final = ("east", "west")


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the transcript, what it is checked with, and each receipt in this folder. It must be new or empty.",
)
@click.option(
    "--vanish",
    is_flag=True,
    help="Kill the service in the middle of the match, delete its data, and finish the proof from the receipts.",
)
def main(out: Path | None, vanish: bool) -> None:
    """Play a short backgammon match on this machine, without the internet, and check it with the real verifier.

    It starts a drand-compatible devnet, the service and two witnesses of its log on loopback ports, seals a session as
    a sandbox host, lets two players contribute, waits for the round, draws an opening and twenty turns, reveals the
    seed, and runs `verifier check` on the transcript. Then it changes a die, a contribution and the round in copies,
    and shows what the verifier says. It takes about half a minute and leaves nothing behind, except in the folder of
    --out.
    """
    if out is not None and out.exists() and any(out.iterdir()):
        raise Refused(f"{out} is not empty; name a new folder")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="beacon-demo-") as folder:
        kept = out if out is not None else Path(folder) / "out"
        kept.mkdir(parents=True, exist_ok=True)
        try:
            asyncio.run(_until_told(_Demo(Path(folder), kept, vanish=vanish).run()))
        except asyncio.CancelledError as error:
            raise click.Abort from error
    _say("", f"That took {time.monotonic() - began:.0f} seconds.")
    if vanish:
        return
    if out is None:
        _say("", "Keep the files with `beacon demo --out DIR`, and look at them yourself.")
        return
    verifier = shutil.which("verifier", path=Path(sys.executable).parent) or "verifier"
    _say("", f"Kept in {out}: {', '.join(FILES)}, receipts/. Change what you like, and check it again:")
    click.echo(f"\n  {verifier} check {out}/transcript.json \\")
    click.echo(f"      --log-key {out}/log.vkey --policy {out}/witnesses.policy \\")
    click.echo(f"      --chain {out}/chain.json --sandbox")
    click.echo(f"\n  {verifier} draw --transcript {out}/transcript.json --recipe turn --n 1")


@dataclass
class _Demo:
    folder: Path
    out: Path
    vanish: bool = False
    receipts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: dict[str, Ed25519PrivateKey] = field(
        default_factory=lambda: {player: Ed25519PrivateKey.generate() for player in ("white", "black")}
    )

    async def run(self) -> None:
        click.secho("fair-beacon demo: a backgammon match between White and Black", bold=True)
        text = "All of it runs on this machine. The random network is our own and the host is a sandbox host,"
        _say("", f"{text} so the verdict will call it a test, not a game.")
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(aiohttp.ClientSession())
            state = self.folder / "devnet.json"
            kept = ("--out", str(self.out / "chain.json"), "--state", str(state))
            devnet = ("devnet", "--port", "0", "--period", str(PERIOD), *kept)
            relay = await stack.enter_async_context(serving(*devnet))
            _say("devnet", f"a drand-compatible test network with a fresh key, a round every {PERIOD} s, at {relay}")
            token = await self._initialise(relay)
            await self._witness(stack)
            url, service = await stack.enter_async_context(started("serve", "--dir", str(self.folder / "data")))
            _say("service", f"the beacon, at {url}; it believes no relay and checks each round's BLS signature")
            client.headers["Authorization"] = f"Bearer {token}"
            await _until_ready(client, url)
            base, number = await self._begin(client, url)
            if self.vanish:
                await self._roll(client, base, PLAYED)
                await self._gone(service)
                self._keep_receipts()
                await finish(Kept(self.out, state, relay, number, TURNS), _say)
                return
            await self._roll(client, base, TURNS)
            await self._end(client, base)
            self._keep_receipts()
        await self._verify()
        await self._cheat()

    async def _initialise(self, relay: str) -> str:
        data, chain = str(self.folder / "data"), str(self.out / "chain.json")
        made = await beacon("init", data, "--origin", ORIGIN, "--chain-file", chain, "--relay", relay, "--json")
        (self.out / "log.vkey").write_text(json.loads(made)["vkey"] + "\n")
        # A demo takes any free port.
        self._configure(r"port = \d+", "port = 0")
        return str(json.loads(await beacon("hosts", "add", HOST, "--sandbox", "--dir", data, "--json"))["token"])

    async def _witness(self, stack: contextlib.AsyncExitStack) -> None:
        """Two witnesses, each with a key of its own, and the policy that asks for both."""
        log = (self.out / "log.vkey").read_text().strip()

        lines, urls = [], []
        for name in WITNESSES:
            folder = str(self.folder / name)
            made = await beacon("witness", "init", folder, "--name", f"localhost/{name}", "--log", log, "--json")
            urls.append(await stack.enter_async_context(serving("witness", "serve", "--dir", folder, "--port", "0")))
            lines.append(f"witness {name} {json.loads(made)['vkey']} {urls[-1]}\n")
        policy = self.out / "witnesses.policy"
        policy.write_text("".join([*lines, f"group both all {' '.join(WITNESSES)}\n", "quorum both\n"]))
        self._configure(r"# policy = .*", f"policy = {json.dumps(str(policy.resolve()))}")
        where = f"{' and '.join(WITNESSES)}, at {' and '.join(urls)}"
        _say("witnesses", f"{where}: each signs that it saw the log, and when")

    def _configure(self, line: str, value: str) -> None:
        config = self.folder / "data" / "beacon.toml"
        config.write_text(re.sub(rf"(?m)^{line}$", lambda _: value, config.read_text()))

    async def _begin(self, client: aiohttp.ClientSession, url: str) -> tuple[str, int]:
        """Seal, contribute, and wait for the round: the session's URL, and the round's number."""
        sealed = await self._post(client, f"{url}/v1/sessions", "seal", self._seal())
        session, number = sealed["session"], sealed["round"]
        wait = (sealed["round_time"] - time.time_ns() // 1_000_000) / 1000
        _say("sealed", f"session {session[:16]}..., entry {sealed['index']} of the log")
        _say("", f"the seed's SHA-256 is public: {sealed['commitment']}")
        _say("", f"it counts only together with round {number}, which comes in {wait:.1f} s and which nobody knows yet")
        base = f"{url}/v1/sessions/{session}"
        for player, key in self.keys.items():
            entropy = secrets.token_bytes(16)
            signature = sign_contribution(key, session, player, entropy)
            body = {"participant": player, "entropy": entropy.hex(), "signature": signature.hex()}
            answer = await self._post(client, f"{base}/contributions", f"contribution-{player}", body)
            _say(player, f"adds {entropy.hex()}, a secret until now, signs it, and keeps the receipt")
        _say("closed", f"both have contributed: the log pins it all before the round (entry {answer['close_index']})")
        await _until_round(client, base, number)
        _say("round", f"round {number} is in, its signature verified, in the log")
        return base, number

    async def _end(self, client: aiohttp.ClientSession, base: str) -> None:
        await self._post(client, f"{base}/reveal", "reveal", {})
        _say("revealed", "the seed is public: from now on anyone can redo every roll")
        async with client.get(f"{base}/transcript?wait={START_SECONDS:.0f}") as response:
            (self.out / "transcript.json").write_bytes(await response.read())

    async def _gone(self, service: asyncio.subprocess.Process) -> None:
        """The operator dies, and takes the database with it."""
        service.kill()
        await service.wait()
        shutil.rmtree(self.folder / "data")
        _say("gone", "in the middle of the match the service is killed, and its database, keys and seeds are deleted")

    def _keep_receipts(self) -> None:
        folder = self.out / "receipts"
        folder.mkdir()
        for position, (name, document) in enumerate(self.receipts, 1):
            (folder / f"{position:02}-{name}.json").write_bytes(encode_json(document) + b"\n")

    def _seal(self) -> dict[str, Any]:
        now = time.time_ns() // 1_000_000
        dice = {"kind": "dice", "count": 2, "sides": 6}
        public = {player: key.public_key().public_bytes_raw().hex() for player, key in self.keys.items()}
        return {
            "label": "demo match",
            "round_at": now + 3 * PERIOD * 1_000,
            "participants": [{"id": player, "key": key} for player, key in public.items()],
            "min_contributions": 2,
            "recipes": {"opening": {**dice, "reroll_ties": True}, "turn": dice},
        }

    async def _roll(self, client: aiohttp.ClientSession, base: str, turns: int) -> None:
        """The opening, one die each, and the turns: each draw says what it is for before it is known."""
        drawn = await self._post(client, f"{base}/draws", "draw-opening", {"recipe": "opening", "purpose": "opening"})
        white, black = drawn["outcomes"][0]
        players = ("White", "Black") if white > black else ("Black", "White")
        rolled = f"White {_face(white)} {white}, Black {_face(black)} {black}"
        _say("opening", f"{rolled}: {players[0]} starts with that roll")
        rolls = []
        for turn in range(turns):
            player, number = players[(turn + 1) % 2], turn // 2 + 1 + (turn % 2)
            asked = {"recipe": "turn", "purpose": f"{player.lower()} {number}"}
            drawn = await self._post(client, f"{base}/draws", f"draw-{player.lower()}-{number}", asked)
            rolls.append(f"{player} {_dice(drawn['outcomes'][0])}")
        for first in range(0, turns, ROW):
            _say("" if first else "turns", "   ".join(rolls[first : first + ROW]))

    async def _post(self, client: aiohttp.ClientSession, url: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        async with client.post(url, json=body) as answer:
            result: dict[str, Any] = await answer.json()
        if not answer.ok:
            raise DemoError(f"{name}: {result.get('code')}: {result.get('detail')}")
        answered = [*result.get("receipts", []), *([result["receipt"]] if "receipt" in result else [])]
        self.receipts += [(name, document) for document in answered]
        if "close_receipt" in result:
            self.receipts.append(("close", result["close_receipt"]))
        return result

    async def _verify(self) -> None:
        click.secho("\nNow the verifier, given the log's key, the chain's and the two witnesses':", bold=True)
        code, output = await self._check(self.out / "transcript.json")
        (self.out / "verdict.txt").write_text(output)
        for line in output.split("\n\nDrawn")[0].splitlines():
            indent = " " * (CLAIM_INDENT if line.startswith("  ") else 0)
            click.echo(textwrap.fill(line, WIDTH, subsequent_indent=indent, replace_whitespace=False))
        if code != 0:
            raise DemoError(f"the verifier does not accept the transcript (exit {code}): {output}")
        if "Proven fair" not in output.splitlines()[0]:
            raise DemoError("the witnesses did not see everything in time; is this machine very busy?")
        receipt = min((self.out / "receipts").glob("*contribution-white*"))
        transcript = str(self.out / "transcript.json")
        arguments = ("receipt", str(receipt), "--transcript", transcript, "--log-key", str(self.out / "log.vkey"))
        code, output = await run("verifier", *arguments)
        click.echo()
        _say("white", "is what I added part of it?")
        _say("", output.splitlines()[0])
        if code != 0:
            raise DemoError(f"the verifier does not find White's receipt (exit {code})")

    async def _cheat(self) -> None:
        click.secho("\nAnd if somebody changes the transcript?", bold=True)
        document = json.loads((self.out / "transcript.json").read_bytes())
        for kind, change in (("draw", _change_die), ("contribution", _change_entropy), ("round", _change_signature)):
            copy = json.loads(json.dumps(document))
            event = next(event for event in copy["events"] if json.loads(event["entry"])["type"] == kind)
            entry = json.loads(event["entry"])
            _say(kind, change(entry))
            event["entry"] = encode_json(entry).decode()
            path = self.folder / "changed.json"
            path.write_bytes(encode_json(copy))
            code, output = await self._check(path, "--json")
            failed = [claim["claim"] for claim in json.loads(output)["claims"] if claim["state"] == "FAILED"]
            _say("", click.style(f"FAILED {', '.join(failed)} (exit {code})", fg="red"))
            if code != 1 or "log" not in failed:
                raise DemoError(f"the verifier did not notice that the {kind} was changed")

    async def _check(self, path: Path, *options: str) -> tuple[int, str]:
        key, chain = str(self.out / "log.vkey"), str(self.out / "chain.json")
        policy = str(self.out / "witnesses.policy")
        trusted = ("--log-key", key, "--policy", policy, "--chain", chain)
        return await run("verifier", "check", str(path), *trusted, "--sandbox", *options)


def _change_die(entry: dict[str, Any]) -> str:
    roll = entry["outcomes"][0]
    was = "-".join(map(str, roll))
    roll[0] = roll[0] % 6 + 1
    return f"the opening was {was}; this copy says {'-'.join(map(str, roll))}"


def _change_entropy(entry: dict[str, Any]) -> str:
    was = entry["entropy"]
    entry["entropy"] = ("0" if was[0] != "0" else "1") + was[1:]
    return f"{entry['participant']} added {was[:8]}...; this copy says {entry['entropy'][:8]}..."


def _change_signature(entry: dict[str, Any]) -> str:
    was = entry["signature"]
    entry["signature"] = was[:-1] + ("0" if was[-1] != "0" else "1")
    return f"the network signed ...{was[-8:]}; this copy says ...{entry['signature'][-8:]}"


def _face(number: int) -> str:
    return FACES[number - 1]


def _dice(roll: list[int]) -> str:
    return "".join(map(_face, roll)) + f" {'-'.join(map(str, roll))}"


def _say(what: str, text: str) -> None:
    head = click.style(f"{what:>{INDENT - 2}}", fg="cyan") + "  "
    lines = textwrap.wrap(text, WIDTH - INDENT, drop_whitespace=False, break_long_words=False) or [""]
    click.echo(head + ("\n" + " " * INDENT).join(line.strip() for line in lines))


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or until SIGTERM; what was started is stopped in any case."""
    task = asyncio.create_task(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


async def _until_ready(client: aiohttp.ClientSession, url: str) -> None:
    """Wait until the service has verified a round and knows the time by the chain."""
    deadline = time.monotonic() + START_SECONDS
    with _progress("the service verifies its first round") as progress:
        while time.monotonic() < deadline:
            progress()
            async with client.get(f"{url}/readyz") as answer:
                if answer.ok:
                    return
            await asyncio.sleep(0.2)
    raise DemoError(f"the service was not ready within {START_SECONDS:.0f} seconds")


async def _until_round(client: aiohttp.ClientSession, base: str, number: int) -> None:
    deadline = time.monotonic() + START_SECONDS + 3 * PERIOD
    with _progress(f"waiting for round {number}") as progress:
        while time.monotonic() < deadline:
            progress()
            async with client.get(base) as answer:
                view = await answer.json()
            if view["state"] == "anchored":
                return
            await asyncio.sleep(0.2)
    raise DemoError(f"round {number} did not come")


@contextlib.contextmanager
def _progress(text: str) -> Iterator[Callable[[], None]]:
    """A line that shows that time passes: redrawn on a terminal, written once elsewhere."""
    began, terminal = time.monotonic(), sys.stdout.isatty()
    if not terminal:
        _say("", f"({text})")

    def show() -> None:
        if terminal:
            click.echo(f"\r{'':>15}  {text}: {time.monotonic() - began:.1f} s ", nl=False)

    try:
        yield show
    finally:
        if terminal:
            click.echo("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", nl=False)
