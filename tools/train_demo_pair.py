"""Train the embedded pair: a deep, narrow target and a two-layer draft that share one byte-level BPE tokenizer.

    python tools/train_demo_pair.py                      # tokenizer, target, draft; resumes where it stopped
    python tools/train_demo_pair.py --only draft --minutes 5
    python tools/train_demo_pair.py --export leapdecode/data/demo
    python tools/train_demo_pair.py --start leapdecode/data/demo --only target   # goes on from there

`demo_corpus.py` makes the text. Hidden matrices are trained by Muon, all else by AdamW; the learning rate warms up and
then falls linearly to zero, for the target five times. The target begins with half of its layers, which cost half as
much, and gets the others at step `GROWN`. Checkpoints are safetensors files under --work; --export writes fp16 weights,
the tokenizer and SHA256SUMS, the form that `leapdecode` loads.
"""

import argparse
import hashlib
import json
import re
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeRemainingColumn
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from demo_corpus import Corpus, task_kinds, texts

VOCABULARY, CONTEXT = 2048, 2048
SHAPES = {
    "target": {"num_hidden_layers": 12, "hidden_size": 256, "intermediate_size": 640, "num_attention_heads": 4},
    "draft": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 1},
}
HEAD_SIZE = 64
RATES = {  # (last step, highest rate): each falls linearly to zero
    "target": ((2900, 2e-3), (4400, 8e-4), (5800, 6e-4), (6500, 3.5e-4), (7600, 6e-4)),
    "draft": ((3000, 2e-3),),
}
WARM = 100  # steps of warm-up
STEPS = {role: rates[-1][0] for role, rates in RATES.items()}
GROWN = {"target": 1300, "draft": 0}  # the step from which all layers are there
FIRST_BATCH = {"target": 0, "draft": 7000}  # the draft sees mostly other text, in the shares of the target's last phase
END = "<|endoftext|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %} {{ message['content'] }}\n\n"
    "{% else %}Question: {{ message['content'] }}\nAnswer:{% endif %}{% endfor %}"
)


def train_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of `VOCABULARY` entries in which every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    found = [text for group in texts().values() for text in group]
    for task, kind in task_kinds():
        examples = task.examples("train", 1500, kind)
        found += [task.header(kind), *(example.body + example.completion for example in examples)]
    tokenizer.train_from_iterator(found, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=CONTEXT)
    fast.chat_template = CHAT_TEMPLATE
    return fast


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
    """Muon for the layers' matrices, AdamW for embeddings and norms; one learning rate for both."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self.names = dict(model.named_parameters())
        inner = {name: p for name, p in self.names.items() if p.ndim == 2 and ".layers." in name}
        outer = [p for name, p in self.names.items() if name not in inner]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(list(inner.values()), lr=0.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(outer, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0),
        ]

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
                        key.removesuffix(f".{name}"): value.to(parameter.device) if value.ndim else value
                        for key, value in state.items()
                        if key.endswith(f".{name}") and not key.startswith("model.")
                    }


def rate_at(role: str, step: int, steps: int) -> float:
    """The learning rate of a step, where the last fall ends at `steps`."""
    first = 0
    for last, rate in (*RATES[role][:-1], (steps, RATES[role][-1][1])):
        if step < last:
            return rate * min((step - first + 1) / WARM, (last - step) / (last - first - WARM))
        first = last
    return 0.0


def layers_at(role: str, step: int) -> int:
    return SHAPES[role]["num_hidden_layers"] // (2 if step < GROWN[role] else 1)


def grown(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A checkpoint of twice as many layers that computes the same: each layer is followed by a copy whose output
    matrices are zero (block expansion, LLaMA Pro, arXiv 2401.02415). The copies have no optimizer state yet."""
    found = {}
    for name, value in state.items():
        if not (match := re.search(r"\.layers\.(\d+)\.", name)):
            found[name] = value
            continue
        left, number, right = name[: match.start()], int(match[1]), name[match.end() :]
        found[f"{left}.layers.{2 * number}.{right}"] = value
        if name.startswith("model."):
            silent = right.startswith(("self_attn.o_proj", "mlp.down_proj"))
            found[f"{left}.layers.{2 * number + 1}.{right}"] = torch.zeros_like(value) if silent else value.clone()
    return found


def save_checkpoint(folder: Path, model: LlamaForCausalLM, optimizer: Optimizer, step: int) -> None:
    """Weights and optimizer state in one file, written beside the old one and moved over it."""
    state = {f"model.{name}": value.detach().contiguous() for name, value in model.named_parameters()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state | optimizer.state(), folder / "next.safetensors", metadata={"step": str(step)})
    (folder / "next.safetensors").replace(folder / "checkpoint.safetensors")


