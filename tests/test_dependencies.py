"""What is installed is what config/dependencies.toml lists: no version with a known flaw, no licence that nobody has looked at."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LISTED = tomllib.loads((ROOT / "config" / "dependencies.toml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("fast", "client", "service")
FREE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "Public Domain", "Unlicense",
}  # fmt: skip
"""Licences that may go with Apache-2.0 without a condition on the project's own."""
SPELLINGS = {
    "MIT": {"mit", "mit license"},
    "Apache-2.0": {"apache 2.0", "apache-2.0", "apache license, version 2.0", "apache software license"},
    "BSD-3-Clause": {"bsd-3-clause", "bsd license"},
    "PSF-2.0": {"psf-2.0", "python software foundation license"},
    "Public Domain": {"public domain"},
}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def direct():
    extras = [line for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]]
    return [Requirement(line) for line in [*PROJECT["dependencies"], *extras]]


def installed():
    """Every package that the project's own requirements lead to here, by name."""
    found, left, seen = {}, direct(), set()
    while left:
        wanted = left.pop()
        key = (normal(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        distribution = found[key[0]] = metadata.distribution(wanted.name)
        for line in distribution.requires or []:
            further = Requirement(line)
            if further.marker is None or any(further.marker.evaluate({"extra": one}) for one in wanted.extras or {""}):
                left.append(further)
    return found


def licences(distribution):
    """What a package says of its licence: an expression, or the words of its older fields in lower case."""
    about = distribution.metadata
    if expression := about.get("License-Expression"):
        return expression, set()
    classified = [
        one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or [] if one.startswith("License ::")
    ]
    return None, {word.lower() for word in [about.get("License") or "", *classified] if word}


def below(found, listed):
    """(name, version, least) of each package that is older than it may be."""
    for name, distribution in found.items():
        least = listed.get(name, {}).get("least")
        if least is not None and Version(distribution.version) < Version(least):
            yield name, distribution.version, least


def test_everything_that_is_installed_is_listed():
    assert set(installed()) - set(LISTED) == set()
    assert len(installed()) > 30


def test_nothing_installed_is_below_its_least_version():
    assert list(below(installed(), LISTED)) == []


def test_a_version_that_is_too_old_is_seen():
    found = installed()
    listed = {"aiohttp": {"least": "99.0"}, "click": {"least": "0.1"}}
    assert [name for name, *_ in below(found, listed)] == ["aiohttp"]


def test_what_the_project_asks_for_is_no_lower():
    """So that an old package that is there already is not taken for good enough."""
    for wanted in direct():
        least = LISTED[normal(wanted.name)].get("least")
        lowest = [Version(one.version) for one in wanted.specifier if one.operator == ">="]
        assert least is None or (lowest and lowest[0] >= Version(least)), wanted


@pytest.mark.parametrize("name", sorted(set(LISTED) & set(installed())))
def test_each_licence_is_known_free_and_what_the_package_says(name):
    stated = LISTED[name]["licence"]
    assert set(re.split(r" (?:AND|OR) ", stated)) <= FREE
    expression, words = licences(installed()[name])
    assert expression == stated or words & SPELLINGS.get(stated, set()), (expression, words)


@pytest.mark.parametrize("name", sorted(LISTED))
def test_each_least_version_says_why(name):
    assert ("least" in LISTED[name]) == ("why" in LISTED[name])
    assert "least" not in LISTED[name] or re.search(r"CVE-\d{4}-\d{4,}", LISTED[name]["why"])
    assert set(LISTED[name]) <= {"licence", "least", "why"}
