"""What is public is a decision: a snapshot, packages that export it, and pages that use nothing else."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
    *(ROOT / "examples").rglob("*.py"),
    *(ROOT / "tests" / "contract").glob("*.py"),
]
PAGES_FOR_USERS = [page for page in PAGES if page.suffix == ".md"]
ALLOWED = {
    "dokimos.datasets._resolver.FileResolver": "a built-in resolver, which has the contract of all",
    "dokimos.datasets._resolver.PackageResolver": "the same",
    "dokimos.datasets._resolver.ServerResolver": "the same",
    "dokimos.exporters._base.BUILT_IN": "the built-in exporters, which have the contract of all",
    "dokimos.exporters._base.exporter": "the same",
    "dokimos.judges._capabilities.forget_capabilities": "tests begin without knowledge of endpoints",
    "dokimos.testing.contracts._exporter_contract.make_result": "what wrong exporters are tested with",
}
"""Private names that tests of our own implementations need, and why."""
IMPORTS = re.compile(
    r"^\s*(?:from (dokimos[\w.]*) import (\([^)]*\)|[^\n#]+)|import (dokimos[\w.]*))", re.MULTILINE
)
DIRECTIVE = re.compile(r"^\.\. (?:(?P<module>automodule)|auto\w+|py:data):: (?P<name>[\w.]+)", re.MULTILINE)
"""What a page of the reference documents."""


@pytest.fixture(scope="module")
def tool():
    spec = spec_from_file_location("public_surface", ROOT / "tools" / "public_surface.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_public_surface_is_the_one_that_was_decided(tool):
    decided = (ROOT / "tests" / "contract" / "public_surface.txt").read_text(encoding="utf-8").splitlines()

    assert list(tool.surface_lines()) == decided, (
        "The public surface has changed. Where that is meant: python tools/public_surface.py > "
        "tests/contract/public_surface.txt, and a line in the CHANGELOG."
    )


def test_every_public_name_is_on_a_page_of_the_reference(tool):
    exported = {
        f"{module}.{name}": getattr(import_module(module), name)
        for module in tool.public_modules()
        for name in import_module(module).__all__
    }
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    directives = [*DIRECTIVE.finditer(pages)]
    whole_modules = tuple(f"{found['name']}." for found in directives if found["module"])
    names = {found["name"] for found in directives}
    # By identity, since a name may be exported by two packages.
    documented = {
        id(value) for name, value in exported.items() if name in names or name.startswith(whole_modules)
    }

    missing = [
        name
        for name, value in exported.items()
        if id(value) not in documented and not isinstance(value, ModuleType)
    ]
    assert not missing, "Put these on a page of docs/api."


def test_every_public_module_says_what_it_exports(tool):
    silent = [name for name in tool.public_modules() if not hasattr(import_module(name), "__all__")]
    assert not silent


def test_lazy_packages_export_what_type_checkers_see(tool):
    for name in tool.public_modules():
        module = import_module(name)
        lazy = getattr(module, "_MODULE_OF", None)
        if lazy is None:
            continue
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        block = next(node for node in tree.body if isinstance(node, ast.If))
        seen = {
            alias.asname: node.module.removeprefix("dokimos.")
            for node in block.body
            for alias in node.names
            if alias.asname not in getattr(module, "_SUBMODULES", ())
        }
        assert seen == {key: value.removeprefix("dokimos.") for key, value in lazy.items()}, name
        assert set(lazy) <= set(module.__all__), name


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_pages_and_examples_import_public_names_only(page, tool):
    public = {name: set(getattr(import_module(name), "__all__", ())) for name in tool.public_modules()}
    wrong = []
    for package, names, module in IMPORTS.findall(page.read_text(encoding="utf-8")):
        if module and module not in public:
            wrong.append(module)
        for name in re.split(r"[\s,()]+", re.sub(r"#.*|\s+as\s+\w+", "", names)):
            if f"{package}.{name}" in ALLOWED:
                continue
            if name and name not in public.get(package, ()) and f"{package}.{name}" not in public:
                wrong.append(f"{package}.{name}")
    assert not wrong, f"{page.relative_to(ROOT)} imports what is not public: {', '.join(wrong)}"


def test_private_modules_stay_unimported_by_import_star():
    before = set(sys.modules)
    import_module("dokimos")
    assert not {name for name in set(sys.modules) - before if name.startswith("dokimos._core")}


def test_completion_offers_what_is_public_and_no_imports(tool):
    found = set(tool.public_modules())
    for name in [*(n for n in found if hasattr(import_module(n), "__path__")), "dokimos.errors"]:
        module = import_module(name)
        own = {listed for listed in dir(module) if not listed.startswith("__")}
        surplus = {listed for listed in own - set(module.__all__) if f"{name}.{listed}" not in found}
        assert not surplus, f"dir({name}) lists what it does not export: {', '.join(sorted(surplus))}"
        assert set(module.__all__) <= set(dir(module)), name


@pytest.mark.parametrize(
    "page", PAGES_FOR_USERS, ids=[str(page.relative_to(ROOT)) for page in PAGES_FOR_USERS]
)
def test_pages_for_users_name_no_private_module(page):
    private = re.findall(r"\bdokimos(?:\.\w+)*\._[a-z]\w*", page.read_text(encoding="utf-8"))
    assert not private, f"{page.relative_to(ROOT)} names {', '.join(private)}, which users cannot rely on"


def test_the_help_of_the_package_begins_with_an_example():
    dokimos = import_module("dokimos")
    assert "evaluate(capitals, answer, [ExactMatch()])" in dokimos.__doc__
