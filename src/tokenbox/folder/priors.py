"""The weight of a kind of file beside source code, in percent: a prior, multiplied by the relevance.

Mild for files that a task may well need (tests), strong for files that it hardly ever needs (lock files).
The first rule that matches decides. Patterns are as in .gitignore, but ignore case; docs/pack.md has the same
table.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import Priority
from tokenbox.folder.generated import NAMES, is_generated, is_table, is_xml
from tokenbox.folder.globs import Glob, files_in, matching
from tokenbox.folder.languages import CODE, kind_of, without_in
from tokenbox.worth.words import stem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.worth.query import Query


@dataclass(frozen=True, slots=True, eq=False)  # a row of the table below: the same one is equal
class Prior:
    """A kind of file: its weight in percent with a query (``percent``) and without one (``alone``).

    ``globs``: the patterns of its files, separated by spaces. ``words``: those by which the title of a query
    names the kind, for kinds that a query may be about. ``only``: the names of its files,
    if not all that match.
    """

    name: str
    percent: int
    alone: int
    globs: str = ""
    words: str = ""
    only: re.Pattern[bytes] | None = None

    @property
    def if_about(self) -> int:
        """The weight in percent of a file of this kind that a query is about."""
        return max(self.percent, _IF_ABOUT) if self.words else self.percent

    def with_query(self, query: Query) -> int:
        """Return the weight in percent: that of source if the title of the query names the kind."""
        is_named = any(stem(word) in query.title for word in self.words.split())
        return SOURCE.percent if is_named else self.percent

    @property
    def priority(self) -> Priority:
        """The priority of such a file as a block of a ``.bcp`` pack."""
        return _PRIORITIES.get(self.name, Priority.BACKGROUND)


_IF_ABOUT = 70
_PRIORITIES = {
    "source": Priority.NORMAL,
    "readme": Priority.HIGH,
    "manifest": Priority.HIGH,
    "test": Priority.LOW,
    "migration": Priority.LOW,
    "docs": Priority.LOW,
    "example": Priority.LOW,
    "settings": Priority.LOW,
}
SOURCE = Prior("source", 100, 100)
# A file whose name has no extension, unless it begins with ``#!``.
UNKNOWN = Prior("unknown", 40, 15)
# Matched by more than these patterns: see ``generated.NAMES`` and ``is_generated``.
GENERATED = Prior("generated", 8, 4, "**/api/*.api")
# Changelogs, licenses and READMEs are pages: history.ts and security.py are modules. Translations are pages
# or data.
_PAGES = rb"md|markdown|mdx|txt|text|rst|adoc|org|html?|rdoc|textile|pod|pot?"
_PAGE_NAMES = re.compile(rb"(?s)[^a-z.]+(?:\..*)?|[^.]*|.*\.(?:" + _PAGES + rb")")
_TRANSLATED = re.compile(
    rb"(?s).*\.(?:"
    + _PAGES
    + rb"|json5?|ya?ml|xml|xliff|xlf|strings|stringsdict|xib|storyboard|resx|properties|ini|hocon|ftl|arb)"
)
_DOCS = "doc documentation guide tutorial manual readme wiki"
# Languages that projects are translated to from English.
_LANGUAGES = (
    "a[rz] b[egns] c[asy] d[ae] e[lostu] f[air] g[alu] h[eiruy] it ja k[akmnou] l[tv] m[klnr] n[beln]"
    " p[alt] r[ou] s[iklqrvw] t[aehlr] u[krz] vi zh"
).split()
_TRANSLATION = "translation localization locale i18n l10n"
PRIORS = (
    Prior(
        "lock file",
        1,
        1,
        "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock deno.lock poetry.lock "
        "pdm.lock uv.lock pipfile.lock conda-lock.yml pixi.lock cargo.lock go.sum gemfile.lock "
        "composer.lock mix.lock pubspec.lock podfile.lock flake.lock packages.lock.json gradle.lockfile "
        "package.resolved .terraform.lock.hcl",
    ),
    Prior(
        "vendored",
        25,
        6,
        "vendor/ _vendor/ vendored/ third_party/ thirdparty/ node_modules/ bower_components/ pods/ "
        "import-standalone-*.r",
    ),
    GENERATED,
    Prior(
        "vendored",
        25,
        6,
        "deps/ external/ externals/ extern/ extlibs/ 3rdparty/ third-party/ subprojects/ "
        "**/*.framework/headers/ **/*.framework/versions/ **/*.framework/modules/",
    ),
    Prior(
        "generated",
        8,
        3,
        "docs/**/*.html docs/**/*.js docs/**/*.css docs/**/*.json *.docset/ site-packages/ dist/ "
        "gradlew gradlew.bat mvnw mvnw.cmd api/*.api priv/static/**/*.js priv/static/**/*.mjs",
    ),
    Prior(
        "changelog",
        5,
        3,
        "CHANGELOG* HISTORY* CHANGES* NEWS* RELEASE* changelog/ changelogs/ CHANGES/ .changeset/ *.po *.pot",
        only=_PAGE_NAMES,
    ),
    Prior(
        "legal",
        3,
        2,
        "LICENSE* LICENCE* COPYING* NOTICE* AUTHORS* CODE_OF_CONDUCT* CONTRIBUTORS* SECURITY* CODEOWNERS",
        only=_PAGE_NAMES,
    ),
    Prior(
        "data",
        6,
        2,
        "fixtures/ __snapshots__/ _snaps/ testdata/ test-data/ golden/ cassettes/ *.csv *.tsv *.jsonl *.svg "
        "*.log *.snap *.map *.geojson *.topojson *.gltf *.obj *.mtl *.stl *.bdf *.drawio *.gpx *.kml "
        "*.srt *.vtt *.unity *.meta *.asset *.import *.uid",
        "json yaml fixture snapshot",
    ),
    Prior(
        "automation",
        6,
        3,
        ".github/ .circleci/ .gitlab* .travis.yml azure-pipelines* .buildkite/ appveyor* Jenkinsfile "
        ".azure/ .vscode/ .idea/ .devcontainer/",
        "ci gha github gitlab workflow travis circleci appveyor jenkins devcontainer dependabot chore",
    ),
    Prior(
        "settings of tools",
        8,
        3,
        ".* .*/ tox.ini setup.cfg *.editorconfig codecov.yml renovate.json *.eslintrc* mypy.ini ruff.toml",
        "ci lint linter eslint prettier ruff mypy pylint rubocop golangci clippy tox editorconfig gitignore "
        "renovate codecov chore",
    ),
    Prior(
        "translation",
        20,
        3,
        # Pages and folders of a language, such as ``pt-BR/``.
        "README[-_.][a-z][a-z].md README[-_.][a-z][a-z][-_][a-z]*.md "
        + " ".join(
            f"{language}[-_][a-z][a-z]/ {language}.lproj/ {language}[-_]*.lproj/ "
            f"values-{language}/ values-{language}-*/ **/docs/{language}/"
            for language in _LANGUAGES
        )
        + " zh-han[st]/",
        f"{_DOCS} {_TRANSLATION}",
        _TRANSLATED,
    ),
    # A library in a folder with its version, such as ``zlib-1.2.13/``.
    Prior(
        "vendored",
        25,
        6,
        "[a-z]*-[0-9].[0-9]*.[0-9]*/ [a-z]*-[0-9][0-9].[0-9]*.[0-9]*/",
        only=re.compile(rb"(?s)(?!.*\.(?:" + _PAGES + rb")\Z).*"),
    ),
    Prior("readme", 35, 45, "README* AGENTS.md CLAUDE.md ARCHITECTURE*", f"{_DOCS} badge", _PAGE_NAMES),
    Prior(
        "manifest",
        30,
        35,
        # Those that name the project before those that also serve tools.
        "pyproject.toml Cargo.toml go.mod pom.xml build.gradle* *.gemspec composer.json mix.exs *.csproj "
        "*.fsproj *.vbproj *.sbt build.sc Package.swift *.cabal cabal.project stack.yaml dune-project "
        "*.opam *.nimble project.clj deps.edn build.zig.zon pubspec.yaml Project.toml rebar.config *.asd "
        "shard.yml dub.json dub.sdl DESCRIPTION cpanfile Makefile.PL Build.PL dist.ini *.psd1 fpm.toml "
        "foundry.toml elm.json gleam.toml setup.py package.json Gemfile Rakefile CMakeLists.txt meson.build "
        "BUILD.bazel WORKSPACE.bazel MODULE.bazel Podfile Makefile Dockerfile Dockerfile.* "
        "*.dockerfile Containerfile "
        # of charts, dbt, Salesforce, Godot, SystemVerilog, Ada, ReScript, PureScript, Racket, Nextflow, V
        "Chart.yaml dbt_project.yml sfdx-project.json project.godot Bender.yml alire.toml rescript.json "
        "bsconfig.json spago.yaml spago.dhall info.rkt nextflow.config v.mod vcpkg.json conanfile.txt",
        "build gradle maven pom cargo gemspec gemfile rakefile makefile cmake bazel meson npm pyproject "
        "docker dockerfile dependency chore",
    ),
    Prior(
        "test",
        80,
        8,
        "tests/ test/ regtests/ __tests__/ spec/ specs/ e2e/ testing/ testsuite/ tb/ verif/ *.Tests/ "
        "*UnitTests/ *IntegrationTests/ *FunctionalTests/ *_test/ *_tests/ test_*/ /t/ *-test/ *-tests/ "
        "test_*.py *_test.* *_tests.* *-tests.ad[bs] "
        "test.ts test.tsx test.js test.jsx test.mjs test.rs tests.rs test.py tests.py spec.ts spec.js "
        "*-test.* *.test.* *.spec.* *_spec.rb conftest.py *Test.java *Tests.java *Test.kt *Tests.kt "
        "*Test.cs *Tests.cs *Tests.swift *Spec.swift *Test.m *Tests.m *Spec.m *Test.php *.test/ *.tests.* "
        "*-spec.[cjt]* *-spec.lua *spec.groovy *spec.hs *spec.scala *_suite.erl *.bats "
        "*.t **/t/t_*.m *.t.sol *.testclasses.abap test-*.r *_tb.* tb_*.* *.tftest.hcl /tst/ "
        "jvmTest/ commonTest/ androidTest/ features/**/*.feature "
        "features/step_definitions/ features/support/",
    ),
    Prior(
        "example",
        45,
        5,
        "examples/ example/ example[-_]*/ samples/ sample/ *.ipynb "
        "demo/ demos/ benchmarks/ benchmark/ bench/ benches/ "
        "demo.vue demo.svelte demo.[jt]s demo.[jt]sx "
        "playground/ sandbox/ website/ www/ site/ completion/ completions/ *-completion/ *-completions/",
        "example demo benchmark bench playground website",
    ),
    # Steps in the history of a database, which say little about what it is now.
    Prior(
        "migration",
        100,
        8,
        "**/migrations/**/[0-9]* **/migrations/**/v[0-9]* **/migrate/[0-9]* **/migration/v[0-9]* "
        "**/alembic/versions/*.py *--[0-9]*--[0-9]*.sql",
    ),
    # Programs in YAML: those of Ansible, and the templates of Helm.
    Prior(
        "source",
        100,
        100,
        "**/tasks/**/*.yml **/tasks/**/*.yaml **/handlers/**/*.yml **/handlers/**/*.yaml "
        "**/roles/**/*.yml **/roles/**/*.yaml **/playbooks/**/*.yml **/playbooks/**/*.yaml "
        "**/charts/**/templates/**/*.yaml",
    ),
    Prior(
        "translation",
        20,
        3,
        "i18n/ l10n/ locale/ locales/ translation/ translations/",
        _TRANSLATION,
        _TRANSLATED,
    ),
    Prior(
        "docs",
        30,
        20,
        "docs/ doc/ documentation/ vignettes/ man/ *.md *.mdx *.rmd *.qmd *.rst *.txt *.adoc *.org *.pod *.1 "
        "*.rd *.tex *.bib *.wiki *.texi *.[1-8].scd *.scrbl",
        _DOCS,
    ),
    # After the pages: the text of a tutorial is one.
    Prior("example", 45, 5, "tutorial/ tutorials/", "example demo tutorial"),
    Prior(
        "data",
        25,
        8,
        "*.json *.yaml *.yml *.xml *.html *.htm *.lock *.edn *.pem *.crt *.cer *.patch *.diff *.orig "
        "*.tscn *.tres *.prefab *.glade *.dfm *.lfm **/queries/**/*.scm *.nb *.lrj",
        "json yaml xml html scene prefab",
    ),
    Prior(
        "settings",
        40,
        15,
        "*.toml *.ini *.cfg *.conf *.hocon *.config *.properties *.gradle *.cmake *.sln *.slnx *.props "
        "*.targets *.globalconfig *.ruleset *.plist *.pbxproj *.xcscheme *.dotsettings *.nuspec *.resx "
        "*.desktop *.bst "
        "*.podspec *.rockspec *.bat *.cmd *.xcconfig *.xcsettings *.storyboard *.xib *.entitlements",
        "build gradle cmake msbuild podspec rockspec xcode chore",
    ),
)

# The number of folders whose priors are kept.
_MAX_FOLDERS = 4_096
# The number of the rule of what a program wrote.
_GENERATED = PRIORS.index(GENERATED)
VENDORED, XML = (
    next(prior for prior in PRIORS if glob in prior.globs.split()) for glob in ("vendor/", "*.xml")
)
# Below these, folders are packages: ``com/google/samples`` has no samples. And no file is a test: JUnit's
# ``Test.java``, the rule ``NoForceTryInTests.swift``.
_MAIN = rb"((?:^|/)(?:src/[a-z]*main/(?:java|kotlin|scala|groovy)|sources(?=/.*\.swift\Z))/)"
_PACKAGE_FOLDERS = re.compile(_MAIN + rb"(?:[^/]+/)+")
_MAIN_TEST = re.compile(_MAIN + rb"[^/]*(?:tests?|spec)(?=\.[a-z]+\Z)")
# The tests beside ``App/`` in ``AppTests/`` or ``AppTest/``.
_CAMEL_TESTS = re.compile(r"(?<=[A-Za-z0-9])Tests?/")


def prior_of(path: str, content: bytes) -> Prior:
    """Return the prior of a file, by its path, or by a mark at its top such as ``@generated``."""
    folder, slash, last = _CAMEL_TESTS.sub(".tests/", path).lower().rpartition("/")
    whole = os.fsencode(folder + slash + without_in(last))
    if b"main/" in whole or b"sources/" in whole:
        whole = _MAIN_TEST.sub(rb"\1main", _PACKAGE_FOLDERS.sub(rb"\1", whole))
    name = whole.rpartition(b"/")[2]
    matches = _rules()(whole)
    if (not matches or matches[0] > _GENERATED) and is_generated(path, content):
        return GENERATED
    is_script = content.startswith(b"#!")
    own_name = os.fsencode(path).rpartition(b"/")[2]
    for prior in map(PRIORS.__getitem__, matches):
        if prior.only is None or (prior.only.fullmatch(own_name) is not None and not is_script):
            return prior
    if is_xml(content):
        return XML
    if is_table(content):
        return GENERATED
    is_known = b"." in name or is_script or kind_of(path, b"") is not CODE
    return SOURCE if is_known else UNKNOWN


@cache
def _rules() -> Callable[[bytes], list[int]]:
    """Return what finds the numbers of the priors with a pattern for a path.

    The patterns of folders are matched once for each folder, and apart from the others: an automaton of both
    has five times as many states, which take longer to build than all paths to match.
    """
    of_folders, of_files = [], []
    for prior in PRIORS:
        globs = prior.globs.lower().split()
        # ``*.json`` does not match the files in ``x.json/``.
        names = [glob.source for name in globs if (glob := Glob.of(name)) and "/" not in name]
        names += [NAMES] if prior is GENERATED else []
        rules = [files_in(glob for glob in globs if "/" in glob and not glob.endswith("/"))]
        rules += [b"(?:.*/)?(?:%b)" % name for name in names]
        of_files.append(b"|".join(rules))
        of_folders.append(files_in(glob for glob in globs if glob.endswith("/")))
    by_path, by_folder = matching(of_files), lru_cache(_MAX_FOLDERS)(matching(of_folders))

    def numbers(path: bytes) -> list[int]:
        folder, slash, _ = path.rpartition(b"/")
        own, around = by_path(path), by_folder(folder + slash)
        return sorted({*own, *around}) if own and around else own or around

    return numbers
