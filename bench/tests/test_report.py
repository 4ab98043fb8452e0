"""The bench's report: the table, the pages, the plots."""

import html.parser
import json
import random
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from leapdecode_bench.measure import canvas, option_plots, plots, publish, scaling_plot
from leapdecode_bench.measure.cells import COLUMNS, shared_options, short_names
from leapdecode_bench.measure.results import write_files

HOSTILE = '<script>alert("|")</script>\n$x_1$'
RUN = {
    "model": "demo",
    "draft": None,
    "sizes": {"target": 6_312_448, "draft": 812_032},
    "dtype": "float32",
    "device": "cpu (x86_64)",
    "threads": 2,
    "versions": {"leapdecode": "0.1.0", "torch": "2.13.0"},
    "revision": "5e6ffe4+",
    "settings": ["lookahead", "math", 20, 1, 1, None],
    "sampling": {
        "max_tokens": 128,
        "temperature": 0.7,
        "top_k": 0,
        "top_p": 0.9,
        "seed": 3,
        "n": 1,
        "stop": (),
    },
    "seed": 3,
    "argv": ["bench", "--methods", "lookahead,prompt_lookup", "--output", "two words"],
}
VARIANTS = [(5, 3), (7, 5), (15, 5), (15, 3), (30, 5)]
LONG = "lookahead:window=15:ngram=5:guesses=15:budget=auto"
OTHER = "path/to/a smaller draft"
TASKS = ["math", "code", "code/source", "blocksworld", "passage", "sql", "unguessable"]


def chosen(gamma, draft):
    """Options of speculation with the bench's draft, or with another."""
    return {"gamma": gamma} | ({"draft": draft} if draft else {})


def new_row(task, method, draw, options=None):
    """A row as `summary.row` makes it; plain decoding has no speed-up and peers of another house
    have few counts.
    """
    plain, peer, size = (
        method == "autoregressive",
        method.startswith("hf-"),
        (options or {}).get("window", 0),
    )
    gain = 1.0 if plain or task == "unguessable" else draw.uniform(1.1, 2.0) + size / 20
    speed = 1.0 if plain else gain * draw.uniform(0.6, 1.0)
    lengths = (
        {"1": 600}
        if gain == 1
        else {"1": 500, "2": 200, "3": 90, "5": 40, "17": int(100 * (gain - 1))}
    )
    parts = {
        "forward": 0.7,
        "draft": 0.0,
        "propose": 0.1,
        "verify": 0.05,
        "commit": 0.02,
        "other": 0.13,
    }
    hits = {
        "tokens_per_forward": gain,
        "rows_per_forward": None if peer else 1.2 + size * 6 + 10 * (gain - 1),
    }
    sped = {
        "speedup": speed,
        "speedup_interval": [speed * 0.93, speed * 1.06] if speed != 1 else [1.0, 1.0],
    }
    return {
        "method": method, "options": options or {}, "task": task, "texts": 20, "tokens": 2560,
        "seconds": 31.4,
        "tokens_per_second": 81.5 * speed, **sped, "decode_speedup": None if peer else speed * 1.05,
        "pairs": 20, "units": 20,
        "target_forwards": int(2560 / gain) + 20, "prefill_forwards": 20, **hits,
        "target_rows": None if peer else 900 + int(2560 / gain * hits["rows_per_forward"]),
        "decode_rows": None if peer else int(2560 / gain * hits["rows_per_forward"]),
        "draft_forwards": None if peer else 0, "draft_rows": None if peer else 0,
        "accepted_lengths": {} if peer else lengths,
        "time_to_first_token": None if peer else 0.0213,
        "time_composition": {} if peer else parts, "peak_memory": 0 if peer else 612 << 20,
        "quality": None if "source" in task else 0.85, "identical": 19, "tie_explained": 1,
        "unexplained": 0,
        "not_looping": {"generations": 20, **sped, **hits},
    }  # fmt: skip


def small():
    draw = random.Random(1)
    methods = [("autoregressive", {}), ("prompt_lookup", {}), ("lookahead:window=7", {"window": 7})]
    return {
        "schema": 1,
        "run": RUN,
        "rows": [new_row(t, m, draw, o) for t in ("math", "code") for m, o in methods],
    }


