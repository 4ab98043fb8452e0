"""What a release uploads: the files of each package, their version, size and licence."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from leapdecode import __version__

ROOT = Path(__file__).parent.parent
LARGEST = 1_000_000  # bytes of the library's wheel
FOLDERS = {"leapdecode": ROOT, "leapdecode_bench": ROOT / "bench"}


def build(folder, output):
    """The source archive and the wheel of the package in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(output)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (archive,) = output.glob("*.tar.gz")
    (wheel,) = output.glob("*.whl")
    return archive, wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive and the wheel of each package, by its name; the pair's are large."""
    return {name: build(folder, tmp_path_factory.mktemp(name)) for name, folder in FOLDERS.items()}


def tracked(folder):
    """The files under `folder` that git keeps or would keep; without git, all of them."""
    git = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        str(folder),
    ]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return set(done.stdout.split())
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_holds_the_package_and_nothing_else(built, name):
    _, wheel = built[name]
    with zipfile.ZipFile(wheel) as archive:
        names = {file for file in archive.namelist() if ".dist-info/" not in file}
    folder = FOLDERS[name].relative_to(ROOT) / name
    package = {Path(file).relative_to(folder.parent).as_posix() for file in tracked(folder)}
    assert len(package) > 100
    assert names == package


@pytest.mark.parametrize("name", FOLDERS)
def test_a_source_archive_holds_the_package_and_what_describes_it(built, name):
    archive, _ = built[name]
    with tarfile.open(archive) as files:
        names = {Path(*Path(file).parts[1:]) for file in files.getnames()}
    beside = {file.as_posix() for file in names if file.parts[0] != name}
    described = {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    further = {"CHANGELOG.md", "CITATION.cff", "NOTICE"} if name == "leapdecode" else set()
    assert beside - {".gitignore"} == described | further
    assert Path(name, "__init__.py") in names


def test_the_library_is_small(built):
    _, wheel = built["leapdecode"]
    assert 100_000 < wheel.stat().st_size <= LARGEST


@pytest.mark.parametrize("name", FOLDERS)
def test_metadata_has_the_one_version_and_the_licence(built, name):
    _, wheel = built[name]
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [file for file in archive.namelist() if file.endswith("/METADATA")]
        metadata = email.message_from_bytes(archive.read(path))
        licence = archive.read(path.replace("METADATA", "licenses/LICENSE"))
        typed = f"{name}/py.typed" in archive.namelist()
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert typed == (name == "leapdecode")


def test_the_version_stands_in_one_place():
    for folder in ("", "bench", "pair"):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        assert "version" not in project["project"], folder
        path = ROOT / folder / project["tool"]["hatch"]["version"]["path"]
        assert path.resolve() == ROOT / "leapdecode" / "__init__.py"
    assert (ROOT / "pair" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (ROOT / "pair" / "NOTICE").read_bytes() == (ROOT / "NOTICE").read_bytes()


def test_the_image_copies_what_is_there_and_runs_as_a_user():
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    steps = [(words[0], words[1:]) for words in lines if words and words[0] != "#"]
    sources = [name for step, words in steps if step == "COPY" for name in words[:-1]]
    assert {"pyproject.toml", "leapdecode", "pair"} <= set(sources)
    ignored = (ROOT / ".dockerignore").read_text().split()
    for name in sources:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored
    order = [step for step, _ in steps]
    assert order.index("USER") < order.index("ENTRYPOINT")
    (user,) = [words[0] for step, words in steps if step == "USER"]
    assert user not in ("root", "0")
    assert any("useradd" in words and user in words for _, words in steps)
    (install,) = [words for step, words in steps if step == "RUN" and "install" in words]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (named,) = [re.search(r"\.\[(.*)\]", word) for word in install if "[" in word]
    assert set(named[1].split(",")) <= set(extras["optional-dependencies"])


def test_supported_versions_of_transformers_are_those_that_are_tested():
    (listed,) = re.findall(r"^VERSIONS = \((.*)\)$", (ROOT / "noxfile.py").read_text(), re.M)
    versions = re.findall(r'"([\d.]+)"', listed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"transformers>={versions[0]},<6" in project["dependencies"]
    (newest,) = re.findall(r"^transformers==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert newest.startswith(f"{versions[-1]}.")
    card = (ROOT / "hub" / "README.md").read_text()
    assert f"transformers {versions[0]} to {versions[-1]}" in card
    assert "test-versions" not in (ROOT / ".ci" / "run").read_text()


KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_the_changelog_is_by_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.M)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name) for name in versions[1:])
    for section in text.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", section, re.M)
        assert kinds == [kind for kind in KINDS if kind in kinds], section[:20]
        assert "####" not in section
