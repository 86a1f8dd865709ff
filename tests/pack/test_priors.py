"""The kind of a file, by its path."""

from __future__ import annotations

import pytest

from tokenbox.folder.priors import Priors

PRIORS = Priors()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/server.py", "source"),
        ("src/contest.ts", "source"),
        ("src/latest.js", "source"),
        ("lib/testing.go", "source"),
        ("src/addMinutes/test.ts", "test"),
        ("src/parser/tests.rs", "test"),
        ("app/tests.py", "test"),
        ("pkg/server_test.go", "test"),
        ("spec/models/user_spec.rb", "test"),
        ("src/test/java/AppTest.java", "test"),
        ("web/button.spec.ts", "test"),
        ("docs/usage.md", "docs"),
        ("README.md", "readme"),
        ("CHANGES.rst", "changelog"),
        ("src/history.ts", "source"),
        ("package.json", "manifest"),
        ("Cargo.lock", "lock file"),
        ("vendor/lib/a.go", "vendored"),
        ("examples/app.py", "example"),
        (".github/workflows/ci.yml", "automation"),
        ("dist/browser/app.cjs", "generated"),
        ("lib/Guides/Routing.pod", "docs"),
        ("App.xcodeproj/schemes/App.xcscheme", "settings"),
        ("bricks/hooks/basic", "unknown"),
        ("configure", "source"),
        ("roles/web/tasks/main.yml", "source"),
        ("tasks/install/linux.yaml", "source"),
        ("deploy/charts/web/templates/service.yaml", "source"),
        ("roles/web/tests/test.yml", "test"),
        ("templates/service.yaml", "data"),
        ("vignettes/joins.Rmd", "docs"),
        ("tests/testthat/_snaps/slice.md", "data"),
        ("priv/shell-completion/fish/tool.fish", "example"),
    ],
)
def test_the_kind_of_a_path(path: str, kind: str) -> None:
    assert PRIORS.of(path, b"text\n").name == kind


def test_a_script_needs_no_extension() -> None:
    assert PRIORS.of("bin/run", b"#!/usr/bin/env perl\n").name == "source"
