"""A folder as a text: forms, changes, order, what is shown first, and what never happens."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tokenbox
from tests.pack.conftest import Memory
from tokenbox.content.blocks import CodeBlock, DiffBlock, FileTreeBlock, resolve_priorities
from tokenbox.engine.choice import choose
from tokenbox.errors import ContextCriticalOverflow, EmptyInput
from tokenbox.folder import (
    CountAhead,
    FileOrder,
    PackOptions,
    PackSettings,
    as_blocks,
    pack_source,
    parse_rule,
    read,
    survey,
)
from tokenbox.folder.git import GitProblem
from tokenbox.folder.listing import FileShown, Listing, folders
from tokenbox.folder.walk import MAX_BYTES
from tokenbox.lcp import decode, encode
from tokenbox.tokenizers import registry
from tokenbox.tokenizers.cache import CountCache
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.pack.conftest import Make, Packed
    from tokenbox.engine.choice import Choice, ChoiceWhole, Upgrade
    from tokenbox.folder import PackedFolder, Source
    from tokenbox.tokenizers.protocol import Tokenizer


ROOT = Path(__file__).parents[2]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no diff without git")


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def module(*functions: str, lines: int = 30) -> str:
    """A module with a long function for each name."""
    return "import os\n\n\n" + "\n\n".join(
        f'def {name}(value):\n    """{name.replace("_", " ").capitalize()}."""\n'
        + "".join(f"    value = step_{n}(value)\n" for n in range(lines))
        + "    return value\n"
        for name in functions
    )


@pytest.fixture
def project(folder: Make) -> Path:
    """A project in which a query finds one function."""
    root: Path = folder(
        {
            "README.md": "# Demo\n\nWords about the project.\n",
            "src/cookies.py": module("parse_cookie", "expire_session", "sign_value"),
            "src/routing.py": module("match_route", "redirect_permanently", "build_url"),
            "src/views.py": module("show_page", "list_pages", "save_page"),
            "tests/test_routing.py": module("test_redirect_permanently", "test_match_route"),
            "package-lock.json": '{"redirect": "permanently"}\n' * 200,
            "logo.png": b"\x89PNG\0",
        }
    )
    return root


@pytest.fixture
def repository(folder: Make) -> Path:
    root: Path = folder(
        {"a.py": "".join(f"line {n}\n" for n in range(40)), "old.txt": "old\n" * 9, "b.bin": b"\0a"}
    )
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def ask(
    source: Source,
    budget: int | None,
    query: str | None = None,
    mode: str = "xml",
    cache: CountCache | None = None,
) -> PackedFolder:
    return pack_source(source, "o200k_base", budget, mode, options=PackOptions(query), cache=cache)


def shown(pack: PackedFolder) -> dict[str, str]:
    return {file.path: file.shown.name.lower() for file in pack.files if file.shown is not FileShown.LISTED}


def test_everything_is_in_full_if_it_fits(project: Path, packed: Packed) -> None:
    source = packed(project)
    whole = ask(source, None)
    assert {file.shown for file in whole.files if file.tokens is not None} == {FileShown.FULL}
    for query in (None, "redirect"):
        assert ask(source, whole.total, query).text == ask(source, whole.total + 10_000, query).text
    assert ask(source, whole.total - 1).total < whole.total
    low = packed(project, rules=[parse_rule("src/**=background")])
    assert ask(low, whole.total).total == whole.total


def test_a_query_finds_its_function(project: Path, packed: Packed) -> None:
    pack = ask(packed(project), 700, "redirects are not permanent any more")
    assert "def redirect_permanently(value):" in pack.text
    assert "src/routing.py" in shown(pack)
    assert pack.total <= 700
    assert "package-lock.json" not in shown(pack)


def test_the_tree_says_what_is_shown_how(project: Path, packed: Packed) -> None:
    pack = ask(packed(project), 900, "redirect permanently")
    tree = pack.text.partition("</tree>")[0]
    for file in pack.files:
        how = "binary" if file.tokens is None else f"{file.tokens} {file.shown.value}"
        assert f"{Path(file.path).name} {how}\n" in tree


def test_a_tree_is_cut_only_where_it_does_not_fit() -> None:
    def words(lines: Sequence[str]) -> list[int]:  # a line has three, not four or more
        return [len(line.split()) for line in lines]

    root = folders([("a.py", 5, 1), ("b.py", 5, 1)])
    found = [Listing(root, room, words) for room in range(18, 24)]
    assert [listing.is_cut for listing in found] == [True, False, False, False, False, False]
    assert {listing.text(None) for listing in found[1:]} == {"a.py 5\nb.py 5"}


@pytest.mark.parametrize("mark", ["[lines 1-2]", "[line 7]", "[outline of lines 1-2]", "[outline of line 7]"])
def test_lines_are_told_and_cannot_be_forged(folder: Make, packed: Packed, mark: str) -> None:
    forged = "\n".join(f"value_{n} = compute({n})" for n in range(200)) + f"\n{mark}\nneedle = 1\n"
    pack = ask(packed(folder({"a.txt": forged, "b.txt": "other words\n" * 400})), 600, "needle")
    marks = [line for line in pack.text.splitlines() if line.lstrip().startswith("[")]
    assert marks
    assert mark not in marks
    assert f"\\{mark}\nneedle = 1" in pack.text


def test_what_is_left_is_spent(project: Path, packed: Packed) -> None:
    source = packed(project)
    for budget in (1000, 1500, 2500):
        for query in (None, "redirect permanently"):
            assert ask(source, budget, query).total >= budget * 85 // 100


@pytest.mark.parametrize("query", [None, "key7"])
@pytest.mark.parametrize("line_numbers", [False, True])
@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_line_larger_than_what_is_left_is_cut(
    folder: Make, packed: Packed, query: str | None, line_numbers: bool, ending: str
) -> None:
    """It was not shown at all, and most of the budget left over."""
    line = "{" + ", ".join(f"'key{n}': 'wert \N{SNOWMAN} {n}'" for n in range(3_000)) + "}" + ending
    source = packed(folder({"a.py": "def f():\n    return 1\n" * 9, "data.json": f"\n\n{line}"}))
    options = PackOptions(query=query, line_numbers=line_numbers)
    for budget in (500, 2_000, 9_000):
        pack = pack_source(source, "o200k_base", budget, options=options)
        assert budget * 97 // 100 <= pack.total <= budget
        shown = re.search(
            r'path="data.json" summary="true">\n\[lines 1-3\]\n(.*) \.\.\.\n</', pack.text, re.DOTALL
        )
        assert shown is not None
        text = re.sub(r"(?m)^\d\| ", "", shown[1]) if line_numbers else shown[1]
        assert f"\n\n{line}".startswith(text) and len(text) > budget  # noqa: PT018


def test_several_lines_are_cut_where_one_takes_few_tokens(folder: Make, packed: Packed) -> None:
    root = folder({"a.txt": " " * 30_000, "b.txt": "\N{SNOWMAN} " * 10_000, "c.js": "f(1);" * 10_000})
    for budget in (300, 3_000):
        pack = pack_source(packed(root), "o200k_base", budget)
        assert budget * 97 // 100 <= pack.total <= budget


def test_many_small_files_leave_room_for_content_without_a_query(folder: Make, packed: Packed) -> None:
    """The markup around files is limited while the files shown have more; a file of high class is not."""
    names = [f"a_long_path_to_a_package/with/folders/item_{n}.py" for n in range(300)]
    body = "".join(f"        value = step_{n}(value)\n" for n in range(60))
    files = {
        name: f"class Item{n}:\n    def run(self, value):\n{body}\n\nnext_one = Item{(n * 7 + 1) % 300}\n"
        for n, name in enumerate(names)
    }
    source = packed(folder(files), rules=[parse_rule("**/item_299.py=high")])
    pack = ask(source, 8000)
    content = sum(
        registry.get("o200k_base").count(block.summary or block.content.decode())
        for block in pack.blocks
        if isinstance(block, CodeBlock)
    )
    assert content >= pack.total * 88 // 100 >= 8000 * 86 // 100
    assert len(shown(pack)) > 5
    assert names[299] in shown(pack)
    classes = {name: f"class Item{n}:\n    pass\n" for n, name in enumerate(names)}
    # In small files there is nothing more to show, so further files use the budget.
    assert ask(packed(folder(classes)), 8000).total >= 7600


def test_classes_go_before_worth(project: Path, packed: Packed) -> None:
    source = packed(project, rules=[parse_rule("src/views.py=high")])
    pack = ask(source, 900, "redirect permanently")
    assert "src/views.py" in shown(pack)
    assert "src/routing.py" not in shown(pack)


def test_the_order_of_worth_puts_the_best_last(project: Path, packed: Packed) -> None:
    options = PackOptions("redirect permanently", order=FileOrder.WORTH)
    text = pack_source(packed(project), "o200k_base", 1800, options=options).text
    assert text.rindex('<code lang="python" path="') == text.index(
        '<code lang="python" path="src/routing.py"'
    )


def test_instructions_come_last_and_count(project: Path, packed: Packed) -> None:
    source = packed(project, instructions="Answer briefly.")
    pack = pack_source(source, "o200k_base", 700, options=PackOptions("redirect"))
    assert "Answer briefly." in pack.text[-120:]
    assert registry.get("o200k_base").count(pack.text) == pack.total <= 700
    with pytest.raises(ContextCriticalOverflow, match="instructions"):
        pack_source(packed(project, instructions="word " * 30), "o200k_base", 20)


@pytest.mark.parametrize("mode", ["xml", "markdown", "minimal"])
@pytest.mark.parametrize(
    "query", [None, "redirect permanently", 'File "src/cookies.py", line 40, in expire_session']
)
def test_never_over_any_budget(project: Path, packed: Packed, mode: str, query: str | None) -> None:
    source = packed(project)
    for budget in (0, 1, 30, 50, 100, 200, 333, 1000, 2000, 4000):
        try:
            pack = ask(source, budget, query, mode)
        except EmptyInput:
            assert budget <= 100
            continue
        assert registry.get("o200k_base").count(pack.text) == pack.total <= budget


@pytest.mark.slow
def test_a_larger_budget_loses_nothing_of_more_worth(
    project: Path, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of worth, the first difference is something that the larger budget shows."""
    source, memory = packed(project), Memory()
    last: list[tuple[int, int, int]] = []

    def recorded(upgrades: list[Upgrade], room: int, whole: ChoiceWhole) -> Choice:
        choice = choose(upgrades, room, whole)
        # What comes in with the rest of its file is shown as well; what is only too much markup now is not.
        with monkeypatch.context() as patch:
            patch.setattr(whole, "_markup_room", 1_000_000)
            shown = [
                one for one in sorted(upgrades, key=lambda u: (u.rank, -u.worth)) if whole.price(one) is None
            ]
        last[:] = [(-one.worth, one.item, one.form) for one in shown]
        return choice

    monkeypatch.setattr("tokenbox.folder.choosing.choose", recorded)
    for query in (None, "redirect permanently", "session expires when a page is saved"):
        taken = []
        for budget in range(300, 3600, 50):
            ask(source, budget, query, cache=memory)
            taken.append(list(last))
        assert len(taken[0]) < len(taken[-1])
        for smaller, larger in pairwise(taken):
            differences = ((a, b) for a, b in zip_longest(smaller, larger, fillvalue=(1, 0, 0)) if a != b)
            lost, won = next(differences, ((0, 0, 0), (0, 0, 0)))
            assert won[0] <= lost[0]


