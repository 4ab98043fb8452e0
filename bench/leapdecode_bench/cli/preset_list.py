"""`leapdecode bench --list-presets`: the presets, or what one of them measures."""

from dataclasses import asdict
from typing import Any

from leapdecode.cli.common import print_json
from leapdecode_bench.measure.presets import PAPERS, PRESETS, STUDIES, TREES, check_name

COMMANDS = dict.fromkeys(STUDIES, "fastcot compare") | dict.fromkeys(TREES, "tree compare")


def described(name: str) -> dict[str, Any]:
    """A preset as plain data: its name, its summary, the command that measures it, its settings.

    Raises `UnknownName` with suggestions.
    """
    check_name(name, COMMANDS | PRESETS, [*PRESETS, *COMMANDS])
    if name in PRESETS:
        settings = asdict(PRESETS[name])
        for key in ("methods", "public", "tasks"):
            settings[key] = [part for part in settings[key].split(",") if part]
    else:
        settings = dict((TREES | STUDIES)[name])
        if name in PAPERS:
            settings["public"] = PAPERS[name].public
    return {"name": name, "command": COMMANDS.get(name, "bench"), **settings}


def show_presets(name: str | None, json: bool) -> None:
    """Print every preset, or the settings of the one called `name`."""
    if name is not None:
        preset = described(name)
        print_json(preset) if json else show_one(preset)
        return
    presets = [described(known) for known in (*PRESETS, *COMMANDS)]
    if json:
        print_json(presets)
        return
    for preset in presets:
        command = "" if preset["command"] == "bench" else f"  [leapdecode {preset['command']}]"
        print(f"{preset['name']}\n    {preset['summary']}{command}")
    print("\nwhat one measures: leapdecode bench --preset NAME --list-presets")


def show_one(preset: dict[str, Any]) -> None:
    """Print a preset's settings, one a line."""
    print(f"{preset['name']}: {preset['summary']}")
    for key, value in preset.items():
        if key in ("name", "summary") or value in ("", []):
            continue
        lines = [str(part) for part in value] if isinstance(value, list) else [str(value)]
        print(f"  {key}")
        for line in lines:
            print(f"    {line}")
    if preset.get("public") and preset.get("tasks"):
        print("\n`public` is asked of a model, `tasks` of the demo pair where --data is left out")
