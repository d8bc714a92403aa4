"""`beacon backup` and `beacon restore`: a data directory as it is at one moment, and back again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from beacon.backup import making, restoring
from beacon.backup.manifest import BackupRefused, Progress
from beacon.cli_common import EPILOG, Refused, directory_option, errors, json_option, print_json
from beacon.clock import SystemClock
from beacon.printing import say
from beacon.settings import config_file, load_settings


@click.command(epilog=EPILOG)
@click.argument("target", type=click.Path(path_type=Path, file_okay=False), metavar="TARGET")
@directory_option
@click.option("--with-keys", is_flag=True, help="With log.key and master.key. Whoever has those can be this service.")
@click.option("--keep", type=click.IntRange(1), help="How many backups of this log stay; older ones are removed.")
@json_option
def backup(target: Path, directory: Path, with_keys: bool, keep: int | None, as_json: bool) -> None:
    """Back up the data directory into a new folder below TARGET, also while the service runs.

    The folder is named by the moment and holds both databases, settings, the public key, and manifest.json: sizes,
    hashes, the newest checkpoint, how far each witness had cosigned. It is read again before it gets its name, and is
    never overwritten; what goes wrong leaves nothing. Without --with-keys keep a copy of each key elsewhere, apart from
    the backups: without log.key the log has ended, and without master.key the seeds in private.db are lost.
    """
    with errors(), _refusals():
        settings = load_settings(directory)
        made = making.make(
            settings,
            config_file(directory),
            target,
            SystemClock(),
            keys=with_keys,
            keep=keep,
            progress=_progress(),
        )
    if as_json:
        extra = {"folder": str(made.folder), "removed": [str(path) for path in made.removed]}
        print_json(made.manifest.model_dump() | extra | {"left_out": [str(path) for path in made.left_out]})
        return
    found = made.manifest
    size = sum(one.bytes for one in found.files)
    say(f"{made.folder}: {found.size} entries, {found.open_sessions} open sessions, {size} bytes, read again")
    if found.seeds_missing:
        say(f"the seeds of {found.seeds_missing} open sessions are not in private.db: they were lost before")
    if found.master_key is None:
        say("NOT HERE: the master key that the seeds are under")
    if not with_keys:
        say("the keys are not in it: keep log.key and master.key elsewhere, apart from the backups")
    for path in made.left_out:
        say(f"NOT IN IT: {path}, which the settings name, and which is not beside them")
    for path in made.removed:
        say(f"removed {path}")


@click.command(epilog=EPILOG)
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="BACKUP")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--keys",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with log.key and master.key, where the backup has none.",
)
@click.option(
    "--mark",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The newest log.mark that there is, such as the one of the disk that failed.",
)
@json_option
def restore(source: Path, directory: Path, keys: Path | None, mark: Path | None, as_json: bool) -> None:
    """Make the data directory DIRECTORY of BACKUP, one folder that `beacon backup` made.

    DIRECTORY is empty or not there. Every file is checked against the manifest, both databases are looked over, and
    keys must be the right ones. A log that lacks what was acknowledged must never go on: so log.mark does not come back
    with a backup, and the service does not start until the newest one is there, or `beacon log mark` is told that
    nothing is missing. It asks the witnesses besides.
    """
    with errors(), _refusals():
        done = restoring.restore(source, directory, keys=keys, mark=mark, progress=_progress())
    missing, elsewhere = list(done.missing), None if done.elsewhere is None else str(done.elsewhere)
    if as_json:
        found = {"directory": str(done.directory), "size": done.manifest.size, "made": done.manifest.made}
        print_json(found | {"missing": missing, "marked": done.marked, "settings_elsewhere": elsewhere})
        return
    when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(done.manifest.made // 1000))
    say(f"{directory}: the log as it was at {when}, {done.manifest.size} entries")
    for name in missing:
        say(f"next: put {name} there, mode 0600")
    if elsewhere is not None:
        say(f"next: its settings call {elsewhere} the data directory; change data_dir, or move it there")
    if not done.marked:
        say(
            "next: put the newest log.mark there. Only if the service wrote nothing after this backup: "
            f"beacon log mark --dir {directory}"
        )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except BackupRefused as error:
        raise Refused(str(error)) from error


def _progress() -> Progress:
    """Says on standard error what is being done and how far: each second on a terminal, else each ten."""
    interval = 1.0 if sys.stderr.isatty() else 10.0
    shown = time.monotonic()

    def show(what: str, done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= interval:
            shown = time.monotonic()
            say(f"{what}: {100 * done // max(total, 1)} %", err=True)

    return show
