"""The kind of a file, by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tokenbox.folder.copied import compiled, copied_repositories
from tokenbox.folder.priors import PRIORS as TABLE
from tokenbox.folder.priors import prior_of
from tokenbox.folder.source import read, survey

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/server.py", "source"),
        ("tst/functions/Mock.Tests.ps1", "test"),
        ("src/Should-Be.Tests.ps1", "test"),
        ("test/suite/http_SUITE.erl", "test"),
        ("lib/Page/basic.t", "test"),
        ("contracts/Vault.t.sol", "test"),
        ("rtl/alu_tb.sv", "test"),
        ("soc/tb/axi_master.sv", "test"),
        ("verif/env/agent.sv", "test"),
        ("testsuite/drivers/run.py", "test"),
        ("lib/t/t_case9.m", "test"),
        ("lib/t/case9.m", "source"),
        ("sway/sway.5.scd", "docs"),
        ("reference/types.scrbl", "docs"),
        ("notes/torus.nb", "data"),
        ("src/fmain.lrj", "data"),
        ("tex/halpha.bst", "settings"),
        ("data/app.desktop", "settings"),
        ("hakyll.cabal", "manifest"),
        ("pubspec.yaml", "manifest"),
        ("Chart.yaml", "manifest"),
        ("dbt_project.yml", "manifest"),
        ("alire.toml", "manifest"),
        ("v.mod", "manifest"),
        ("example_packages/hello/app/main.f90", "example"),
        ("notebooks/eda.ipynb", "example"),
        ("doc/model.tex", "docs"),
        ("exampled.zig", "source"),
        ("app/src/main/kotlin/com/google/samples/App.kt", "source"),
        ("core/src/main/java/org/springframework/test/Context.java", "source"),
        ("shared/src/commonMain/kotlin/demo/App.kt", "source"),
        ("src/main/java/org/junit/Test.java", "source"),
        ("engine/src/jsMain/kotlin/js/kotlin.test.kt", "source"),
        ("Sources/Rules/NoForceTryInTests.swift", "source"),
        ("Sources/Quick/Examples/AsyncSpec.swift", "source"),
        ("Tests/Sources/App/Helper.swift", "test"),
        ("Sources/CLib/tests/check.c", "test"),
        ("src/main/java/org/junit/README.md", "readme"),
        ("samples/src/main/java/com/shop/App.java", "example"),
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
        ("src/config.h.in", "source"),
        ("data/app.desktop.in", "settings"),
        ("man/app.1.in", "docs"),
        ("tutorials/first/silicon.win", "example"),
        ("docs/tutorials/first.md", "docs"),
        ("src/tutorials.py", "source"),
        ("rel/i18n/api.hocon", "translation"),
        ("etc/base.hocon", "settings"),
        ("sql/pgtap--1.2.0--1.3.0.sql", "migration"),
        ("sql/pgtap--1.2.0.sql", "source"),
        ("README.md", "readme"),
        ("README-ja.md", "translation"),
        ("README.zh-Hans.md", "translation"),
        ("docs/pt-BR/config/README.md", "translation"),
        ("web/docs/ja/config/README.md", "translation"),
        ("ci-cd/README.md", "readme"),
        ("docs/en-GB/config/README.md", "readme"),
        ("web/locales/de.json", "translation"),
        ("web/locales/de.ts", "source"),
        ("packages/i18n/README.md", "readme"),
        ("mac/de.lproj/Main.strings", "translation"),
        ("mac/Base.lproj/Main.storyboard", "settings"),
        ("app/src/main/res/values-sv/strings.xml", "translation"),
        ("lib/zlib-1.2.13/inflate.c", "vendored"),
        ("lib/zlib-1.2.13/README.txt", "readme"),
        ("docs/migrating-to-1.0.0/index.md", "docs"),
        ("mac/Sparkle.framework/Headers/SUUpdater.h", "vendored"),
        ("Game.Framework/Color.cs", "source"),
        ("KitTests/Helper.h", "test"),
        ("test_shop/cart.f90", "test"),
        ("src/cart_tests.zig", "test"),
        ("regtests/src/util-dates-tests.adb", "test"),
        ("src/util-dates-tests.ads", "test"),
        ("core/useCart/demo.vue", "example"),
        ("KitTest/Helper.lean", "test"),
        ("Latest/Helper.h", "source"),
        ("runtime/queries/zig/highlights.scm", "data"),
        ("src/highlights.scm", "source"),
        ("Kit/Contests/View.swift", "source"),
        ("src/Kit.Test/Clock.cs", "test"),
        ("Kit/RACSignalSpec.m", "test"),
        ("docs/rpc-spec.md", "docs"),
        ("scripts/readmes.ts", "source"),
        ("app/migrations/0012_prices.py", "migration"),
        ("app/migrations/__init__.py", "source"),
        ("db/migrate/20240102_add.rb", "migration"),
        ("src/main/resources/db/migration/V2__prices.sql", "migration"),
        ("tests/migrations/0001_first.py", "test"),
        ("R/import-standalone-purrr.R", "vendored"),
        ("CHANGES.rst", "changelog"),
        ("src/history.ts", "source"),
        ("package.json", "manifest"),
        ("Cargo.lock", "lock file"),
        ("vendor/lib/a.go", "vendored"),
        ("examples/app.py", "example"),
        (".github/workflows/ci.yml", "automation"),
        ("dist/browser/app.cjs", "generated"),
        ("core/api/core.klib.api", "generated"),
        ("src/PublicAPI.Shipped.txt", "generated"),
        ("web/App.MIN.js", "generated"),
        ("web/schema.generated.ts", "generated"),
        ("web/schema.generated.d.ts", "source"),
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
    assert prior_of(path, b"text\n").name == kind


def test_for_the_name_of_a_generated_file_the_content_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tokenbox.folder.priors.is_generated", None)
    assert prior_of("rpc/call_pb2.py", b"text\n").name == "generated"


def test_a_script_needs_no_extension() -> None:
    assert prior_of("bin/run", b"#!/usr/bin/env perl\n").name == "source"


@pytest.mark.parametrize(
    ("path", "top"),
    [
        ("NAMESPACE", b"# Generated by roxygen2: do not edit by hand\n"),
        ("src/auto-imports.d.ts", b"// @ts-nocheck\n// Generated by unplugin-auto-import\n"),
        ("src/bindings.rs", b"/* automatically generated by rust-bindgen 0.69.4 */\n"),
        ("lib/schema.ts", b"// DO NOT EDIT. This file is generated from schema.graphql.\n"),
        ("rbi/gems/mail.rbi", b"# DO NOT EDIT MANUALLY\n# This is an autogenerated file for types.\n"),
        ("src/ids.rs", b"// Autogenerated by build.rs, do not modify.\n"),
        ("src/tab.c", b"/* This table was automatically generated by mktables. Do not edit. */\n"),
    ],
)
def test_what_a_program_wrote_says_so_at_its_top(path: str, top: bytes) -> None:
    assert prior_of(path, top).name == "generated"
    assert prior_of(path, b"// Written by hand, not generated.\n").name != "generated"


def test_a_mark_of_a_line_says_nothing_of_the_file() -> None:
    assert (
        prior_of("src/core.cljs", b";; next line is auto-generated - Do not edit!\n(def x)\n").name
        == "source"
    )


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("css/kit.css", b"a { color: red }\n/*# sourceMappingURL=kit.css.map */\n", "generated"),
        ("css/kit.css", b"a { color: red }\n/* no sourceMappingURL=kit.css.map, but words */\n", "source"),
        (
            "src/icon.inl",
            b"static const char icon[] = {\n" + b"0x1f, 0x8B, 12,\n" * 300 + b"};\n",
            "generated",
        ),
        # Source with a table in it: the middle is all numbers.
        (
            "src/cipher.c",
            b"round(key, of);\n" * 60 + b"0x1f, 0x8B, 12,\n" * 300 + b"round(key, of);\n" * 60,
            "source",
        ),
        ("src/icons.c", b"add(0x1f); // the icon of a file\n" * 300, "source"),
        ("src/small.inl", b"0x1f, 0x8B, 12,\n" * 20, "source"),
        ("ui/dialog.ui", b'\xef\xbb\xbf<?xml version="1.0"?>\n<ui/>\n', "data"),
        ("Shop.dproj", b'<Project xmlns="http://schemas.microsoft.com/developer/msbuild/2003">\n', "data"),
        ("qt/shop_de.ts", b'<?xml version="1.0"?>\n<TS/>\n', "data"),
        ("release-tool", b"#!/usr/bin/env python3\n", "source"),
        ("RELEASE-NOTES", b"1.0: all new\n", "changelog"),
    ],
)
def test_content_tells_the_kind(path: str, content: bytes, kind: str) -> None:
    assert prior_of(path, content).name == kind


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"lib/kit/.travis.yml": b""}, ("lib/kit/",)),
        ({"lib/kit/.github/workflows/test.yml": b""}, ("lib/kit/",)),
        ({}, ()),
        ({"lib/kit/.github/CODEOWNERS": b""}, ()),
        ({"lib/kit/.travis.yml": b"", "lib/kit/LICENSE": b"Copyright 2015 Shop Ltd."}, ()),
        ({"lib/kit/.travis.yml": b"", "LICENSE": b"Copyright 2001 Kit People"}, ()),
    ],
)
def test_a_copied_repository_has_a_ci_and_another_license(
    more: dict[str, bytes], found: tuple[str, ...]
) -> None:
    files = {
        "LICENSE": b"Copyright 2024 Shop Ltd.",
        "lib/kit/LICENSE": b"Copyright 2001-2020 Kit People",
        "lib/kit/kit.c": b"",
    }
    assert copied_repositories((files | more).items()) == found


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("contrib/zlib/src/inflate.c", "contrib/zlib/"),
        ("src/lib/lua52/lvm.h", "src/lib/lua52/"),
        ("libs/SDL2-2.0.4/audio/SDL_audio.c", "libs/SDL2-2.0.4/"),
        ("lib/openssl/cipher.rb", None),  # a binding
        ("lua/plugin/init.c", None),
        ("src/zlib/stream.c", None),
        ("contrib/shop/cart.c", None),
        ("lib/zlib.c", None),
    ],
)
def test_known_libraries_of_c_are_copied(path: str, folder: str | None) -> None:
    assert copied_repositories([(path, b"")]) == (() if folder is None else (folder,))


def test_a_binding_with_a_little_c_is_of_the_project() -> None:
    binding = [f"lib/zstd/{name}" for name in ("zstd_stubs.c", "zstd.ml", "zstd.mli", "README.md")]
    assert copied_repositories([(path, b"") for path in binding]) == ()


def test_what_lies_among_known_libraries_is_one() -> None:
    def found(*paths: str) -> set[str]:
        return set(copied_repositories([(path, b"") for path in paths]))

    known = [f"src/libraries/{name}/a.c" for name in ("enet", "lua53", "stb")]
    assert found(*known[1:], "src/libraries/ours/b.c") == {"src/libraries/lua53/", "src/libraries/stb/"}
    assert "src/libraries/Wuff/" in found(*known, "src/libraries/Wuff/b.c", "src/libraries/c.c")
    assert len(found(*known, *(f"src/libraries/own{n}/b.c" for n in range(10)))) == len(known)
    assert len(found(*(path.replace("libraries", "lib") for path in known), "src/lib/own/b.c")) == len(known)


def test_what_was_compiled_lies_beside_its_source() -> None:
    written = ["a/cart.lua", "a/Shop.res.mjs", "a/shop.css", "a/type.d.ts", "a/x.js", "types/a/type.d.ts"]
    sources = ["a/cart.moon", "a/Shop.res", "a/shop.scss", "a/type.ts", "a/x.coffee"]
    others = ["b/cart.lua", "a/other.js", "a/other.d.ts", "a/x.test.js", "types/type.d.ts", "lua", "a/moon"]
    assert list(compiled([*sources, *written, *others])) == written


def test_a_source_of_a_language_may_need_one_of_another_beside_it() -> None:
    foreign = ["src/Shop.purs", "src/Shop.js"]  # what PureScript imports is written by hand
    of_other_packages = ["kit/lib/index.ts", "app/lib/index.d.ts", "src/cart.ts", "src/types/cart.d.ts"]
    assert not list(compiled([*foreign, *of_other_packages]))
    declared = "web/types/shop/cart.d.ts"
    assert list(compiled(["web/src/shop/cart.tsx", declared])) == [declared]


def test_a_pack_shows_the_source_of_what_was_compiled_and_of_what_uses_a_library(tmp_path: Path) -> None:
    names = ["app/cart.ts", "app/cart.js", "lib/zlib/inflate.c", "main.c"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("int main() { return 0; }\n", encoding="utf-8")
    assert {file.name: file.prior.name for file in read(survey([tmp_path])).files} == dict(
        zip(names, ["source", "generated", "vendored", "source"], strict=True)
    )


def test_a_query_is_about_no_changelog_and_no_lock_file() -> None:
    more = {prior.name: prior.if_about - prior.percent for prior in TABLE}
    assert {name for name, percent in more.items() if not percent} == {
        "changelog", "generated", "legal", "lock file", "migration", "source", "test", "vendored",
    }  # fmt: skip


def test_a_path_without_a_name_is_of_no_kind() -> None:
    assert [prior_of(path, b"").name for path in ("", "src/")] == ["unknown", "unknown"]
