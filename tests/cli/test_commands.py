"""What a transcript cannot show: bytes, broken streams, terminals, and what a command must not do."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from rich.style import Style

from tests.providers.fake import raw
from tests.waiting import SECONDS, until
from tokenbox import count
from tokenbox.cli import layout, main, streams, terminal
from tokenbox.ledger import Call
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.protocol import TokenizerIdentity

if TYPE_CHECKING:
    import asyncio

    from tests.cli.transcript import CommandLine

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tokenbox"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80", "TERM": "xterm-256color"}
ENVIRONMENT.pop("NO_COLOR", None)

DOCUMENT = (
    'budget = 40\ntokenizer = "utf8-bytes"\n[[sections]]\nid = "a"\ncontent = "one\\r\\ntwo\\n\\u2028"\n'
)
LINE = b'{"budget": 9, "tokenizer": "utf8-bytes", "sections": [{"id": "a", "content": "x"}]}\n'


def run(*arguments: str, folder: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, input=stdin, capture_output=True, check=False
    )


def on_terminal(*arguments: str, folder: Path, **environment: str) -> tuple[str, int]:
    """What a person sees in a terminal of 80 columns, and the exit status."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    return seen.decode().replace("\r\n", "\n"), process.wait()


@pytest.fixture
def document(tokenbox: CommandLine) -> Path:
    path = tokenbox.folder / "p.toml"
    path.write_text(DOCUMENT, encoding="utf-8")
    return path


# Bytes.


def test_text_is_emitted_byte_for_byte(document: Path) -> None:
    result = run("layout", "p.toml", folder=document.parent)
    assert (result.stdout, result.stderr, result.returncode) == ("one\r\ntwo\n\u2028".encode(), b"", 0)


@pytest.mark.usefixtures("document")
def test_output_file_has_the_same_bytes(tokenbox: CommandLine) -> None:
    assert tokenbox("layout", "p.toml", "-o", "out.txt").out == b""
    assert (tokenbox.folder / "out.txt").read_bytes() == tokenbox("layout", "p.toml").out
    assert sorted(path.name for path in tokenbox.folder.iterdir()) == ["out.txt", "p.toml"]


def test_standard_input_is_read_as_bytes(tokenbox: CommandLine) -> None:
    assert tokenbox("count", "-", "-t", "utf8-bytes", stdin=b"a\r\nb\n").out == b"5  -\n"


@pytest.mark.parametrize(("data", "byte"), [(b"\x89PNG\r\n", 0), (b"abc\xff", 3), (b"caf\xc3", 3)])
def test_a_file_that_is_not_text_is_named_with_its_byte(
    tokenbox: CommandLine, data: bytes, byte: int
) -> None:
    (tokenbox.folder / "bad.bin").write_bytes(data)
    (tokenbox.folder / "good.txt").write_bytes(b"good")
    result = tokenbox("count", "bad.bin", "good.txt", "-t", "utf8-bytes", "--json")
    first, second = json.loads(result.out)["files"]
    assert result.status == 2
    assert (first["error"]["code"], first["error"]["byte"]) == ("input_unreadable", byte)
    assert second == {"file": "good.txt", "tokens": 4}
    assert f"bad.bin is not UTF-8 text: byte {byte} is" in result.err


@pytest.mark.parametrize(
    ("value", "why"), [("9" * 5_000, "too many digits"), ("[" * 100_000, "is nested too deeply")]
)
def test_json_that_python_cannot_hold_is_named_so(tokenbox: CommandLine, value: str, why: str) -> None:
    (tokenbox.folder / "chat.json").write_text(f'[{{"role": "user", "content": "hi", "n": {value}')
    result = tokenbox("count", "chat.json", "--model", "gpt-4o")
    assert (result.status, why in result.err) == (0, True), result.err
    for words in ("tools chat.json", "cache chat.json", "enforce -m gpt-4o --messages chat.json"):
        result = tokenbox(*words.split())
        assert (result.status, why in result.err) == (2, True), result.err


