"""Training on collected trajectories (CLLM, Algorithm 2), on transformers' Trainer.

for each batch of rows (`draws.Feed`, in the order of `draws.Order`)
    for each block of a response: draw a state y of its trajectory, with augmentation
    logits := one forward of the responses and all states                  `packing`
    minimise L = L_consistency + omega L_AR                                `losses`
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME

from leapdecode.errors import OptionError
from leapdecode.llm.loading import end_tokens
from leapdecode.model.frequent_head import frequent_tokens, write_tokens
from leapdecode.model.load import load_model, load_tokenizer, pick_device, resolve
from leapdecode.model.traits import TRAINED_BLOCK, masks_of, refuse_by_flag, text_config
from leapdecode.training.curves import Curves, plot
from leapdecode.training.dataset import Trajectories, check_same
from leapdecode.training.draws import Draws, Feed, Order
from leapdecode.training.losses import Objective
from leapdecode.training.trainer import (
    PROVENANCE,
    ConsistencyTrainer,
    OnStep,
    Provenance,
    write_provenance,
)

RUN = "run.json"
# settings that may differ between the parts of one run
VOLATILE = ("argv", "collecting", "save_every", "keep", "revision", "threads", "device")
RANK = 16  # of low-rank adapters


@dataclass(frozen=True)
class Training:
    """How a model is trained. The defaults of learning rate, warm-up and epochs are those of the
    training script that the paper's authors published; the paper itself states none.

    Attributes:
        epochs: passes over the rows, each with states drawn anew.
        max_steps: end after so many optimiser steps; 0 is no limit. The learning rate falls to 0
            over the steps there are.
        learning_rate, warmup: the peak, and the share of steps that it rises; then a cosine.
        weight_decay, max_grad_norm: of AdamW; gradients are clipped to that norm.
        batch_size: rows of a batch, on each process.
        accumulate: batches whose gradients are added up for a step.
        bf16: compute in bfloat16, with weights in the model's dtype.
        dtype: of the weights.
        checkpointing: compute activations again instead of keeping them.
        lora, lora_rank: train low-rank adapters, merged into the model that is saved.
        frozen_embeddings: leave embeddings, and a head that shares them, as they are.
        save_every: steps between checkpoints; `keep`: how many of them stay.
        seed: of the order of rows and of the states that are drawn.
        trajectories: train on the first rows that hold so many; 0 is all (CLLM, Table 4).
    """

    epochs: int = 1
    max_steps: int = 0
    learning_rate: float = 2e-5
    warmup: float = 0.03
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    batch_size: int = 8
    accumulate: int = 1
    bf16: bool = False
    dtype: str = "float32"
    checkpointing: bool = False
    lora: bool = False
    lora_rank: int = RANK
    save_every: int = 200
    keep: int = 2
    seed: int = 0
    objective: Objective = field(default_factory=Objective)
    draws: Draws = field(default_factory=Draws)
    frozen_embeddings: bool = False
    trajectories: int = 0

    def __post_init__(self) -> None:
        if self.lora_rank != RANK and not self.lora:
            raise OptionError(f"--lora-rank {self.lora_rank} changes nothing without --lora")
        for name in ("epochs", "batch_size", "accumulate", "lora_rank", "save_every", "keep"):
            if getattr(self, name) < 1:
                raise OptionError(f"--{name.replace('_', '-')} must be at least 1")
        if not 0 < self.learning_rate < 1:
            raise OptionError(f"--learning-rate {self.learning_rate} must lie between 0 and 1")
        if not 0 <= self.warmup < 1:
            raise OptionError(f"--warmup {self.warmup} must be a share of the steps, below 1")
        if self.trajectories < 0:
            raise OptionError(f"--trajectories {self.trajectories} must be at least 0")
        if self.max_steps < 0 or self.weight_decay < 0 or self.max_grad_norm < 0:
            raise OptionError("--max-steps, --weight-decay and --max-grad-norm are at least 0")


def train(
    model: str,
    data: Path,
    folder: Path,
    settings: Training,
    described: Mapping[str, Any] | None = None,
    *,
    device: str = "auto",
    trust_remote_code: bool = False,
    resume: bool = False,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Train `model` on the trajectories in `data`; `folder` gets it, loadable as any model.

    `described` (argv, versions, revision, ...) goes into the provenance files. Several processes,
    as `torchrun` or `accelerate launch` start them, share the rows. `on_step` gets every step's
    values, on the main process. Returns what provenance.json holds. Raises `OptionError` where
    `folder` holds another run, or one that is to be resumed with other settings.
    """
    rows = Trajectories(data, settings.trajectories)
    run = {
        "model": model,
        "data": rows.fingerprint,
        "collected": rows.settings,
        "rows": len(rows),
        "num_trajectories": rows.num_trajectories,
        "collecting": rows.collecting,
        **asdict(settings),
        **(described or {}),
    }
    arguments = _arguments(folder, settings, pick_device(device))
    is_main = arguments.process_index == 0
    if is_main:
        _prepare(folder, run, resume)
    checkpoint = last_checkpoint(folder) if resume else None
    trainer = _trainer(model, rows, settings, arguments, trust_remote_code, on_step)
    trainer.curves = Curves(folder, step_of(checkpoint)) if is_main else None
    trainer.add_callback(Provenance(run))
    _run(trainer, checkpoint)
    state = trainer.state
    _save(trainer, folder, settings, rows.block)
    if is_main:
        write_provenance(folder, run, state)
        plot(folder)
    return {**run, "step": state.global_step, "of_steps": state.max_steps}


