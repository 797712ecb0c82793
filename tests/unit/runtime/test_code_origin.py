"""Whose code a file holds."""

import os
from pathlib import Path

import pytest

import dokimos
from dokimos._runtime.code_origin import CodeOrigin, find_code_origin

PACKAGE = Path(dokimos.__file__).parent


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        ("/home/ada/app/main.py", CodeOrigin.USERS),
        (f"{PACKAGE}_app/x.py", CodeOrigin.USERS),
        ("/home/ada/my-site-packages-mirror/x.py", CodeOrigin.USERS),
        (str(PACKAGE / "errors.py"), CodeOrigin.OURS),
        (str(Path(os.__file__)), CodeOrigin.STANDARD),
        ("/x/.venv/lib/python3.12/site-packages/lib/api.py", CodeOrigin.LIBRARY),
    ],
)
def test_a_file_belongs_to_whoever_owns_its_folder(file, origin):
    assert find_code_origin(file) is origin


@pytest.mark.parametrize(
    ("file", "module", "origin"),
    [
        ("<frozen importlib._bootstrap>", "importlib", CodeOrigin.STANDARD),
        ("<string>", "dokimos._core.results", CodeOrigin.OURS),
        ("<string>", "dokimos_app", CodeOrigin.USERS),
        ("<stdin>", "__main__", CodeOrigin.USERS),
    ],
)
def test_code_without_a_file_belongs_to_its_module(file, module, origin):
    assert find_code_origin(file, module) is origin
