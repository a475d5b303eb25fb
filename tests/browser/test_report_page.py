"""The report in a real browser, opened from file://: it renders, says nothing on the console and asks for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium, missing
from tests.reference.readiness_tables import RUN, sample_table, segments_of
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing())]

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
OPEN_TOPICS = "return [...document.querySelectorAll('.topic[open]')].map(topic => topic.dataset.topic)"
SHOWN_TOPICS = (
    "return [...document.querySelectorAll('.topic')].filter(t => t.checkVisibility()).map(t => t.dataset.topic)"
)
RECTS = (
    "return [...document.getElementById(arguments[0]).querySelectorAll('.timeline rect')]"
    ".map(rect => { const box = rect.getBoundingClientRect(); return [box.x, box.width, box.height]; })"
)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    extra = [
        *segments_of(HOSTILE, 0, "MISSING_SNAPSHOT GAP_BEFORE ACTIVE_SEGMENT", reason=HOSTILE),
        *segments_of("x" * 249, 0, "TIERED ACTIVE_SEGMENT"),
        *segments_of("many", 0, f"{'TIERED ' * 9000}MISSING_SNAPSHOT {'GAP_BEFORE ' * 998}ACTIVE_SEGMENT"),
    ]
    # A folder with a space: the address bar is not the only one to stumble over it.
    folder = tmp_path_factory.mktemp("readiness report")
    return write_report(summarise(sample_table(extra=extra), RUN), folder)[-1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Chromium, page_file: Path) -> Iterator[Chromium]:
    browser.console()
    browser.requested()
    browser.open("about:blank")
    browser.open(page_file.as_uri())
    yield browser
    assert browser.console() == []


@pytest.mark.nightly
def test_the_page_asks_for_itself_and_for_nothing_else(page: Chromium, page_file: Path) -> None:
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert {url for url in page.requested() if url != "about:blank"} == {page_file.as_uri()}


@pytest.mark.nightly
def test_a_hostile_name_runs_nothing(page: Chromium) -> None:
    assert "cannot be tiered yet" in page.run("return document.title")
    assert page.run("return document.images.length") == 0
    assert HOSTILE in page.run(SHOWN_TOPICS)


def test_a_click_on_a_topic_shows_its_partitions_and_their_timelines(page: Chromium) -> None:
    assert page.run(OPEN_TOPICS) == []
    page.click("#t-payments > summary .worst")
    assert page.run(OPEN_TOPICS) == ["payments"]
    rects = page.run(RECTS, "p-payments-0")
    assert len(rects) == 13
    assert all(width > 5 and height == 15 for _, width, height in rects)
    # Offsets ascend from left to right, though the worst are drawn last.
    assert page.run("return document.querySelectorAll('#t-payments .partition').length") == 4


@pytest.mark.nightly
def test_ten_thousand_segments_are_four_rectangles_and_the_one_that_blocks_is_seen(page: Chromium) -> None:
    page.run("document.getElementById('t-many').open = true")
    rects = page.run(RECTS, "p-many-0")
    assert len(rects) == 4
    assert min(width for _, width, _ in rects) > 2


@pytest.mark.nightly
def test_the_keyboard_opens_a_topic(page: Chromium) -> None:
    page.run("document.querySelector('#t-clicks > summary').focus()")
    page.press("\ue007")
    assert page.run(OPEN_TOPICS) == ["clicks"]


@pytest.mark.nightly
def test_typing_and_levels_filter_the_topics(page: Chromium) -> None:
    page.click("#filter")
    page.press("PAY")
    assert page.run(SHOWN_TOPICS) == ["payments"]
    assert page.run("return document.getElementById('matching').textContent") == "1 of 10 topics"
    page.run("document.getElementById('filter').value = ''")
    page.click("fieldset label:nth-of-type(3)")
    assert page.run(SHOWN_TOPICS) == ["orders"]


@pytest.mark.nightly
def test_a_partition_is_found_by_its_name(page: Chromium) -> None:
    partitions = "document.querySelectorAll('.topic:not([hidden]) .partition:not([hidden])')"
    shown = f"return [...{partitions}].map(each => each.id)"
    every = page.run("return document.querySelectorAll('#t-payments .partition').length")
    assert every > 1
    page.click("#filter")
    page.press("Payments-2")
    assert page.run(SHOWN_TOPICS) == ["payments"]
    assert page.run(OPEN_TOPICS) == ["payments"]
    assert page.run(shown) == ["p-payments-2"]
    page.run("const f = document.getElementById('filter'); f.value = 'payments'; f.dispatchEvent(new Event('input'))")
    assert len(page.run(shown)) == every


@pytest.mark.nightly
def test_a_click_on_a_heading_sorts_and_a_second_one_turns_it_round(page: Chromium) -> None:
    sizes = "return [...document.querySelectorAll('.topic')].map(topic => Number(topic.dataset.bytes))"
    page.click(".head [data-key=bytes]")
    down = page.run(sizes)
    assert down == sorted(down, reverse=True)
    page.click(".head [data-key=bytes]")
    assert page.run(sizes) == sorted(down)
    page.click(".head [data-key=topic]")
    assert page.run(SHOWN_TOPICS)[-1] == "x" * 249


@pytest.mark.nightly
def test_a_permalink_opens_what_it_points_to(page: Chromium, page_file: Path) -> None:
    page.open("about:blank")
    page.open(f"{page_file.as_uri()}#p-payments-2")
    assert page.run(OPEN_TOPICS) == ["payments"]
    assert page.run("return document.getElementById('p-payments-2').open")
    page.run("location.hash = '#p-orders-0'")
    page.run("return new Promise(done => setTimeout(done, 50))")
    assert page.run(OPEN_TOPICS) == ["payments", "orders"]


@pytest.mark.nightly
def test_the_copy_button_copies_the_command_beside_it(page: Chromium) -> None:
    page.run(
        "window.copied = [];"
        "document.addEventListener('copy', () => window.copied.push(getSelection().toString()));"
        "if (navigator.clipboard) navigator.clipboard.writeText = async text => { window.copied.push(text); };"
    )
    page.click("#causes .copy")
    page.run("return new Promise(done => setTimeout(done, 50))")
    code = page.run("return document.querySelector('#causes .copy').previousElementSibling.textContent")
    assert page.run("return window.copied") == [code]
    assert code == "tiersnap dump /var/lib/kafka/data/payments-3/00000000000005000000.log"
    assert page.run("return document.querySelector('#causes .copy').textContent") == "Copied"


@pytest.mark.nightly
def test_field_of_a_command_fills_all_alike_and_is_copied_as_one_word(page: Chromium) -> None:
    page.run(
        "window.copied = [];"
        "const heard = document.execCommand.bind(document);"
        "document.execCommand = name => { window.copied.push(document.activeElement.value); return heard(name); };"
        "if (navigator.clipboard) navigator.clipboard.writeText = async text => { window.copied.push(text); };"
    )
    fields = "[...document.querySelectorAll('#causes .hole[placeholder=FILE]')]"
    button = "document.querySelector('#causes .command.open .copy')"
    assert page.run(f"return {button}.disabled")
    page.run(f"{fields}[0].focus()")
    page.press("my ids.txt")
    assert set(page.run(f"return {fields}.map(each => each.value)")) == {"my ids.txt"}
    assert len(page.run(f"return {fields}.map(each => each.value)")) == 2
    page.click("#causes .command.open .copy")
    look = "const look = () => copied.length ? done(copied[0]) : setTimeout(look, 10); look();"
    assert page.run(f"return new Promise(done => {{ {look} }})").endswith(" --topic-ids 'my ids.txt'")
    page.run(f"const e = {fields}[0]; e.value = ''; e.dispatchEvent(new Event('input', {{bubbles: true}}))")
    assert page.run(f"return {button}.disabled")


@pytest.mark.nightly
def test_the_page_fits_every_window_with_everything_open(page: Chromium) -> None:
    page.click("#toggle")
    page.run("document.querySelectorAll('.partition').forEach(each => { each.open = true })")
    assert len(page.run(OPEN_TOPICS)) == 10
    too_wide = {}
    for width in [*range(320, 1400, 36), 2200]:
        page.resize(width)
        needed = page.run("return document.documentElement.scrollWidth")
        if needed > width:
            too_wide[width] = needed
    page.resize(1280)
    assert too_wide == {}


@pytest.mark.nightly
def test_the_page_is_dark_where_its_reader_prefers_that(page: Chromium) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    page.colours(dark=True)
    assert max(page.run(ground)) < 60
    page.colours(dark=False)
    assert min(page.run(ground)) > 200


@pytest.mark.nightly
def test_text_can_be_read_against_its_ground(page: Chromium) -> None:
    # WCAG AA: 4.5 to 1 for text of this size.
    ratio = """
        const lum = colour => {
          const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255);
          const [r, g, b] = parts.map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
          return .2126 * r + .7152 * g + .0722 * b;
        };
        const ground = node => {
          for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (!/, 0\\)$|transparent/.test(colour)) return colour;
          }
          return 'rgb(255, 255, 255)';
        };
        const bad = [];
        for (const node of document.querySelectorAll('p, dt, dd, h1, h2, b, small, button, a, code, .key, th, td')) {
          if (!node.checkVisibility() || !node.textContent.trim() || getComputedStyle(node).opacity < 1) continue;
          const [a, b] = [lum(getComputedStyle(node).color), lum(ground(node))];
          const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
          if (contrast < 4.5) bad.push([node.tagName, node.className, node.textContent.slice(0, 30), contrast]);
        }
        return bad;
    """
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
    for dark in (True, False):
        page.colours(dark=dark)
        assert page.run(ratio) == []
