"""Every parser of what others write, as a function of bytes: for the properties of test_parsers and for tests/fuzz.

A parser gives a value or raises one of its own errors, whatever the bytes are. Where there is an encoder, `exact` ones
give the input back byte for byte; the others read the same again from what they wrote.
"""

import atexit
import base64
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.backup import manifest
from beacon.backup.manifest import BackupRefused
from beacon.errors import ApiError
from beacon.log import wire
from beacon.relay_urls import check_relay_url
from beacon.rounds.lines import LineRefused, encode_line, known, parse_line, read_lines
from beacon.rounds.refusals import Refusal
from beacon.rounds.relays import Relay
from beacon.rounds.spool import Spool
from beacon.settings import ConfigurationError, load_settings, read_key
from beacon.web.rates import parse_address
from beacon.web.requests import parse_model
from beacon.web.waits import parse_index
from beacon.webhooks.addresses import check_url
from beacon.witness.client import Result, judge
from beacon.witness.configured import load_policy
from tests import builder, witness_support
from tests.openapi_support import routes, the_document
from tests.round_support import DEFAULT, FASTNET, QUICKNET, at
from tests.test_encoding import BYTE_PARSERS, LOG, NOTE, POLICY, TEXT_PARSERS, WITNESS
from verifier import age, custody, drand, draws, entries, note, policy, receipts, timelock, transcript
from verifier.audit import forks, sessions
from verifier.bls import fast, reference, verify
from verifier.bls.groups import Group
from verifier.encoding import encode_json, parse_any_json, parse_document_json, parse_record_json
from verifier.errors import FormatError, VerifierError
from verifier.log_keys import LogKey, LogKeys
from verifier.systems import SYSTEMS
from verifier.tlog_witness import AddCheckpoint

VECTORS = Path(__file__).parent / "vectors"


@dataclass(frozen=True)
class Parser:
    """covers: names of functions, as `module:qualified.name`. examples: inputs that are taken, to begin from."""

    covers: tuple[str, ...]
    parse: Callable[[bytes], Any]
    examples: tuple[bytes, ...]
    encode: Callable[[Any], bytes] | None = None
    exact: bool = True
    errors: tuple[type[Exception], ...] = (VerifierError,)

    def holds(self, data):
        """Whether the parser does to these bytes what a parser may do."""
        try:
            parsed = self.parse(data)
        except self.errors:
            return True
        if self.encode is None:
            return True
        written = self.encode(parsed)
        return written == data if self.exact else self.parse(written) == parsed


def name_of(function):
    function = getattr(function, "__wrapped__", function)
    return f"{function.__module__}:{function.__qualname__}"


def text_of(data):
    """Bytes as the text of a field: any text at all, lone surrogates too."""
    return data.decode("utf-8", "surrogateescape")


def of_text(parse):
    return lambda data: parse(text_of(data))


def of_json(parse):
    return lambda data: parse(parse_record_json(data))


def bytes_of(text):
    return text.encode("utf-8", "surrogateescape")


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def read_json(name):
    return json.loads((VECTORS / name).read_text())


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_PLACE = Path(tempfile.mkdtemp(prefix="parsers-"))
atexit.register(shutil.rmtree, _PLACE, ignore_errors=True)


def of_file(parse, name):
    """A parser of a file, as one of bytes."""

    def read(data):
        path = _PLACE / name
        path.write_bytes(data)
        path.chmod(0o600)
        return parse(path)

    return read


def witness_answer(data):
    """What a witness's 200 is worth; never an exception."""
    answer = judge(data, "o.example\n0\n" + base64.b64encode(bytes(32)).decode() + "\n", WITNESS.vkey)
    return answer.result in {Result.COSIGNED, Result.INVALID}


def relay_answer(chain):
    """What a relay's body says of a round, after its JSON."""
    relay = Relay("http://relay.example", None, at(72_800))

    def read(data):
        try:
            return relay._read_round(chain, 72_800, parse_document_json(data))
        except Refusal as error:
            raise FormatError("json", error.detail) from error

    return read