def _run(trainer: ConsistencyTrainer, checkpoint: Path | None) -> None:
    """Train from a checkpoint, or from the start; a checkpoint of the last step is only loaded."""
    if checkpoint is not None:
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if state.global_step >= state.max_steps:
            trainer.state = state
            trainer._load_from_checkpoint(str(checkpoint))
            return
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def _prepare(folder: Path, run: Mapping[str, Any], resume: bool) -> None:
    """Make the folder, or check that a run of these settings can go on in it.

    Raises `OptionError` where it cannot.
    """
    path = folder / RUN
    document = json.dumps(run, indent=1)
    if resume and path.is_file():
        before, now = (
            {key: value for key, value in json.loads(text).items() if key not in VOLATILE}
            for text in (path.read_text(), document)
        )
        check_same(folder, before, now)
        if (folder / PROVENANCE).is_file():
            raise OptionError(f"{folder} holds a model whose training has ended")
        return
    if folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty; add --resume, or choose another --output")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(document + "\n")


def step_of(checkpoint: Path | None) -> int:
    """The step behind which a checkpoint was made."""
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint: provenance.json is the last file that is written into one."""
    checkpoints = [path.parent for path in folder.glob(f"checkpoint-*/{PROVENANCE}")]
    return max(checkpoints, key=step_of, default=None)


def _trainer(
    name: str, rows: Trajectories, settings: Training, arguments: TrainingArguments, trust: bool,
    on_step: OnStep | None,
) -> ConsistencyTrainer:  # fmt: skip
    """A trainer of the model called `name`; it puts the model where `arguments` say."""
    folder = resolve(name, "target")
    model = load_model(folder, "cpu", settings.dtype, "auto", trust, whole_head=True)
    refuse_by_flag(model)
    if settings.frozen_embeddings:
        for part in (model.get_input_embeddings(), model.get_output_embeddings()):
            part.requires_grad_(False)
    tokenizer = load_tokenizer(folder, trust)
    ends = end_tokens(model, tokenizer)
    return ConsistencyTrainer(
        model=with_adapters(model, settings) if settings.lora else model,
        args=arguments,
        train_dataset=Feed(rows, settings.draws, ends, settings.epochs, settings.seed),
        processing_class=tokenizer,
        objective=settings.objective,
        form=masks_of(model),
        tokens=frequent_tokens(folder),
        order=Order(rows.lengths(), settings.batch_size, settings.epochs, settings.seed),
        on_step=on_step,
    )


def with_adapters(model: Any, settings: Training) -> Any:
    """The model with low-rank adapters on all linear layers; raises `OptionError` without peft."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise OptionError("--lora needs peft: pip install 'leapdecode[train]'") from None
    adapters = LoraConfig(
        r=settings.lora_rank, lora_alpha=2 * settings.lora_rank, target_modules="all-linear",
        task_type="CAUSAL_LM",
    )  # fmt: skip
    torch.manual_seed(settings.seed)  # of the adapters' first values
    return get_peft_model(model, adapters)


def _checkpointing(enabled: bool) -> dict[str, Any]:
    """Arguments that have activations computed again, by the name that transformers has for it."""
    known = {option.name for option in fields(TrainingArguments)}
    name = "activation_checkpointing"
    if name not in known:
        name = "gradient_checkpointing"
    return {name: enabled, f"{name}_kwargs": {"use_reentrant": False}}


def _arguments(folder: Path, settings: Training, device: torch.device) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        num_train_epochs=1,  # the feed's own epochs are one pass
        max_steps=settings.max_steps or -1,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.bf16,
        **_checkpointing(settings.checkpointing),
        logging_steps=1,
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=settings.keep,
        seed=settings.seed,
        use_cpu=device.type == "cpu",
        report_to="none",
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=device.type != "cpu",
        disable_tqdm=True,
    )


def _save(trainer: ConsistencyTrainer, folder: Path, settings: Training, block: int) -> None:
    """The trained model with its tokenizer, as an ordinary transformers folder.

    Its config.json states the `block` that it was trained for, so that `auto` guesses so.
    """
    trained = trainer.accelerator.unwrap_model(trainer.model)
    if block:
        setattr(text_config(trained), TRAINED_BLOCK, block)
    trained.config.use_cache = True  # the trainer has turned it off
    if not settings.lora:
        trainer.save_model(str(folder))
    elif trainer.is_world_process_zero():
        trained.merge_and_unload().save_pretrained(folder)
        trainer.processing_class.save_pretrained(folder)
    if trainer.tokens is not None and trainer.is_world_process_zero():
        write_tokens(folder, trainer.tokens.tolist())
    # a pickle of what provenance.json says
    (folder / "training_args.bin").unlink(missing_ok=True)
