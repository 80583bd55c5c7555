"""The rules of docs/architecture.md that no linter knows: sizes, names, who may import what, nothing of one machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FILE_LINES_MAX = 400  # what one sitting can read
FUNCTION_LINES_MAX = 70  # what one screen can show; aim for 40
BINARY_SUFFIXES = {".png", ".ico", ".woff2", ".db", ".zst", ".bin"}
LOCK_FILES = {"requirements.lock", "requirements-dev.lock"}
NAMES_OF_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc"}
ONLY_IMPORTERS: dict[str, set[str]] = {
    "automerge": {"roost/core/state.py"},
    "msgpack": set(),  # docs/decisions/0002-msgspec.md
}
# Signed and hashed bytes are made and read here; outside of core msgpack is for rows that never leave their peer.
PACKERS_OF_CORE = {"canonical", "entry", "have", "heads", "operation", "wire"}
# Spelt in pieces, or this file would be a finding of its own.
MACHINE_PATHS = re.compile("|".join(re.escape("/" + name + "/") for name in ("work", "tmp/v", "root", "opt/pypi")))


@pytest.fixture(scope="module")
def python_files(project_files: list[Path]) -> list[Path]:
    programs = [path for path in project_files if path.parent == Path("scripts") and _is_python(path)]
    return programs + [path for path in project_files if path.suffix == ".py"]


def test_a_file_has_at_most_400_lines(python_files: list[Path]) -> None:
    files = [path for path in python_files if path != Path("scripts/bench")]  # is to be one file, whatever it measures
    assert not {str(path): count for path in files if (count := len(_lines(path))) > FILE_LINES_MAX}


def test_a_function_has_at_most_70_lines(python_files: list[Path]) -> None:
    sizes = {f"{path}:{function.lineno} {function.name}": _length(function) for path, function in _all(python_files)}
    assert not {place: size for place, size in sizes.items() if size > FUNCTION_LINES_MAX}


def test_a_module_is_named_after_what_it_holds(python_files: list[Path]) -> None:
    assert not [str(path) for path in python_files if path.stem in NAMES_OF_NOTHING]


@pytest.mark.parametrize("package", ONLY_IMPORTERS)
def test_only_the_named_modules_import(package: str, python_files: list[Path]) -> None:
    importers = {
        path.relative_to("src").as_posix()
        for path in python_files
        if path.is_relative_to("src") and package in _imports(path)
    }
    assert importers <= ONLY_IMPORTERS[package]


def test_only_the_named_modules_of_core_pack_and_unpack(python_files: list[Path]) -> None:
    packers = {path.stem for path in python_files if path.is_relative_to("src/roost/core") and _packs(path)}
    assert packers <= PACKERS_OF_CORE


def test_the_architecture_names_every_module_but_the_commands(python_files: list[Path]) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    modules = {path for path in python_files if path.is_relative_to("src/roost") and not path.stem.startswith("__")}
    told = [path for path in modules if path.parent.name not in ("cli", "commands")]
    assert told
    assert not [str(path) for path in told if not re.search(rf"\b{path.stem}\b", text)]


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_/]+\.(?:py|json|md))`", text)) - {"api.json"}
    assert named
    assert not [name for name in named if not any((ROOT / base / name).is_file() for base in ("", "src/roost"))]


def test_nothing_names_a_path_of_one_machine(project_files: list[Path]) -> None:
    found = [
        f"{path}:{number} {match[0]}"
        for path in project_files
        if path.suffix not in BINARY_SUFFIXES
        for number, line in enumerate((ROOT / path).read_text("utf-8", "replace").splitlines(), 1)
        if (match := MACHINE_PATHS.search(line))
    ]
    assert not found


@pytest.mark.parametrize("name", sorted(LOCK_FILES))
def test_a_lock_file_names_no_index_and_has_a_hash_for_every_package(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    pins = [pin for pin in text.replace("\\\n", " ").splitlines() if pin and not pin.lstrip().startswith("#")]

    assert "://" not in text
    assert pins
    assert not [pin for pin in pins if not re.match(r"[a-z0-9-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", pin)]


def test_both_lock_files_agree() -> None:
    peer, checks = (set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.M)) for name in sorted(LOCK_FILES)[::-1])
    assert peer < checks


def _is_python(path: Path) -> bool:
    return "python" in _lines(path)[0]


def _lines(path: Path) -> list[str]:
    return (ROOT / path).read_text("utf-8").splitlines()


def _tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_bytes(), filename=str(path))


def _all(paths: list[Path]) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in paths:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _imports(path: Path) -> set[str]:
    """The top-level packages that a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _packs(path: Path) -> bool:
    """Whether a file uses ``msgspec.msgpack``."""
    return any(isinstance(node, ast.Attribute) and node.attr == "msgpack" for node in ast.walk(_tree(path)))
