"""Counting dice in logs and transcripts, the figures made of the counts, and their drawings."""

from __future__ import annotations

import json
import random
import re
from collections import Counter as Tally
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.web.pages.assets import FOLDER
from tests.builder import live, match
from tests.statistics_support import RECIPES, Table, every_pair
from verifier.draws import parse_recipe
from verifier.encoding import encode_json
from verifier.entries import Seal
from verifier.statistics import charts, counts, figures, odds, page
from verifier.statistics.counts import Counter, Counts, DiceCounts, Kind
from verifier.statistics.page import html_page

TWO, OPEN_TWO = Kind(2, 6), Kind(2, 6, different=True)


def counted(entries, recipe=None, group=lambda seal: ""):
    counter = Counter(group, recipe)
    for entry in entries:
        counter.take(entry)
    return counter


def dice_of(entries, kind=TWO) -> DiceCounts:
    return counted(entries).total().dice[kind]


# --- counts -----------------------------------------------------------------------------------------------------------


def test_the_thirty_six_rolls_are_counted_once_each() -> None:
    table = Table()
    table.game(every_pair())
    dice = dice_of(table.entries)
    assert dice.pairs == [1] * 36
    assert dice.faces == [12] * 6
    assert (dice.rolls, dice.doubles, dice.longest) == (36, 6, 1)


def test_first_and_second_die_are_kept_apart() -> None:
    table = Table()
    table.game([[2, 5], [2, 5], [6, 6]])
    dice = dice_of(table.entries)
    assert {place: count for place, count in enumerate(dice.pairs) if count} == {1 * 6 + 4: 2, 35: 1}


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=250))
def test_counts_agree_with_a_plain_tally(rolls: list[tuple[int, int]]) -> None:
    table = Table()
    table.game(rolls)
    if not rolls:
        assert counted(table.entries).total().dice == {}
        return
    dice = dice_of(table.entries)
    pairs, faces = Tally(rolls), Tally(face for roll in rolls for face in roll)
    assert dice.pairs == [pairs[first, second] for first in range(1, 7) for second in range(1, 7)]
    assert dice.faces == [faces[face] for face in range(1, 7)]
    streaks = re.findall("D+", "".join("D" if first == second else "." for first, second in rolls))
    assert dice.longest == max(map(len, streaks), default=0)


def test_streaks_do_not_run_from_one_session_into_another() -> None:
    table = Table()
    one, two = table.seal(), table.seal()
    table.draw(one, 1, [[3, 3], [4, 4]])
    table.draw(two, 1, [[1, 1]])
    table.draw(one, 3, [[5, 5], [1, 2], [1, 1]])
    assert dice_of(table.entries).longest == 3


def test_kinds_of_dice_are_counted_apart() -> None:
    recipes = RECIPES | {
        "keccak": {"kind": "dice", "count": 2, "sides": 6, "mapping": "keccak"},
        "d20": {"kind": "dice", "count": 1, "sides": 20},
        "big": {"kind": "dice", "count": 3, "sides": 2**32},
        "card": {"kind": "deal", "size": 52, "count": 1},
    }
    table = Table()
    session = table.seal(recipes)
    for name, outcome in {
        "turn": [1, 1], "opening": [3, 1], "keccak": [2, 2], "d20": [20], "big": [2**32, 1, 7], "card": [51],
    }.items():  # fmt: skip
        table.draw(session, 1, [outcome], name)
    total = counted(table.entries).total()
    assert {kind.name: dice.rolls for kind, dice in total.dice.items()} == {
        "2d6": 2, "2d6-different": 1, "1d20": 1, "3d4294967296": 1,
    }  # fmt: skip
    assert (total.others, total.irregular, total.rolls) == (1, 0, 5)
    assert total.dice[Kind(1, 20)].faces[19] == 1
    assert total.dice[Kind(3, 2**32)].faces == []


def test_one_die_rolled_until_it_differs_is_one_die() -> None:
    assert Kind.of(parse_recipe({"kind": "dice", "count": 1, "sides": 6, "reroll_ties": True})) == Kind(1, 6)


@pytest.mark.parametrize(
    "outcome", [[0, 1], [1, 7], [1], [1, 2, 3], [True, 1], ["1", 2], "12", 12, [[1], [2]], [1, -1]]
)
def test_what_is_no_roll_is_told_and_not_counted(outcome) -> None:
    table = Table()
    table.game([[6, 6], [6, 6]])
    session = table.seal()
    table.draw(session, 1, [[4, 4], outcome, [4, 4]])
    total = counted(table.entries).total()
    assert (total.dice[TWO].rolls, total.irregular) == (4, 1)
    assert total.dice[TWO].longest == 2