@pytest.mark.parametrize(
    ("command", "most"),
    [
        ("layout p.toml --whatif 1,{}", 2**53 - 1),
        ("layout p.toml --whatif 1..{}", 2**53 - 1),
        ("enforce a.txt -m gpt-4o -t o200k_base --max-tokens {}", 2**53 - 1),
        ("config set policy.max_ctx {}", 10**12),
        ("enforce a.txt -m gpt-4o -t o200k_base --max-ctx {}", 10**12),
    ],
)
def test_a_number_that_is_too_large_is_told_the_largest(
    tokenbox: CommandLine, command: str, most: int
) -> None:
    (tokenbox.folder / "p.toml").write_text(DOCUMENT)
    (tokenbox.folder / "a.txt").write_text("hello")
    result = tokenbox(*command.format(2**65).split())
    assert (result.status, f"{most:,}" in result.err) == (2, True), result.err


@pytest.mark.parametrize(
    ("other", "status", "shown"),
    [
        (127_999, 4, "127,999 reserved"),
        (127_999.0, 2, "not 127999.0"),
        ("all", 2, "not 'all'"),
        (-1, 2, "not -1"),
    ],
)
def test_of_several_output_limits_of_a_request_the_largest_is_reserved_and_a_wrong_one_refused(
    tokenbox: CommandLine, other: object, status: int, shown: str
) -> None:
    limits = {"max_completion_tokens": 1, "max_tokens": other}
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], **limits}
    (tokenbox.folder / "request.json").write_text(json.dumps(request))
    result = tokenbox("enforce", "-t", "o200k_base", "--messages", "request.json")
    assert (result.status, shown in result.out.decode() + result.err) == (status, True), result


def test_a_file_name_that_is_not_utf8(tokenbox: CommandLine) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        (tokenbox.folder / name).write_text("x")
    except OSError:
        pytest.skip("this file system has no such names")
    assert tokenbox("count", name, "-t", "utf8-bytes").out == rb"1  caf\udce9.txt" + b"\n"
    assert json.loads(tokenbox("count", name, "-t", "utf8-bytes", "--json").out)["files"][0]["file"] == name


def test_too_large_is_refused(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BYTES", 10)
    result = tokenbox("count", "/dev/zero" if Path("/dev/zero").exists() else "-", stdin=b"0" * 11)
    assert (result.out, result.status) == (b"", 2)
    assert "more than 10 bytes" in result.err


# Streams that break.


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [["layout", "p.toml"], ["layout", "p.toml", "-o", "/dev/full"], ["lenses"], ["lenses", "--help"]],
)
def test_a_full_disk_is_reported(document: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [*COMMAND, *arguments], cwd=document.parent, env=ENVIRONMENT, stdout=full, stderr=-1, check=False
        )
    assert result.returncode == 2
    assert re.fullmatch(
        rb"error: .* cannot be written: No space left on device. \(output_failed\)\n", result.stderr
    )


def test_a_failed_write_leaves_the_old_file(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tokenbox.folder / "out.txt"
    target.write_bytes(b"old")
    target.chmod(0o640)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(streams.OutputFailed, match="No space left"):
            streams.write_file(str(target), b"new")
    assert target.read_bytes() == b"old"
    assert list(tokenbox.folder.iterdir()) == [target]
    streams.write_file(str(target), b"new")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o640)


def test_a_link_to_the_output_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").write_bytes(b"old")
    streams.write_file(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "layout", "--jsonl"], cwd=tmp_path, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(LINE)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["text"] == "x"
    process.stdout.close()
    try:
        process.stdin.write(LINE * 3)
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert (process.stderr.read(), process.wait()) == (b"", 0)
    process.stderr.close()


def test_interrupted(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "layout", "--jsonl"], cwd=tmp_path, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(LINE)
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (out, err, process.returncode) == (b"", b"", 130)