def large(hostile=True):
    """Everything at once: seven tasks, seventeen methods, hostile names, a note, costs of rows,
    looping texts.
    """
    draw = random.Random(2)
    methods = [
        ("autoregressive", {}),
        ("prompt_lookup", {}),
        (LONG, {"window": 15, "ngram": 5, "budget": "auto"}),
    ]
    methods += [(f"lookahead:window={w}:ngram={n}", {"window": w, "ngram": n}) for w, n in VARIANTS]
    methods += [
        (f"draft_model:gamma={gamma}" + f":draft={draft}" * bool(draft), chosen(gamma, draft))
        for gamma in (2, 5, 9)
        for draft in (None, OTHER)
    ]
    methods += [("hf-plain", {}), ("hf-prompt_lookup", {}), (HOSTILE if hostile else "jacobi", {})]
    rows = [
        new_row(t, m, draw, o)
        for t in [*TASKS[:-1], HOSTILE if hostile else TASKS[-1]]
        for m, o in methods
    ]
    rows[3]["not_looping"]["generations"] = 17
    rows[4]["not_looping"] = {"generations": 0}
    costs = [
        {
            "context": context,
            "rows": 2**power,
            "milliseconds": 9 + 0.2 * 2**power + context / 200,
            "ratio": 1.1**power,
        }
        for context in (64, 512)
        for power in range(8)
    ]
    note = "text of a 6M-parameter model on generated tasks at the cost of 7B " + HOSTILE * hostile
    run = RUN | {"model": HOSTILE if hostile else "demo", "note": note, "row_costs": costs}
    run["other_drafts"] = {OTHER: 101_000}
    return {"schema": 1, "run": run, "rows": rows}


def cells(row):
    return [show(row) for show in COLUMNS.values()]


class Page(html.parser.HTMLParser):
    """Texts, tags and links of a page; fails where an element is not closed by its own end."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts, self.links, self.ids = [], set(), [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [
            value for key, value in attrs if key in ("src", "href", "xlink:href", "data", "action")
        ]
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of the large document."""
    folder = tmp_path_factory.mktemp("report")
    write_files(large(), folder)
    return folder


def test_a_row_of_the_table():
    row = small()["rows"][2]
    row |= {
        "speedup": 1.4171,
        "speedup_interval": [1.352, 1.494],
        "tokens_per_second": 1234.5,
        "draft_forwards": 77,
    }
    row |= {
        "tokens_per_forward": 2.314,
        "rows_per_forward": 43.21,
        "target_forwards": 812,
        "quality": 0.85,
    }
    expected = [
        "math",
        "lookahead:window=7",
        "1234",
        "1.42x 1.35-1.49",
        "2.31",
        "43.2",
        "812; 77",
        "0.85",
    ]
    assert cells(row) == [*expected, "19/20, 1 tie"]
    assert len(cells(row)) == len(COLUMNS)


def test_what_is_not_known_is_a_dash():
    row = small()["rows"][0]
    row |= dict.fromkeys(
        ("rows_per_forward", "tokens_per_forward", "target_forwards", "draft_forwards", "quality")
    )
    row |= {"identical": 0, "tie_explained": 0, "unexplained": 0}
    assert cells(row) == ["math", "autoregressive", "81.5", "1.00x", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("ties", "unexplained", "expected"),
    [
        (0, 0, "20/20"),
        (1, 0, "20/21, 1 tie"),
        (2, 0, "20/22, 2 ties"),
        (2, 1, "20/23, 2 ties, 1 unexplained"),
    ],
)
def test_losslessness_names_what_is_not_identical(ties, unexplained, expected):
    row = small()["rows"][1] | {"identical": 20, "tie_explained": ties, "unexplained": unexplained}
    assert cells(row)[-1] == expected


def test_a_cell_is_one_line_of_printable_text():
    row = small()["rows"][0] | {"task": "a\nb\x1b[31m\u202e\udc80"}
    assert cells(row)[0] == "a b [31m  "


def test_the_folder(written):
    files = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    drawn = {f"plots/{name}.{kind}" for name in plots.FIGURES for kind in ("svg", "png")}
    assert files == {"results.json", "report.md", "report.html"} | drawn
    assert json.loads((written / "results.json").read_text()) == json.loads(json.dumps(large()))


def test_writing_again_gives_the_same_files(written, tmp_path):
    (tmp_path / "report.md").write_text("of an earlier run")
    write_files(large(), tmp_path)
    for path in written.rglob("*.*"):
        assert path.read_bytes() == (tmp_path / path.relative_to(written)).read_bytes(), path.name


def test_the_page_stands_alone(written):
    text = (written / "report.html").read_text()
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "metadata"}
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_the_page_shows_names_as_they_are(written):
    name = HOSTILE.replace("\n", " ")
    texts = Page((written / "report.html").read_text()).texts
    assert texts.count(name) > 10
    assert f"{name}: methods against plain decoding" in texts


def test_the_page_follows_the_theme(written):
    text = (written / "report.html").read_text()
    drawings = text[text.index("<svg") :]
    assert "prefers-color-scheme: dark" in text
    assert "var(--ink)" in drawings
    assert not any(colour in drawings for colour in canvas.THEMED)


