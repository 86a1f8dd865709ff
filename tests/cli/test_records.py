"""Every command with ``--json`` names the schema of what it prints, and what it prints fits that schema.

One scenario uses every command. The check is stricter than the published schema: a field that the schema does
not name fails it.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import typer

from tests.providers.fake import serving
from tests.shell.test_servers import says, script
from tokenbox.cli.app import build_app
from tokenbox.cli.schema import records, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.transcript import CommandLine

FILES = {
    "a.txt": "Hello, world!\n",
    "b.txt": "one two three\n" * 9,
    "p.toml": 'budget = 20\ntokenizer = "o200k_base"\n[[sections]]\nid = "a"\ncontent = "Be brief."\n'
    '[[sections]]\nid = "b"\nshrink = 1\ngrow = 1\nextra = ["More words."]\npriority = 3\n'
    f'content = "{"word " * 30}"\n',
    "chat.json": json.dumps(
        {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "Be brief."},
                *(
                    {"role": role, "content": f"{i} some words to say " * 9}
                    for i in range(4)
                    for role in ("user", "assistant")
                ),
                {"role": "user", "content": "And now?"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "look",
                        "description": "Looks something up. For example: look.",
                        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
                    },
                }
            ],
        }
    ),
    "rows.jsonl": '{"text": "some words"}\n{"text": "more of them"}\n',
    "manifest.json": json.dumps(
        {
            "blocks": [
                {
                    "type": "document",
                    "title": "notes",
                    "format_hint": "markdown",
                    "content": "word " * 20,
                    "summary": "words",
                }
            ]
        }
    ),
    ".tokenbox/config.toml": '[gateway]\nmode = "fit"\n[upstreams.home]\nurl = "http://127.0.0.1:8080"\n'
    'models = ["qwen*"]\n[tokenizers]\nbaselines = ["gpt-bpe"]\n'
    '[check.prompts]\nfiles = ["a.txt"]\nbudget = 100\n',
}
SCENARIO = (
    "count a.txt b.txt --json",
    "count a.txt missing.txt --json",
    "count chat.json --json",
    "fit chat.json -b 150 --json",
    "fit chat.json --json",
    "layout p.toml --json",
    "layout p.toml --whatif 1,12,40 --json",
    "layout p.toml --whatif 1..40 --json",
    "layout p.toml -b 1 --json",
    "pack a.txt b.txt -b 200 --format json",
    "pack a.txt b.txt --tree --format json",
    "estimate -m gpt-4o a.txt --json",
    "plan -m gpt-4o a.txt b.txt --json",
    "enforce -m gpt-4o a.txt --json",
    "enforce -m gpt-4o a.txt --max-ctx 100 --reserve-out 99 --json",
    "batch rows.jsonl -o out --task count --json",
    "layout p.toml --json -o old.json",
    "diff old.json p.toml --json",
    "diff p.toml --budgets 30,12 --json",
    "inspect p.toml chat.json --json",
    "check --json",
    "cost --json",
    "cache chat.json chat.json --json",
    "cache chat.json --json",
    "tools chat.json --json",
    "tools chat.json --shorten --json",
    "doctor --json",
    "doctor gpt-4o nosuch --json",
    "models gpt-4o --json",
    "models --json",
    "tokenizers --json",
    "lenses --json",
    "config --json",
    "config policy.headroom --json",
    "config --keys --json",
    "config set policy.headroom 0.1 --json",
    "gateway check --json",
    "gateway users set ada --quota '100 tokens/day' --database keys.db --json",
    "gateway users list --database keys.db --json",
    "gateway teams set core --database keys.db --json",
    "gateway teams list --database keys.db --json",
    "gateway keys create k --user ada --quota '5 tokens/day' --database keys.db --json",
    "gateway keys list --database keys.db --json",
    "gateway keys revoke k --database keys.db --json",
    "gateway users remove ada --database keys.db --json",
    "gateway teams remove core --database keys.db --json",
    "lcp encode manifest.json -o m.bcp",
    "lcp inspect m.bcp --json",
    "lcp validate m.bcp --json",
    "lcp decode m.bcp --json",
    "lcp render m.bcp -b 60 --json",
    "lcp stats m.bcp --json",
    "layout p.toml --proof -o text.txt",
    "layout p.toml -b 18 --proof -o text.txt",
    "proof list --json",
    "proof show {0} --json",
    "proof verify --json",
    "proof verify --log --json",
    "proof replay {0} --from p.toml --json",
    "proof diff {0} {1} --json",
    "proof export {0} -o p.tar --json",
    "proof keygen proof.key --json",
    "proof sign {0} --key proof.key --json",
    "ask --endpoint {server} --json What",
    "gateway status {server} --json",
)


@pytest.fixture
def ran(tokenbox: CommandLine) -> Iterator[list[tuple[str, Any]]]:
    """Each command of the scenario with what it printed."""
    for name, text in FILES.items():
        path = tokenbox.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    answers = {
        "/v1/models": {"data": [{"id": "m"}]},
        "/v1/chat/completions": script(says("42")),
        "/readyz": {"status": "ready", "checks": {}},
    }
    with serving(answers) as server:
        found: list[tuple[str, Any]] = []
        bundles: list[str] = []
        for line in SCENARIO:
            if "{0}" in line and not bundles:
                bundles = [
                    one["id"] for one in json.loads(tokenbox("proof", "list", "--json").out)["bundles"]
                ]
            given = shlex.split(line)
            given = [part.format(*bundles, server=server.url) for part in given]
            result = tokenbox(*given)
            found.append((line, json.loads(result.out) if result.out else None))
        yield found


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:  # noqa: ANN401  # a class of typer's own
    """The commands that have ``--json``."""
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(path)


def test_the_scenario_uses_every_command_that_prints_json() -> None:
    every = list(commands(typer.main.get_command(build_app())))
    assert len(every) > 30
    for name in every:
        assert any(line.startswith(f"{name} ") for line in SCENARIO), name


@pytest.mark.slow
def test_every_record_names_its_schema_and_fits_it(tokenbox: CommandLine, ran: list[tuple[str, Any]]) -> None:
    seen = set()
    for line, record in ran:
        if record is None:
            continue
        name = record["schema"]
        seen.add(name.removeprefix("tokenbox."))
        published = json.loads(tokenbox("schema", name).out)
        jsonschema.Draft202012Validator.check_schema(published)
        jsonschema.validate(record, published)
        if name.removeprefix("tokenbox.") in records():
            jsonschema.validate(record, schema_of(name.removeprefix("tokenbox."), strict=True))
        assert name != "tokenbox.error/1" or "-b 1 " in line, (line, record)
    assert set(records()) <= seen


def test_a_record_with_another_field_or_without_one_does_not_fit(tokenbox: CommandLine) -> None:
    record = json.loads(tokenbox("doctor", "--json").out)
    strict = schema_of("doctor/1", strict=True)
    for wrong in ({**record, "more": 1}, {name: record[name] for name in record if name != "python"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, strict)
    jsonschema.validate({**record, "more": 1}, schema_of("doctor/1"))


def test_an_unknown_schema_says_where_the_names_are(tokenbox: CommandLine) -> None:
    result = tokenbox("schema", "nosuch")
    assert (result.status, "tokenbox schema --list" in result.err) == (2, True)
    listed = tokenbox("schema", "--list").out.decode()
    assert all(f"tokenbox.{name}" in listed for name in records())
