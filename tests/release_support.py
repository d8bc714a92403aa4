"""What released versions left behind (tests/fixtures/release-*), and copies of it that a test may go on with."""

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.round_support import QUICKNET
from tests.world_support import LeapingClock
from verifier.check import Trust
from verifier.drand import ChainInfo
from verifier.fetch import load_chain
from verifier.note import VerifierKey
from verifier.policy import Policy

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Release:
    """One version's folder. See PROVENANCE.md there."""

    folder: Path

    @cached_property
    def sessions(self) -> dict[str, str]:
        return json.loads((self.folder / "sessions.json").read_text())

    @cached_property
    def transcripts(self) -> dict[str, bytes]:
        return {path.stem: path.read_bytes() for path in sorted((self.folder / "transcripts").iterdir())}

    @cached_property
    def receipts(self) -> list[dict]:
        return [json.loads(line) for line in (self.folder / "receipts.jsonl").read_text().splitlines()]

    @cached_property
    def verdicts(self) -> dict:
        return json.loads((self.folder / "verdicts.json").read_text())

    @cached_property
    def chain(self) -> ChainInfo:
        return load_chain(str(self.folder / "devnet.chain.json"))

    @cached_property
    def log_key(self) -> VerifierKey:
        return VerifierKey.parse((self.folder / "data" / "log.vkey").read_text().strip())

    @cached_property
    def policy(self) -> str:
        return (self.folder / "data" / "witnesses.policy").read_text()

    @property
    def trust(self) -> Trust:
        chains = {self.chain.hash: self.chain, QUICKNET.hash: QUICKNET}
        return Trust(self.log_key, chains, policy=Policy.parse(self.policy))

    @property
    def options(self) -> dict:
        """`trust` as the browser verifier takes it."""
        info = (self.folder / "devnet.chain.json").read_text()
        return {"logKeys": [str(self.log_key)], "chains": [info, "quicknet"], "policy": self.policy}

    def copy(self, folder: Path) -> Path:
        """A world to go on with (`tests.world_support.running`), files as closed as the service asks for."""
        shutil.copytree(self.folder, folder)
        for path in folder.rglob("*"):
            secret = path.is_dir() or path.suffix == ".key" or path.name in {"private.db", "witness.db"}
            path.chmod((0o700 if path.is_dir() else 0o600) if secret else 0o644)
        return folder

    def clock(self, after_ms: int = 60_000) -> LeapingClock:
        """So long after the version was stopped."""
        return LeapingClock(json.loads((self.folder / "made.json").read_text())["ended"] + after_ms)


RELEASES = [Release(folder) for folder in sorted(FIXTURES.glob("release-*"))]