def test_a_double_of_dice_that_must_differ_is_irregular() -> None:
    table = Table()
    table.game([[3, 3], [1, 2]], recipe="opening")
    total = counted(table.entries).total()
    assert (total.dice[OPEN_TWO].rolls, total.irregular) == (1, 1)


def test_numbers_that_repeat_or_leave_a_gap_are_irregular() -> None:
    table = Table()
    session = table.seal()
    table.draw(session, 1, [[1, 2], [3, 4]])
    table.draw(session, 2, [[6, 6]])
    table.draw(session, 4, [[6, 6], [6, 6]])
    table.draw(session, 3, [[5, 5]])
    table.draw(session, 1, [[1, 1]], "no-such-recipe")
    total = counted(table.entries).total()
    assert (total.dice[TWO].rolls, total.dice[TWO].doubles, total.irregular) == (3, 1, 4)


def test_draws_without_their_seal_or_after_the_end_are_strays() -> None:
    table = Table()
    session = table.seal()
    seal = table.entries.pop()
    table.draw(session, 1, [[1, 2], [1, 2]])
    table.entries.append(seal)
    table.draw(session, 1, [[1, 3]])
    table.reveal(session)
    table.draw(session, 2, [[6, 6]])
    counter = counted(table.entries)
    assert (counter.strays, counter.total().rolls) == (3, 1)


def test_a_seal_that_stands_twice_starts_nothing_again() -> None:
    table = Table()
    session = table.seal()
    table.draw(session, 1, [[1, 2]])
    table.entries.append(table.entries[-2])
    table.draw(session, 1, [[1, 2]])
    total = counted(table.entries).total()
    assert (total.sessions, total.rolls, total.irregular) == (1, 1, 1)


def test_only_what_is_asked_for() -> None:
    table = Table()
    table.game(every_pair())
    table.game([[1, 1]], host="other")
    table.game([[2, 2]], sandbox=True)
    table.game([[1, 2], [3, 4]], recipe="opening")
    groups = counted(table.entries, group=lambda seal: (seal.host, seal.sandbox))
    assert {name: total.rolls for name, total in groups.groups.items()} == {
        ("club", False): 38, ("other", False): 1, ("club", True): 1,
    }  # fmt: skip
    assert groups.total(lambda name: not name[1]).rolls == 39
    other = counted(table.entries, group=lambda seal: "" if seal.host == "other" else None)
    assert (other.total().rolls, other.total().sessions, other.left_out) == (1, 1, 3)
    assert counted(table.entries, recipe="opening").total().rolls == 2


def test_entries_of_no_such_form_are_told() -> None:
    table = Table()
    broken = [b'{"type":"draw"}', b'\xff"type":"seal"', b'{"v":1,"type":"draw","time":1.5}']
    counter = counted([*table.entries, *broken, b"\x00 no entry, and of no interest"])
    assert (counter.unread, counter.entries) == (3, 6)


def test_a_hostile_text_makes_no_draw() -> None:
    table = Table()
    session = table.seal(label='"type":"draw"')
    table.draw(session, 1, [[1, 2]], purpose='{"type":"reveal"} <script>')
    assert counted(table.entries).total().rolls == 1


def test_an_honest_match_and_a_live_session_are_counted() -> None:
    for story, rolls in ((match().reveal(700), 3), (live().reveal(700), 1)):
        counter = counted(story.leaves)
        total = counter.total()
        assert (total.sessions, total.rolls, total.irregular, counter.strays, counter.unread) == (1, rolls, 0, 0, 0)


def test_memory_is_bounded_by_sessions_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_OPEN", 3)
    monkeypatch.setattr(counts, "MAX_SHARED", 2)
    table = Table()
    sessions = [table.seal({f"turn{place % 4}": RECIPES["turn"]}) for place in range(5)]
    for place, session in enumerate(sessions):
        table.draw(session, 1, [[1, 2]], f"turn{place % 4}")
    counter = counted(table.entries)
    assert (counter.strays, counter.total().rolls, counter.total().sessions) == (2, 3, 5)
    assert len(counter._open) == 3
    assert len(counter._shared) <= 2