@pytest.mark.parametrize(
    ("closed", "arguments", "status", "said"),
    [
        (
            ">&-",
            "layout p.toml",
            2,
            "error: standard output is closed, so nothing was done. (output_failed)\n",
        ),
        ("<&-", "count -", 2, "error: standard input is closed. (input_unreadable)\n"),
        ("<&-", "layout --jsonl", 2, "error: standard input is closed. (input_unreadable)\n"),
        ("2>&-", "layout p.toml --budget 1", 3, ""),
    ],
)
def test_closed_streams(document: Path, closed: str, arguments: str, status: int, said: str) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m tokenbox {arguments} {closed}', sys.executable],
        cwd=document.parent,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert (result.stdout, result.stderr.decode(), result.returncode) == (b"", said, status)


def test_help_that_nobody_reads(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*COMMAND, "--help"], cwd=tmp_path, env=ENVIRONMENT, stdout=writer, stderr=-1, check=False
    )
    os.close(writer)
    assert (result.stderr, result.returncode) == (b"", 0)


# JSON lines.


def test_each_line_is_answered_at_once(tmp_path: Path) -> None:
    """The answer comes while the input is still open."""
    process = subprocess.Popen(
        [*COMMAND, "layout", "--jsonl"], cwd=tmp_path, env=ENVIRONMENT, stdin=-1, stdout=-1, stderr=-1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdin.write(LINE)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["total"] == 1
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


def test_bytes_that_are_no_text_cost_one_line(tokenbox: CommandLine) -> None:
    result = tokenbox("layout", "--jsonl", stdin=b'{"x": "\xff"}\n' + LINE + b"\x00\n" + LINE.rstrip(b"\n"))
    first, second, third, fourth = map(json.loads, result.out.splitlines())
    assert (first["error"]["code"], first["error"]["byte"], first["error"]["line"]) == (
        "document_file_encoding",
        7,
        1,
    )
    assert (second["text"], fourth["text"]) == ("x", "x")
    assert third["error"]["code"] == "document_syntax"
    assert (result.err, result.status) == ("", 0)


def test_a_huge_line_costs_one_answer(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BYTES", 100)
    for length in (101, 102, 202, 1000):
        result = tokenbox("layout", "--jsonl", stdin=b"0" * length + b"\n" + LINE)
        first, second = map(json.loads, result.out.splitlines())
        assert (first["error"]["code"], first["error"]["line"]) == ("document_file_too_large", 1)
        assert second["text"] == "x"


def test_a_bug_costs_one_line_and_shows_in_the_status(
    tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = layout._answer  # noqa: SLF001  # no input is known that makes it fail

    def fail_once(line: bytes, number: int, choices: object, _: object) -> dict[str, object]:
        if number == 1:
            raise ZeroDivisionError("oops")
        return answer(line, number, choices, None)  # type: ignore[arg-type]

    monkeypatch.setattr(layout, "_answer", fail_once)
    result = tokenbox("layout", "--jsonl", stdin=LINE * 2)
    first, second = map(json.loads, result.out.splitlines())
    assert (first["error"]["code"], second["text"], result.status) == ("internal_error", "x", 1)


# Lists and schemas.


@pytest.mark.parametrize("which", ["layout", "result", "layout/1", "batch.summary/1"])
def test_schemas_are_schemas(tokenbox: CommandLine, which: str) -> None:
    result = tokenbox("schema", which)
    assert (result.err, result.status) == ("", 0)
    jsonschema.Draft202012Validator.check_schema(json.loads(result.out))


@pytest.mark.parametrize("words", ["fit -b 9 chat.json", "estimate -t utf8-bytes --messages chat.json"])
def test_a_message_without_a_role_is_reported_with_its_place(tokenbox: CommandLine, words: str) -> None:
    """The whole file was said to have no chat messages."""
    (tokenbox.folder / "chat.json").write_text('[{"role": "user", "content": "hi"}, {"content": "hi"}]')
    assert "messages[1]: a message has no role" in tokenbox(*words.split()).err


@pytest.mark.usefixtures("document")
def test_results_and_errors_fit_the_published_schema(tokenbox: CommandLine) -> None:
    schema = json.loads(tokenbox("schema", "result").out)
    for arguments in (["--json"], ["--json", "--budget", "1"], ["--json", "--tokenizer", "chars4"]):
        jsonschema.validate(json.loads(tokenbox("layout", "p.toml", *arguments).out), schema)


def test_every_tokenizer_is_listed(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        registry.TokenizerEntry(
            "sharp", "counts", TokenizerIdentity("sharp", "7", "abcdef0123456789", exact=True)
        ),
        registry.TokenizerEntry("rough", "guesses", TokenizerIdentity("rough", "1", "f" * 64, exact=False)),
        registry.TokenizerEntry("absent", "needs something", None),
    ]
    monkeypatch.setattr(registry, "available", lambda: entries)
    lines = tokenbox("tokenizers").out.decode().splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["sharp", "7", "exact", "abcdef012345", "counts"],
        ["rough", "1", "estimate", "f" * 12, "guesses"],
        ["absent", "-", "absent", "-", "needs", "something"],
    ]
    listed = json.loads(tokenbox("tokenizers", "--json").out)["tokenizers"]
    assert [entry["name"] for entry in listed] == ["sharp", "rough", "absent"]
    assert (listed[0]["identity"]["fingerprint"], listed[2]["identity"]) == ("abcdef0123456789", None)


def test_listing_tokenizers_loads_no_vocabulary() -> None:
    watch = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from tokenbox.cli import main\n"
        "assert main(['tokenizers']) == 0\n"
        "assert any('tokenbox' in path for path in opened), 'the watch sees nothing'\n"
        "print([path for path in opened if path.endswith(('.xz', '.model', '.tiktoken'))], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", watch], env=ENVIRONMENT, capture_output=True, check=False)
    assert (result.stderr, result.returncode) == (b"[]\n", 0)
    assert b"o200k_base" in result.stdout


