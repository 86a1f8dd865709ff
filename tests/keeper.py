"""Run a server until stdin is closed: ``python keeper.py FOLDER COMMAND ...``.

The server runs in FOLDER and, if this process is root, as the owner of FOLDER. When stdin is closed, the
server is stopped and FOLDER is removed. A kill of the parent process also closes stdin, so no server outlives
its tests. The exit status is the server's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

SECONDS = 20  # for a clean shutdown; then the server is killed


def start(folder: str, command: list[str]) -> subprocess.Popen[bytes]:
    if os.geteuid() != 0:
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
    owner = Path(folder).stat()
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        user=owner.st_uid,
        group=owner.st_gid,
        extra_groups=[],
    )


def end_with_input(server: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    server.send_signal(signal.SIGINT)  # PostgreSQL: shut down without waiting for clients
    try:
        server.wait(SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()


def main(folder: str, command: list[str]) -> int:
    server = start(folder, command)
    threading.Thread(target=end_with_input, args=(server,), daemon=True).start()
    status = server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
