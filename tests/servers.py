"""A PostgreSQL server of a test's own, to be stopped, filled and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

DEBIAN = "/usr/lib/postgresql"


class Server:
    """One server on loopback; its data lie in a folder that may be small."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        if found is None:
            pytest.skip("no PostgreSQL server is installed")
        self._programs = found
        self._data = folder / "data"
        self._log = folder / "log"
        self._user = _user()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-A", "trust", "-U", "postgres", "--no-instructions")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self, *settings: str) -> None:
        options = [
            f"-p {self.port}",
            "-c listen_addresses=127.0.0.1",
            "-c unix_socket_directories=",
            *(f"-c {one}" for one in settings),
        ]
        log = ("-l", str(self._log))
        self._run("pg_ctl", "-w", *log, "-o", " ".join(options), "start")

    def stop(self) -> None:
        """End it as a power cut would: nothing is written any more."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def _run(self, program: str, *words: str) -> None:
        as_user: dict[str, int | list[int]] = {}
        if self._user is not None:
            as_user = {
                "user": self._user.pw_uid,
                "group": self._user.pw_gid,
                "extra_groups": [],
            }
        subprocess.run(
            [self._programs / program, "-D", self._data, *words],
            check=True,
            cwd=self._data.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_user,  # type: ignore[call-overload]
        )


def programs() -> Path | None:
    """The folder of the server's programs, if there is one."""
    found = shutil.which("pg_ctl")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path(DEBIAN).glob("*/bin"), reverse=True)
    return next((one for one in places if (one / "pg_ctl").exists()), None)


def _user() -> pwd.struct_passwd | None:
    """Whom the server is run as where we are root, which it refuses."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name: one for one in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]
