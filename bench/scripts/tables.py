"""The tables of all folders in bench/scripts/results, as one page: bench/scripts/RESULTS.md.

    python bench/scripts/tables.py            # write it anew, after a folder was added or removed
    python bench/scripts/tables.py --check    # fail where it is not what the folders give

A folder holds a bench (records, or a results.json), or row costs (the results.json that
row_costs.py writes). `leapdecode report bench/scripts/results/NAME` renders a bench's page and
plots.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from leapdecode_bench.measure.pages import Block, Heading, Words, markdown
from leapdecode_bench.measure.report import command, fact, outcome
from leapdecode_bench.measure.results import load
from leapdecode_bench.measure.store import RESULTS, read_json

sys.path.insert(0, str(Path(__file__).resolve().parent))
from row_costs import blocks as row_cost_blocks

FOLDERS = Path(__file__).resolve().parent / "results"
PAGE = FOLDERS.parent / "RESULTS.md"
ABOUT = (
    "Written by bench/scripts/tables.py, not by hand. What was decided by it is in bench/findings. "
    "What the columns mean stands in every folder's page, beside plots and times by part: "
    "leapdecode report bench/scripts/results/NAME."
)


def blocks() -> Iterator[Block]:
    """Each folder's command and table, in the order of names."""
    yield Words(ABOUT)
    for folder in sorted(path for path in FOLDERS.iterdir() if path.is_dir()):
        yield Heading(folder.name)
        document = read_json(folder / RESULTS)
        if "models" in document:
            yield from row_cost_blocks(document)
            continue
        report, _ = load(folder)
        run = report["run"]
        yield from command(run)
        yield from outcome(report)
        yield Words(f"revision {run['revision']}; {fact('versions', run['versions'])}")


def main() -> int:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    arguments = parser.parse_args()
    page = markdown("Measured results", blocks())
    if not arguments.check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        print(f"{PAGE} is stale: run `python bench/scripts/tables.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
