"""Settings: the file and the model are equal, a typo stops the start, key files are refused unless they are private."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.datadir import render_settings
from beacon.settings import (
    ChainSettings,
    ConfigurationError,
    Settings,
    load_settings,
    read_key,
    setting_names,
    write_key,
)

DOCUMENTED = Path(__file__).parent.parent / "config" / "beacon.toml"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("BEACON_")]:
        monkeypatch.delenv(name)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "beacon.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_documented_file_is_the_model() -> None:
    assert DOCUMENTED.read_text(encoding="utf-8") == render_settings("beacon.example/fair")


def test_the_documented_file_holds_every_key_with_its_default() -> None:
    text = DOCUMENTED.read_text(encoding="utf-8")
    lines = text.splitlines()
    for path in setting_names():
        at = [n for n, line in enumerate(lines) if line.removeprefix("# ").startswith(f"{path[-1]} = ")]
        assert at, path
        assert all(lines[n - 1].startswith("# ") and len(lines[n - 1]) > 10 for n in at), path
    assert load_settings(DOCUMENTED) == Settings(origin="beacon.example/fair", data_dir=DOCUMENTED.parent)


def test_keys_of_time_and_size_say_their_unit() -> None:
    sections = {"listen", "limits", "sessions"}
    numbers = [
        path
        for path in setting_names()
        if path[0] in sections and path[-1] not in {"host", "port", "trusted_proxies", "timelock"}
    ]
    assert len(numbers) >= 5
    for path in numbers:
        assert path[-1].endswith(("_ms", "_bytes")), path


def test_a_directory_stands_for_its_file_and_paths_become_absolute(tmp_path: Path) -> None:
    write(
        tmp_path,
        'origin = "o.example/log"\ndata_dir = "data"\ndefault_chain = "dev"\n'
        '[[chains]]\nname = "dev"\nfile = "chain.json"\nrelays = ["http://127.0.0.1:1"]\nsandbox_only = true\n',
    )
    settings = load_settings(tmp_path)
    assert settings.log_db == tmp_path / "data" / "log.db"
    assert settings.private_db == tmp_path / "data" / "private.db"
    assert settings.master_key == tmp_path / "data" / "master.key"
    assert settings.log_key == tmp_path / "data" / "log.key"
    assert settings.chains[0].file == tmp_path / "chain.json"


def test_rendered_settings_load_again(tmp_path: Path) -> None:
    chain = ChainSettings(name="dev", file=Path('a "quoted" name.json'), relays=["http://[::1]:7/x"], sandbox_only=True)
    write(tmp_path, render_settings("o.example/log", [chain]))
    settings = load_settings(tmp_path)
    assert settings.origin == "o.example/log"
    assert settings.default_chain == "dev"
    assert settings.chains == [chain.model_copy(update={"file": tmp_path / 'a "quoted" name.json'})]


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, 'origin = "o.example"\n[listen]\nport = 1\nhost = "::1"\n')
    monkeypatch.setenv("BEACON_LISTEN__PORT", "9000")
    monkeypatch.setenv("BEACON_DEFAULT_CHAIN", "other")
    monkeypatch.setenv("BEACON_CHAINS", '[{"name":"other","relays":["https://relay.example"]}]')
    settings = load_settings(file)
    assert (settings.listen.port, settings.listen.host) == (9000, "::1")
    assert [chain.name for chain in settings.chains] == ["other"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('orgin = "x"\n', r"unknown key `orgin`; did you mean `origin`\?"),
        ('origin = "x"\n[listen]\nprot = 1\n', r"unknown key `listen\.prot`; did you mean `port`\?"),
        ('origin = "x"\n[[chains]]\nname = "quicknet"\nrelay = []\n', r"`chains\.relay`; did you mean `relays`\?"),
        ('origin = "x"\nzzzzzz = 1\n', r"unknown key `zzzzzz`; known are origin, data_dir"),
        ("", "origin: it is missing"),
        ("origin = 'x'\norigin = 'y'\n", "not TOML"),
        ("origin = 'has space'\n", "origin: a letter or digit, then up to 127"),
        ("origin = 'x+y'\n", "origin: a letter or digit"),
        ('origin = "x\\n"\n', "origin: a letter or digit"),
        ("origin = 'https://x.example/y'\n", "origin: leave out https://, as in beacon.example/fair"),
        ('origin = "x"\nport = 1\n', r"unknown key `port`; did you mean `listen\.port`\?"),
        ('origin = "x"\ndefault_chain = "0"\n', "default_chain: a letter, then up to 63"),
        ('origin = "x"\ndefault_chain = "evmnet"\n', "default_chain: the default chain 'evmnet' is not among"),
        ('origin = "x"\n[listen]\nport = 70000\n', "listen.port: at most 65535 is due"),
        ('origin = "x"\nlisten = 5\n', "listen: a table is due"),
        (
            'origin = "x"\n[[chains]]\nname = "quicknet"\nrelays = []\n',
            r"chains.0.relays: at least 1 item\(s\) are due",
        ),
        (
            'origin = "x"\n[[chains]]\nname = "quicknet"\nrelays = ["ftp://x"]\n',
            "chains.0.relays.0: .* begins with https",
        ),
        ('origin = "x"\n' + '[[chains]]\nname = "quicknet"\nrelays = ["http://x"]\n' * 2, "the same name twice"),
    ],
)
def test_a_wrong_file_stops_the_start_and_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=says) as caught:
        load_settings(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("BEACON_LISTEN_PORT", r"did you mean `BEACON_LISTEN__PORT`\?"),
        ("beacon_orgin", r"beacon_orgin: unknown variable of the environment; did you mean `BEACON_ORIGIN`\?"),
        ("BEACON_PORT", r"did you mean `BEACON_LISTEN__PORT`\?"),
        ("BEACON_HTTP_PORT", r"did you mean `BEACON_LISTEN__PORT`\?"),
        ("BEACON_LOG_LEVEL", r"did you mean `BEACON_LOGGING__LEVEL`\?"),
        ("BEACON_RELAYS", r"did you mean `BEACON_CHAINS`\?"),
        ("BEACON_ZZZZZZ", "known are BEACON_CHAINS, BEACON_DATA_DIR"),
        ("BEACON_CHAINS__0__NAME", "unknown variable"),
        ("BEACON_", "unknown variable"),
    ],
)
def test_a_wrong_variable_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    file = write(tmp_path, 'origin = "x"\n')
    load_settings(file)
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigurationError, match=says) as caught:
        load_settings(file)
    assert str(caught.value).startswith(f"{name}: ")


INSIDES = re.compile(
    "Input|Value error|should|instance|pattern|parse|class|pydantic|ctx|type="
    "|[A-Za-z]+(Settings|Source|Error|Section|Request)"
)
VALUES = [-1, 10**12, 10**400, 1.5, True, "", "a b", "https://x", [], ["a b"], [[]], {}, {"a": 1}]


def refusal(file: Path) -> list[str]:
    """The lines of the refusal of a file; none when it loads."""
    try:
        load_settings(file)
    except ConfigurationError as error:
        return str(error).splitlines()
    return []


def toml(value: object) -> str:
    return "{a = 1}" if value == {"a": 1} else json.dumps(value)


@pytest.mark.parametrize("keys", list(setting_names()), ids=".".join)
def test_no_wrong_value_shows_what_validates_it(tmp_path: Path, keys: tuple[str, ...]) -> None:
    *tables, key = keys
    head = f"[[{tables[0]}]]\n" if tables == ["chains"] else f"[{tables[0]}]\n" if tables else ""
    others = {"chains": 'name = "quicknet"\nrelays = ["http://x"]\n', "": 'origin = "x"\n'}.get("".join(tables), "")
    refused = 0
    for value in VALUES:
        text = "".join(line for line in others.splitlines(keepends=True) if not line.startswith(f"{key} = "))
        text = f"{head}{text}{key} = {toml(value)}\n"
        if tables:
            text = f'origin = "x"\n{text}'
        file = write(tmp_path, text)
        lines = refusal(file)
        refused += bool(lines)
        for line in lines:
            assert line.startswith(f"{file}: {'.'.join(tables)}"), line
            assert not INSIDES.search(line.removeprefix(str(file))), line
    assert refused > 5


@pytest.mark.parametrize("keys", [keys for keys in setting_names() if keys[0] != "chains"], ids=".".join)
def test_a_wrong_value_of_a_variable_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    file = write(tmp_path, 'origin = "x"\n')
    name = f"beacon_{'__'.join(keys)}"
    refused = 0
    for value in ("", "-1", "1.5", "x y", "9" * 500, "a\nb"):
        monkeypatch.setenv(name, value)
        lines = refusal(file)
        refused += bool(lines)
        for line in lines:
            assert line.startswith(f"{name}: "), line
            assert str(file) not in line
            assert not INSIDES.search(line), line
    assert refused or keys in {("data_dir",), ("witnesses", "policy")}  # any text is a path


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("quicknet", "BEACON_CHAINS: not JSON; a list of chains is due, as "),
        ("{", "BEACON_CHAINS: not JSON"),
        ("{}", "BEACON_CHAINS: a list is due"),
        ("[]", r"BEACON_CHAINS: at least 1 item\(s\) are due, not 0"),
        ("[1]", "BEACON_CHAINS: 0: a table is due"),
        ('[{"name":"a","relays":["http://x"],"port":1}]', "BEACON_CHAINS: 0.port: there is no such field"),
        ('[{"name":"a"}]', "BEACON_CHAINS: 0.relays: it is missing"),
        ('[{"name":"a","relays":["x"]}]', "BEACON_CHAINS: 0.relays.0: a relay's URL begins with https://"),
        ('[{"name":"a","relays":["http://x"]}]', "BEACON_CHAINS: the default chain 'quicknet' is not among the chains"),
        ('[{"name":"a","relays":["http://x"]},{"name":"a","relays":["http://x"]}]', "BEACON_CHAINS: the same name"),
    ],
)
def test_wrong_chains_of_the_environment_name_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, says: str
) -> None:
    monkeypatch.setenv("BEACON_CHAINS", value)
    file = write(tmp_path, 'origin = "x"\n')
    with pytest.raises(ConfigurationError, match=f"^{says}") as caught:
        load_settings(file)
    assert str(file) not in str(caught.value)
    assert not INSIDES.search(str(caught.value))


def test_what_contradicts_each_other_names_the_variable_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEACON_DEFAULT_CHAIN", "other")
    with pytest.raises(ConfigurationError, match=r"^BEACON_DEFAULT_CHAIN: the default chain 'other' is not among"):
        load_settings(write(tmp_path, 'origin = "x"\n'))


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEACON_LISTEN_PORT", "8080")
    monkeypatch.setenv("BEACON_METRICS__PORT", "http")
    file = write(
        tmp_path,
        'origin = "https://x"\norgin = "x"\ndefault_chain = "evmnet"\n[listen]\nport = 70000\nprot = 1\n'
        '[[chains]]\nname = "quicknet"\nrelays = ["http://x"]\nrelay = 1\n'
        '[[chains]]\nname = "quicknet"\nrelays = ["http://x"]\n',
    )
    lines = refusal(file)
    starts = [
        f"{file}: unknown key `orgin`",
        f"{file}: unknown key `listen.prot`",
        f"{file}: unknown key `chains.relay`",
        "BEACON_LISTEN_PORT: unknown variable",
        f"{file}: origin: leave out https://",
        f"{file}: listen.port: at most 65535",
        "BEACON_METRICS__PORT: a whole number",
        f"{file}: chains: the same name twice",
        f"{file}: default_chain: the default chain 'evmnet' is not among",
    ]
    assert sorted(starts) == sorted(next(s for s in starts if line.startswith(s)) for line in lines), lines
    assert len(lines) == len(starts)


def test_chains_that_are_no_json_hide_nothing_else_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEACON_CHAINS", "quicknet")
    file = write(tmp_path, 'origin = "x"\nzzz = 1\n[listen]\nport = 70000\n[[chains]]\nname = "0"\nrelays = []\n')
    lines = refusal(file)
    assert [line.split(": ")[1] for line in lines if line.startswith(str(file))] == [
        next(line for line in lines if "zzz" in line).split(": ")[1],
        "listen.port",
    ]
    assert [line for line in lines if line.startswith("BEACON_CHAINS: not JSON")]
    assert len(lines) == 3


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="beacon init"):
        load_settings(tmp_path)


@given(st.binary(min_size=32, max_size=32))
def test_a_key_file_holds_what_was_written(tmp_path_factory: pytest.TempPathFactory, key: bytes) -> None:
    path = tmp_path_factory.mktemp("keys") / "k.key"
    write_key(path, key)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path) == key
    with pytest.raises(FileExistsError):
        write_key(path, key)
    assert read_key(path) == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o610])
def test_a_key_file_that_others_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "master.key"
    write_key(path, bytes(32))
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=r"mode 0\d\d\d lets others at this key. Do `chmod 600"):
        read_key(path)


SECRET = "ab" * 32


@pytest.mark.parametrize(
    "text",
    ["", SECRET[:-1], SECRET[:-2], SECRET + "ab", SECRET.upper(), SECRET + "\n\n", " " + SECRET, SECRET[:-1] + "é"],
)
def test_a_malformed_key_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.key"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match="64 lower-case hex digits") as caught:
        read_key(path)
    assert "abab" not in str(caught.value)


def test_a_key_file_that_is_missing_or_unreadable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_key(tmp_path / "master.key")
    with pytest.raises(ConfigurationError, match="directory"):
        read_key(tmp_path)
    with pytest.raises(ValueError, match="32 bytes"):
        write_key(tmp_path / "short.key", b"x")
