"""Recall of the function that raised an error, with the traceback as the query, or only its message.

    python bench/selection/tracebacks.py [--selectors "tokenbox,bm25 chunks"]

The errors are raised in the installed standard library, which is the packed tree. The gold is the innermost
function of the traceback that is part of it.
"""

from __future__ import annotations

import argparse
import ast
import sys
import sysconfig
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from docstrings import library
from measuring import Recalls
from score import hunks
from trees import source_of

ROOT = Path(sysconfig.get_path("stdlib"))
# Each raises an error inside of a module that is written in Python.
CALLS = """
import json; json.loads("{1}")
import ast; ast.literal_eval("f(x)")
import argparse; argparse.ArgumentParser(exit_on_error=False).add_argument("-a", "b")
import configparser; configparser.ConfigParser().read_string("no section")
import configparser; configparser.ConfigParser().get("a", "b")
import fractions; fractions.Fraction("one half")
import ipaddress; ipaddress.ip_address("300.1.2.3")
import ipaddress; ipaddress.ip_network("10.0.0.1/8")
import urllib.request; urllib.request.urlopen("nothing://here")
import io, zipfile; zipfile.ZipFile(io.BytesIO(b"no archive"))
import io, tarfile; tarfile.open(fileobj=io.BytesIO(b"no archive"))
import shlex; shlex.split("it's")
import statistics; statistics.mean([])
import string; string.Template("$name is here").substitute()
import uuid; uuid.UUID("1234")
import plistlib; plistlib.loads(b"no list")
import tomllib; tomllib.loads("a = ")
import pathlib; pathlib.PurePosixPath("/a").relative_to("/b")
import getopt; getopt.getopt(["--unknown"], "", ["known"])
import inspect; inspect.signature(1)
import calendar; calendar.monthrange(2024, 13)
import difflib; difflib.get_close_matches("a", ["b"], n=0)
import dataclasses; dataclasses.make_dataclass("A", [("x", list, [])])
import enum; enum.unique(enum.Enum("A", {"x": 1, "y": 1}))
import graphlib; list(graphlib.TopologicalSorter({1: [2], 2: [1]}).static_order())
import random; random.sample([1], 2)
import io, wave; wave.open(io.BytesIO(b"no sound at all"))
import email.headerregistry; email.headerregistry.Address(addr_spec="a@b@c")
import http.cookies; http.cookies.SimpleCookie()["a b"] = "c"
import base64; base64.b32decode(b"1")
import gettext; gettext.find("a", languages=None) or gettext.translation("nowhere")
import logging.config; logging.config.dictConfig({"version": 2})
import subprocess; subprocess.run(["x"], input=b"", stdin=1)
import textwrap; textwrap.wrap("some words", width=0)
import html.parser, xml.dom.minidom; xml.dom.minidom.Document().appendChild(xml.dom.minidom.Text())
import concurrent.futures; concurrent.futures.ThreadPoolExecutor(max_workers=0)
import asyncio; asyncio.run(1)
import importlib; importlib.import_module(".a")
import unittest; unittest.TestCase().assertEqual([1], [2])
import quopri, tempfile; tempfile.SpooledTemporaryFile(mode="q").rollover()
""".strip().splitlines()


def tasks() -> list[tuple[str, str, str, int, int]]:
    """Return (traceback, message, path, first and last line of the function) of each error."""
    found = []
    for call in CALLS:
        try:
            exec(compile(call, "example.py", "exec"), {})
        except Exception as error:  # noqa: BLE001  # raising is the point
            frames = [
                frame
                for frame in traceback.extract_tb(error.__traceback__)
                if ROOT in Path(frame.filename).parents
            ]
            if not frames:
                continue
            inner = frames[-1]
            path = Path(inner.filename)
            around = [
                node
                for node in ast.walk(ast.parse(path.read_bytes()))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.lineno <= (inner.lineno or 0) <= (node.end_lineno or 0)
            ]
            if around:
                nearest = max(around, key=lambda node: node.lineno)
                text = "".join(traceback.format_exception(error))
                message = "".join(traceback.format_exception_only(error)).strip()
                found.append(
                    (
                        text,
                        message,
                        str(path.relative_to(ROOT)),
                        nearest.lineno,
                        nearest.end_lineno or nearest.lineno,
                    )
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--selectors", default="tokenbox,bm25 chunks")
    parser.add_argument("--budgets", default="2000,8000,32000")
    options = parser.parse_args()
    recalls = Recalls([int(budget) for budget in options.budgets.split(",")])
    files = library()
    source = source_of(files)
    known = [task for task in tasks() if task[2] in files]
    for name in options.selectors.split(","):
        for at, what in enumerate(("the traceback", "its message")):
            rows = [recalls.of(name, source, task[at], hunks(files, [[*task[2:]]])) for task in known]
            recalls.show(f"{name}, {what}: {len(rows)} errors", rows)


if __name__ == "__main__":
    main()
