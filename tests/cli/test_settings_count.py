"""The tokenizer that the settings name for a model counts for it in every command that takes a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.transcript import CommandLine

SETTINGS = """
[models.house]
model = "acme-7b"
tokenizer = "utf8-bytes"
[check.notes]
files = ["*.txt"]
budget = 1000
model = "house"
[tokenizers]
other = "utf8-bytes"
"""
PROMPT = """
budget = 1000
[[sections]]
id = "rules"
content = "wwwwwwwwwwwwwwwwwwww"
"""


@pytest.mark.parametrize("model", ["house", "acme-7b", "other-70b"])
def test_a_tokenizer_of_the_settings_counts_wherever_a_model_is_named(
    tokenbox: CommandLine, model: str
) -> None:
    (tokenbox.folder / ".tokenbox").mkdir()
    (tokenbox.folder / ".tokenbox" / "config.toml").write_text(SETTINGS)
    (tokenbox.folder / "notes.txt").write_text("w" * 20)
    (tokenbox.folder / "prompt.toml").write_text(PROMPT)

    def said(*arguments: str) -> Any:  # noqa: ANN401  # JSON
        result = tokenbox(*arguments, "--json")
        assert result.status == 0, result.err
        return json.loads(result.out)

    count = said("count", "-m", model, "notes.txt")
    assert (count["total"], count["tokenizer"]["name"]) == (20, "utf8-bytes")
    assert said("count", "-m", model, "-t", "o200k_base", "notes.txt")["total"] != 20
    assert said("layout", "-m", model, "prompt.toml")["total"] == 20
    packed = tokenbox("pack", "-m", model, "notes.txt", "-b", "1000")
    assert packed.status == 0
    assert "utf8-bytes" in packed.err
    assert [one["tokens"] for one in said("check")["files"]] == [20]


def test_the_users_own_file_may_be_a_link(tokenbox: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those who keep their settings in a repository have it. A project's link may lead anywhere."""
    kept, project = tokenbox.folder / "kept.toml", tokenbox.folder / ".tokenbox"
    kept.write_text('policy.headroom = "0.1"\n')
    project.mkdir()
    for link in (tokenbox.folder / "own.toml", project / "config.toml"):
        link.symlink_to(kept)
    for reader in ("tokenbox.config.reading", "tokenbox.cli.config"):
        monkeypatch.setattr(f"{reader}.user_file", lambda _: tokenbox.folder / "own.toml")
    assert tokenbox("config", "set", "--user", "policy.headroom", "0.2").status == 0
    assert kept.read_text() == 'policy.headroom = "0.2"\n'
    tokenbox("config", "set", "policy.headroom", "0.3")
    assert kept.read_text() == 'policy.headroom = "0.2"\n'
    (tokenbox.folder / "own.toml").unlink()
    (tokenbox.folder / "own.toml").symlink_to("own.toml")  # leads nowhere, so it is replaced
    assert tokenbox("config", "set", "--user", "policy.headroom", "0.2").status == 0
    assert (tokenbox.folder / "own.toml").read_text().endswith('headroom = "0.2"\n')