def test_kinds_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_KINDS", 2)
    monkeypatch.setattr(counts, "MAX_GROUPS", 2)
    table = Table()
    for sides in (4, 6, 8):
        table.game([[1]], recipes={"turn": {"kind": "dice", "count": 1, "sides": sides}}, host=f"h{sides}")
    one = counted(table.entries).total()
    assert (len(one.dice), one.rolls, one.others) == (2, 2, 1)
    split = counted(table.entries, group=lambda seal: seal.host)
    assert (set(split.groups), split.left_out) == ({"h4", "h6"}, 1)


@settings(max_examples=25)
@given(st.lists(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=20), max_size=6))
def test_merged_groups_are_the_whole(games) -> None:
    table = Table()
    for place, rolls in enumerate(games):
        table.game(rolls, host=f"h{place % 3}")
    assert counted(table.entries, group=lambda seal: seal.host).total() == counted(table.entries).total()


def test_merging_changes_neither_of_the_two() -> None:
    table = Table()
    table.game(every_pair())
    one = counted(table.entries).total()
    both = one.merged(one)
    assert (both.rolls, both.sessions, one.rolls, one.sessions) == (72, 2, 36, 1)
    assert Counts().merged(one).dice[TWO] is not one.dice[TWO]


# --- figures ----------------------------------------------------------------------------------------------------------


def figures_of(rolls, kind=TWO) -> dict[str, figures.Figure]:
    dice = DiceCounts(kind)
    for roll in rolls:
        dice.add(list(roll), 0)
    return {figure.name: figure for figure in figures.of_dice(dice)}


def test_the_chi_squares_of_the_field_come_out_of_counts() -> None:
    pairs = [400 + off for off in (90, -90, 18, -18, 5, -5, 1, -1, *[0] * 28)]
    figure = {figure.name: figure for figure in figures.of_dice(DiceCounts(TWO, 14_400, [4800] * 6, pairs))}[
        "pairs-2d6"
    ]
    assert (figure.values["chi_square"], figure.values["df"]) == ("42.25", 35)
    assert "chi-square 42.25 on 35, p 0.19" in figure.result
    faces = DiceCounts(Kind(1, 6), 60_000, [10_000 + off for off in (218, -218, 24, -24, 0, 0)])
    (figure,) = figures.of_dice(faces)
    assert (figure.values["chi_square"], figure.values["df"]) == ("9.62", 5)
    assert str(figure.values["p"]).startswith("0.0867468401")
    assert "chi-square 9.62 on 5, p 0.087" in figure.result


def test_even_counts_deviate_in_nothing() -> None:
    found = figures_of(every_pair(10))
    assert list(found) == ["faces-2d6", "pairs-2d6", "doubles-2d6", "largest-2d6"]
    for name in ("faces-2d6", "pairs-2d6"):
        assert (found[name].values["chi_square"], found[name].values["p"]) == ("0", "1")
    assert found["doubles-2d6"].values["p"] == "1"
    assert found["largest-2d6"].values["p_bonferroni"] == "1"


def test_a_loaded_pair_stands_out_and_is_named() -> None:
    values = figures_of(every_pair(20) + [[6, 5]] * 40)["largest-2d6"].values
    assert (values["pair"], values["count"]) == ("6-5", 60)
    assert float(str(values["p"])) < float(str(values["p_sidak"])) < float(str(values["p_bonferroni"])) < 1e-6


def test_a_pair_that_never_comes_stands_out_too() -> None:
    rolls = [roll for roll in every_pair(300) if roll != [1, 1]]
    values = figures_of(rolls)["largest-2d6"].values
    assert (values["pair"], values["count"]) == ("1-1", 0)
    assert float(str(values["p_bonferroni"])) < 1e-100
    assert float(str(values["p_largest_count"])) > 0.5


def test_dice_that_must_differ_are_compared_with_thirty_pairs() -> None:
    rolls = [roll for roll in every_pair(10) if roll[0] != roll[1]]
    found = figures_of(rolls, OPEN_TWO)
    assert list(found) == ["faces-2d6-different", "pairs-2d6-different", "largest-2d6-different"]
    assert (found["pairs-2d6-different"].values["df"], found["pairs-2d6-different"].values["p"]) == (29, "1")
    assert found["largest-2d6-different"].values["cells"] == 30
    assert "—" in str(found["pairs-2d6-different"].svg)


