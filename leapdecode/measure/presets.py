"""Benches with a name: published figures and the checks of this library's own promises."""

from dataclasses import dataclass

from leapdecode.errors import UnknownName, with_suggestions


@dataclass(frozen=True)
class Preset:
    """What `bench --preset` stands for; options given beside it win."""

    summary: str
    methods: str
    tasks: str
    row_budget: str | None = None


def _grid(*sizes: tuple[int, tuple[int, ...]]) -> str:
    """Lookahead variants: (ngram, windows) pairs, with as many guesses as columns."""
    return ",".join(
        f"lookahead:ngram={ngram}:window={window}:guesses={window}" for ngram, windows in sizes for window in windows
    )


BARE = "phrase_drafts=false:lengthen=false:from_verification=false:pool_from_prompt=false"
STEPS = (  # each adds to those before it
    BARE,
    "lengthen=false:from_verification=false",
    "from_verification=false",
    "",
    "history=true",
)


def _ouroboros(*options: str) -> str:
    return ",".join(":".join(["ouroboros", *filter(None, [one])]) for one in options)


PRESETS = {
    "default": Preset("methods without a draft on two tasks", "prompt_lookup,lookahead", "math,code"),
    "all": Preset("every method without a draft on every task", "jacobi,prompt_lookup,lookahead", "all"),
    "control": Preset(
        "text that cannot be guessed: the price of hope", "prompt_lookup,lookahead", "unguessable", "auto"
    ),
    "scaling": Preset(
        "lookahead decoding's scaling law (Fu et al. 2024, Figure 4): steps against rows, N up to 11",
        _grid((2, (4, 15, 40)), (3, (4, 10, 20)), (5, (2, 5, 10, 20)), (8, (2, 5, 10)), (11, (2, 5, 10))),
        "code/source,math",
    ),
    "ouroboros": Preset(
        "Ouroboros against speculation and lookahead (Zhao et al. 2024, Figure 5 and Table 2)",
        "lookahead,draft_model,multi_candidate,ouroboros", "all",
    ),
    "ouroboros-sampling": Preset(
        "the same when sampling, by both verifiers (Table 3)",
        "draft_model,draft_model:verification=rejection,lookahead,lookahead:verification=rejection,ouroboros,"
        "ouroboros:verification=rejection", "math,passage,code",
    ),
    "ouroboros-ablation": Preset("what each of Ouroboros's mechanisms adds (Table 4)", _ouroboros(*STEPS), "code"),
    "ouroboros-suffixes": Preset(
        "phrases that lengthen the draft (Figure 6)", _ouroboros(*(f"suffixes={k}" for k in (0, 1, 2, 3, 5, 8))), "code"
    ),
    "ouroboros-matches": Preset(
        "drafted tokens that match beside those accepted (Table 1)", "draft_model:gamma=20", "all"
    ),
    "ouroboros-lengths": Preset(
        "speed and quality by the limit of the text's length (Tables 14 and 15)", "draft_model,lookahead,ouroboros",
        ",".join(f"math:max_tokens={length}" for length in (32, 64, 128, 256)),
    ),
    "ouroboros-locality": Preset(
        "phrases kept from text to text, by how many texts of a task follow each other (Table 16, Figure 7)",
        "ouroboros,ouroboros:history=true",
        ",".join(f"mix={run}:code+math+passage+sql" for run in ("shuffle", 20, 10, 4, 1)),
    ),
    "ouroboros-grid": Preset(
        "sensitivity to gamma, W and beta (Table 9)",
        _ouroboros(*(f"gamma={g}:window={w}:phrase_length={b}" for g in (4, 8, 12) for w in (0, 2, 4) for b in (4, 6))),
        "math",
    ),
    "seed-drafts": Preset(
        "SEED's chain and tree drafts without the tree search (Tables 1 to 3)",
        "draft_model:gamma=3,multi_candidate:k_config=1x1x1,multi_candidate:k_config=2x2x1,"
        "multi_candidate:k_config=2x2x1:verification=rejection,"
        "multi_candidate:k_config=2x2x1:replacement=true:verification=rejection", "math,passage,blocksworld",
    ),
}  # fmt: skip


def find_preset(name: str) -> Preset:
    """The preset called `name`; raises `UnknownName` with suggestions."""
    if name not in PRESETS:
        raise UnknownName(with_suggestions(f"unknown preset {name!r}", name, PRESETS))
    return PRESETS[name]