def load_checkpoint(folder: Path, model: LlamaForCausalLM, optimizer: Optimizer) -> int:
    """Fill model and optimizer from the folder's checkpoint; its step, 0 where there is none."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0
    state = load_file(path)
    if f"model.model.layers.{model.config.num_hidden_layers - 1}.mlp.up_proj.weight" not in state:
        state = grown(state)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(state[f"model.{name}"])
    optimizer.load(state)
    return step_of(path)


def start_from(pair: Path, work: Path) -> None:
    """Make checkpoints and tokenizer in `work` of an exported pair; the optimizer begins anew."""
    steps = json.loads((pair / "training.json").read_text())["steps"]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(pair / "target")
    tokenizer.save_pretrained(work / "tokenizer")
    for role in SHAPES:
        model = LlamaForCausalLM.from_pretrained(pair / role, dtype=torch.float32)
        save_checkpoint(work / role, model, Optimizer(model), steps[role])


def step_of(checkpoint: Path) -> int:
    with safe_open(checkpoint, "pt") as file:
        return int(file.metadata()["step"])


def loss_of(model: LlamaForCausalLM, batch: tuple[torch.Tensor, ...], device: str) -> torch.Tensor:
    """Weighted mean cross-entropy; logits are made only where the weight is not zero."""
    ids, targets, weights = batch
    with torch.autocast(device, dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids).last_hidden_state
        counted = weights > 0
        logits = model.lm_head(hidden[counted])
    losses = torch.nn.functional.cross_entropy(logits.float(), targets[counted], reduction="none")
    return (losses * weights[counted]).sum() / weights.sum()


def train(role: str, corpus: Corpus, folder: Path, steps: int, minutes: float) -> None:
    """Train one model for `steps` steps, or until `minutes` have passed; resumes from its checkpoint."""
    path, began = folder / "checkpoint.safetensors", time.monotonic()
    columns = (*Progress.get_default_columns()[:3], TimeRemainingColumn(), TextColumn("loss {task.fields[loss]:.3f}"))
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(role, total=steps, loss=0.0)
        for end in sorted({min(GROWN[role], steps), steps}):
            step = step_of(path) if path.exists() else 0
            if step >= end or time.monotonic() - began > minutes * 60:
                continue
            model = new_model(role, corpus.end, layers_at(role, step)).to(corpus.device)
            optimizer, recent = Optimizer(model), 0.0
            load_checkpoint(folder, model, optimizer)
            while step < end and time.monotonic() - began < minutes * 60:
                loss = loss_of(model, corpus.batch(FIRST_BATCH[role] + step), corpus.device)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step(rate_at(role, step, steps))
                recent = 0.95 * (recent or loss.item()) + 0.05 * loss.item()
                step += 1
                progress.update(bar, completed=step, loss=recent)
                if step % 50 == 0:
                    note = {"role": role, "step": step, "loss": round(recent, 4)}
                    with (folder.parent / "log.jsonl").open("a") as log:
                        log.write(json.dumps(note | {"seconds": round(time.monotonic() - began)}) + "\n")
                if step % 200 == 0:
                    save_checkpoint(folder, model, optimizer, step)
            save_checkpoint(folder, model, optimizer, step)


def export(work: Path, out: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write both models in fp16 with tokenizer, steps and SHA256SUMS (the form `sha256sum -c` reads)."""
    steps = {}
    for role in SHAPES:
        model = new_model(role, tokenizer.eos_token_id)
        steps[role] = step_of(work / role / "checkpoint.safetensors")
        state = load_file(work / role / "checkpoint.safetensors")
        model.load_state_dict({k[6:]: v for k, v in state.items() if k.startswith("model.")}, strict=False)
        model.half().save_pretrained(out / role)
        tokenizer.save_pretrained(out / role)
    facts = {"steps": steps, "grown": GROWN["target"], "python": sys.version.split()[0]}
    (out / "training.json").write_text(json.dumps(facts) + "\n")
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}" for path in files]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/demo_pair"), help="checkpoints (default: %(default)s)")
    parser.add_argument("--only", choices=list(SHAPES), help="train this model alone")
    parser.add_argument("--steps", type=int, help=f"default: {STEPS}")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; run again to go on")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write the trained pair here and stop")
    parser.add_argument("--start", type=Path, metavar="DIR", help="begin with the pair exported here")
    arguments = parser.parse_args()
    if arguments.start and (arguments.work / "tokenizer").exists():
        parser.error(
            f"--start would replace what {arguments.work} holds; leave it out to go on, or choose another --work"
        )
    if arguments.start:
        start_from(arguments.start, arguments.work)
    if (arguments.work / "tokenizer").exists():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.work / "tokenizer")
    else:
        tokenizer = train_tokenizer()
        tokenizer.save_pretrained(arguments.work / "tokenizer")
    if arguments.export:
        export(arguments.work, arguments.export, tokenizer)
        return
    corpus = Corpus(tokenizer, arguments.device)
    for role in [arguments.only] if arguments.only else SHAPES:
        train(role, corpus, arguments.work / role, arguments.steps or STEPS[role], arguments.minutes)


if __name__ == "__main__":
    main()
