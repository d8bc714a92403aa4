"""The examples of the OpenAPI document: `python -m tests.openapi_examples` records them anew from a real service."""

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path

from beacon.web.openapi_document import EXAMPLES
from tests.openapi_play import play
from tests.openapi_support import routes

RECEIVER = re.compile(r"http://127\.0\.0\.1:\d+[^\"]*")


def examples(calls, sent):
    """The first call of each operation that was answered well, and what a webhook was sent."""
    names = {(method, path): operation for method, path, operation in routes()}
    made = {"webhook": sent[0]}
    for call in calls:
        operation = names[call.method.lower(), call.template]
        if call.status not in operation.answers or call.value is None or "openapi" in call.value:
            continue
        kept = made.setdefault(operation.name, {"parameters": _parameters(call), "responses": {}})
        if str(call.status) not in kept["responses"]:
            kept["responses"][str(call.status)] = call.value
            if call.request is not None:
                kept.setdefault("request", call.request)
    return made


def _parameters(call):
    names = re.findall(r"{(\w+)}", call.template)
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(call.template))
    values = re.fullmatch(pattern, call.path.partition("?")[0]).groupdict()
    return {name: int(values[name]) if values[name].isdecimal() else values[name] for name in names}


def main():
    with tempfile.TemporaryDirectory() as folder:
        calls, sent = asyncio.run(play(Path(folder)))
    text = json.dumps(examples(calls, sent), ensure_ascii=False, indent=1, sort_keys=True)
    EXAMPLES.write_text(RECEIVER.sub("https://game.example/fair", text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
