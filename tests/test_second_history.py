"""Whatever is put back, nothing that was acknowledged and witnessed is contradicted: the service goes on truly, or it does
not start. One way to a second history is left, to who answers for an older log wrongly (`beacon log mark`, or a log.mark
as old as the log) while no witness answers; then player, auditor and witnesses each have the proof.
"""

import shutil

import pytest
from click.testing import CliRunner

from beacon.cli import main as beacon
from beacon.store.errors import LogBehind
from tests.drill_support import FIRST, Onlookers, carries_on, entries, lose, refusal
from tests.world_support import WITNESSES, running


@pytest.fixture
def folder(tmp_path):
    return FIRST.copy(tmp_path / "world")


@pytest.fixture
def onlookers(folder):
    return Onlookers(folder)


MARKS = ("newest", "old", "made", "none")


@pytest.mark.parametrize(
    ("log", "mark", "away"),
    [("newest", mark, mark == "old") for mark in MARKS]
    + [("old", mark, away) for mark in MARKS for away in (False, True)],
)
async def test_nothing_acknowledged_and_witnessed_is_contradicted(log, mark, away, folder, onlookers):
    """The one start from an older log is that of which the mark is as old, or made anew, while no witness answers."""
    data = folder / "data"
    async with running(folder, FIRST.clock()) as world:
        await onlookers.play(world)
    shutil.copytree(data, folder / "old")
    async with running(folder, FIRST.clock(90_000)) as world:
        await world.get(f"/v1/sessions/{await onlookers.play(world)}/transcript?wait=10")
        assert await onlookers.contradicted(world) == []
    if log == "old":
        lose(folder, "log.db")
        shutil.copy(folder / "old" / "log.db", data / "log.db")
    if mark in {"made", "none"}:
        lose(folder, "log.mark")
    if mark == "made":
        assert CliRunner().invoke(beacon, ["log", "mark", "--dir", str(data)]).exit_code == 0
    if mark == "old":
        shutil.copy(folder / "old" / "log.mark", data / "log.mark")

    forked = log == "old" and mark in {"old", "made"}
    names = () if away else WITNESSES
    if mark == "none" or (log == "old" and not (forked and away)):
        assert isinstance(await refusal(folder, witnesses=names), LogBehind)
    elif not forked:
        await carries_on(folder, onlookers, witnesses=names)
    else:
        await second_history(folder, onlookers)


async def second_history(folder, onlookers):
    """It is signed, and everybody has the proof: the player's receipts, the auditor's state, each witness."""
    async with running(folder, FIRST.clock(120_000), witnesses=()) as world:
        for _ in range(4):
            await onlookers.play(world)
        found = await onlookers.contradicted(world)
        assert any("the service knows no session" in one or "a receipt is" in one for one in found)
        assert any("fork" in one or "two histories" in one for one in found), found
        witnessed = (await world.get("/log/witnessed")).decode().splitlines()[1]
    older = await refusal(folder)
    assert isinstance(older, LogBehind)
    assert "seen another history of this log" in str(older) or "has seen size" in str(older)
    assert int(witnessed) < entries(folder / "data" / "log.db"), "nobody cosigns it"
