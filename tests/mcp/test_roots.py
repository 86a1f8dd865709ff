"""What may be read: nothing outside the roots, whatever the path, and nothing without roots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.mcp.talking import ERAS, call, failure, note, talk, texts
from tokenbox.mcp.roots import NoRoots, OutsideRoots, Roots
from tokenbox.mcp.tools import SharedState

if TYPE_CHECKING:
    from mcp import Client

SECRET = "launch code"


@pytest.mark.parametrize("mode", ERAS)
def test_paths_that_lead_out_are_refused(project: Path, mode: str) -> None:
    outside = project.parent / "outside"
    (project / "link").symlink_to(outside)
    (project / "file-link").symlink_to(outside / "secret.txt")
    (project / "loop").symlink_to(project / "loop")
    (project / "inner").symlink_to(project / "src")
    (project / "\udcff").write_text("a name that is not UTF-8")
    paths = [
        "..",
        "../outside",
        "../outside/secret.txt",
        "src/../../outside",
        str(outside),
        str(outside / "secret.txt"),
        "link",
        "link/secret.txt",
        "file-link",
        "loop/x",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "~/.ssh",
        f"{project}/../outside",
        f"{project}-other",
        "../project-other",
        "src\0/../../outside",
        "\0",
        outside.as_uri(),
        "." * 5000,
        "a/" * 5000,
        "\ud800",
        "../nothing-there",
        "",
    ]
    (project.parent / "project-other").mkdir()

    async def conversation(client: Client) -> None:
        for path in paths[:-1]:
            for tool in ("pack", "verify"):
                result = await client.call_tool(tool, {"path": path})
                text = "".join(texts(result))
                assert SECRET not in text
                assert result.is_error or '"ok":false' in text, path
                if not path.startswith("file:") and ("outside" in path or path.startswith("../")):
                    assert "(outside_roots)" in text, path
        # The same words whether anything is there or not.
        assert await failure(client, "pack", path="../outside") == "outside_roots"
        assert await failure(client, "pack", path="../nothing-there") == "outside_roots"
        for path in (".", "", "inner", str(project), f"{project}/src/..", "src/cart.py"):
            blocks = await call(client, "pack", path=path)
            assert SECRET not in blocks[0]
            assert "cart" in blocks[0]
        # A file that is packed may be wanted whole; what a link leads to is not packed.
        handle = note(await call(client, "pack", path="."))["handle"]
        for name in ("link/secret.txt", "../outside/secret.txt", "file-link", str(outside / "secret.txt")):
            assert await failure(client, "expand", handle=handle, name=name) == "unknown_handle"
        focus = ["../outside/secret.txt"]
        assert await failure(client, "pack", path=".", focus=focus, budget=300) == "focus_not_found"

    talk(SharedState(), conversation, roots=[project], mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_without_roots_nothing_is_read(project: Path, mode: str) -> None:
    async def refused(client: Client) -> None:
        for path in (".", str(project), "/", ""):
            assert await failure(client, "pack", path=path) == "no_roots"
            assert await failure(client, "verify", path=path) == "no_roots"
        await call(client, "count", text="what is not a file needs no roots")

    talk(SharedState(), refused, mode=mode)
    talk(SharedState(), refused, roots=[], mode=mode)

    async def allowed(client: Client) -> None:
        await call(client, "pack", path=".")
        assert await failure(client, "pack", path="..") == "outside_roots"

    talk(SharedState(), allowed, started=[str(project)], mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_has_no_roots_beyond_those_of_the_start(project: Path, mode: str) -> None:
    started = [str(project / "src")]

    async def conversation(client: Client) -> None:
        await call(client, "pack", path="cart.py")
        await call(client, "pack", path=str(project / "src"))
        assert await failure(client, "pack", path=str(project)) == "outside_roots"
        assert await failure(client, "pack", path=str(project / "notes.md")) == "outside_roots"

    for roots in ([Path("/")], [project], [project / "src"]):
        talk(SharedState(), conversation, started=started, roots=roots, mode=mode)

    async def elsewhere(client: Client) -> None:
        assert await failure(client, "pack", path=".") == "no_roots"

    talk(SharedState(), elsewhere, started=started, roots=[project.parent / "outside"], mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_roots_that_change_hold_from_the_next_call(project: Path, mode: str) -> None:
    roots = [project]

    async def conversation(client: Client) -> None:
        blocks = await call(client, "pack", path="src", budget=300)
        handle = note(blocks)["handle"]
        await call(client, "expand", handle=handle, name="mail.py")
        roots[:] = [project.parent / "outside"]
        assert await failure(client, "pack", path=str(project)) == "outside_roots"
        for tool in ("expand", "explain"):
            assert await failure(client, tool, handle=handle) == "outside_roots"
        blocks = await call(client, "pack", path=".")
        assert SECRET in blocks[0]
        roots[:] = [project, project.parent / "outside"]
        await call(client, "pack", path="src")
        await call(client, "pack", path="secret.txt")
        assert await failure(client, "pack", path=".") == "outside_roots"  # which of the two?

    talk(SharedState(), conversation, roots=roots, mode=mode)


def test_a_name_of_a_root_is_no_root_beside_it(project: Path) -> None:
    for uri in (
        "https://example.org/",
        "file://elsewhere/etc",
        "file:relative",
        "data:,x",
        "file:///etc%00x",
        "",
    ):
        assert Roots.of([uri]).given == ()
    with pytest.raises(NoRoots):
        Roots.of([]).resolve(".")
    spaced = project / "a b%20c"
    spaced.mkdir()
    assert Roots.of([spaced.as_uri()]).resolve(".") == os.path.realpath(spaced)


def test_no_rule_above_a_root_is_read(project: Path) -> None:
    (project.parent / ".git").mkdir()
    (project.parent / ".gitignore").write_text("src/\n")
    (project.parent / "pyproject.toml").write_text("[tool.tokenbox.pack]\nnonsense = 'private words'\n")

    async def conversation(client: Client) -> None:
        blocks = await call(client, "pack", path=".")
        assert note(blocks)["files"] == {"full": 4}

    talk(SharedState(), conversation, roots=[project])


PIECES = st.sampled_from(["..", ".", "", "a", "b", "link", "up", "abs", "\0", "file", "ä", "/", "~"])


@settings(max_examples=examples(300))
@given(pieces=st.lists(PIECES, max_size=8), absolute=st.booleans())
def test_whatever_the_path_what_is_read_is_inside(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], *, absolute: bool
) -> None:
    base = Path(os.path.realpath(tmp_path_factory.getbasetemp())) / "roots"
    root = base / "root"
    if not root.exists():
        (root / "a/b").mkdir(parents=True)
        (base / "other/a").mkdir(parents=True)
        (root / "link").symlink_to(base / "other")
        (root / "a/up").symlink_to("../..")
        (root / "abs").symlink_to("/")
        (root / "b").symlink_to("a")
        (root / "file").write_text("x")
    path = "/".join([*([str(root)] if absolute else []), *pieces])
    try:
        found = Roots.of([root.as_uri()]).resolve(path)
    except OutsideRoots:
        return
    assert found == os.path.realpath(found)
    assert Path(found).is_relative_to(root)