@pytest.mark.slow
def test_hash_seeds_change_nothing(project: Path) -> None:
    program = (
        "import sys; from tokenbox.folder import *; s = read(survey([sys.argv[1]]));"
        "print([pack_source(s, 'utf8-bytes', 4000, options=PackOptions(q)).text"
        " for q in (None, 'redirect of the session page')])"
    )
    digests = {
        hashlib.sha256(
            subprocess.run(
                [sys.executable, "-c", program, str(project)],
                env=os.environ | {"PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
            ).stdout
        ).hexdigest()
        for seed in ("0", "1", "77")
    }
    assert len(digests) == 1


@needs_git
def test_diff_is_critical_and_comes_first(repository: Path, packed: Packed) -> None:
    text = (repository / "a.py").read_text()
    (repository / "a.py").write_text(text.replace("line 3\n", "--- line three\n").replace("line 30\n", ""))
    (repository / "old.txt").rename(repository / 'ne"w\n.txt')
    (repository / "b.bin").write_bytes(b"\0b")
    git(repository, "add", "-A")
    result = packed(repository, diff="HEAD")
    diffs = {block.path: block for block in result.changes}
    assert set(diffs) == {"a.py", "b.bin", 'ne"w\\n.txt'}
    first, second = diffs["a.py"].hunks
    assert (first.old_start, second.new_start) == (1, 28)
    assert first.lines.startswith(b"@@ -1,7 +1,7 @@\n line 0\n")
    assert b"-line 3\n+--- line three\n" in first.lines
    assert b"-line 30\n" in second.lines
    assert b"rename from old.txt" in diffs['ne"w\\n.txt'].hunks[0].lines
    assert diffs["b.bin"].hunks[0].lines == b"Binary files a/b.bin and b/b.bin differ\n"
    blocks = as_blocks(result)
    found = resolve_priorities(blocks)
    assert {found[i].display for i, block in enumerate(blocks) if isinstance(block, DiffBlock)} == {
        "critical"
    }
    text = ask(result, None).text
    assert text.index("</tree>") < text.index("<diff ") < text.index("<code ")
    with pytest.raises(ContextCriticalOverflow, match=r"a\.py"):
        ask(result, 40)


@needs_git
def test_git_runs_no_program_of_the_repository(repository: Path, packed: Packed, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    filters = [f"filter.{name}.{way}" for name in ("py", "p=y.x") for way in ("clean", "process", "smudge")]
    for key in ("diff.external", "core.pager", "core.fsmonitor", "diff.py.textconv", *filters):
        git(repository, "config", key, str(program))
    git(repository, "config", "filter.py.required", "true")
    (repository / ".gitattributes").write_text("*.py diff=py filter=py\n*.txt filter=p=y.x\n")
    (repository / "a.py").write_text("new\n")
    assert packed(repository, diff="HEAD").changes
    assert not ran.exists()


@needs_git
def test_what_git_cannot_do_is_said(repository: Path, packed: Packed, tmp_path: Path) -> None:
    for revision in ("no-such-revision", "--output=x", ""):
        with pytest.raises(GitProblem):
            packed(repository, diff=revision)
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "-q")
    (new / "a").write_text("a")
    with pytest.raises(GitProblem, match="no commit yet"):
        packed(new, diff="HEAD")
    other = tmp_path / "none"
    other.mkdir()
    (other / "a").write_text("a")
    with pytest.raises(GitProblem, match=r"(?i)not a git repository"):
        packed(other, diff="HEAD")
    assert [path.name for path in other.iterdir()] == ["a"]


@needs_git
def test_secrets_in_a_diff_are_redacted(repository: Path, packed: Packed) -> None:
    (repository / "a.py").write_text("k = 'ghp_" + "aB3dE6gH9j" * 3 + "kLmN12'\n")
    result = packed(repository, diff="HEAD")
    assert b"ghp_" not in encode(as_blocks(result))
    assert "in the diff" in str([note.detail for note in result.notes])


def test_a_pack_file_keeps_everything(folder: Make, packed: Packed) -> None:
    result = packed(folder({"a.py": "def f():\n    return 1\n" * 9, "b.md": "# b\n" * 40, "tests/t.py": "t"}))
    blocks = as_blocks(result)
    assert decode(encode(blocks)).blocks == blocks
    tree, *files = blocks[:4]
    assert isinstance(tree, FileTreeBlock)
    assert [entry.name for entry in tree.entries] == ["a.py", "b.md", "tests"]
    assert [file.path for file in files if isinstance(file, CodeBlock)] == ["a.py", "tests/t.py"]


class Recorded(CountCache):
    """Knows how many texts had to be counted."""

    @property
    def counted(self) -> int:
        return self.info().misses


def test_counting_ahead_leaves_no_content_to_count(folder: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several jobs, and a last one that is small.
    monkeypatch.setattr("tokenbox.folder.ahead._JOB", 25_000)
    root = folder({f"f{n}.py": f"x = {n}\n" * 2_000 for n in range(9)})
    cache, counter = Recorded(), registry.get("o200k_base")
    with CountAhead(counter, cache) as ahead:
        source = read(survey([root]), seen=ahead.add)
    assert cache.counted == 9
    pack = pack_source(source, counter, cache=cache)
    assert cache.counted == 10  # the tree
    assert pack.total == counter.count(pack.text)


class Asked(CountCache):
    """Knows each text that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def count_batch(
        self, tokenizer: Tokenizer, texts: Sequence[str], digests: Sequence[bytes] | None = None
    ) -> list[int]:
        self.texts += texts
        return super().count_batch(tokenizer, texts, digests)


def test_what_was_counted_ahead_is_not_looked_up_again(folder: Make) -> None:
    root = folder({f"f{n}.py": f"x = {n}\n" for n in range(90)})
    cache, counter = Asked(), registry.get("o200k_base")
    with CountAhead(counter, cache) as ahead:
        source = read(survey([root]), seen=ahead.add)
        pack = pack_source(source, counter, 400, cache=cache, ahead=ahead)
        shown = {file.path: file.shown for file in pack.files}
        listed = [file.data.decode() for file in source.files if shown[file.path] is FileShown.LISTED]
        assert min(map(cache.texts.count, listed)) == 1
        other = pack_source(source, "chars4", 400, cache=cache, ahead=ahead)
    assert pack.text == pack_source(source, counter, 400).text
    assert other.text == pack_source(source, "chars4", 400).text  # its counts are its own


class InPairs(BaseTokenizer):
    """Counts a batch only while another thread counts one."""

    _identity = TokenizerIdentity("in pairs", "1", "", exact=True)

    def __init__(self) -> None:
        self._both = threading.Barrier(2, timeout=60)

    def count(self, text: str) -> int:
        return len(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        self._both.wait()
        return super().count_batch(texts)


def test_who_waits_for_the_counts_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenbox.folder.ahead._JOB", 4)
    cache = Recorded()
    with CountAhead(InPairs(), cache) as ahead:
        for text in (b"first", b"other"):
            ahead.add(text)
        ahead.wait()
        assert cache.counted == 2


def test_a_pack_by_one_call_is_counted_while_its_files_are_read(
    folder: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[bytes] = []
    monkeypatch.setattr(CountAhead, "add", lambda _, text: added.append(text))
    pack = tokenbox.pack(folder({"a.py": "x = 1\n" * 500, "b.py": "y = 1\n"}), 400, tokenizer="o200k_base")
    assert added == [b"x = 1\n" * 500, b"y = 1\n"]
    assert pack.total <= 400


def test_counting_ahead_says_how_much_there_is_to_count(
    folder: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[int] = []
    counter = registry.get("o200k_base")
    monkeypatch.setattr(type(counter), "expect", lambda _, characters: expected.append(characters))
    surveyed = survey([folder({"a.py": "x = 1\n", "b.py": "y = 1\n", "c": "x" * (MAX_BYTES + 1)})])
    with CountAhead(counter, CountCache(), surveyed.found.size):
        pass
    assert expected == [12]  # what is too large is not read


def test_what_fails_ends_the_counting_ahead(folder: Make) -> None:
    with pytest.raises(GitProblem), CountAhead(registry.get("o200k_base"), CountCache()) as ahead:
        read(survey([folder({"a.py": "x"})]), PackSettings(diff="HEAD"), seen=ahead.add)


def test_what_costs_nothing_to_count_is_not_counted_ahead(folder: Make) -> None:
    cache = Recorded()
    with CountAhead(registry.get("utf8-bytes"), cache) as ahead:
        read(survey([folder({"a.py": "x"})]), seen=ahead.add)
    assert cache.counted == 0
