"""Work in environments of its own: `nox --list` names it.

Examples:
    nox -s tests                                       the default tests on every version
    nox -s "tests(transformers='5.16')" -- tests/test_hf.py    one file on one version
    nox -s packages                                    what a release uploads, in build/dist
"""

import shutil
from pathlib import Path

import nox

VERSIONS = ("5.16", "5.17", "5.23", "5.24")
FOLLOWING = ("transformers", "tokenizers", "huggingface_hub")  # pinned for the newest version alone
PACKAGES = ("pair", ".", "bench")
DIST = Path("build/dist")

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
@nox.parametrize("transformers", VERSIONS)
def tests(session: nox.Session, transformers: str) -> None:
    """The default tests on one version of transformers; pytest takes what follows `--`."""
    pins = Path("constraints.txt").read_text().splitlines()
    kept = [pin for pin in pins if pin.split("==")[0] not in FOLLOWING]
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("\n".join(kept))
    packages = ("-e", "./pair", "-e", ".[test]", "-e", "./bench[eval]")
    session.install("-c", str(constraints), f"transformers=={transformers}.*", *packages)
    session.run("pytest", "-q", *(session.posargs or ("-n", "2", "--dist", "worksteal", "tests")))


@nox.session
def packages(session: nox.Session) -> None:
    """Build the source archive and the wheel of each package, and check their descriptions."""
    session.install("build", "twine")
    shutil.rmtree(DIST, ignore_errors=True)
    for package in PACKAGES:
        session.run("python", "-m", "build", "--outdir", str(DIST), package)
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
