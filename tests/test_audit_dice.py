"""What an audit says of a log's dice: the same counts as `verifier statistics`, of each host, kept between audits."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from tests.audit_support import TRUST, Log, audited, honest, served, source_of
from tests.builder import LOG_KEY, QUICKNET, at
from verifier.audit import dice, run
from verifier.audit.keeping import opened
from verifier.audit.report import summary
from verifier.audit.run import Audit
from verifier.cli import main
from verifier.merkle import leaf_hash
from verifier.statistics import figures
from verifier.statistics.counts import Counter, Counts, Kind
from verifier.verdict import Exit


def two_hosts(sessions: int = 4) -> Log:
    """Matches of two hosts in turn, one of them a test session, one given up, one never ended."""
    log = Log()
    changes = [{"host": f"host-{number % 2}", "host_seq": (number + 1) // 2} for number in range(1, sessions + 1)]
    kept = [log.sealed(number, **changes[number - 1]).kept() for number in range(1, sessions + 1)]
    tested = log.sealed(91, host="tester", host_seq=1, sandbox=True).kept()
    given_up = log.sealed(92, host="host-3", host_seq=1).kept()
    log.sealed(93, host="host-4", host_seq=1)
    for one in [*kept, tested]:
        log.resume(one).contributed()
    for one in [*kept, tested]:
        log.resume(one).close(6.6)
    log.resume(given_up).void("host", 7)
    log.round(1005, 15.9)
    for one in [*kept, tested]:
        log.resume(one).draw("turn", 16, count=2).draw("hand", 16).reveal(16)
    return log


def counted(leaves: list[bytes], *, host: str | None = None, sandbox: bool = False) -> Counts:
    """As `verifier statistics` counts, but of ended sessions alone."""
    ended = {json.loads(leaf)["session"] for leaf in leaves if b'"type":"reveal"' in leaf or b'"type":"void"' in leaf}
    counter = Counter(lambda seal: "" if seal.sandbox == sandbox and host in {None, seal.host} else None)
    for leaf in leaves:
        if b'"type":"seal"' not in leaf or leaf_hash(leaf).hex() in ended:
            counter.take(leaf)
    return counter.total()


def test_counts_are_those_of_the_statistics(tmp_path: Path) -> None:
    leaves = two_hosts().leaves
    with opened(tmp_path) as state:
        audit = Audit(state, TRUST)
        audit.run(source_of(leaves))
        assert audit.exit() == Exit.FAIR
        told = summary(state, TRUST, None)
    assert told.all_dice() == counted(leaves)
    assert told.all_dice().dice[Kind(2, 6)].rolls == 8
    assert told.dice == {host: counted(leaves, host=host) for host in ("host-0", "host-1", "host-3")}
    assert told.test_dice == {"tester": counted(leaves, sandbox=True)}


def test_counts_do_not_depend_on_where_an_audit_stopped_nor_on_processes(tmp_path: Path, monkeypatch) -> None:
    leaves = two_hosts().leaves
    for size in range(1, len(leaves) + 1):
        audited(leaves[:size], tmp_path)
    monkeypatch.setattr(run, "MANY", 1)
    with opened(tmp_path) as stepwise, opened(None) as there:
        Audit(there, TRUST, processes=2).run(source_of(leaves))
        assert list(dice.of_hosts(stepwise)) == list(dice.of_hosts(there))
        assert len(list(dice.of_hosts(there))) == 4


def test_figures_with_exact_odds_stand_in_the_json_and_in_the_summary(tmp_path: Path) -> None:
    log = honest(40)
    chain = tmp_path / "chain.json"
    chain.write_text(json.dumps(QUICKNET.as_dict()))
    with served(log.leaves) as url:
        options = ["audit", url, "--state", str(tmp_path / "s"), "--log-key", str(LOG_KEY.vkey), "--chain", str(chain)]
        shown = CliRunner().invoke(main, [*options, "--json"])
        text = CliRunner().invoke(main, options)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    (host,) = [line for line in lines if line["kind"] == "host"]
    (whole,) = [line for line in lines if line["kind"] == "summary"]
    expected = [figure.as_dict() for figure in figures.of_counts(counted(log.leaves))]
    assert whole["dice"]["figures"] == host["dice"]["figures"] == json.loads(json.dumps(expected))
    largest = next(figure for figure in whole["dice"]["figures"] if figure["name"] == "largest-2d6")
    assert {"p", "p_bonferroni", "p_sidak", "p_largest_count"} <= largest.keys()
    assert whole["dice"]["rolls"] == 40
    assert whole["caveat"] == figures.CAVEAT
    assert "Dice: 40 rolls in 40 ended sessions" in text.stdout
    assert "corrected for 36 cells" in text.stdout
    assert figures.CAVEAT in text.stdout


def test_a_log_without_dice_says_nothing_of_them() -> None:
    log = Log().sealed(1)
    log.void("host", 7, time=at(7))
    with opened(None) as state:
        Audit(state, TRUST).run(source_of(log.leaves))
        told = summary(state, TRUST, None)
    assert told.all_dice().rolls == 0
    assert not [line for line in told.lines() if "Dice" in line]
