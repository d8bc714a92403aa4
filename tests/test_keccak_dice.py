"""KeccakDice.sol, compiled by solc and run in an EVM, and keccak-dice.ts give what the Python gives, and the known answers."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import node_support
from tests.builder import VECTORS
from tests.outside_tools import need_node
from tests.web_verifier import workspace
from verifier.keccak import KeccakDice
from verifier.systems.casino_sdk import uniform

SOURCE = node_support.ROOT / "verifier" / "systems" / "KeccakDice.sol"
ENVIRONMENT = node_support.ROOT / "tests" / "solidity"
FILES = ("package.json", "package-lock.json", ".npmrc", "run.mjs")
Call = dict[str, Any]


def call(word: bytes, n: list[int], width: list[int] | None = None, index: int = 0) -> Call:
    """n 0: a die; width 0: the fewest bytes."""
    widths = [0] * len(n) if width is None else width
    return {"word": word.hex(), "index": index, "n": list(map(str, n)), "width": widths}


def python(asked: Call) -> dict[str, Any]:
    source = KeccakDice(bytes.fromhex(asked["word"]), asked["index"])
    numbers = zip(map(int, asked["n"]), asked["width"], strict=True)
    values = [str(uniform(source, n, width or None) if n else source.roll()) for n, width in numbers]
    return {"values": values, "word": source.word.hex(), "index": source.index}


def calls() -> list[Call]:
    chance = random.Random(5)
    words = [
        bytes(32),
        bytes(range(32)),
        b"\xff" * 32,
        b"\xfc" * 31 + b"\x05",
        *(chance.randbytes(32) for _ in range(20)),
    ]
    ranges = [1, 2, 6, 52, 255, 256, 257, 65_536, 65_537, 2**64, 2**128 + 1, 2**255 + 1, 2**256 - 1]
    found = [call(word, [0] * 50, index=chance.randrange(33)) for word in words]
    for word in words:
        n = [chance.choice(ranges) for _ in range(12)]
        widths = [chance.choice([0, *range(max(1, ((one - 1).bit_length() + 7) // 8), 33)]) for one in n]
        found.append(call(word, n, widths, chance.randrange(33)))
    return found


def known() -> list[tuple[Call, dict[str, Any]]]:
    vectors = json.loads((VECTORS / "seeds-and-peers.json").read_text(encoding="utf-8"))["vectors"]
    return [
        (
            call(bytes.fromhex(vector["input"]["word_hex"]), [0] * vector["input"]["dice"]),
            {
                "values": list(map(str, vector["expected"]["faces"])),
                "word": vector["expected"]["seed_out_hex"],
                "index": vector["expected"]["next_idx"],
            },
        )
        for vector in vectors
        if vector["algorithm"] == "keccak-d6" and len(vector["input"]["word_hex"]) == 64
    ]


@pytest.fixture(scope="module")
def evm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_node()
    folder = tmp_path_factory.mktemp("solidity")
    for name in FILES:
        shutil.copy(ENVIRONMENT / name, folder / name)
    node_support.install(folder)
    return folder


def solidity(folder: Path, asked: list[Call], source: str | None = None) -> list[dict[str, Any] | None]:
    given = {"source": source or SOURCE.read_text(encoding="utf-8"), "calls": asked}
    done = subprocess.run(
        [need_node(), "run.mjs"],
        cwd=folder,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any] | None] = json.loads(done.stdout)
    return answers


def test_solidity_gives_the_known_answers_and_what_the_python_gives(evm: Path) -> None:
    stated = known()
    assert len(stated) == 5
    asked = [*(one for one, _ in stated), *calls()]
    assert solidity(evm, asked) == [*(answer for _, answer in stated), *map(python, asked[len(stated) :])]


def test_solidity_refuses_a_range_beyond_its_width(evm: Path) -> None:
    bad = [call(bytes(32), [257], [1]), call(bytes(32), [6], [33]), call(bytes(32), [2**32 + 1], [4])]
    assert solidity(evm, [*bad, call(bytes(32), [256], [1])]) == [None, None, None, python(call(bytes(32), [256], [1]))]


def test_the_evm_runs_the_file(evm: Path) -> None:
    source = SOURCE.read_text(encoding="utf-8").replace("uniform(state, 6, 1)", "uniform(state, 5, 1)")
    (answer,) = solidity(evm, [call(bytes(range(32)), [0] * 20)], source)
    assert answer != python(call(bytes(range(32)), [0] * 20))


def test_typescript_gives_the_known_answers_and_what_the_python_gives() -> None:
    web = workspace()
    (web / "build").mkdir(exist_ok=True)
    (web / "build" / "snippet.ts").write_text(
        'import { readFileSync } from "node:fs";\n'
        'import { KeccakDice } from "../src/systems/keccak-dice.ts";\n'
        "const answers = JSON.parse(readFileSync(0, 'utf8')).map(({ word, index, n, width }) => {\n"
        "  const dice = new KeccakDice(Uint8Array.from(Buffer.from(word, 'hex')), index);\n"
        "  const values = n.map((one, i) => String(one === '0' ? dice.roll() : dice.uniform(BigInt(one), width[i] || undefined)));\n"
        "  return { values, word: Buffer.from(dice.word).toString('hex'), index: dice.index };\n"
        "});\n"
        "process.stdout.write(JSON.stringify(answers));\n"
    )
    stated = known()
    asked = [*(one for one, _ in stated), *calls()]
    answers = json.loads(node_support.run(node_support.bundle(web, "build/snippet.ts"), json.dumps(asked)))
    assert answers == [*(answer for _, answer in stated), *map(python, asked[len(stated) :])]
