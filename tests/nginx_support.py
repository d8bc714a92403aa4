"""deploy/nginx/nginx.conf as it is, but for its ports, paths and name, in a real nginx with a certificate of a moment."""

import asyncio
import contextlib
import re
import shutil
import socket
import ssl

from tests.deploy_support import DEPLOY, run
from tests.outside_tools import need_nginx, need_openssl

CONFIG = DEPLOY / "nginx" / "nginx.conf"
NAME = "beacon.example"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


def certificate(folder):
    """The files of a key and of a certificate for NAME that it signed itself."""
    key, cert = folder / "privkey.pem", folder / "fullchain.pem"
    run(need_openssl(), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
        "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},DNS:localhost", "-keyout", key, "-out", cert)  # fmt: skip
    return key, cert


def placed(folder, *, service, https, http, changes=()):
    """The configuration with everything that belongs to a machine put below `folder`; what it is then at."""
    key, cert = certificate(folder)
    for name in ("public", "acme", "temp"):
        (folder / name).mkdir()
    text = CONFIG.read_text()
    temporary = "".join(
        f"    {name}_temp_path {folder}/temp/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    moved = [
        ("user www-data;\n", "user root;\n"),
        ("worker_processes auto;", "worker_processes 1;"),
        ("/run/nginx.pid", folder / "nginx.pid"),
        ("/var/log/nginx/error.log", folder / "error.log"),
        ("/var/log/nginx/access.log", folder / "access.log"),
        ("/etc/letsencrypt/live/beacon.example/fullchain.pem", cert),
        ("/etc/letsencrypt/live/beacon.example/privkey.pem", key),
        ("/var/lib/beacon-public", folder / "public"),
        ("/var/www/acme", folder / "acme"),
        ("127.0.0.1:8080", f"127.0.0.1:{service}"),
        ("listen 443 ", f"listen 127.0.0.1:{https} "),
        ("listen 80 ", f"listen 127.0.0.1:{http} "),
        ("http {\n", f"http {{\n{temporary}"),
        *changes,
    ]
    for old, new in moved:
        assert old in text, old
        text = text.replace(old, str(new))
    text = re.sub(r"(?m)^ *listen \[::\]:.*\n", "", text)
    file = folder / "nginx.conf"
    file.write_text(text)
    return file, cert


@contextlib.asynccontextmanager
async def nginx(folder, *, service, changes=()):
    """nginx in front of the service's port while the block runs: its HTTPS and HTTP port, and a client's TLS context."""
    https, http = free_ports(2)
    file, cert = placed(folder, service=service, https=https, http=http, changes=changes)
    process = await asyncio.create_subprocess_exec(
        need_nginx(), "-e", folder / "error.log", "-g", "daemon off;", "-c", file
    )
    try:
        async with asyncio.timeout(30):
            while True:
                assert process.returncode is None, (folder / "error.log").read_text()
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", https)
                    writer.close()
                    await writer.wait_closed()
                    break
                await asyncio.sleep(0.05)
        yield https, http, ssl.create_default_context(cafile=str(cert))
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(folder / "temp", ignore_errors=True)
