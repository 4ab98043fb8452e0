"""`leapdecode cllm train`: consistency training on collected trajectories."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.cllm import checked_output, print_resume_hint
from leapdecode.cli.common import counting_progress, print_json, reports_errors
from leapdecode.cli.model_options import DeviceOption, ModelOption, TrustOption
from leapdecode.cli.options import JsonOption, stated
from leapdecode.errors import OptionError
from leapdecode.model.location import check_model
from leapdecode.model.names import full_device, full_dtype

AR_WEIGHT = 10.0  # as `training.losses` has it


@reports_errors
def train(
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="trajectories of `cllm collect`")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="cllm, or jacobi-forcing: several blocks with growing noise")
    ] = "cllm",
    loss: Annotated[
        str, typer.Option(help="learn the fixed point (global) or the next state (local)")
    ] = "global",
    divergence: Annotated[str, typer.Option(help="forward-kl, reverse-kl or jsd")] = "forward-kl",
    beta: Annotated[float | None, typer.Option(help="beta of jsd; by default 0.5")] = None,
    ar_weight: Annotated[
        float, typer.Option(help="weight of the AR loss, the paper's omega (Table 6 has 1 and 10)")
    ] = AR_WEIGHT,
    reduction: Annotated[
        str, typer.Option(help="mean over positions, or sum over them as in the paper's equations")
    ] = "mean",
    states: Annotated[int, typer.Option(help="states of each block in an epoch")] = 1,
    early: Annotated[
        float, typer.Option(help="above 1 draws early states of a trajectory more often")
    ] = 1.0,
    augment: Annotated[
        float | None,
        typer.Option(
            help="probability that a wrong token of a state is corrected; by default 0.1, under "
            "the global loss"
        ),
    ] = None,
    fresh: Annotated[
        float,
        typer.Option(help="probability that a state's tail is drawn anew from the text before"),
    ] = 0.0,
    window: Annotated[
        int | None, typer.Option(help="blocks in a row, under jacobi-forcing; by default 4")
    ] = None,
    trajectories: Annotated[
        int, typer.Option(help="train on the first N trajectories of the data; 0: on all (Table 4)")
    ] = 0,
    epochs: Annotated[int, typer.Option(help="passes over the trajectories")] = 1,
    max_steps: Annotated[int, typer.Option(help="most training steps; 0: no limit")] = 0,
    learning_rate: Annotated[
        float, typer.Option(help="peak of the learning rate, which falls as a cosine")
    ] = 2e-5,
    warmup: Annotated[
        float, typer.Option(help="share of the steps in which the learning rate rises")
    ] = 0.03,
    weight_decay: Annotated[float, typer.Option(help="weight decay of AdamW")] = 0.0,
    max_grad_norm: Annotated[
        float, typer.Option(help="norm that gradients are clipped to; 0: none")
    ] = 1.0,
    batch_size: Annotated[int, typer.Option(help="responses of a batch, on each process")] = 8,
    accumulate: Annotated[int, typer.Option(help="batches of a step")] = 1,
    bf16: Annotated[bool, typer.Option("--bf16", help="compute in bfloat16")] = False,
    dtype: Annotated[str, typer.Option(help="of the weights: float32, bfloat16, ...")] = "float32",
    gradient_checkpointing: Annotated[
        bool, typer.Option("--gradient-checkpointing", help="less memory, more time")
    ] = False,
    lora: Annotated[
        bool, typer.Option("--lora", help="train low-rank adapters, merged in the end")
    ] = False,
    lora_rank: Annotated[
        int | None, typer.Option(help="rank of the adapters; by default 16")
    ] = None,
    save_every: Annotated[int, typer.Option(help="steps between checkpoints")] = 200,
    keep: Annotated[int, typer.Option(help="number of checkpoints that are kept")] = 2,
    seed: Annotated[int, typer.Option(help="seed of the order and of the states")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="folder of the trained model")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="go on from the last checkpoint")
    ] = False,
    json: JsonOption = False,
    model: ModelOption = "demo",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
) -> None:
    """Train a model on its trajectories, so that Jacobi decoding takes fewer steps.

    The folder gets the model, which every command takes with -m, checkpoints, the curves of both
    losses (losses.csv, losses.svg) and provenance.json. Several processes share the work when
    `accelerate launch` or `torchrun` starts the command.
    Needs pyarrow and accelerate: pip install 'leapdecode[train]'.

    Examples:

      leapdecode cllm train --data trajectories --output model

      leapdecode cllm train --data trajectories --output model --resume

      leapdecode cllm train -m path/to/model --data data --output model --lora --bf16 --ar-weight 1

      leapdecode cllm train --data trajectories --recipe jacobi-forcing --output model
    """
    full_device(device)
    full_dtype(dtype)
    check_model(model)
    folder = checked_output(output)
    if data is None:
        raise OptionError("--data DIR is missing: trajectories made by cllm collect")
    check_packages()
    from leapdecode.training.draws import Draws
    from leapdecode.training.losses import Objective
    from leapdecode.training.train import Training

    objective = Objective(divergence, ar_weight=ar_weight, reduction=reduction, **stated(beta=beta))
    draws = Draws(
        recipe, loss, states, early, fresh=fresh, **stated(augment=augment, window=window)
    )
    settings = Training(
        epochs, max_steps, learning_rate, warmup, weight_decay, max_grad_norm, batch_size,
        accumulate, bf16, dtype, gradient_checkpointing, lora, save_every=save_every, keep=keep,
        seed=seed, objective=objective, draws=draws, trajectories=trajectories,
        **stated(lora_rank=lora_rank),
    )  # fmt: skip
    facts = run_training(model, data, folder, settings, device, trust_remote_code, resume)
    if not is_first_process():
        return
    if json:
        print_json({"schema": 1, "output": str(folder), **facts})
    else:
        typer.echo(f"trained {facts['step']} steps; try it:")
        typer.echo(f"  leapdecode generate -m {folder} --method jacobi 'a prompt'")


def is_first_process() -> bool:
    """Whether this process is the only one, or the one that tells what came out."""
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


def check_packages() -> None:
    """Raise `OptionError` where what training needs is missing."""
    from importlib.util import find_spec

    for name in ("accelerate", "pyarrow"):
        if find_spec(name) is None:
            raise OptionError(f"training needs {name}: pip install 'leapdecode[train]'")


def run_training(
    model: str, data: Path, folder: Path, settings: Any, device: str, trust: bool, resume: bool
) -> dict[str, Any]:
    """Train with a progress bar on stderr where that is a terminal."""
    import transformers.utils.logging as transformers_logging

    from leapdecode.llm.machine import machine, revision
    from leapdecode.model.load import pick_device
    from leapdecode.training.train import train

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    facts = {
        **machine(pick_device(device)),
        "revision": revision(),
        "argv": sys.argv[1:],
    }
    with counting_progress() as progress:
        bar = progress.add_task("training", total=None)

        def on_step(values: Any) -> None:
            losses = f"consistency {values['consistency']:.3f}, AR {values['ar']:.3f}"
            progress.update(
                bar, completed=values["step"], total=values["of_steps"], description=losses
            )

        try:
            return train(
                model, data, folder, settings, facts, device=device,
                trust_remote_code=trust, resume=resume, on_step=on_step,
            )  # fmt: skip
        except KeyboardInterrupt:
            print_resume_hint()
            raise