def test_every_lens_is_listed(tokenbox: CommandLine) -> None:
    from tokenbox.content.lenses import lens_names

    listing = tokenbox("lenses").out.decode()
    names = lens_names()
    assert names
    assert [name for name in names if not re.search(rf"^{name}\b", listing, re.MULTILINE)] == []
    assert [lens["name"] for lens in json.loads(tokenbox("lenses", "--json").out)["lenses"]] == list(names)


# Start-up, terminals, encodings.


HEAVY = {"rich", "tiktoken", "yaml", "jsonschema", "re2", "regex", "tree_sitter"}


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [(["--version"], set()), (["count", "-", "-t", "chars4"], set()), (["schema"], {"re2", "regex", "yaml"})],
)
def test_a_command_imports_only_what_it_needs(arguments: list[str], needed: set[str]) -> None:
    watch = (
        "import sys; from tokenbox.cli import main\n"
        f"assert main({arguments!r}) == 0\n"
        f"print(*sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", watch], env=ENVIRONMENT, input=b"", capture_output=True, check=False
    )
    assert result.returncode == 0
    assert set(result.stderr.decode().split()) <= needed


def test_a_terminal_has_colours_and_a_pipe_has_none(document: Path) -> None:
    seen, status = on_terminal("layout", "p.toml", "--explain", folder=document.parent)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert status == 0
    assert seen != plain
    assert plain == run("layout", "p.toml", "--explain", folder=document.parent).stdout.decode()
    without, _ = on_terminal("layout", "p.toml", "--explain", folder=document.parent, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", without)


@pytest.mark.parametrize("background", [0.0, 1.0], ids=["black", "white"])
def test_colours_can_be_read_on_a_dark_and_on_a_light_terminal(background: float) -> None:
    """The contrast is that of WCAG 2, in which 3 is the least for figures."""

    def light(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)

    colours = [Style.parse(text).color for text in terminal.COLOURS.values()]
    for colour in filter(None, colours):
        red, green, blue = map(light, colour.get_truecolor())
        shown = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        dark, bright = sorted((shown, background))
        assert (bright + 0.05) / (dark + 0.05) >= 3, colour


def test_a_terminal_that_takes_no_colours_gets_none(tmp_path: Path) -> None:
    for without in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("--help", folder=tmp_path, **without)[0]
    assert "\x1b[1mStart here:" in on_terminal("--help", folder=tmp_path, NO_COLOR="")[0]


def test_a_table_that_is_too_wide_for_a_terminal_becomes_blocks(tmp_path: Path) -> None:
    seen, _ = on_terminal("tokenizers", folder=tmp_path, COLUMNS="30", TERM="dumb")
    assert seen.startswith(
        "o200k_base\n  version      1\n  kind         exact\n  fingerprint  9550516e60fa\n"
        "  what it is   GPT-4o and\n               later; in the\n               package\ncl100k_base\n"
    )
    assert max(map(len, seen.splitlines())) <= 30


def test_a_table_that_would_split_the_names_of_most_rows_becomes_blocks(tmp_path: Path) -> None:
    narrow, _ = on_terminal("models", "gpt-4o", folder=tmp_path, COLUMNS="80", TERM="dumb")
    assert "\ngpt-4o-mini-search-preview\n  window " in narrow
    wide, _ = on_terminal("models", "gpt-4o", folder=tmp_path, COLUMNS="120", TERM="dumb")
    assert "\ngpt-4o-mini-search-preview " in wide
    assert "\n  window " not in wide


def test_help_is_the_same_plain_text_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    seen, _ = on_terminal("pack", "--help", folder=tmp_path, COLUMNS="80")
    assert seen.encode() == run("pack", "--help", folder=tmp_path).stdout
    widest, _ = on_terminal("pack", "--help", folder=tmp_path, COLUMNS="200")
    assert max(map(len, widest.splitlines())) <= 100  # a longer line is hard to read


@pytest.mark.parametrize(
    ("model", "about"),
    [
        ("mistral-large-latest", "(estimate). With the model's vocabulary it is exact: --tokenizer file:"),
        ("claude-sonnet-4-5", "(estimate): claude-sonnet-4-5 has no public vocabulary"),
        ("gpt-4o", "(exact)\n"),
    ],
)
def test_a_terminal_says_how_an_estimate_becomes_exact(model: str, about: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two")
    seen, _ = on_terminal("count", "a.txt", "--model", model, folder=tmp_path, TERM="dumb")
    assert about in seen


def test_on_a_terminal_the_text_is_still_only_the_text(document: Path) -> None:
    seen, _ = on_terminal("layout", "p.toml", folder=document.parent)
    assert seen == "one\r\ntwo\n\u2028"


def test_a_terminal_shows_what_does_not_fit(document: Path) -> None:
    seen, status = on_terminal("layout", "p.toml", "--budget", "5", folder=document.parent, NO_COLOR="1")
    assert status == 3
    seen = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert re.search(r"^a +12 +█+$", seen, re.MULTILINE)
    assert re.search(r"^budget +5 +░+$", seen, re.MULTILINE)
    assert "(context_critical_overflow)" in seen


@pytest.mark.parametrize(("arguments", "status"), [(["config"], 0), (["count", "nothere"], 2)])
def test_a_reader_of_the_errors_that_is_gone_changes_no_status(
    tmp_path: Path, arguments: list[str], status: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": ENVIRONMENT["PYTHONPATH"]},  # no PYTHONUNBUFFERED
            stdout=subprocess.DEVNULL,
            stderr=gone,
            check=False,
        )
    assert done.returncode == status


def test_an_encoding_without_the_drawing_characters(tokenbox: CommandLine, document: Path) -> None:
    document.write_text(DOCUMENT.replace('"a"', '"né"'), encoding="utf-8")
    result = tokenbox("layout", "p.toml", "--explain", encoding="ascii")
    assert result.status == 0
    assert rb"* n\xe9" in result.out
    assert b"|####" in result.out
    # The text itself is UTF-8, whatever the terminal.
    assert tokenbox("layout", "p.toml", encoding="ascii").out == "one\r\ntwo\n\u2028".encode()


def test_json_has_nothing_that_a_terminal_obeys(tokenbox: CommandLine) -> None:
    text = "\x1b[31m \x9b31m \x7f \u202e \u2066 é \U0001f600"
    asked = json.dumps([{"role": "user", "content": text}]).encode()
    out = tokenbox("fit", "-", "--budget", "99", "--model", "gpt-4o", stdin=asked).out.decode()
    assert json.loads(out)[0]["content"] == text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", out)
    assert "é \U0001f600" in out


def test_control_characters_do_not_reach_the_terminal(tokenbox: CommandLine) -> None:
    line = b'{"sections": [{"id": "a\\u001b[2J\\n\\u202e", "content": "x"}], "tokenizer": "utf8-bytes"}'
    result = tokenbox("layout", "-", "--format", "json", "--budget", "9", "--explain", stdin=line)
    assert result.out.decode().count(r"a\x1b[2J\n\u202e") == 1
    error = tokenbox("layout", "-", "--format", "json", "--budget", "0", stdin=line)
    assert error.status == 3
    assert not re.search(r"[^\n -~]", error.err)


def test_progress_is_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 0.0)
    with terminal.progress("counting", 2) as advance:
        advance()
    assert capsys.readouterr().err == ""


def test_progress_leaves_the_cursor_visible_so_that_a_kill_does_not_lose_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.progress("counting", 2):
        until(lambda: "\x1b[?25h" in seen.getvalue())
        assert "counting" in seen.getvalue()
        assert seen.getvalue().rfind("\x1b[?25h") > seen.getvalue().rfind("\x1b[?25l")


def test_an_option_that_may_name_code_in_a_deleted_folder(tmp_path: Path) -> None:
    """Code may be in the current folder, which is found before the command runs."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {' '.join(COMMAND)} count -t o200k_base {ROOT / 'LICENSE'}"
    result = subprocess.run(["sh", "-c", script], env=ENVIRONMENT, capture_output=True, check=False)
    assert result.returncode == 2
    assert result.stderr == (
        b"error: the current folder was deleted. Go to one that exists: cd ~ (input_unreadable)\n"
    )


def test_a_small_file_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of the largest size allocates it, which fails in a process of less memory."""

    class Blocks(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(-1 if size is None else size)
            return super().read(size)

    asked: list[int] = []
    text = b"one two\n" * 200_000
    monkeypatch.setattr(streams, "standard_input", lambda: Blocks(text))
    assert streams.read_bytes("-") == text
    assert asked == [1 << 20, 1 << 20]  # the second one ends short: nothing is read after the end


def test_standard_input_that_does_not_block_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with open(reader, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert streams.standard_input() is stdin.buffer
        assert os.get_blocking(reader)  # so that a read waits for the rest, and is not cut short without it

        def write_later() -> None:
            with open(writer, "wb") as rest:
                rest.write(b"two")

        os.write(writer, b"one ")
        later = threading.Thread(target=write_later)
        later.start()
        assert streams.read_bytes("-") == b"one two"
        later.join()


def test_too_little_memory_is_no_bug(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr(registry, "available", fail)
    result = tokenbox("tokenizers")
    assert (result.status, result.out) == (2, b"")
    assert result.err == (
        "error: the command needs more memory than this process may use. Give it more: ulimit -v unlimited "
        "(input_unreadable)\n"
    )


def test_a_bug_is_called_one(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(registry, "available", fail)
    result = tokenbox("tokenizers", "--json")
    assert result.status == 1
    assert json.loads(result.out)["error"]["code"] == "internal_error"
    assert result.err.startswith("error: ZeroDivisionError: oops (internal_error)\nThis is a bug in tokenbox")


@pytest.mark.slow
def test_a_pack_is_the_same_with_remembered_counts_and_loads_no_vocabulary(
    tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenbox.tokenizers.bpe import baseline

    (tokenbox.folder / "p").mkdir()
    for n in range(30):
        (tokenbox.folder / "p" / f"f{n}.py").write_text(f"def f{n}():\n    return {n}\n" * 40)
    fresh = baseline("o200k_base")
    monkeypatch.setattr("tokenbox.tokenizers.registry.get", lambda *_, **__: fresh)
    commands = [("pack", "p"), ("pack", "p", "-b", "900", "--explain"), ("pack", "p", "--tree")]
    expected = [tokenbox(*command, "--no-cache") for command in commands]
    first = [tokenbox(*command) for command in commands]
    unloaded = baseline("o200k_base")
    monkeypatch.setattr("tokenbox.tokenizers.registry.get", lambda *_, **__: unloaded)
    again = [tokenbox(*command) for command in commands]
    assert expected == first == again
    monkeypatch.setattr(unloaded, "count_batch", lambda _: pytest.fail("counted again"))
    assert tokenbox("pack", "p", "--tree") == expected[2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [("tokenbox pa", "pack"), ("tokenbox gateway us", "users"), ("tokenbox count --mo", "--model")],
)
def test_a_shell_gets_completions(line: str, expected: str, tmp_path: Path) -> None:
    request = {
        "_TOKENBOX_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tokenbox"],
        cwd=tmp_path,
        env=ENVIRONMENT | request,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == [expected]


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        (["--version"], set()),
        (["count", "--help"], {"count"}),
        (["lenses"], {"lenses"}),
        (["--help"], set()),
        (["pakc"], {"count", "pack", "lcp", "gateway", "shell"}),
    ],
)
def test_a_command_loads_no_other_commands(arguments: list[str], loaded: set[str], tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from tokenbox.cli.app import COMMANDS, run\n"
        "run(sys.argv[1:])\n"
        "print('loaded', *[name for name in COMMANDS if f'tokenbox.cli.{name}' in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = set(ran.stdout.splitlines()[-1].split()[1:])
    assert loaded <= found
    assert len(loaded) > 1 or found == loaded


@pytest.mark.parametrize(
    "arguments", [("serve", "--upstream", "http://127.0.0.1:9"), ("gateway", "check")], ids=" ".join
)
def test_the_gateway_says_which_extra_it_needs(
    arguments: tuple[str, ...], tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenbox.gateway.run", None)
    monkeypatch.delitem(sys.modules, "tokenbox.gateway.run")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = tokenbox(*arguments)
    assert said.status == 2
    assert said.err == (
        "error: the gateway needs an optional package. "
        "Run: pip install 'tokenbox-llm[gateway]' (missing_extra)\n"
    )


@pytest.mark.parametrize("group", ["lcp", "proof", "gateway"])
def test_a_group_without_a_command_shows_its_help(group: str, tokenbox: CommandLine) -> None:
    bare, asked = tokenbox(group), tokenbox(group, "--help")
    assert bare == asked
    assert (bare.status, bare.out[:6], bare.err) == (0, b"Usage:", "")
    summaries = b" ".join(bare.out.split(b"Commands:\n")[1].split())
    assert summaries.count(b"`") % 2 == 0  # no summary ends inside a command that it names


def test_interrupted_while_it_loads(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'tokenbox.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from tokenbox.cli import main\n"
        "sys.exit(main(['--version']))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")


def test_interrupted_while_a_class_is_made(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 raises a RuntimeError for what a descriptor of the class raises."""

    def interrupted() -> object:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr(registry, "available", interrupted)
    result = tokenbox("tokenizers")
    assert (result.status, result.out, result.err) == (130, b"", "")


@pytest.mark.parametrize(
    "command",
    ["count", "layout", "pack", "inspect", "proof verify", "proof show", "proof replay", "lcp render"],
)
def test_a_name_longer_than_names_may_be(tokenbox: CommandLine, command: str) -> None:
    result = tokenbox(*command.split(), "n" * 5_000)
    assert result.status == 2
    assert "Traceback" not in result.err


def test_on_a_terminal_a_message_begins_on_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    ours, theirs = pty.openpty()
    subprocess.run(
        [*COMMAND, "pack", "a.txt"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        check=True,
    )
    os.close(theirs)
    shown = b""
    while b"</context>\r\n" not in shown:  # it comes in pieces; at its end, an error
        shown += os.read(ours, 10_000)
    os.close(ours)


@pytest.mark.slow
def test_ctrl_c_ends_the_mcp_server_while_its_client_is_silent(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with subprocess.Popen(
        [*COMMAND, "mcp"], cwd=tmp_path, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) == 130


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 503 No\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"checks":[]}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"checks":{"a":true}}',
    ],
)
def test_another_server_is_not_taken_for_a_gateway(tokenbox: CommandLine, answer: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    with raw(talk) as server:
        result = tokenbox("gateway", "status", server.url)
    assert result.status == 2
    assert "Start one: tokenbox serve" in result.err


def test_a_shell_without_standard_input_says_so(tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "shell", "--no-save"]
    ours = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("TOKENBOX_TEST_")}
    result = subprocess.run(closed, cwd=tmp_path, env=ours, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (2, b"error: standard input is closed. (input_unreadable)\n")


def test_the_users_own_file_is_named_by_its_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "home" / "config.toml"
    monkeypatch.setenv("TOKENBOX_USER_CONFIG", str(own))
    monkeypatch.chdir(tmp_path)
    assert main(["config", "set", "--user", "policy.headroom", "0.05"]) == 0
    assert capsys.readouterr().err.startswith(f"set in {own}\n")


def test_a_setting_that_a_variable_overrides_is_noted(
    tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENBOX_MODEL", "theirs")
    result = tokenbox("config", "set", "model", "mine")
    assert result.err == (
        "set in .tokenbox/config.toml\nnote: the environment, TOKENBOX_MODEL overrides it.\n"
    )
    assert result.status == 0


@pytest.mark.parametrize("options", [(), ("-m", "gpt-4o"), ("-t", "gpt-4o"), ("-m", "of-nobody")])
def test_the_messages_of_a_layout_are_within_its_budget(tokenbox: CommandLine, options: list[str]) -> None:
    """Counted as what is sent: the budget covers the markers of messages."""
    sections = [{"id": str(n), "role": "user", "content": "word " * 9, "shrink": 1} for n in range(40)]
    document = {"budget": 400, "tokenizer": "o200k_base", "sections": sections}
    (tokenbox.folder / "p.json").write_text(json.dumps(document))
    found = tokenbox("layout", "p.json", "--messages", *options)
    assert found.status == 0, found.err
    messages = json.loads(found.out)
    assert 150 < count(messages, "gpt-4o").total <= 400


def test_a_setting_that_a_project_may_not_decide_is_not_said_to_be_set_only(tokenbox: CommandLine) -> None:
    result = tokenbox("config", "set", "shell.allow", "ls")
    assert result.err == (
        "set in .tokenbox/config.toml\n"
        "warning: shell.allow is set in .tokenbox/config.toml:2, and a project's file may not allow "
        "commands. Set it for yourself: tokenbox config set --user shell.allow ...\n"
    )


def test_a_revoked_key_keeps_its_name(tokenbox: CommandLine) -> None:
    for command in ("create", "revoke"):
        assert tokenbox("gateway", "keys", command, "alice", "--database", "keys.db").status == 0
    again = tokenbox("gateway", "keys", "create", "alice", "--database", "keys.db")
    assert again.err == (
        "error: there is a key named 'alice' already, and a revoked key keeps its name. "
        "Choose another name. (gateway_key)\n"
    )


def test_a_line_of_json_ends_with_a_line_feed_only(tokenbox: CommandLine) -> None:
    """A text may have other line breaks, which JSON need not escape, and a file a byte order mark."""
    messages = [
        {"role": "user", "content": "one\u2028two\x85three"},
        {"role": "assistant", "content": "four"},
    ]
    requests = ({"model": "gpt-4o", "messages": messages[:number]} for number in (1, 2))
    lines = [json.dumps(request, ensure_ascii=False) for request in requests]
    result = tokenbox("cache", "-", stdin="\r\n".join(["\ufeff" + lines[0], lines[1]]).encode())
    assert result.status == 0, result.err
    assert b"request 2: extends the previous request" in result.out
    call = Call("id", datetime(2026, 11, 20, tzinfo=UTC), "a\u2028b")
    line = b"\xef\xbb\xbf" + streams.json_bytes(call.to_dict(), one_line=True)
    result = tokenbox("cost", "--import", "-", "--database", "calls.db", stdin=line)
    assert result.status == 0, result.err
    assert result.out.startswith(b"1 call read, 1 of them new")
