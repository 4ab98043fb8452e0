"""Measure kept results anew, each by the arguments that it holds, and write the tables.

    python bench/scripts/redraw.py                       # all folders in bench/scripts/results
    python bench/scripts/redraw.py control_2core demo_tasks_2core
    python bench/scripts/redraw.py --list                # what would run

A bench goes on where it was interrupted: its records lie in build/redrawn until it is whole.
Models of true size and the random draft are made first where they are missing.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from leapdecode.model.embedded import checked

HERE = Path(__file__).resolve().parent
ROOT, RESULTS = HERE.parents[1], HERE / "results"
WORK = Path("build") / "redrawn"  # below the root
GROWN = {
    "build/inflated/0.5b": ["0.5b"],
    "build/inflated/0.5b-draft": ["0.5b", "--role", "draft", "--share", "0.1"],
}
RANDOM = "build/random_draft"


def command(name: str) -> list[str]:
    """The command that measures a result anew, into `WORK`."""
    document = json.loads((RESULTS / name / "results.json").read_text())
    if "models" in document:
        return [sys.executable, str(HERE / "row_costs.py"), "--output", str(WORK / name)]
    arguments = [str(part).replace("row_budget", "budget") for part in document["run"]["argv"]]
    arguments = ["--budget" if part == "--row-budget" else part for part in arguments]
    arguments[arguments.index("--output") + 1] = str(WORK / name)
    return [sys.executable, "-m", "leapdecode", *arguments]


def make_models(arguments: list[str]) -> None:
    """The models that a command names and that are not there."""
    for folder, options in GROWN.items():
        if folder in arguments and not (ROOT / folder).exists():
            script = [sys.executable, str(HERE / "inflate.py"), *options, "--out", folder]
            subprocess.run(script, check=True, cwd=ROOT)
    if RANDOM in arguments and not (ROOT / RANDOM).exists():
        source = checked("draft")
        torch.manual_seed(0)
        config: Any = AutoModelForCausalLM.from_pretrained(source).config
        AutoModelForCausalLM.from_config(config).save_pretrained(ROOT / RANDOM)
        AutoTokenizer.from_pretrained(source).save_pretrained(ROOT / RANDOM)


def keep(name: str) -> None:
    """Put what was measured in the place of the former result, under its own folder's name."""
    document = json.loads((ROOT / WORK / name / "results.json").read_text())
    for argv in [part["argv"] for part in (document, document.get("run", {})) if "argv" in part]:
        argv[argv.index("--output") + 1] = f"bench/scripts/results/{name}"
    (RESULTS / name / "results.json").write_text(json.dumps(document, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    all_names = sorted(path.name for path in RESULTS.iterdir() if path.is_dir())
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(all_names))
    parser.add_argument("--list", action="store_true", help="show the commands and run none")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(all_names))
    if unknown:
        parser.error(f"there is no result {unknown[0]!r}; choose from {', '.join(all_names)}")
    for number, name in enumerate(arguments.names or all_names, start=1):
        command_of_folder = command(name)
        print(f"{number}. {shlex.join(command_of_folder[1:])}", flush=True)
        if arguments.list:
            continue
        make_models(command_of_folder)
        subprocess.run(command_of_folder, check=True, cwd=ROOT)
        keep(name)
    if not arguments.list:
        subprocess.run([sys.executable, str(HERE / "tables.py")], check=True)


if __name__ == "__main__":
    main()