def test_every_table_in_markdown_has_full_rows(written):
    text = (written / "report.md").read_text()
    width = 0
    for line in text.splitlines():
        bars = line.replace("\\|", "").count("|")
        width = bars if not width else width * (bars > 0)
        assert bars == width
    assert "<" not in text
    assert text.count("](plots/") == len(plots.FIGURES)


def test_the_page_says_what_was_run_and_what_came_of_it(written):
    text = (written / "report.md").read_text()
    assert "leapdecode bench --methods lookahead,prompt_lookup --output 'two words'" in text
    assert "- sampling: max_tokens 128, temperature 0.7, top_p 0.9\n" in text
    assert "- sizes: target 6.31M, draft 812k parameters" in text
    assert "> text of a 6M-parameter model on generated tasks at the cost of 7B" in text
    # no draft, so no column for it
    assert "| autoregressive | 70.0% | 10.0% | 5.0% | 2.0% | 13.0% |" in text
    assert "| lookahead:window=5:ngram=3 | 17 of 20 |" in text
    assert "| 128 | 34.9 ms (1.95x) | 37.2 ms (1.95x) |" in text


def test_unexplained_texts_are_pointed_out(tmp_path):
    report = small()
    write_files(report, tmp_path)
    assert "without an explanation" not in (tmp_path / "report.md").read_text()
    report["rows"][1]["unexplained"] = 1
    write_files(report, tmp_path)
    assert "without an explanation" in (tmp_path / "report.html").read_text()


