"""The files of a document: which are read, how, and that nothing hangs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tokenbox.documents import FORMATS, DocumentCode, parse_document, parse_text, read_document
from tokenbox.documents.files import FileProblemError, NamedFiles, read_bytes
from tokenbox.errors import DocumentError

TEXTS = ["", "plain", "\ufeffwith a mark", "a\r\nb\rc\n", "\0\x1a", "e\u0301 \U0001f469\u200d\U0001f680"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the document, with something outside it."""
    (tmp_path / "outside.txt").write_text("outside")
    (tmp_path / "inside-not.txt").write_text("a name that begins as the folder's does")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "in.txt").write_text("in")
    return inside


def content(folder: Path, name: str, *, allow_outside: bool = False) -> str:
    data = {"sections": [{"id": "a", "content_file": name}]}
    return parse_document(data, base=folder, allow_outside=allow_outside).sections[0].content


def refused(folder: Path, name: str, *, allow_outside: bool = False) -> str:
    with pytest.raises(DocumentError) as caught:
        content(folder, name, allow_outside=allow_outside)
    assert caught.value.path == "sections[0].content_file"
    assert caught.value.details["name"] == name
    return caught.value.code


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_taken_byte_for_byte(folder: Path, text: str) -> None:
    (folder / "file").write_bytes(text.encode())
    assert content(folder, "file").encode() == text.encode()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_byte_order_mark_of_the_document_is_no_content(folder: Path, suffix: str) -> None:
    written = "sections = []" if suffix == ".toml" else '{"sections": []}'
    (folder / f"doc{suffix}").write_bytes(b"\xef\xbb\xbf" + written.encode())
    assert read_document(folder / f"doc{suffix}").sections == ()


@pytest.mark.parametrize("name", ["in.txt", "./in.txt", "x/../in.txt", "../inside/in.txt"])
def test_names_inside_the_folder(folder: Path, name: str) -> None:
    assert content(folder, name) == "in"


@pytest.mark.parametrize("name", ["../outside.txt", "../inside-not.txt", "../absent.txt", "..", "/"])
def test_names_outside_the_folder(folder: Path, name: str) -> None:
    assert refused(folder, name) == DocumentCode.FILE_OUTSIDE


def test_an_absolute_name_is_outside_unless_it_is_inside(folder: Path) -> None:
    assert refused(folder, str(folder.parent / "outside.txt")) == DocumentCode.FILE_OUTSIDE
    assert content(folder, str(folder / "in.txt")) == "in"


def test_a_link_is_where_it_leads(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "outside.txt")
    (folder / "up").symlink_to(folder.parent)
    (folder / "same").symlink_to(folder / "in.txt")
    assert refused(folder, "out") == DocumentCode.FILE_OUTSIDE
    assert refused(folder, "up/outside.txt") == DocumentCode.FILE_OUTSIDE
    assert content(folder, "same") == "in"


def test_outside_is_allowed_on_request(folder: Path) -> None:
    (folder / "out").symlink_to(folder.parent / "outside.txt")
    for name in ("../outside.txt", str(folder.parent / "outside.txt"), "out"):
        assert content(folder, name, allow_outside=True) == "outside"
    (folder / "doc.json").write_text('{"sections": [{"id": "a", "content_file": "../outside.txt"}]}')
    assert read_document(folder / "doc.json", allow_outside=True).sections[0].content == "outside"
    with pytest.raises(DocumentError, match="outside the document's folder"):
        read_document(folder / "doc.json")


def test_files_are_relative_to_the_document_wherever_we_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "doc.json").write_text('{"sections": [{"id": "a", "content_file": "in.txt"}]}')
    monkeypatch.chdir(folder.parent)
    assert read_document("inside/doc.json").sections[0].content == "in"
    monkeypatch.chdir(folder)
    assert read_document("doc.json").sections[0].content == "in"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("absent", DocumentCode.FILE_MISSING),
        ("in.txt/below", DocumentCode.FILE_MISSING),
        ("zero\0byte", DocumentCode.FILE_MISSING),
        ("~/in.txt", DocumentCode.FILE_MISSING),
        ("$HOME", DocumentCode.FILE_MISSING),
        (".", DocumentCode.FILE_UNREADABLE),
        ("n" * 5000, DocumentCode.FILE_UNREADABLE),
        ("", DocumentCode.BAD_VALUE),
    ],
)
def test_names_of_no_file(folder: Path, name: str, code: DocumentCode) -> None:
    with pytest.raises(DocumentError) as caught:
        content(folder, name)
    assert caught.value.code == code
    assert len(str(caught.value)) < 300