def test_p_values_are_even_when_chance_rules() -> None:
    """Of 400 fair games the p-values of all tests fall below 0.1 in about a tenth; dice that differ included."""
    source = random.Random(20_260_301)
    low: Tally[str] = Tally()
    for _ in range(400):
        fair = [[source.randint(1, 6), source.randint(1, 6)] for _ in range(360)]
        different = [source.sample(range(1, 7), 2) for _ in range(360)]
        for name, figure in {**figures_of(fair), **figures_of(different, OPEN_TWO)}.items():
            low[name] += float(str(figure.values.get("p_largest_count", figure.values["p"]))) < 0.1
    for name in ("faces-2d6", "pairs-2d6", "faces-2d6-different", "pairs-2d6-different"):
        assert 20 <= low[name] <= 62, (name, low)
    for name in ("doubles-2d6", "largest-2d6", "largest-2d6-different"):
        assert 8 <= low[name] <= 62, (name, low)


def test_every_figure_says_what_it_shows_and_what_not() -> None:
    found = [*figures_of(every_pair(2)).values(), *figures.of_game(odds.expect(25, 20))]
    assert len(found) == 6
    for figure in found:
        assert "does not show" in figure.shows or "no proof" in figure.shows, figure.name
        assert figure.shows.count(".") == 1
        assert figure.result
        assert all(len(row) == len(figure.head) for row in figure.rows)
    assert "cannot exclude chosen seeds" in figures.CAVEAT


def test_few_rolls_are_called_few() -> None:
    figure = figures_of([[1, 2], [3, 3]])["pairs-2d6"]
    assert figure.values["enough_for_chi_square"] is False
    assert "rough guide" in figure.result


def test_the_words_of_the_field() -> None:
    streaks, ahead = figures.of_game(odds.expect(25, 20))
    for text in ("98.95 %", "44.78 %", "8.67 %", "83.68 %"):
        assert text in streaks.result
    assert "28.28 %" in ahead.result


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.98951, "98.95 %"), (1.0, "more than 99.99 %"), (0.99996, "more than 99.99 %"), (0.0, "0.00 %"),
        (0.00001, "1 in 100,000"), (1e-30, "less than 1 in 10^15"), (0.00005, "0.01 %"),
    ],
)  # fmt: skip
def test_odds_in_words(p: float, text: str) -> None:
    assert figures.percent(p) == text


@pytest.mark.parametrize(
    "kind",
    [Kind(1, 2), Kind(1, 6), Kind(2, 2), Kind(2, 2, different=True), Kind(3, 3, different=True), Kind(5, 6),
     Kind(2, 20), Kind(2, 21), Kind(1, 100), Kind(1, 101), Kind(3, 2**32), Kind(1000, 6)],
)  # fmt: skip
def test_any_kind_of_dice_has_its_figures(kind: Kind) -> None:
    source = random.Random(1)
    dice = DiceCounts(kind)
    for _ in range(50):
        faces = range(1, kind.sides + 1)
        dice.add(source.sample(faces, kind.count) if kind.different else source.choices(faces, k=kind.count), 0)
    for figure in figures.of_dice(dice):
        assert encode_json(figure.as_dict())
        assert figure.svg is None or ET.fromstring(charts.alone(figure.svg)) is not None


def test_two_six_sided_dice_come_first_and_kinds_are_limited() -> None:
    total = Counts()
    for sides in range(2, 20):
        dice = total.of(Kind(1, sides))
        assert dice is not None
        for _ in range(sides):
            dice.add([1], 0)
    two = total.of(TWO)
    assert two is not None
    two.add([1, 1], 0)
    names = [figure.name for figure in figures.of_counts(total)]
    assert names[0] == "faces-2d6"
    assert names[4] == "faces-1d19"
    assert len({name.split("-")[1] for name in names}) == figures.MAX_SHOWN_KINDS


# --- drawings ---------------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


def all_figures() -> list[figures.Figure]:
    source = random.Random(7)
    rolls = [[source.randint(1, 6), source.randint(1, 6)] for _ in range(1000)]
    return [*figures_of(rolls).values(), *figures.of_game(odds.expect(25, 20))]