def test_without_matplotlib_the_pages_come_without_plots(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "find_spec", lambda name: None)
    write_files(large(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.html",
        "report.md",
        "results.json",
    ]
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text()
        assert "plots, which need matplotlib" in text
        assert "plots/" not in text


def test_a_figure_needs_its_data(tmp_path):
    report = small()
    assert plots.figure_scaling(report) is None
    assert plots.figure_row_costs(report) is None
    assert plots.figure_option(report) is None
    assert plots.figure_drafts(report) is None
    nothing = {"run": RUN, "rows": report["rows"][:1]}
    assert plots.figure_speedup(nothing) is None
    assert plots.figure_accepted(nothing) is None
    nothing["rows"][0]["rows_per_forward"] = None
    assert plots.figure_rows(nothing) is None
    write_files(nothing, tmp_path)
    assert not (tmp_path / "plots").exists()


def test_the_scaling_law_has_a_line_per_ngram_length():
    report = large()
    report["rows"].append(new_row("math", "lookahead", random.Random(3)))
    report["rows"].append(
        new_row("unguessable", "lookahead:ngram=9", random.Random(3), {"ngram": 9})
    )
    without = {"window": 4, "ngram": 5, "pool_from_prompt": False}
    report["rows"].append(new_row("math", "lookahead:alone", random.Random(3), without))
    panels = scaling_plot.variants(report)
    assert panels[False] == {}  # one window makes no line
    lines = panels[True]
    assert list(lines) == ["N=5"]  # the others have fewer windows than a line takes
    assert [window for window, _ in lines["N=5"]] == [7, 7, 15, 30]
    rows = [row for row in report["rows"] if row["method"] == "lookahead:window=30:ngram=5"]
    forwards = sum(row["target_forwards"] - row["prefill_forwards"] for row in rows)
    assert lines["N=5"][-1] == (30, 100 * forwards / (2560 * len(rows)))


def test_the_scaling_law_is_fitted_to_doublings_of_the_window():
    law = scaling_plot.fit([(1, 90.0), (2, 83.0), (4, 76.0), (8, 69.0)])
    assert (law.intercept, law.slope, law.r2) == pytest.approx((90, -7, 1))
    points = [(1, 80.0), (4, 70.0), (16, 66.0)]
    law = scaling_plot.fit(points)
    assert (law.intercept, law.slope) == pytest.approx((79, -3.5))
    errors = [value - 79 + 3.5 * place for (_, value), place in zip(points, (0, 2, 4), strict=True)]
    assert law.r2 == pytest.approx(1 - sum(error**2 for error in errors) / 104)
    assert scaling_plot.fit([(1, 5.0), (2, 5.0), (4, 5.0)]).r2 == 1


def test_the_scaling_law_is_drawn_without_and_with_ngrams_of_the_prompt():
    report = small()
    for pool in (False, True):
        for window in (1, 2, 4):
            options = {"window": window, "ngram": 5, "guesses": window, "pool_from_prompt": pool}
            row = new_row("math", f"lookahead:{window}:{pool}", random.Random(window), options)
            report["rows"].append(row)
    figure = plots.figure_scaling(report)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [*scaling_plot.PANELS.values()]
    assert all(len(axes.lines) == 2 for axes in figure.axes)  # points, and the fit
    words = [text.get_text() for text in figure.legends[0].texts]
    assert len(words) == 1  # one N
    assert words[0].replace("\n", " ").count("R²") == 2


def test_an_option_has_a_line_per_task_and_draft():
    report = large(hostile=False)
    assert option_plots.varied(report) == ("draft_model", "gamma")
    option, lines = option_plots.lines_by_option(report)
    assert option == "gamma of draft_model"
    assert len(lines) == 2 * len(TASKS)
    points = lines["math", OTHER]
    rows = {row["method"]: row for row in report["rows"] if row["task"] == "math"}
    row = rows[f"draft_model:gamma=5:draft={OTHER}"]
    assert points[1] == (5, row["tokens_per_second"], row["tokens_per_forward"] - 1)
    assert [value for value, _, _ in points] == [2, 5, 9]
    both = {"gamma": 7, "confidence": 0.2}
    report["rows"].append(new_row("math", "draft_model:gamma=7", random.Random(3), both))
    assert option_plots.varied(report) is None


def test_a_draft_counts_with_its_fastest_contender():
    report = large(hostile=False)
    (smaller, own) = option_plots.lines_by_draft(report)["math", "draft_model"]
    assert (smaller[0], own[0]) == (101_000, 812_032)
    rows = [row for row in report["rows"] if row["task"] == "math" and "gamma" in row["options"]]
    fastest = max(
        (row for row in rows if "draft" in row["options"]),
        key=lambda row: row["tokens_per_second"],
    )
    assert smaller[1:] == (fastest["tokens_per_second"], fastest["tokens_per_forward"] - 1)


def test_a_method_has_one_colour_and_plain_decoding_is_grey():
    found = canvas.colours(["lookahead", "autoregressive", "jacobi"])
    assert found == {
        "autoregressive": canvas.PLAIN,
        "lookahead": canvas.PALETTE[0],
        "jacobi": canvas.PALETTE[1],
    }


def test_names_of_any_script_are_drawn_as_they_are(tmp_path):
    report = small()
    for row, name in zip(
        report["rows"], ("math", "_x", "a$b${" * 30, "数学", "\x00\u202e", ""), strict=True
    ):
        row["task"] = name
    write_files(report, tmp_path)
    text = (tmp_path / "plots" / "rows.svg").read_text()
    assert all(name in text for name in (">math<", "> _x<", "数学", "a$b${a$b${", ">-<"))


def test_accepted_lengths_are_shares_of_the_steps():
    assert plots.shares({"accepted_lengths": {"1": 5, "3": 3, "12": 1, "40": 1}})[1:] == (
        [0.5, 0, 0.3] + [0] * 8 + [0.2]
    )


def texts_drawn(figure, monkeypatch):
    """The texts that a drawing of the figure shows; ticks beyond an axis have texts too, but are
    not drawn.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    drawn, draw = [], Text.draw
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    monkeypatch.setattr(
        Text,
        "draw",
        lambda text, *given, **named: (drawn.append(text), draw(text, *given, **named)),
    )
    figure.draw_without_rendering()
    return [text for text in drawn if text.get_visible() and text.get_text()]


@pytest.mark.parametrize("name", plots.FIGURES)
@pytest.mark.parametrize("document", [small, large])
def test_no_text_in_a_plot_covers_another_or_leaves_it(name, document, monkeypatch):
    import matplotlib

    with matplotlib.rc_context(canvas.STYLE):
        figure = plots.FIGURES[name][0](document())
        if figure is None:
            return
        texts = texts_drawn(figure, monkeypatch)
    on_data = (
        [one for axes in figure.axes for one in axes.texts] if name in ("rows", "scaling") else []
    )
    boxes = [text.get_window_extent() for text in texts if text not in on_data]
    assert len(boxes) > 5
    for place, box in enumerate(boxes):
        assert box.x0 >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y0 >= -1
        assert box.y1 <= figure.bbox.y1 + 1
        assert not any(box.overlaps(other) for other in boxes[:place])


def test_the_plots_on_disk_are_whole_drawings(written):
    for path in written.rglob("*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")
        assert (path.with_suffix(".png")).read_bytes().startswith(b"\x89PNG")


def test_importing_the_report_leaves_matplotlib_alone():
    code = "import sys, leapdecode_bench.measure.report; print('matplotlib' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "False"
    )


def test_names_leave_out_what_all_variants_share():
    methods = [
        "autoregressive",
        "lookahead:ngram=5:window=4",
        "lookahead:ngram=5",
        "ouroboros:gamma=3",
        "hf-plain",
    ]
    assert shared_options([*methods, *methods]) == {"lookahead": ["ngram=5"]}
    assert short_names(methods) == [
        "autoregressive",
        "lookahead:window=4",
        "lookahead",
        "ouroboros:gamma=3",
        "hf-plain",
    ]
    different = ["jacobi:block=4", "jacobi:block=8"]
    assert (short_names(different), shared_options(different)) == (different, {})