CHAINS = [compact(QUICKNET.as_dict()), compact(DEFAULT.as_dict())]
RELAYS = [compact(chain[form]) for chain in read_json("drand-chains.json")["chains"][:2] for form in ("v1", "v2")]
ROUNDS = [compact(one) for one in read_json("drand-rounds.json")["rounds"][:3]]
PROTOCOL = read_json("protocol.json")
ENTRIES = [text.encode() for text in PROTOCOL["entries"]["accepted"]]
DOCUMENTS = [builder.data(builder.raffle().reveal(20).document()), builder.data(builder.match().reveal(135).document())]
RECIPES = [
    b'{"kind":"dice","count":2,"sides":6,"reroll_ties":true}', b'{"kind":"integers","min":-3,"max":9,"count":2}',
    b'{"kind":"shuffle","size":52}', b'{"kind":"sample","size":500,"count":3}', b'{"kind":"deal","size":52,"count":5}',
    b'{"kind":"weighted","weights":[1,2],"count":1}', b'{"kind":"bytes","count":32}',
]  # fmt: skip
LINES = [b'{"chain":"%s","round":5,"signature":"%s"}\n' % (QUICKNET.hash.hex().encode(), b"ab" * 48)]
TREE = witness_support.Tree()
TREES_FORK = forks.Fork(
    transcript.SignedCheckpoint.parse(TREE.note(2)), transcript.SignedCheckpoint.parse(TREE.note(3)), bytes(32), []
)
LOCKS = tuple(
    base64.b64decode(one["age_file_base64"])
    for one in read_json("drand-tlock.json")["tlock"]
    if one["chain_hash"] == FASTNET.hash.hex()
)
SETTINGS = b"""origin = "o.example"
[listen]
port = 0
trusted_proxies = "127.0.0.1"
[[chains]]
name = "quicknet"
relays = ["https://api.drand.sh"]
"""


def bodies():
    """(model, example) of each body that the API takes."""
    for method, path, operation in routes():
        if operation.body:
            content = the_document()["paths"][path][method]["requestBody"]["content"]["application/json"]
            yield operation.body, compact(content["example"])


