"""deploy/Containerfile and compose.yaml: linted, held to the schema, and to what the service and the other files say.

No engine builds or runs them here; that what is copied is enough for the package is tried without one.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml

import beacon.cli
from beacon.settings import Settings
from beacon.web.application import build_web
from tests.deploy_support import DEPLOY, ROOT, run
from tests.outside_tools import need_check_jsonschema, need_hadolint

CONTAINERFILE = DEPLOY / "Containerfile"
TEXT = CONTAINERFILE.read_text()
COMPOSE = DEPLOY / "compose.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]
DEFAULTS = Settings.model_construct(origin="o.example")
HEALTH = f"http://127.0.0.1:{DEFAULTS.listen.port}/healthz"


def instruction(name):
    (found,) = re.findall(rf"(?m)^{name} ((?:.*\\\n)*.*)$", TEXT.rpartition("FROM ")[2])
    return found


def test_hadolint_has_nothing_against_the_containerfile(tmp_path):
    hadolint = need_hadolint()
    assert run(hadolint, CONTAINERFILE) == ""
    worse = tmp_path / "Containerfile"
    worse.write_text(TEXT.replace("USER 10001:10001", "USER root"))
    assert "DL3002" in run(hadolint, worse, code=1)


def test_the_image_is_nobodys_and_starts_the_service():
    assert instruction("USER") == SERVICES["beacon"]["user"] == "10001:10001"
    assert json.loads(instruction("ENTRYPOINT")) == ["beacon"]
    program, *words = json.loads(instruction("CMD"))[-3:]
    command = beacon.cli.main.commands[program]
    with command.make_context(program, words) as context:
        assert str(context.params["directory"]) == instruction("WORKDIR")
    assert instruction("EXPOSE") == str(DEFAULTS.listen.port)


@pytest.mark.parametrize(
    "test",
    [instruction("HEALTHCHECK").partition("CMD ")[2], json.dumps(SERVICES["beacon"]["healthcheck"]["test"][1:])],
    ids=["image", "compose"],
)
def test_the_health_check_asks_for_what_only_a_restart_helps_against(test):
    (*_, program) = json.loads(test)
    assert f"'{HEALTH}'" in program
    assert any(route.resource.canonical == "/healthz" for route in build_web(DEFAULTS).router.routes())


def test_what_is_copied_is_enough_for_the_package(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for line in re.findall(r"(?m)^COPY (?!--from)(.*)$", TEXT):
        *names, target = shlex.split(line)
        place = source / target.removeprefix("/source").strip("/")
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
            else:
                shutil.copy(ROOT / name, place)
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(words, cwd=source, check=True, capture_output=True, env=os.environ | {"FAIR_BEACON_NO_PAGE": "1"})
    (wheel,) = (source / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"beacon/cli.py", "verifier/cli.py", "verifier/chains/quicknet.json"} <= set(names)


def test_the_compose_file_is_one(tmp_path):
    check = need_check_jsonschema()
    run(check, "--builtin-schema", "vendor.compose-spec", COMPOSE)
    (tmp_path / "compose.yaml").write_text(COMPOSE.read_text().replace("cap_drop:", "capdrop:", 1))
    run(check, "--builtin-schema", "vendor.compose-spec", tmp_path / "compose.yaml", code=1)


@pytest.mark.parametrize("name", SERVICES)
def test_each_container_is_locked_up(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert ("cap_add" in service) == (name == "nginx")
    assert ("ports" in service) == (name == "beacon")
    assert name == "beacon" or service["network_mode"] == "service:beacon"
    assert "privileged" not in service


def test_the_containers_have_the_paths_of_the_other_files():
    nginx = (DEPLOY / "nginx" / "nginx.conf").read_text()
    targets = {volume.split(":")[1] for volume in SERVICES["nginx"]["volumes"]}
    for path in re.findall(r"(?:root|ssl_certificate|ssl_certificate_key|include) (/\S+);", nginx):
        assert any(path.startswith(target) for target in targets) or path == "/etc/nginx/mime.types", path
    for service in SERVICES.values():
        for volume in service["volumes"]:
            if volume.startswith("./"):
                assert (DEPLOY / volume.split(":")[0]).exists()
    stop = 1_000 * int(SERVICES["beacon"]["stop_grace_period"].removesuffix("s"))
    assert stop > 2 * DEFAULTS.listen.shutdown_ms


def test_what_the_timers_run_are_commands_of_the_program(tmp_path):
    (script,) = SERVICES["timers"]["command"]
    script = script.replace("$$", "$")
    lines = re.findall(r"(?m)^ *(?:\(umask 077; )?(beacon (?:(?! \|\||\)$).)+)", script)
    assert len(lines) == 4
    for line in lines:
        command, words = beacon.cli.main, shlex.split(line)[1:]
        while hasattr(command, "commands"):
            command = command.get_command(None, words.pop(0))
        with command.make_context("beacon", words):
            pass
    file = tmp_path / "script"
    file.write_text(script)
    run("sh", "-n", file)
