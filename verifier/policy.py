"""Whose signatures make a checkpoint good enough: logs, witnesses, groups and a quorum (C2SP tlog-policy).

    log <vkey> [<url>]
    witness <name> <vkey> [<url>]
    group <name> all|any|<k> <member>...
    quorum <name>|none                              exactly one

Lines end in a newline, items are separated by spaces and tabs, a line whose first item starts with # is a comment.
Names are octets and compared as such. A line uses only names that lines above it define.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from verifier.encoding import parse_decimal
from verifier.errors import Code, FormatError
from verifier.note import COSIGNATURE_V1, ECDSA, ED25519, ML_DSA_44, TREE_HEAD, VerifierKey

MAX_POLICY_BYTES: Final = 1_000_000
MAX_LINES_OF_A_KIND: Final = 256
NONE: Final = "none"

_LOG_TYPES: Final = frozenset({ED25519, ECDSA, TREE_HEAD, ML_DSA_44})
_WITNESS_TYPES: Final = frozenset({COSIGNATURE_V1, ML_DSA_44})
_FORBIDDEN = re.compile(rb"[^\t\n\x20-\x7e\x80-\xff]")
_ITEM = re.compile(r"[^ \t]+")


@dataclass(frozen=True, slots=True)
class Group:
    """Met when at least `threshold` of its members (witnesses or groups) are; 1 <= threshold <= number of members."""

    threshold: int
    members: tuple[str, ...]


@dataclass(slots=True)
class Policy:
    """A parsed policy. `witnesses` and `groups` in the order of their lines, `quorum` a name of either or "none"."""

    logs: tuple[VerifierKey, ...] = ()
    witnesses: dict[str, VerifierKey] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    quorum: str = NONE
    log_urls: dict[VerifierKey, str] = field(default_factory=dict)
    witness_urls: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Parse a policy file of at most 1,000,000 bytes and 256 lines of a kind. Raises FormatError(POLICY)."""
        policy = cls()
        quorums: list[str] = []
        for number, line in enumerate(_lines(text), start=1):
            items = _ITEM.findall(line)
            if not items or items[0].startswith("#"):
                continue
            try:
                policy._read(items, quorums)
            except FormatError as error:
                raise FormatError(Code.POLICY, f"line {number}: {error.message}") from error
        if len(quorums) != 1:
            raise FormatError(Code.POLICY, f"a policy has exactly one quorum line, this one {len(quorums)}")
        policy.quorum = quorums[0]
        return policy

    def encode(self) -> bytes:
        """Write the policy without comments, in the order log, witness, group, quorum."""
        lines = [_join("log", str(key), self.log_urls.get(key)) for key in self.logs]
        lines += [_join("witness", name, str(key), self.witness_urls.get(name)) for name, key in self.witnesses.items()]
        lines += [_join("group", name, str(group.threshold), *group.members) for name, group in self.groups.items()]
        return "".join([*lines, _join("quorum", self.quorum)]).encode("utf-8", "surrogateescape")

    def satisfied(self, names: Iterable[str]) -> bool:
        """Tell whether cosignatures of the witnesses of these names meet the quorum. Other names count for nothing."""
        met = {name for name in names if name in self.witnesses}
        for name, group in self.groups.items():
            if len(met.intersection(group.members)) >= group.threshold:
                met.add(name)
        return self.quorum == NONE or self.quorum in met

    def names_of(self, keys: Iterable[VerifierKey]) -> set[str]:
        """Give the policy's names of those of the keys that are its witnesses'."""
        by_key = {key: name for name, key in self.witnesses.items()}
        return {by_key[key] for key in keys if key in by_key}

    def quorum_description(self) -> str:
        """Say in one line what the quorum asks, such as "2 of (W1, W2, 1 of (W3, W4))"."""
        if self.quorum == NONE:
            return "no witness is asked for"
        described = {name: name for name in self.witnesses}
        for name, group in self.groups.items():
            described[name] = f"{group.threshold} of ({', '.join(described[member] for member in group.members)})"
        return described[self.quorum]

    def _read(self, items: Sequence[str], quorums: list[str]) -> None:
        match items:
            case ["log", vkey, *url] if len(url) <= 1:
                self._read_log(vkey, url)
            case ["witness", name, vkey, *url] if len(url) <= 1:
                self._read_witness(name, vkey, url)
            case ["group", name, threshold, *members]:
                self._read_group(name, threshold, members)
            case ["quorum", name]:
                if name != NONE:
                    self._check_defined(name)
                quorums.append(name)
            case _:
                raise FormatError(Code.POLICY, "not a log, witness, group or quorum line of the right number of items")

    def _read_log(self, vkey: str, url: Sequence[str]) -> None:
        key = _parse_key(vkey, _LOG_TYPES, self.logs)
        self.logs += (key,)
        self.log_urls.update((key, item) for item in url)

    def _read_witness(self, name: str, vkey: str, url: Sequence[str]) -> None:
        self._check_new(name)
        self.witnesses[name] = _parse_key(vkey, _WITNESS_TYPES, self.witnesses.values())
        self.witness_urls.update((name, item) for item in url)

    def _read_group(self, name: str, threshold: str, members: Sequence[str]) -> None:
        self._check_new(name)
        taken = {member for group in self.groups.values() for member in group.members}
        if len(set(members)) != len(members) or taken.intersection(members):
            raise FormatError(Code.POLICY, "a name is a member at most once in a policy")
        for member in members:
            self._check_defined(member)
        k = {"all": len(members), "any": 1}.get(threshold)
        k = parse_decimal(threshold) if k is None else k
        if not 1 <= k <= len(members):
            raise FormatError(Code.POLICY, "a group asks for at least one and at most all of its members")
        if len(self.groups) >= MAX_LINES_OF_A_KIND:
            raise FormatError(Code.POLICY, f"more than {MAX_LINES_OF_A_KIND} groups")
        self.groups[name] = Group(k, tuple(members))

    def _check_new(self, name: str) -> None:
        if name == NONE or name in self.witnesses or name in self.groups:
            raise FormatError(Code.POLICY, "a name that is taken")

    def _check_defined(self, name: str) -> None:
        if name not in self.witnesses and name not in self.groups:
            raise FormatError(Code.POLICY, "a name that no line above defines")


def _parse_key(vkey: str, types: frozenset[int], others: Iterable[VerifierKey]) -> VerifierKey:
    key = VerifierKey.parse(vkey)
    present = [other.public_key for other in others]
    if key.type not in types:
        raise FormatError(Code.POLICY, f"a key of type {key.type} does not belong in such a line")
    if key.public_key in present:
        raise FormatError(Code.POLICY, "a public key that a line above has")
    if len(present) >= MAX_LINES_OF_A_KIND:
        raise FormatError(Code.POLICY, f"more than {MAX_LINES_OF_A_KIND} lines of a kind")
    return key


def _lines(text: str | bytes) -> list[str]:
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise FormatError(Code.POLICY, "a policy holds no unpaired surrogate") from error
    if len(data) > MAX_POLICY_BYTES:
        raise FormatError(Code.POLICY, f"a policy has at most {MAX_POLICY_BYTES} bytes")
    if _FORBIDDEN.search(data):
        raise FormatError(Code.POLICY, "a policy holds no control character but tab and newline")
    if data and not data.endswith(b"\n"):
        raise FormatError(Code.POLICY, "the last line of a policy does not end in a newline")
    return data.decode("utf-8", "surrogateescape").split("\n")[:-1]


def _join(*items: str | None) -> str:
    return " ".join(item for item in items if item is not None) + "\n"
