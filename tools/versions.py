"""Run the tests on several versions of transformers: `python tools/versions.py`.

Every version but the installed one is put into a folder of its own (`pip install --target`), with
those of its dependencies that the environment does not satisfy, and stands first on the path of the
tests. Each test file runs in a process of its own, one at a time. Results are kept: a run that was
cut short goes on where it stopped, and what has not changed since is not run again.

Examples:
    python tools/versions.py                                  the default tests on all versions
    python tools/versions.py tests/test_hf.py                 one file on all versions
    python tools/versions.py --versions 5.16 -- -k mamba      some tests on one version
    python tools/versions.py -- -n 2 --dist worksteal         each file by two processes
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("5.16", "5.17", "5.23", "5.24")
COUNTS = ("passed", "failed", "errors", "skipped")
TESTED = ("leapdecode", "tests", "examples", "tools", "pyproject.toml")  # what a result depends on
CONSOLE = Console()


def installed_versions(folder: Path | None) -> dict[str, str]:
    """The version of every distribution by its name, those in `folder` before the environment's."""
    searched = [*([str(folder)] if folder else []), *sys.path]
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=searched):
        found.setdefault(canonicalize_name(distribution.name), distribution.version)
    return found


def unsatisfied(folder: Path) -> list[Requirement]:
    """What the distributions in `folder` need that neither it nor the environment has."""
    versions = installed_versions(folder)
    return [
        requirement
        for distribution in importlib.metadata.distributions(path=[str(folder)])
        for requirement in map(Requirement, distribution.requires or [])
        if (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
        and not requirement.specifier.contains(
            versions.get(canonicalize_name(requirement.name), "0"), prereleases=True
        )
    ]


def install(version: str, folder: Path) -> None:
    """Put the latest release of `version` into `folder`, unless it is there."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = [] if (folder / "transformers").exists() else [f"transformers=={version}.*"]
    wanted = wanted or [str(requirement) for requirement in unsatisfied(folder)]
    while wanted:
        CONSOLE.print(f"[dim]{version}: installing {', '.join(wanted)}[/dim]", highlight=False)
        subprocess.run([*pip, "--no-deps", "--target", str(folder), *wanted], check=True)
        wanted = [str(requirement) for requirement in unsatisfied(folder)]


def digest_of(paths: list[Path], *facts: Any) -> str:
    """A name for everything that a result depends on, by which it is known to be still valid."""
    digest = hashlib.sha256(json.dumps([sys.version, *facts]).encode())
    for path in paths:
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.suffix not in (".pyc", ".safetensors") and file.is_file():
                digest.update(file.as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def run_file(file: Path, folder: Path | None, arguments: list[str], log: Path) -> dict[str, Any]:
    """Run one test file; its counts, its failures by name, and the seconds that it took."""
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    before = [str(folder)] if folder else []
    path = os.pathsep.join([str(ROOT), *before, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments, str(file)]
    began = time.monotonic()
    with log.open("w") as output:
        code = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False,
            stdout=output, stderr=subprocess.STDOUT,
        ).returncode  # fmt: skip
    result: dict[str, Any] = dict.fromkeys(COUNTS, 0)
    result |= {"seconds": round(time.monotonic() - began), "names": []}
    if not report.exists() or code not in (0, 1, 5):  # 5: every test is deselected
        names = [f"{file.name}: pytest ended with {code}, see {log}"]
        return result | {"errors": 1, "names": names}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        kind = next((kind for kind in ("failure", "error", "skipped") if kind in kinds), "passed")
        result[{"failure": "failed", "error": "errors"}.get(kind, kind)] += 1
        if kind in ("failure", "error"):
            result["names"].append(f"{file.name}::{case.get('name')}")
    return result


def run_version(
    version: str, files: list[Path], arguments: list[str], out: Path
) -> list[dict[str, Any]]:
    """The results of all files on one version, each printed as it comes."""
    own = importlib.metadata.version("transformers").startswith(f"{version}.")
    folder = None if own else out / version
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        install(version, folder)
    exact = installed_versions(folder)["transformers"]
    code = digest_of([ROOT / path for path in TESTED])
    results: list[dict[str, Any]] = []
    for file in files:
        log = out / "results" / version / f"{file.stem}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        kept, digest = log.with_suffix(".json"), digest_of([file], code, exact, arguments)
        result = json.loads(kept.read_text()) if kept.exists() else {}
        if result.get("digest") != digest:
            result = run_file(file, folder, arguments, log) | {"digest": digest}
            kept.write_text(json.dumps(result))
        said = ", ".join(f"{result[kind]} {kind}" for kind in COUNTS if result[kind])
        CONSOLE.print(f"{exact} {file.stem}: {said or 'none'}", highlight=False)
        results.append(result | {"version": exact})
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="test files (default: all of tests/)")
    parser.add_argument(
        "--versions", default=",".join(VERSIONS), help="with commas between (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "versions", help="for versions and results"
    )
    given = sys.argv[1:]
    split = given.index("--") if "--" in given else len(given)  # what follows is for pytest
    chosen, arguments = parser.parse_args(given[:split]), given[split + 1 :]
    files = [file.resolve() for file in chosen.files] or sorted((ROOT / "tests").glob("test_*.py"))
    table = Table("transformers", *COUNTS, "seconds")
    names = []
    for version in chosen.versions.split(","):
        results = run_version(version, files, arguments, chosen.out.resolve())
        sums = [str(sum(result[kind] for result in results)) for kind in (*COUNTS, "seconds")]
        table.add_row(results[0]["version"], *sums)
        names += [f"{one['version']} {name}" for one in results for name in one["names"]]
    CONSOLE.print(table)
    for name in names:
        CONSOLE.print(f"[red]{name}[/red]", highlight=False, soft_wrap=True)
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