PARSERS = {
    **{
        f"text: {name}": Parser(
            (name_of(parse),),
            of_text(parse),
            tuple(map(bytes_of, examples)),
            lambda value, encode=encode: bytes_of(encode(value)),
        )
        for name, (parse, encode, examples) in TEXT_PARSERS.items()
    },
    **{
        f"bytes: {name}": Parser((name_of(parse),), parse, tuple(examples), encode)
        for name, (parse, encode, examples) in BYTE_PARSERS.items()
    },
    "document": Parser(
        (name_of(parse_document_json),), parse_document_json, (b'{"a" : [1, "\\n", {}]}',), encode_json, exact=False
    ),
    "record": Parser(
        (name_of(parse_record_json),),
        parse_record_json,
        (b'["\\u0000", -1]', b"null"),
        lambda v: encode_json([v])[1:-1],
        exact=False,
    ),
    "any JSON": Parser(
        (name_of(parse_any_json),), parse_any_json, (b'{"a":[1.5,"\\u0000",null]}', b"[" * 30 + b"]" * 30)
    ),
    "entry": Parser((name_of(entries.parse_entry),), entries.parse_entry, tuple(ENTRIES), entries.encode_entry),
    "entry of the log": Parser((name_of(wire.parse),), wire.parse, tuple(ENTRIES), entries.encode_entry),
    "info of an entry": Parser((name_of(entries.parse_info),), of_json(entries.parse_info), tuple(CHAINS)),
    "recipe": Parser(
        (name_of(draws.parse_recipe),),
        of_json(draws.parse_recipe),
        tuple(RECIPES),
        lambda v: encode_json(draws.encode_recipe(v)),
        exact=False,
    ),
    "scheme": Parser((name_of(drand.parse_scheme),), of_text(drand.parse_scheme), (b"bls-unchained-g1-rfc9380",)),
    "chain": Parser((name_of(drand.parse_chain_info),), of_json(drand.parse_chain_info), tuple(CHAINS)),
    "pinned chain": Parser((name_of(drand.parse_pinned_chain),), of_json(drand.parse_pinned_chain), tuple(CHAINS)),
    "relay's info": Parser((name_of(drand.parse_relay_info),), of_json(drand.parse_relay_info), tuple(RELAYS)),
    "any info": Parser((name_of(drand.parse_any_info),), of_json(drand.parse_any_info), (*CHAINS, *RELAYS)),
    "transcript": Parser((name_of(transcript.parse_transcript),), transcript.parse_transcript, tuple(DOCUMENTS)),
    "service's answer": Parser((name_of(receipts.parse_document),), receipts.parse_document, tuple(DOCUMENTS)),
    "signed checkpoint": Parser(
        (name_of(transcript.SignedCheckpoint.parse),),
        of_text(transcript.SignedCheckpoint.parse),
        (TREE.note(3).encode(),),
        lambda signed: signed.note.encode().encode(),
    ),
    "fork": Parser(
        (name_of(forks.Fork.parse),), forks.Fork.parse, (TREES_FORK.encode(),), lambda fork: fork.encode(), exact=False
    ),
    "age": Parser((name_of(age.parse_age),), age.parse_age, LOCKS, lambda file: file.encode()),
    "timelock": Parser(
        (name_of(timelock.parse_timelock), name_of(custody.parse_lock)),
        lambda data: timelock.parse_timelock(data, FASTNET),
        LOCKS,
        lambda found: found.data,
    ),
    "a log's keys": Parser(
        (name_of(LogKeys.parse), name_of(LogKey.parse)),
        of_text(LogKeys.parse),
        (f"{LOG.vkey} 1-17\n{LOG.vkey} 18-\n".encode(), str(LOG.vkey).encode()),
        lambda keys: bytes_of(str(keys)),
        exact=False,
    ),
    "entry of an audit": Parser((name_of(sessions.parse),), sessions.parse, tuple(ENTRIES), entries.encode_entry),
    "policy": Parser(
        (name_of(policy.Policy.parse),),
        of_text(policy.Policy.parse),
        (POLICY.encode(),),
        lambda found: found.encode(),
        exact=False,
    ),
    "policy's file": Parser(
        (name_of(load_policy),),
        of_file(lambda path: load_policy(path, LOG.vkey), "witnesses.policy"),
        (witness_support.policy_of("https://w.example").encode(),),
        errors=(ConfigurationError,),
    ),
    "cosignature": Parser((name_of(note.parse_cosignature),), note.parse_cosignature, (bytes(72),)),
    **{
        f"point: {backend.NAME} {group}": Parser(
            (name_of(backend.decode_point), name_of(verify.decode_key)),
            lambda data, b=backend, g=group: b.decode_point(g, data),
            (bytes(48), bytes(96)),
            lambda point, b=backend, g=group: b.encode_point(g, point) if hasattr(b, "encode_point") else None,
            exact=hasattr(backend, "encode_point"),
        )
        for backend in (reference, fast)
        for group in sorted(backend.GROUPS)
        if group is not Group.BN254_G1
    },
    **{f"system: {system.name}": Parser((), system.replay, (system.example.encode(),)) for system in SYSTEMS.values()},
    "add-checkpoint": Parser((name_of(AddCheckpoint.parse),), AddCheckpoint.parse, (as_bytes(TREE.request(2, 3)),)),
    "witness's answer": Parser(
        (), witness_answer, (WITNESS.cosign(NOTE.partition("\n\n")[0] + "\n", 1).encode(),), errors=()
    ),
    "relay's round": Parser((), relay_answer(QUICKNET), tuple(ROUNDS)),
    "relay's chained round": Parser((), relay_answer(DEFAULT), tuple(ROUNDS)),
    "line of rounds": Parser(
        (name_of(parse_line),),
        lambda data: parse_line(data, known([QUICKNET, DEFAULT])),
        tuple(LINES),
        lambda found: encode_line(*found),
        exact=False,
        errors=(LineRefused,),
    ),
    "file of rounds": Parser(
        (name_of(read_lines),),
        lambda data: list(read_lines(io.BytesIO(data), known([QUICKNET]))),
        tuple(LINES),
        errors=(LineRefused,),
    ),
    "spool": Parser(
        (name_of(Spool.read),),
        of_file(lambda path: Spool(_PLACE).read(path, QUICKNET), "x.jsonl"),
        tuple(LINES),
        errors=(LineRefused,),
    ),
    "settings": Parser(
        (name_of(load_settings),), of_file(load_settings, "beacon.toml"), (SETTINGS,), errors=(ConfigurationError,)
    ),
    "key file": Parser(
        (name_of(read_key),),
        of_file(read_key, "log.key"),
        (b"ab" * 32 + b"\n", b"ab" * 32),
        errors=(ConfigurationError,),
    ),
    "manifest": Parser(
        (name_of(manifest.read),),
        of_file(lambda path: manifest.read(path.parent), manifest.NAME),
        (b'{"format":"fair-beacon/backup/v1","files":[]}',),
        errors=(BackupRefused,),
    ),
    "relay's URL": Parser(
        (name_of(check_relay_url),),
        of_text(check_relay_url),
        (b"https://api.drand.sh:1/x",),
        bytes_of,
        errors=(ValueError,),
    ),
    "webhook's URL": Parser(
        (name_of(check_url),),
        of_text(lambda url: check_url(url, (), http=False)),
        (b"https://a.example:1/x?y",),
        bytes_of,
        errors=(ApiError,),
    ),
    "address": Parser(
        (name_of(parse_address),), of_text(parse_address), (b"127.0.0.1", b"::ffff:1.2.3.4", b"fe80::1%1"), errors=()
    ),
    "index of a query": Parser(
        (name_of(parse_index),),
        of_text(lambda text: parse_index(text, "x")),
        (b"0", b"17"),
        lambda v: str(v).encode(),
        errors=(ApiError,),
    ),
    **{
        f"body: {model.__name__}": Parser(
            (name_of(parse_model),), lambda data, model=model: parse_model(data, model), (example,), errors=(ApiError,)
        )
        for model, example in bodies()
    },
}

ELSEWHERE = {
    "beacon.cli_rounds:parse_range": "an option of the command line, held by test_cli_rounds",
    "verifier.bls.verify:Backend.decode_point": "what both backends do",
    "verifier.standalone_tools:parse_json": "in verify.py, where any exception is a refusal: test_standalone",
    "verifier.standalone_tools:parse_entry": "in verify.py, where any exception is a refusal: test_standalone",
    "verifier.standalone_tools:decode_point": "in verify.py, where any exception is a refusal: test_standalone",
}
"""Parsers that are not here, and why."""
