"""Commands run as in a shell: folder, environment and status carry over."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tests.waiting import until
from tokenbox.content.lenses.lines import ends_tokens
from tokenbox.shell.outputs import offer, readable
from tokenbox.shell.running import Ran, WorkingPlace, run, uninterrupted
from tokenbox.tokenizers import get

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = [found for name in ("bash", "dash", "zsh") if (found := shutil.which(name)) is not None]


class Shell:
    """Runs one command after the other, as the shell of a session does."""

    def __init__(self, folder: Path, shell: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.place = WorkingPlace(str(folder), {**kept, "SHELL": shell})
        self.shown = bytearray()

    def run(self, command: str) -> Ran:
        ran = run(command, self.place, self.shown.extend)
        self.place = ran.place
        return ran

    def __call__(self, command: str) -> str | None:
        return readable(self.run(command).output)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return Shell(tmp_path, request.param)


def test_the_folder_carries_over(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    shell("cd 'a b' && mkdir c; cd c")
    assert shell.place.folder == str(tmp_path / "a b" / "c")
    assert shell("pwd") == f"{tmp_path}/a b/c\n"
    shell("(cd /)")
    assert shell("cd - >/dev/null; pwd") == f"{tmp_path}/a b\n"


def test_a_ctrl_d_that_no_command_reads_is_not_typed_at_the_prompt(shell: Shell) -> None:
    keyboard, terminal = pty.openpty()
    os.write(keyboard, b"next\x04")
    ran = run("sleep 0.2", shell.place, shell.shown.extend, terminal)
    assert ran.typed == b"next"
    for descriptor in (keyboard, terminal):
        os.close(descriptor)


def test_exported_variables_carry_over(shell: Shell) -> None:
    shell("export A='one\ntwo' B=3")
    assert shell('printf "%s|" "$A" "$B"') == "one\ntwo|3|"
    assert shell("B=4 sh -c 'echo $B'; echo $B") == "4\n3\n"
    shell("unset A; c=5")
    assert shell('echo "[$A][$c]"') == "[][]\n"


def test_the_status_carries_over(shell: Shell) -> None:
    assert [shell.run(command).status for command in ("true", "false", "exit 7", "no-such-program")] == [
        0,
        1,
        7,
        127,
    ]
    shell("exit 7")
    assert shell("echo $?") == "7\n"
    assert shell.run("kill -9 $$").status == 128 + 9


def test_what_ends_the_shell_itself_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    shell("export KEPT=1")
    for command in ("exec true", "kill -9 $$", "if"):
        shell.run(f"cd /\n{command}") if command != "if" else shell.run(command)
        assert shell.place.folder == str(tmp_path)
        assert shell.place.variables["KEPT"] == "1"


def test_both_streams_are_shown_in_order_and_captured(shell: Shell) -> None:
    assert shell("echo one; echo two >&2; echo three") == "one\ntwo\nthree\n"
    assert bytes(shell.shown) == b"one\ntwo\nthree\n"


def test_a_command_has_no_input_and_cannot_wait_for_any(shell: Shell) -> None:
    assert shell("cat; echo done") == "done\n"


def test_what_is_left_running_is_not_waited_for(shell: Shell) -> None:
    said = shell("sleep 900 & echo $!")
    assert said is not None
    os.kill(int(said), signal.SIGKILL)  # it still runs


def test_the_environment_may_be_large_and_strange(shell: Shell) -> None:
    shell("export BIG=$(head -c 100000 /dev/zero | tr '\\0' x); export ODD='=a=b\"c$d`e'")
    assert len(shell.place.variables["BIG"]) == 100_000
    assert shell.place.variables["ODD"] == '=a=b"c$d`e'


def test_without_a_path_the_report_still_comes(shell: Shell) -> None:
    shell("export PATH=; cd /")
    assert (shell.place.folder, shell.place.variables["PATH"]) == ("/", "")


def test_a_folder_that_is_gone_is_said(shell: Shell, tmp_path: Path) -> None:
    shell("mkdir gone; cd gone; rmdir ../gone")
    ran = shell.run("pwd")
    assert (ran.status, readable(ran.output)) == (
        127,
        f"{tmp_path}/gone no longer exists: cd to another folder.\n",
    )
    shell.place = WorkingPlace(str(tmp_path), shell.place.variables)
    assert shell("pwd") == f"{tmp_path}\n"


def test_the_shell_of_the_user_is_used_only_if_it_is_a_posix_shell(tmp_path: Path) -> None:
    assert Shell(tmp_path, "/usr/bin/fish")("echo $0") == "tokenbox\n"
    assert Shell(tmp_path, "")("echo ok") == "ok\n"


def test_an_interrupt_goes_to_the_command(shell: Shell) -> None:
    def interrupt() -> None:
        until(lambda: b"ready" in shell.shown)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    ran = shell.run("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done")
    assert (ran.status, readable(ran.output)) == (5, "ready\ncaught\n")


def test_an_output_is_cut_in_the_middle_and_says_so(shell: Shell) -> None:
    o200k = get("o200k_base")
    made = offer(shell.run("seq 1 5000; exit 3"), 60, o200k, lambda text: text)
    assert made.cut
    assert o200k.count(ends_tokens("\n".join(map(str, range(1, 5001))), 60, o200k)) == made.kept <= 60
    first, last = made.text.split("\n")[:3], made.text.split("\n")[-3:]
    assert (first, last) == (["$ seq 1 5000; exit 3", "1", "2"], ["4999", "5000", "[exit status 3]"])
    assert "tokens left out" in made.text


def test_binary_and_empty_outputs_are_said(shell: Shell) -> None:
    count = get("chars4")
    assert offer(shell.run("head -c 100 /dev/zero"), 60, count, str).text == (
        "$ head -c 100 /dev/zero\n[100 bytes that are not text]"
    )
    assert offer(shell.run("true"), 60, count, str).text == "$ true\n[no output]"


def test_what_is_hidden_is_in_neither_command_nor_output(shell: Shell) -> None:
    made = offer(
        shell.run("echo secret-1234"), 60, get("chars4"), lambda text: text.replace("secret-1234", "***")
    )
    assert made.text == "$ echo ***\n***"


def test_a_second_ctrl_c_does_not_interrupt_a_short_step() -> None:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
