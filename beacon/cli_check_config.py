"""`beacon check-config`: what the settings are, where each comes from, and everything that is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from beacon.cli_common import json_option, print_json
from beacon.doctor.configuration import loaded
from beacon.doctor.finding import Level, as_dict, worst
from beacon.doctor.show import EPILOG, leave, show
from beacon.doctor.sources import stated
from beacon.printing import say


@click.command(epilog=EPILOG)
@click.option(
    "--config",
    "--dir",
    "-d",
    "directory",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default="the current directory's",
    help="The beacon.toml, or the data directory that holds it.",
)
@json_option
def main(directory: Path, as_json: bool) -> None:
    """Say what the settings are and where each comes from: the file, a variable of the environment, or the default.

    Then everything that is wrong with them, all at once: unknown keys and BEACON_* variables, values that cannot be,
    what contradicts each other, and what is no good for a service in production. It reads the settings and the files
    that they name, and nothing else; `beacon doctor` looks at the rest. Of relays' URLs the paths are left out, since
    they may hold access keys.
    """
    settings, findings = loaded(directory)
    values = [] if settings is None else stated(directory, settings)
    if as_json:
        rows = [{"key": one.key, "value": one.value, "source": one.source} for one in values]
        print_json(
            {
                "ok": worst(findings) is Level.OK,
                "level": worst(findings).value,
                "settings": rows,
                "findings": [as_dict(finding) for finding in findings],
            }
        )
    else:
        width = max((len(one.key) for one in values), default=0)
        for one in values:
            say(f"{one.key:<{width}}  {json.dumps(one.value, ensure_ascii=False)}  ({one.source})")
        show(findings)
    leave(findings)
