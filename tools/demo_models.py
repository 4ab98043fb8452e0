"""The embedded pair's shapes, optimizers and checkpoints."""

import hashlib
import json
import re
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY, CONTEXT = 2048, 2048
SHAPES = {
    "target": {
        "num_hidden_layers": 12,
        "hidden_size": 256,
        "intermediate_size": 640,
        "num_attention_heads": 4,
    },
    "draft": {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_attention_heads": 2,
    },
}
HEAD_SIZE = 64
GROWN = {"target": 1300, "draft": 0}  # the step from which all layers are there


def new_model(role: str, end: int, layers: int | None = None) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
        head_dim=HEAD_SIZE,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
        **SHAPES[role] | ({"num_hidden_layers": layers} if layers else {}),
    )
    return LlamaForCausalLM(config)


class Optimizer:
    """Muon for the target's matrices in layers, AdamW for all else; one learning rate for both.

    Not for the draft's, where Muon's products in bfloat16 can take longer than the rest of a step.
    """

    def __init__(self, model: LlamaForCausalLM, role: str) -> None:
        self.names = dict(model.named_parameters())
        inner = {
            name: p
            for name, p in self.names.items()
            if p.ndim == 2 and ".layers." in name and role == "target"
        }
        outer = [p for name, p in self.names.items() if name not in inner]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(outer, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        if inner:
            matrices = list(inner.values())
            self.parts.append(
                torch.optim.Muon(matrices, lr=0.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
            )

    def step(self, rate: float) -> None:
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def state(self) -> dict[str, torch.Tensor]:
        """Every tensor of the state as "key.parameter name"."""
        found = {}
        for name, parameter in self.names.items():
            for part in self.parts:
                for key, value in part.state.get(parameter, {}).items():
                    found[f"{key}.{name}"] = value.detach().contiguous()
        return found

    def load(self, state: dict[str, torch.Tensor]) -> None:
        for part in self.parts:
            for group in part.param_groups:
                for parameter in group["params"]:
                    name = next(name for name, p in self.names.items() if p is parameter)
                    part.state[parameter] = {
                        key.removesuffix(f".{name}"): value.to(parameter.device)
                        if value.ndim
                        else value
                        for key, value in state.items()
                        if key.endswith(f".{name}") and not key.startswith("model.")
                    }


def grown(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A checkpoint of twice as many layers that computes the same: each layer is followed by a copy
    whose output matrices are zero (block expansion, LLaMA Pro, arXiv 2401.02415). The copies have
    no optimizer state yet.
    """
    found = {}
    for name, value in state.items():
        if not (match := re.search(r"\.layers\.(\d+)\.", name)):
            found[name] = value
            continue
        left, number, right = name[: match.start()], int(match[1]), name[match.end() :]
        found[f"{left}.layers.{2 * number}.{right}"] = value
        if name.startswith("model."):
            silent = right.startswith(("self_attn.o_proj", "mlp.down_proj"))
            found[f"{left}.layers.{2 * number + 1}.{right}"] = (
                torch.zeros_like(value) if silent else value.clone()
            )
    return found


def save_checkpoint(folder: Path, model: LlamaForCausalLM, optimizer: Optimizer, step: int) -> None:
    """Weights and optimizer state in one file, written beside the old one and moved over it."""
    state = {
        f"model.{name}": value.detach().contiguous() for name, value in model.named_parameters()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state | optimizer.state(), folder / "next.safetensors", metadata={"step": str(step)})
    (folder / "next.safetensors").replace(folder / "checkpoint.safetensors")


def load_checkpoint(
    folder: Path, model: LlamaForCausalLM, optimizer: Optimizer | None = None
) -> int:
    """Fill model and perhaps optimizer from the folder's checkpoint; its step, 0 where there is
    none.
    """
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0
    state = load_file(path)
    if f"model.model.layers.{model.config.num_hidden_layers - 1}.mlp.up_proj.weight" not in state:
        state = grown(state)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(state[f"model.{name}"])
    if optimizer is not None:
        optimizer.load(state)
    return step_of(path)


def start_from(pair: Path, work: Path, roles: list[str]) -> None:
    """Make tokenizer and checkpoints of `roles` in `work` of an exported pair; the optimizer begins
    anew.
    """
    steps = json.loads((pair / "training.json").read_text())["steps"]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(pair / "target")
    tokenizer.save_pretrained(work / "tokenizer")
    for role in roles:
        model = LlamaForCausalLM.from_pretrained(pair / role, dtype=torch.float32)
        save_checkpoint(work / role, model, Optimizer(model, role), steps[role])


def step_of(checkpoint: Path) -> int:
    with safe_open(checkpoint, "pt") as file:
        return int(file.metadata()["step"])


def export(work: Path, out: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write both models in fp16 with tokenizer, steps and SHA256SUMS (the form `sha256sum -c`
    reads).
    """
    steps = {}
    for role in SHAPES:
        model = new_model(role, tokenizer.eos_token_id)
        steps[role] = step_of(work / role / "checkpoint.safetensors")
        state = load_file(work / role / "checkpoint.safetensors")
        model.load_state_dict(
            {k[6:]: v for k, v in state.items() if k.startswith("model.")}, strict=False
        )
        model.half().save_pretrained(out / role)
        tokenizer.save_pretrained(out / role)
    facts = {"steps": steps, "grown": GROWN["target"], "python": sys.version.split()[0]}
    (out / "training.json").write_text(json.dumps(facts) + "\n")
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}"
        for path in files
    ]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
