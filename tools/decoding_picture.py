"""Draw a text as it is decoded, plainly and by `auto`: the animated pictures of the README.

    python tools/decoding_picture.py -m build/real/qwen-coder --draft build/real/qwen-coder-draft

decodes a prompt both ways in turn and writes `docs/decoding.svg` (two panes beside each other) and
`docs/decoding-narrow.svg` (one above the other, for phones). Each way is shown at the pace of its
run of median time. A tick at the foot of a pane is a forward; guessed tokens have the colour of
what guessed them, the model's own have none.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from leapdecode import LLM, SamplingParams
from leapdecode.cli.show import pieces_of
from leapdecode.llm.trace import Trace

DOCS = Path(__file__).parent.parent / "docs"
PROMPT = "Write a Python class for a stack."
ROUNDS = 5  # decodings of each way
SECONDS = 11.0  # that the slower way takes in the picture
PAUSE = 4.0  # seconds for which the whole text stands

COLUMNS = 48  # characters of a line
# pixels:
ADVANCE = 9.0  # a character's width
LEADING = 21  # a line's height
SIZE = 15  # of the font
MARGIN = 14  # of a pane, beside its text
HEAD = 58  # of a pane, above its text
FOOT = 42  # of a pane, below its text
GAP = 14  # between panes
LEGEND = 34  # below the panes
TICK = 6.0  # from one forward's tick to the next, at most


@dataclass(frozen=True)
class Kind:
    """A kind of guesses: its words, its colours on light and dark ground, the sources it joins."""

    words: str
    light: str
    dark: str
    sources: tuple[str, ...]


KINDS = {
    "d": Kind("the draft model", "#bfdbfe", "#1e4b8f", ("draft", "draw", "second", "phrase")),
    "s": Kind("the text so far", "#bbf7d0", "#14603a", ("suffix", "prompt", "store")),
    "r": Kind("the model's earlier logits", "#fde68a", "#75540a", ("token", "pair", "last")),
    "n": Kind("a window of n-grams", "#f5d0fe", "#713f8a", ("window", "ngram")),
}
KIND_OF = {source: letter for letter, kind in KINDS.items() for source in kind.sources}


@dataclass(frozen=True)
class Run:
    """A decoded text: seconds from its start at which each forward ended, and its tokens.

    Attributes:
        seconds: of each forward that gave tokens.
        tokens: of each such forward, pairs of a token's text and the source that guessed it.
    """

    seconds: list[float]
    tokens: list[list[tuple[str, str]]]

    @property
    def text(self) -> str:
        return "".join(text for step in self.tokens for text, _ in step)


@dataclass(frozen=True)
class Mark:
    """Characters of a line that one source guessed in one forward; columns and lines from 0."""

    step: int
    line: int
    column: int
    text: str
    source: str

    def is_followed_by(self, mark: "Mark") -> bool:
        """Whether `mark` goes on with the same guess."""
        return (self.step, self.line, self.source) == (mark.step, mark.line, mark.source)


def decode(llm: LLM, prompt: list[int], method: str, max_tokens: int) -> Run:
    trace = Trace()
    sampling = SamplingParams(max_tokens=max_tokens)
    result = llm.generate(prompt, method=method, sampling=sampling, watch=trace)
    tokens: list[list[tuple[str, str]]] = [[] for _ in result.steps]
    for piece in pieces_of(result):
        tokens[piece.step].append((piece.text, piece.source))
    return Run([step.at / 1e3 for step in trace.steps], tokens)


def runs_of(llm: LLM, prompt: list[int], max_tokens: int, rounds: int) -> tuple[Run, Run]:
    """Plain decoding and `auto` in turn; of each the run of median time.

    Raises:
        ValueError: the texts differ.
    """
    plain = []
    auto = []
    for method in ("autoregressive", "auto"):  # what a process does once is done before the runs
        decode(llm, prompt, method, max_tokens)
    for _ in range(rounds):
        plain.append(decode(llm, prompt, "autoregressive", max_tokens))
        auto.append(decode(llm, prompt, "auto", max_tokens))
    if len({run.text for run in plain + auto}) != 1:
        raise ValueError("the texts differ; a picture of them would not be true")
    return median(plain), median(auto)


def median(runs: Sequence[Run]) -> Run:
    return sorted(runs, key=lambda run: run.seconds[-1])[len(runs) // 2]


def marks_of(run: Run) -> list[Mark]:
    """The text in lines of at most `COLUMNS`; their leading spaces belong to no mark."""
    marks: list[Mark] = []
    breaks = breaks_of(run.text)
    line = column = 0
    indented = True  # nothing but spaces stands on the line yet
    for place, (number, character, source) in enumerate(characters_of(run)):
        if character == "\n" or place in breaks:
            line += 1
            column = 0
            indented = True
        if character == "\n":
            continue
        indented = indented and character == " "
        if not indented and not (character == " " and place + 1 in breaks):
            mark = Mark(number, line, column, character, source)
            if marks and marks[-1].is_followed_by(mark):
                last = marks.pop()
                mark = replace(last, text=last.text + character)
            marks.append(mark)
        column += 1
    return marks


def breaks_of(text: str) -> set[int]:
    """Places of the characters before which a line that is too long goes on in the next one: behind
    a space, if there is one.
    """
    breaks: set[int] = set()
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        word = end - len(line.lstrip(" "))
        while end - start > COLUMNS:
            space = text.rfind(" ", word, start + COLUMNS + 1)
            start = start + COLUMNS if space < 0 else space + 1
            word = start
            breaks.add(start)
        start = end + 1
    return breaks


def characters_of(run: Run) -> Iterator[tuple[int, str, str]]:
    """Every character with the number of its forward and its source."""
    for number, step in enumerate(run.tokens):
        for text, source in step:
            for character in text:
                yield number, character, source


STYLE = """
svg{font:%(size)dpx ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
text{white-space:pre;fill:#1f2328}
.w{fill:#fff;stroke:#d0d7de}.h{font-weight:700}.q{fill:#59636e}.t{fill:#59636e}
.z{animation:%(period)gs step-end infinite}
%(light)s
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.w{fill:#0d1117;stroke:#3d444d}.q{fill:#9198a1}.t{fill:#9198a1}
%(dark)s}
@media(prefers-reduced-motion:reduce){.z{animation:none!important}}
"""


def picture(plain: Run, auto: Run, prompt: str, narrow: bool = False) -> str:
    """The animated SVG: both panes at one pace, over and over."""
    panes = [
        ("plain decoding", plain, marks_of(plain)),
        ("leapdecode", auto, marks_of(auto)),
    ]
    lines = 1 + max(mark.line for _, _, marks in panes for mark in marks)
    width = COLUMNS * ADVANCE + 2 * MARGIN
    height = HEAD + lines * LEADING + FOOT
    pace = SECONDS / max(plain.seconds[-1], auto.seconds[-1])
    period = SECONDS + PAUSE
    moments: dict[float, str] = {}  # when something appears, in percent -> its key frames' name

    def appearing(seconds: float) -> str:
        percent = round(100 * seconds * pace / period, 1)
        return moments.setdefault(percent, f"k{len(moments)}")

    body = []
    for number, (title, run, marks) in enumerate(panes):
        left = 1 if narrow else 1 + number * (width + GAP)
        top = 1 + number * (height + GAP) if narrow else 1
        pane = pane_of(title, prompt, run, marks, appearing, width, height)
        body.append(f'<g transform="translate({left:g} {top:g})">{pane}</g>')
    whole_width = 2 + (width if narrow else 2 * width + GAP)
    below = 2 + (2 * height + GAP if narrow else height)
    letters = [letter for letter in KINDS if any(letter == KIND_OF.get(m.source) for m in marks)]
    legend, legend_height = legend_of(letters, below, narrow)
    style = STYLE % {
        "size": SIZE,
        "period": period,
        "light": "".join(f".{letter}{{fill:{KINDS[letter].light}}}" for letter in letters),
        "dark": "".join(f".{letter}{{fill:{KINDS[letter].dark}}}" for letter in letters),
    }
    frames = "".join(
        f"@keyframes {name}{{0%{{opacity:0}}{percent:g}%{{opacity:1}}}}"
        for percent, name in moments.items()
    )
    about = (
        f"The same text, decoded plainly in {len(plain.tokens)} forwards "
        f"and by leapdecode in {len(auto.tokens)}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" '
        f'viewBox="0 0 {whole_width:g} {below + legend_height:g}">'
        f"<title>{about}</title><style>{style.strip()}\n{frames}</style>"
        f"{''.join(body)}{legend}</svg>\n"
    )


def pane_of(
    title: str,
    prompt: str,
    run: Run,
    marks: Sequence[Mark],
    appearing: Callable[[float], str],
    width: float,
    height: float,
) -> str:
    """A window with the prompt, the text, and a tick for each forward."""
    parts = [
        f'<rect class="w" width="{width:g}" height="{height:g}" rx="8"/>',
        f'<text class="h" x="{MARGIN}" y="24">{title}</text>',
        f'<text class="q" x="{MARGIN}" y="46">{escape(shortened("> " + prompt))}</text>',
        f'<text class="q" x="{width - MARGIN:g}" y="{height - 10:g}" text-anchor="end">'
        "a tick is a forward</text>",
    ]
    step = min(TICK, (width - 2 * MARGIN) / len(run.tokens))
    foot = height - FOOT
    for number, seconds in enumerate(run.seconds):
        x = MARGIN + number * step
        drawn = [
            f'<rect class="t" x="{x:.1f}" y="{foot + 6:g}" width="{step * 0.6:.1f}" height="7"/>'
        ]
        drawn += [piece for mark in marks if mark.step == number for piece in shapes(mark)]
        name = appearing(seconds)
        parts.append(f'<g class="z" style="animation-name:{name}">{"".join(drawn)}</g>')
    ended = f'<text class="h" x="{MARGIN}" y="{foot + 32:g}">{len(run.tokens)} forwards</text>'
    name = appearing(run.seconds[-1])
    parts.append(f'<g class="z" style="animation-name:{name}">{ended}</g>')
    return "".join(parts)


def shapes(mark: Mark) -> Iterator[str]:
    """A mark's ground, where it was guessed, and its characters."""
    x = MARGIN + mark.column * ADVANCE
    y = HEAD + mark.line * LEADING
    wide = len(mark.text) * ADVANCE
    letter = KIND_OF.get(mark.source)
    if letter is not None:
        yield (
            f'<rect class="{letter}" x="{x + 0.5:g}" y="{y + 1}" width="{wide - 1:g}" '
            f'height="{LEADING - 2}" rx="3"/>'
        )
    if mark.text.strip():
        yield f'<text x="{x:g}" y="{y + 15}" textLength="{wide:g}">{escape(mark.text)}</text>'


def shortened(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def legend_of(letters: Sequence[str], top: float, narrow: bool) -> tuple[str, float]:
    """What the colours mean, from `top` down, and its height."""
    parts = [f'<text class="q" x="{MARGIN}" y="{top + 22:g}">guessed by</text>']
    left = MARGIN + 11 * ADVANCE
    x = left
    y = top
    for letter in [*letters, ""]:
        words = KINDS[letter].words if letter else "no colour: not guessed"
        wide = (len(words) + 2) * ADVANCE
        if letter:
            parts.append(
                f'<rect class="{letter}" x="{x:g}" y="{y + 6:g}" width="{wide:g}" height="22" '
                'rx="3"/>'
            )
        parts.append(f'<text x="{x + ADVANCE:g}" y="{y + 22:g}">{escape(words)}</text>')
        if narrow:
            y += LEADING + 5
        else:
            x += wide + ADVANCE
    return "".join(parts), LEGEND + (len(letters) * (LEADING + 5) if narrow else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-m", "--model", default="demo", help="as of leapdecode generate")
    parser.add_argument("--draft", help="as of leapdecode generate")
    parser.add_argument("--prompt", default=PROMPT, help="a chat message where the model chats")
    parser.add_argument("--max-tokens", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of the two pictures")
    options = parser.parse_args()
    llm = LLM(options.model, draft=options.draft, prefix_cache=False)
    prompt = llm.tokenizer(options.prompt)["input_ids"]
    if llm.tokenizer.chat_template:
        message = {"role": "user", "content": options.prompt}
        prompt = llm.tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, return_dict=False
        )
    plain, auto = runs_of(llm, prompt, options.max_tokens, options.rounds)
    for name, narrow in (("decoding.svg", False), ("decoding-narrow.svg", True)):
        path = options.output / name
        path.write_text(picture(plain, auto, options.prompt, narrow), encoding="utf-8")
        print(path, f"{path.stat().st_size / 1024:.0f} KiB")
    print(f"{len(plain.tokens)} and {len(auto.tokens)} forwards, ", end="")
    print(f"{plain.seconds[-1] / auto.seconds[-1]:.2f} times as fast")
    print(plain.text)


if __name__ == "__main__":
    main()