def test_a_pipe_or_device_never_makes_us_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe.json")
    (folder / "null").symlink_to("/dev/zero")
    (folder / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(folder)  # a socket's name is short
        server.bind("socket")
        for name in ("pipe.json", "null", "loop", "socket"):
            assert refused(folder, name, allow_outside=True) == DocumentCode.FILE_UNREADABLE
    with pytest.raises(DocumentError, match="pipe") as caught:
        read_document(folder / "pipe.json")
    assert caught.value.code == DocumentCode.FILE_UNREADABLE


def test_a_file_that_became_a_pipe_does_not_make_us_wait(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    regular = (folder / "in.txt").stat()
    monkeypatch.setattr("tokenbox.documents.files.Path.stat", lambda _: regular)
    with pytest.raises(FileProblemError, match="pipe cannot be read: it is not a regular file"):
        read_bytes(folder / "pipe", "pipe", 100, "bound")


def test_files_are_bounded_together(folder: Path) -> None:
    (folder / "ten").write_bytes(b"0123456789")
    (folder / "six").write_bytes(b"012345")
    exact = NamedFiles(folder, max_bytes=16)
    assert exact.text("ten") + exact.text("six") == "0123456789012345"
    assert exact.text("ten") == "0123456789"  # read already
    less = NamedFiles(folder, max_bytes=15)
    less.text("ten")
    with pytest.raises(FileProblemError, match="'six' has 6 bytes; 5 are left of the 15") as caught:
        less.text("six")
    assert caught.value.code == DocumentCode.FILE_TOO_LARGE
    assert caught.value.details == {"size": 6, "limit": 5}


def test_a_file_of_unknown_size_is_bounded_too() -> None:
    status = "/proc/self/status"
    if not Path(status).exists():
        pytest.skip("only Linux has files whose size is not known before they are read")
    assert read_bytes(status, status, 100_000, "bound").startswith(b"Name:")
    with pytest.raises(FileProblemError) as caught:
        read_bytes(status, status, 10, "bound")
    assert caught.value.code == DocumentCode.FILE_TOO_LARGE


def test_a_document_is_bounded(folder: Path) -> None:
    with (folder / "large.yaml").open("wb") as file:
        file.truncate(FORMATS[".yaml"][1] + 1)
    with pytest.raises(DocumentError, match=r"16,777,217 bytes; 16,777,216 are") as caught:
        read_document(folder / "large.yaml")
    assert caught.value.code == DocumentCode.FILE_TOO_LARGE


def test_bad_utf8_says_where(folder: Path) -> None:
    (folder / "bad").write_bytes(b"a\nb\r\nc\xc3\xa9 \xe9")
    with pytest.raises(DocumentError, match=r"byte 9 \(line 3\) is 0xE9") as caught:
        content(folder, "bad")
    assert caught.value.code == DocumentCode.FILE_ENCODING
    assert (caught.value.details["byte"], caught.value.details["byte_line"]) == (9, 3)


def test_a_document_that_is_not_there(folder: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        read_document(folder / "absent.toml")
    assert caught.value.code == DocumentCode.FILE_MISSING
    assert caught.value.file == str(folder / "absent.toml")


def test_a_vocabulary_file_is_held_to_the_folder_too(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.json").write_text("{}")
    (inside / "own.json").write_text("{}")
    text = '{{"budget": 1, "tokenizer": "file:{}", "sections": []}}'
    own = parse_text(text.format("own.json"), ".json", base=inside)
    assert own.tokenizer == f"file:{(inside / 'own.json').resolve()}"
    with pytest.raises(DocumentError) as caught:
        parse_text(text.format("../outside.json"), ".json", base=inside, name="doc.json")
    assert (caught.value.code, caught.value.path) == ("document_file_outside", "tokenizer")
    assert parse_text(text.format("../outside.json"), ".json", base=inside, allow_outside=True).sections == ()


def test_a_tokenizer_that_cannot_be_used_is_said_with_its_place(tmp_path: Path) -> None:
    document = parse_text(
        '{"budget": 1, "tokenizer": "o200k", "sections": []}', ".json", base=tmp_path, name="d.json"
    )
    with pytest.raises(DocumentError, match=r"d\.json at tokenizer: .*o200k_base") as caught:
        document.layout()
    assert caught.value.code == "unknown_tokenizer"
