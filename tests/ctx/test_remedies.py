# a fixture is a folder to be in
"""Every remedy that an error names is a command that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tokenbox import ctx
from tokenbox.ctx import LargerWindow, UnknownWindow
from tokenbox.errors import NoTokenizer

MORE_MODELS = ("openai/gpt-4.1", "claude-sonnet-4-5")


@pytest.mark.parametrize(
    "model", ["gpt-4o", "acme-7b", *(pytest.param(m, marks=pytest.mark.slow) for m in MORE_MODELS)]
)
def test_each_remedy_is_a_command_that_works(folder: Path, model: str) -> None:
    with pytest.raises(NoTokenizer) as caught:
        ctx.estimate(model, ["text"])
    remedies: Any = caught.value.details["remedies"]
    (folder / "tokenizer.json").write_text(BYTE_LEVEL)
    for remedy in remedies:
        (folder / ".tokenbox" / "config.toml").unlink(missing_ok=True)
        run_command(remedy, folder)
        ctx.reload()
        assert ctx.estimate(model, ["text"]).tokens_in > 0


@pytest.mark.slow
def test_the_remedies_for_an_unknown_window_work(folder: Path) -> None:
    for model in ("acme-7b", "acme/7b:q4.1"):
        with pytest.raises(UnknownWindow) as caught:
            ctx.enforce(model, ["text"], tokenizer="utf8-bytes")
        remedies: Any = caught.value.details["remedies"]
        for remedy in remedies:
            (folder / ".tokenbox" / "config.toml").unlink(missing_ok=True)
            run_command(remedy, folder)
            ctx.reload()
            verdict = ctx.enforce(model, ["text"], tokenizer="utf8-bytes")
            assert verdict.limits.max_ctx == 8192
        (folder / ".tokenbox" / "config.toml").unlink()
        ctx.reload()


@pytest.mark.usefixtures("folder")
def test_a_misspelt_model_gets_the_known_name_and_no_settings_for_the_misspelt_one() -> None:
    for tokenizer in (None, "utf8-bytes"):
        with pytest.raises(UnknownWindow, match=r"Did you mean gpt-4o\?") as caught:
            ctx.enforce("gpt4o", ["text"], tokenizer=tokenizer)
        assert caught.value.details["remedies"] == []


def test_all_that_is_missing_is_said_at_once(folder: Path) -> None:
    with pytest.raises(NoTokenizer) as caught:
        ctx.enforce("acme-7b", ["text"])
    assert "no tokenizer counts" in caught.value.message
    assert "context window" in caught.value.message
    remedies: Any = caught.value.details["remedies"]
    run_command(remedies[0], folder)
    ctx.reload()
    verdict = ctx.enforce("acme-7b", ["text"])
    assert verdict.ok
    assert verdict.limits.max_ctx == 8192


@pytest.mark.usefixtures("project")
def test_a_model_that_cannot_answer_so_long_is_not_named() -> None:
    text = ["hello " * 127_000]
    long = ctx.enforce("gpt-4o", text, max_tokens_request=100_000)
    larger = next(one for one in long.plan if isinstance(one, LargerWindow))
    assert larger.models
    for name in larger.models:
        (found,) = [one for one in ctx.capabilities(name) if one.id == name]
        assert found.max_output_tokens is None or found.max_output_tokens >= 100_000


def run_command(command: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


# The smallest tokenizer.json there is: a token for every byte.
BYTE_LEVEL = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {
                chr(c): i
                for i, c in enumerate(
                    [
                        *range(33, 127),
                        *range(161, 173),
                        *range(174, 256),
                        *range(256, 256 + 256 - 94 - 12 - 82),
                    ]
                )
            },
            "merges": [],
        },
    }
)