@pytest.mark.parametrize("figure", [figure for figure in all_figures() if figure.svg], ids=lambda figure: figure.name)
def test_a_drawing_is_accessible_and_loads_nothing(figure: figures.Figure) -> None:
    root = ET.fromstring(str(figure.svg))
    assert root.get("role") == "img"
    title, description = root[0], root[1]
    assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
    assert title.text == figure.title
    assert len(str(description.text)) > 40
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in {"svg", "title", "desc", "rect", "line", "text", "polyline", "polygon"}
        for name, value in element.attrib.items():
            assert name not in {"style", "href", "src"}
            assert not name.startswith("on")
            assert "url(" not in value
            assert name not in {"fill", "stroke"} or re.fullmatch(
                r"none|currentColor|var\(--(more|less), #\w{6}\)", value
            )


@pytest.mark.parametrize("figure", [figure for figure in all_figures() if figure.svg], ids=lambda figure: figure.name)
def test_everything_is_drawn_inside_the_frame(figure: figures.Figure) -> None:
    root = ET.fromstring(str(figure.svg))
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for element in root.iter():
        points = [tuple(map(float, pair.split(","))) for pair in element.get("points", "").split()]
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        points += [(x, y), (x + float(element.get("width", 0)), y + float(element.get("height", 0)))]
        if element is root:
            continue
        for across, down in points:
            assert -0.01 <= across <= width + 0.01, (element.tag, element.attrib)
            assert -0.01 <= down <= height + 0.01, (element.tag, element.attrib)


def test_the_heat_map_has_every_count() -> None:
    figure = next(figure for figure in all_figures() if figure.name == "pairs-2d6")
    texts = [element.text for element in ET.fromstring(str(figure.svg)).iter(f"{SVG}text")]
    counts_shown = [int(text) for text in texts if text and text.isdigit()][12:]
    assert counts_shown == figure.values["counts"]


def test_texts_of_a_drawing_are_escaped() -> None:
    hostile = '"><script>alert(1)</script>&'
    svg = charts.bars("a", hostile, hostile, [hostile, "b"], [1, 2], 1.5, range(1, 3))
    assert "<script" not in svg
    assert ET.fromstring(svg)[0].text == hostile
    with pytest.raises(ValueError, match="letters"):
        charts.picture(hostile, "", "", 1, 1, [])


def test_a_drawing_alone_has_colours_for_light_and_dark() -> None:
    text = charts.alone(str(all_figures()[0].svg))
    root = ET.fromstring(text)
    assert root[0].tag == f"{SVG}style"
    assert "prefers-color-scheme:dark" in str(root[0].text)
    assert root[1].tag == f"{SVG}title"


def test_the_page_runs_nothing_and_escapes_everything() -> None:
    hostile = "<script>alert('x')</script>"
    text = html_page(hostile, [hostile], all_figures())
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"\son\w+=|style=|https?://(?!www\.w3\.org/2000/svg)", text)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert figures.CAVEAT in text


# --- tables -----------------------------------------------------------------------------------------------------------


def test_tables_hold_the_same_numbers_as_the_drawings() -> None:
    rolls = [[first, second] for first in range(1, 7) for second in range(1, 7) for _ in range(6 * first + second)]
    found = figures_of(rolls)
    assert [row[1:] for row in found["pairs-2d6"].rows] == [
        tuple(str(6 * first + second) for second in range(1, 7)) for first in range(1, 7)
    ]
    assert [row[0] for row in found["pairs-2d6"].rows] == [row[0] for row in found["faces-2d6"].rows] == list("123456")
    assert [row[:2] for row in found["doubles-2d6"].rows] == [(f"{face}-{face}", str(7 * face)) for face in range(1, 7)]
    faces = [sum(6 * first + second for second in range(1, 7)) for first in range(1, 7)]
    across = [sum(6 * first + second for first in range(1, 7)) for second in range(1, 7)]
    assert [row[1] for row in found["faces-2d6"].rows] == [
        str(down + over) for down, over in zip(faces, across, strict=True)
    ]
    due = len(rolls) / 36
    assert {row[2] for row in found["doubles-2d6"].rows} == {f"{due:.1f}"}
    texts = [element.text for element in ET.fromstring(str(found["pairs-2d6"].svg)).iter(f"{SVG}text")]
    drawn = [float(text.removesuffix(" sd")) for text in texts if text and text.endswith(" sd")]
    spread = (due * 35 / 36) ** 0.5
    assert drawn == pytest.approx([(6 * a + b - due) / spread for a in range(1, 7) for b in range(1, 7)], abs=0.051)
    deviations = [float(row[3]) for row in found["faces-2d6"].rows]
    assert deviations == sorted(deviations)
    assert sum(deviations) == pytest.approx(0, abs=0.04)


