"""The page of traces in a real browser."""

import json
import shutil

import pytest
from served import HOST, serving
from test_server import PROMPT

from leapdecode import LLM, SamplingParams
from leapdecode.llm.trace import PARTS, Trace, lines_of, page

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = '</script><img src=x onerror="document.title=1"><b>&amp;\u202e{{7*7}}'
VIEWS = ("race", "text", "tree", "time", "sources", "share")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def llm(quick):
    return LLM(quick.model, quick.tokenizer, draft=quick.draft, exact=True)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as one:
        running = one.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield running
        running.close()


def traced(llm, prompt, method):
    trace = Trace()
    result = llm.generate(
        prompt, method=method, sampling=SamplingParams(max_tokens=30), watch=trace
    )
    return result, trace


@pytest.mark.parametrize("method", ["autoregressive", "lookahead", "ouroboros"])
def test_a_trace_tells_the_whole_text(llm, method):
    result, trace = traced(llm, PROMPT, method)
    head, *steps = map(json.loads, lines_of(trace.document(result, llm.tokenizer)).splitlines())
    assert head["schema"] == 1
    assert head["prompt"] == PROMPT
    assert "".join(one["text"] for step in steps for one in step["tokens"]) == result.text
    for step, own in zip(steps, result.steps, strict=True):
        assert [one["id"] for one in step["tokens"]] == own.tokens
        accepted = [node for node in step["nodes"] if node["fate"] == "accepted"]
        assert [one["id"] for one in accepted[1:]][: len(own.tokens) - 1] == own.tokens[:-1]
        assert all(0 <= node["probability"] <= 1 for node in accepted[1:])
        assert list(step["parts"]) == list(PARTS)
    ends = [step["at"] for step in steps]
    assert ends == sorted(ends)


def test_watching_changes_no_text(llm):
    watched, _ = traced(llm, PROMPT, "auto")
    assert watched.token_ids == llm.generate(
        PROMPT, method="autoregressive", sampling=SamplingParams(max_tokens=30)
    ).token_ids  # fmt: skip


def opened(browser, tmp_path, traces, width=1100, **more):
    """A page in the browser, what it asked for, and its errors."""
    file = tmp_path / "trace.html"
    file.write_text(page(traces, [(1, 5.0), (8, 7.0)], **more))
    shown = browser.new_page(viewport={"width": width, "height": 800})
    asked, errors = [], []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    shown.goto(file.as_uri())
    return shown, asked, errors


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [390, 1100])
def test_all_views_work_by_mouse_and_keyboard(llm, browser, tmp_path, width):
    documents = [
        trace.document(result, llm.tokenizer)
        for result, trace in (traced(llm, PROMPT, m) for m in ("autoregressive", "auto"))
    ]
    shown, asked, errors = opened(browser, tmp_path, documents, width)
    for view in VIEWS:
        shown.click(f"#tab-{view}")
        assert shown.is_visible(f"#{view}")
        wide = shown.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{view} is wider than the screen"
    shown.click("#tab-text")
    shown.click("#boxes .box >> nth=2")
    assert "Forward 3" in shown.inner_text("#step")
    shown.click("#tab-tree")
    shown.click("#next")
    assert shown.inner_text("#which").startswith("4 of ")
    shown.focus("#tree")
    shown.keyboard.press("ArrowLeft")
    assert shown.inner_text("#which").startswith("3 of ")
    shown.focus("#tab-tree")
    shown.keyboard.press("ArrowRight")
    assert shown.is_visible("#time")
    with shown.expect_download() as download:
        shown.click("#tab-share")
        shown.click("#json")
    assert json.loads(download.value.path().read_text())[1]["method"] == "auto"
    assert not errors
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []
    shown.close()


@pytest.mark.slow
@needs_browser
def test_text_that_looks_like_html_stays_text(llm, browser, tmp_path):
    result, trace = traced(llm, EVIL, "auto")
    document = trace.document(result, llm.tokenizer)
    document["prompt"] = document["model"] = EVIL
    for step in document["steps"]:
        for one in (*step["tokens"], *step["nodes"]):
            one["text"] = one["source"] = EVIL
    shown, asked, errors = opened(browser, tmp_path, [document])
    for view in VIEWS:
        shown.click(f"#tab-{view}")
    assert shown.title().startswith("leapdecode")
    assert shown.query_selector("main img") is None
    assert "<img" in shown.inner_text("body") or "<img" in shown.inner_text("#facts")
    assert not errors
    assert len(asked) == 1
    shown.close()


@pytest.mark.slow
@needs_browser
def test_a_schedule_is_drawn(browser, tmp_path):
    schedule = [
        ("draft", "draft", 0.0, 2.0, [1, 2]),
        ("target", "verify", 2.0, 9.0, [1, 2]),
        ("target", "sample", 9.0, 9.5, [1, 2]),
    ]
    shown, _, errors = opened(browser, tmp_path, [], schedule=schedule, title=EVIL)
    lanes = [one.text_content() for one in shown.query_selector_all("#gantt svg > text")]
    assert lanes[:4] == ["target", "draft", "text 1", "text 2"]
    assert len(shown.query_selector_all("#gantt rect")) == 9
    assert EVIL.split("\u202e")[0] in shown.inner_text("#facts")
    assert not errors
    shown.close()


@pytest.mark.slow
@needs_browser
def test_the_served_page_races_and_talks(browser):
    with serving() as served:
        shown = browser.new_page(viewport={"width": 390, "height": 800})
        asked, errors = [], []
        shown.on("request", lambda request: asked.append(request.url))
        shown.on("pageerror", lambda error: errors.append(str(error)))
        shown.goto(f"http://{HOST}:{served.port}/")
        shown.fill("#most", "20")
        shown.click("#run")
        shown.wait_for_selector("#lanes .tok", timeout=120_000)
        lanes = shown.query_selector_all("#lanes .text")
        assert len({lane.inner_text() for lane in lanes}) == 1
        shown.click("#tab-sources")
        shown.uncheck("#switches input[name=draft]")
        shown.click("#switches button")
        shown.wait_for_selector("#run:not([disabled])", timeout=120_000)
        assert "draft" not in shown.inner_text("#brought")
        shown.fill("#texts", "3")
        shown.click("#tab-batch")
        shown.click("#run")
        shown.wait_for_selector("#gantt svg :text('text 3')", timeout=120_000)
        shown.click("#tab-talk")
        shown.fill("#message", PROMPT)
        shown.click("#say button[type=submit]")
        shown.wait_for_selector("#said .soft:has-text('per forward')", timeout=120_000)
        assert "20 tokens" in shown.inner_text("#said")
        assert not errors
        assert all(url.startswith(f"http://{HOST}:{served.port}/") for url in asked)
        shown.close()
