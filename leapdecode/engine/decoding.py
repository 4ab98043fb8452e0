"""The loop of every method, once: propose, evaluate, verify, accept, commit, count, observe."""

from collections.abc import Generator

from leapdecode.core import Asked, Commit, Forward, ForwardResult, Sequence, Step, TokenTree
from leapdecode.engine.exact_trees import Carried, arrange
from leapdecode.engine.logprobs import of_path
from leapdecode.errors import InvalidTree
from leapdecode.methods.base import Asking, Method, NoMore
from leapdecode.methods.context import MethodContext
from leapdecode.methods.planner import Planner
from leapdecode.verify.walk import walk

Decoding = Generator[Asked, ForwardResult | None, None]


def decode(method: Method, sequence: Sequence, context: MethodContext) -> Decoding:
    """Decode one sequence to its end by what `method` proposes; yields what it needs of the models.

    The method sees the text with what is carried, see `exact_trees`.
    """
    method.begin(sequence, context)
    planner = context.planner
    stats = sequence.stats
    carried = Carried()
    while sequence.finish_reason is None:
        draft_forwards = stats.draft_forwards
        draft_rows = stats.draft_rows
        try:
            with carried.behind(sequence):
                length = len(sequence.tokens)
                plain = carried.ends(sequence)
                if plain:
                    tree = TokenTree(sequence.pending)
                else:
                    tree = yield from _proposed(method, sequence, planner)
        except NoMore:
            sequence.finish_reason = "aborted"
            return
        required = set() if plain else method.required_nodes()
        evaluated = arrange(sequence, carried, tree, required)
        likeliest = 0 if plain else method.likeliest
        output = yield Forward("target", sequence, evaluated.tree, likeliest=likeliest)
        assert output is not None, "the engine answers every Forward with a ForwardResult"
        verdict = walk(evaluated.tree, output.choices)
        verdict.likeliest = output.likeliest
        final = evaluated.final(verdict)
        num_emitted = sequence.extend(
            verdict.tokens[:final], verdict.sources[:final], output.step_rows
        )
        _note_guesses(sequence.steps[-1], tree)
        if sequence.params.logprobs is not None:
            sequence.logprobs += of_path(
                output, verdict.path[:num_emitted], verdict.tokens, sequence.params
            )
        if sequence.watch is not None:
            sequence.watch(sequence, evaluated.tree, verdict, output)
        carried = Carried.of(sequence, verdict, final)
        method_verdict = evaluated.method_verdict(verdict)
        with carried.behind(sequence):
            method_path = method_verdict.path if method_verdict else []
            yield Commit("target", sequence, verdict.path[:num_emitted], (tree, method_path))
            if method_verdict is None or plain:
                continue
            stats.matched_tokens += tree.matched(method_verdict.choices)
            planner.learn(tree, method_verdict)
            if len(sequence.steps) > 1:  # the first step's rows are the prompt's
                planner.keep_time(
                    evaluated.tree,
                    len(method_verdict.tokens),
                    length,
                    stats.draft_forwards - draft_forwards,
                    stats.draft_rows - draft_rows,
                )
            method.observe(sequence, tree, method_verdict)


def _proposed(method: Method, sequence: Sequence, planner: Planner) -> Asking:
    """The method's next tree, cut by its budget, which carried rows are charged to as well."""
    proposing = method.propose(sequence)
    if not isinstance(proposing, Generator):
        raise InvalidTree(
            f"method {method.name!r}: propose must be a generator, a function that yields; "
            "one that needs no forwards overrides guess instead"
        )
    tree = yield from proposing
    if not isinstance(tree, TokenTree):
        raise InvalidTree(
            f"method {method.name!r} proposes {type(tree).__name__} instead of a TokenTree"
        )
    planner.cut(tree, len(sequence.tokens), method.required_nodes(), sequence.carried)
    return tree


def _note_guesses(step: Step, tree: TokenTree) -> None:
    """Record where the step's guesses came from."""
    step.cut = len(tree.skipped)
    for node in range(1, len(tree)):
        if node not in tree.skipped:
            source = tree.sources[node]
            step.guesses[source] = step.guesses.get(source, 0) + 1
            step.depth = max(step.depth, tree.depths[node])