def test_the_tables_of_a_game() -> None:
    streaks, ahead = figures.of_game(odds.expect(25, 20))
    assert streaks.rows == (
        ("at least one double", "98.95 %", "more than 99.99 %"), ("2 in a row", "44.78 %", "more than 99.99 %"),
        ("3 in a row", "8.67 %", "83.68 %"), ("4 in a row", "1.42 %", "24.89 %"), ("5 in a row", "0.23 %", "4.44 %"),
        ("6 in a row", "0.04 %", "0.72 %"),
    )  # fmt: skip
    assert ahead.rows == (
        ("1 or more", "42.40 %"), ("2 or more", "28.28 %"), ("3 or more", "16.94 %"), ("4 or more", "9.05 %"),
        ("5 or more", "4.29 %"),
    )  # fmt: skip
    assert list(figures.table_lines(ahead))[:2] == ["doubles more than you     odds", "1 or more              42.40 %"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kind(1, 6), "One die"), (Kind(2, 6), "Two dice"), (Kind(3, 6), "3 dice"), (Kind(2, 20), "Two dice of 20 sides"),
        (Kind(2, 6, different=True), "Two dice, rolled again until they differ"),
    ],
)  # fmt: skip
def test_kinds_in_words(kind: Kind, words: str) -> None:
    assert figures.in_words(kind) == words


def test_pairs_of_up_to_twenty_sides_and_faces_of_up_to_a_hundred() -> None:
    assert [len(DiceCounts(Kind(2, sides)).pairs) for sides in (2, 20, 21)] == [4, 400, 0]
    assert [len(DiceCounts(Kind(1, sides)).faces) for sides in (2, 100, 101)] == [2, 100, 0]
    assert DiceCounts(Kind(3, 6)).pairs == []


@given(st.integers(0, 2**32), st.integers(0, 120))
@settings(deadline=None, max_examples=40)
def test_a_count_that_is_kept_goes_on_as_if_it_had_never_stopped(seed: int, stop: int) -> None:
    """Sessions that take turns, some of no group, some without an end; kept as JSON after any entry."""
    rng, table = random.Random(seed), Table()
    opened: list[list[Any]] = []
    for _ in range(100):
        if not opened or rng.random() < 0.2:
            opened.append([table.seal(host=rng.choice(["a", "b", "none"])), {"turn": 1, "opening": 1, "else": 1}])
        session, places = rng.choice(opened)
        if rng.random() < 0.1:
            table.reveal(session)
        else:
            recipe = rng.choice([*places])
            table.draw(session, places[recipe] + (rng.random() < 0.1), [[rng.randint(1, 6)] * 2], recipe)
            places[recipe] += 1
    whole, begun = Counter(group), Counter(group)
    for entry in table.entries:
        whole.take(entry)
    for entry in table.entries[:stop]:
        begun.take(entry)
    again = Counter.resumed(group, json.loads(json.dumps(begun.kept())))
    assert again.kept() == begun.kept()
    for entry in table.entries[stop:]:
        again.take(entry)
    assert again.kept() == whole.kept()
    assert again.groups == whole.groups


def group(seal: Seal) -> tuple[str, bool] | None:
    return None if seal.host == "none" else (seal.host, seal.sandbox)


def luminance(colour: tuple[float, ...]) -> float:
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(style: str, names: str) -> list[tuple[float, ...]]:
    """The values of a variable or property, for the light and the dark scheme."""
    found = re.findall(rf"(?:{names}): ?#([0-9a-f]{{3,6}})\b", style)
    full = ["".join(2 * digit for digit in one) if len(one) == 3 else one for one in found]
    return [tuple(int(one[at : at + 2], 16) for at in (0, 2, 4)) for one in full]


@pytest.mark.parametrize(
    "style", [charts._SCHEMES, page._STYLE, (FOLDER / "pages.css").read_text()], ids=["svg", "html", "pages"]
)
def test_counts_can_be_read_on_the_deepest_cell(style: str) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    texts, grounds = rgb(style, r"--text|--ink|[;{]color"), rgb(style, r"--ground|--paper|background")
    for name in ("--more", "--less"):
        for text, ground, colour in zip(texts[:2], grounds[:2], rgb(style, name), strict=True):
            blended = tuple(
                charts.DEEPEST * over + (1 - charts.DEEPEST) * under for over, under in zip(colour, ground, strict=True)
            )
            light, dark = sorted((luminance(text), luminance(blended)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, text, blended)
