"""tokenbox models, where it shows what packages publish."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.transcript import CommandLine


def test_a_figure_that_is_disputed_is_marked_and_explained(tokenbox: CommandLine) -> None:
    out, err, status = tokenbox("models", "gemini-2.5-pro", "--on", "2026-11-21")
    lines = out.decode().splitlines()
    assert status == 0
    (row,) = [line for line in lines if line.startswith("gemini-2.5-pro ")]
    assert "65,535! [" in row
    assert any(
        re.match(r"! gemini-2.5-pro: max output tokens 65,535 .* sources: 65,536", line) for line in lines
    )
    assert any(line.startswith("+ gemini-2.5-pro: above 200,000 input tokens") for line in lines)
    marks = set(re.findall(r"\[\d+\]", out.decode()))
    explained = {line.split()[0] for line in lines if line.startswith("[")}
    assert marks == explained
    assert "To correct a figure: tokenbox config set" in err


def test_a_correction_is_shown_with_what_it_corrects(tokenbox: CommandLine) -> None:
    assert tokenbox("config", "set", "catalog.gpt-5.max_input_tokens", "200_000").status == 0
    (info,) = (
        one for one in json.loads(tokenbox("models", "gpt-5", "--json").out)["models"] if one["id"] == "gpt-5"
    )
    assert info["max_input_tokens"] == {"value": 200_000, "source": ".tokenbox/config.toml:2", "date": None}
    (dispute,) = info["disagreements"]
    assert (dispute["rule"], [figure["value"] for figure in dispute["others"]]) == ("configured", [272_000])


def test_the_window_of_the_settings_is_shown_as_the_guard_uses_it(tokenbox: CommandLine) -> None:
    assert tokenbox("config", "set", "models.mini.model", "gpt-5-mini").status == 0
    assert tokenbox("config", "set", "models.mini.max_ctx", "9000").status == 0
    found = json.loads(tokenbox("models", "gpt-5-mini", "--json").out)["models"]
    (info,) = [one for one in found if one["id"] == "gpt-5-mini"]
    assert info["context_window"] == {"value": 9_000, "source": ".tokenbox/config.toml:3", "date": None}
    assert [one["rule"] for one in info["disagreements"] if one["limit"] == "context_window"] == [
        "configured"
    ]


def test_the_command_for_a_correction_is_one_for_any_name(tokenbox: CommandLine) -> None:
    name = "the house's model"
    assert tokenbox("config", "set", f'catalog."{name}".context_window', "9000").status == 0
    (line,) = tokenbox("models", name).err.splitlines()
    program, *command = shlex.split(line.removeprefix("To correct a figure: "))
    assert program == "tokenbox"
    assert tokenbox(*command).status == 0


def test_a_long_list_is_cut_and_says_so(tokenbox: CommandLine) -> None:
    few, many = tokenbox("models", "gpt-5"), tokenbox("models", "gpt-5", "--all")
    assert re.search(r"\d+ more: tokenbox models gpt-5 --all", few.err)
    assert "more:" not in many.err
    assert "azure/gpt-5 " in many.out.decode()
    assert "azure/gpt-5" not in few.out.decode()


def test_without_a_query_every_makers_models_are_listed(tokenbox: CommandLine) -> None:
    listed = {one["id"] for one in json.loads(tokenbox("models", "--json").out)["models"]}
    assert {"gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"} <= listed
    assert "azure/gpt-5" not in listed


def test_who_serves_it_too_is_found_by_name(tokenbox: CommandLine) -> None:
    assert "groq/openai/gpt-oss-20b" in tokenbox("models", "groq/openai/gpt-oss-20b").out.decode()
