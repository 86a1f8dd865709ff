"""What a line means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.shell.loop import Command, Input, Meta, Say, parse

PROGRAMS = {"ls", "cat", "git", "echo"}


def read(line: str) -> Input:
    return parse(line, PROGRAMS.__contains__)


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("", None),
        ("   ", None),
        ("\\", None),
        ("!", None),
        ("hello", Say("hello")),
        ("  hello  ", Say("hello")),
        (":help", Meta("help")),
        (":Tokens  hello  world ", Meta("tokens", "hello  world")),
        (":?", Meta("?")),
        (":compact --yes the\nplan", Meta("compact", "--yes the\nplan")),
        (":) nice", Say(":) nice")),
        (":", Meta("help")),
        (" exit ", Meta("quit")),
        ("quit", Meta("quit")),
        ("\\quit", Say("quit", literal=True)),
        ("quit smoking?", Say("quit smoking?")),
        ("\\:help", Say(":help", literal=True)),
        ("\\!ls", Say("!ls", literal=True)),
        ("!ls -l | wc", Command("ls -l | wc")),
        ("ls |> what is this?", Command("ls", "what is this?")),
        ("ls |>", Command("ls", "")),
        ("!mine |> why?", Command("mine", "why?")),
        ("A=1 B=2 git log |> why?", Command("A=1 B=2 git log", "why?")),
        ("what does a |> b do in Elixir?", Say("what does a |> b do in Elixir?")),
        (
            "cat a | ls |> what's this, and what's that?",
            Command("cat a | ls", "what's this, and what's that?"),
        ),
        ("echo '|> not here' |> but here", Command("echo '|> not here'", "but here")),
        ("!echo '|> not here'", Command("echo '|> not here'")),
        ('!echo "a |> b"', Command('echo "a |> b"')),
        ("!echo a \\|> b", Command("echo a \\|> b")),
        ("ls |> is 'a |> b' right?", Command("ls", "is 'a |> b' right?")),
    ],
)
def test_lines(line: str, meaning: Input) -> None:
    assert read(line) == meaning


@given(st.text(max_size=60))
def test_any_text_can_be_said_with_a_backslash(text: str) -> None:
    said = read("\\" + text)
    assert said == (Say(text.strip(), literal=True) if text.strip() else None)


@given(st.text(alphabet="ls |>'\"\\!:ab\n", max_size=40))
def test_any_line_means_something(line: str) -> None:
    assert isinstance(read(line), None | Meta | Command | Say)
