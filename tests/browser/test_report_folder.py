"""The pages of a report's folder in a real browser, from file://: details load, and all pages fit and are dark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from tests.browser.chromium import Chromium, missing
from tests.reference.readiness_tables import LOG_DIR, RUN, fleet_table, sample_table, segments_of, table
from tiersnap.snapshot.report.exactly_once import Audit, AuditCount, AuditRow, ExactlyOnce, Failover, NewestSnapshot
from tiersnap.snapshot.report.html_page import PAGES, detail_files, to_html
from tiersnap.snapshot.report.run_info import Disk
from tiersnap.snapshot.report.summary import summarise
from tiersnap.snapshot.report.write import write_report

pytestmark = [pytest.mark.nightly, pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing())]

PARTITIONS_OF = "return [...document.querySelectorAll(`#${arguments[0]} .partition`)].filter(p => !p.hidden).length"
WAIT_FOR = """
    const [selector, most] = arguments;
    return new Promise((done) => {
      const look = (left) => document.querySelector(selector) || !left ? done(!!document.querySelector(selector))
        : setTimeout(() => look(left - 1), 20);
      look(most);
    });
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture
def quiet(browser: Chromium) -> Iterator[Chromium]:
    browser.console()
    yield browser
    assert browser.console() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four pages with something on each."""
    folder = tmp_path_factory.mktemp("report")
    disks = (Disk("/var/lib", 100 << 30, 3 << 30, (LOG_DIR,)),)
    write_report(summarise(sample_table(), RUN), folder)
    later = replace(RUN, run_id="later", finished_at=RUN.finished_at + 86_400_000, disks=disks)
    extra = segments_of("x" * 249, 0, "MISSING_SNAPSHOT ACTIVE_SEGMENT")
    finding = AuditRow("LOSS", "GAP", "LOST", "x" * 249, 0)
    counts = [AuditCount("LOSS", "GAP", "LOST", findings=1, batches=1)]
    newest = [NewestSnapshot(LOG_DIR, "x" * 249, 0, 100, "SUSPECT", 3, 1, 0, "lacks 3 producers")]
    newest += [NewestSnapshot(LOG_DIR, "orders", number, 100, "MATCHES") for number in range(12)]
    known = ExactlyOnce(Audit.of(counts, [finding]), Failover.of(newest))
    write_report(summarise(sample_table(extra=extra), later), folder, known)
    return folder


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 partitions; of the files that load only those of the first topic are written."""
    folder = tmp_path_factory.mktemp("fleet")
    report = summarise(fleet_table(200, 100, 2), RUN)
    (folder / "details").mkdir()
    for name, text in islice(detail_files(report), 2):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "index.html").write_text(to_html(report), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """601 topics, one of which is last and has 60 partitions."""
    late = [each for number in range(60) for each in segments_of("zzz", number, "TIERED ACTIVE_SEGMENT")]
    report = summarise(pa.concat_tables([fleet_table(600, 1, 2), table(late)]), RUN)
    return write_report(report, tmp_path_factory.mktemp("many"))[-1]


def test_every_page_opens_without_a_word_on_the_console_and_asks_for_nothing_else(
    quiet: Chromium, folder: Path
) -> None:
    for name in (*PAGES, f"runs/{RUN.run_id}.html"):
        quiet.open("about:blank")
        quiet.requested()
        quiet.open((folder / name).as_uri())
        assert quiet.run("return document.querySelector('h1').textContent.length") > 5
        assert {url for url in quiet.requested() if url != "about:blank"} == {(folder / name).as_uri()}


def test_every_page_fits_a_telephone_and_every_link_of_the_navigation_leads_somewhere(
    quiet: Chromium, folder: Path
) -> None:
    for name in PAGES:
        quiet.open((folder / name).as_uri())
        quiet.resize(390)
        needed = quiet.run("return document.documentElement.scrollWidth")
        quiet.resize(1280)
        assert needed <= 390, name
        links = quiet.run("return [...document.querySelectorAll('nav a')].map(each => each.href)")
        assert links == [(folder / each).as_uri() for each in PAGES]


def test_every_page_is_dark_where_its_reader_prefers_that(quiet: Chromium, folder: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    for name in PAGES:
        quiet.open((folder / name).as_uri())
        quiet.colours(dark=True)
        assert max(quiet.run(ground)) < 60
        quiet.colours(dark=False)


def test_paper_shows_blocked_topics_open_and_no_controls(quiet: Chromium, folder: Path) -> None:
    quiet.open((folder / "index.html").as_uri())
    quiet.devtools("Emulation.setEmulatedMedia", {"media": "print"})
    quiet.run("dispatchEvent(new Event('beforeprint'))")
    assert quiet.run("return document.querySelector('.topic[data-level=BLOCKED]').open")
    assert not quiet.run("return document.querySelector('.controls').checkVisibility()")
    pdf = quiet.devtools("Page.printToPDF", {})
    quiet.run("dispatchEvent(new Event('afterprint'))")
    quiet.devtools("Emulation.setEmulatedMedia", {"media": ""})
    quiet.colours(dark=False)  # and no motion, which the line before has put back
    assert len(pdf["data"]) > 10_000


def test_twenty_thousand_partitions_open_and_the_time_is_reported(
    quiet: Chromium, fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    quiet.open((fleet / "index.html").as_uri())
    assert quiet.run("return document.querySelectorAll('.topic').length") == 200
    taken = time.monotonic() - started
    with capsys.disabled():
        print(f"\n20,000 partitions: the page is there after {taken:.2f} s (aim: 2 s on a quiet machine)")
    assert "200 of 200 topics" in quiet.run("return document.querySelector('h1').textContent")


def test_a_topic_loads_its_partitions_as_it_is_opened_and_the_rest_on_demand(quiet: Chromium, fleet: Path) -> None:
    quiet.open((fleet / "index.html").as_uri())
    topic = quiet.run("return document.querySelector('.topic[data-number=\"0\"]').id")
    inline = quiet.run(PARTITIONS_OF, topic)
    quiet.run("document.querySelector('.topic[data-number=\"0\"] > summary').focus()")
    quiet.press("\ue007")
    assert quiet.run(WAIT_FOR, f"#{topic} .partition:nth-of-type({inline + 50})", 500)
    quiet.run("document.querySelector('.topic[data-number=\"0\"] .rest .more').click()")
    assert quiet.run(WAIT_FOR, f"#{topic} .partition:nth-of-type(100)", 500)
    assert quiet.run(PARTITIONS_OF, topic) == 100
    assert quiet.run("return document.querySelector('.topic[data-number=\"0\"] .rest').hidden")


def test_a_link_and_a_filter_find_a_partition_that_the_page_does_not_hold(quiet: Chromium, fleet: Path) -> None:
    quiet.open((fleet / "index.html").as_uri())
    first = "document.querySelector('.topic[data-number=\"0\"]')"
    name, rest = quiet.run(f"return [{first}.dataset.topic, {first}.dataset.rest.split(',')]")
    quiet.run("location.hash = arguments[0]", f"#p-{name}-{rest[-1]}")
    assert quiet.run(WAIT_FOR, f"#p-{name}-{rest[-1]}[open]", 500)
    quiet.open("about:blank")
    quiet.open((fleet / "index.html").as_uri())
    quiet.run("document.getElementById('filter').focus()")
    quiet.press(f"{name}-{rest[0]}")
    assert quiet.run(WAIT_FOR, f"#p-{name}-{rest[0]}", 500)
    assert quiet.run(PARTITIONS_OF, f"t-{name}") == 1


SHOWN = "[...document.querySelectorAll('.topic')].filter(each => !each.hidden)"


def topics_shown(page: Chromium, count: int) -> list[str]:
    """Names of the topics, once so many are shown."""
    condition = f"{SHOWN}.length === arguments[0]"
    page.run(
        "return new Promise(done => { const look = left => "
        f"{condition} || !left ? done() : setTimeout(() => look(left - 1), 20); look(250); }})",
        count,
    )
    return page.run(f"return {SHOWN}.map(each => each.dataset.topic)")


def test_page_of_many_topics_shows_the_next_ones_by_the_keyboard(quiet: Chromium, many: Path) -> None:
    quiet.open(many.as_uri())
    assert len(topics_shown(quiet, 500)) == 500
    quiet.run("document.getElementById('toggle').click(); document.getElementById('more-topics').focus()")
    quiet.press("\ue007")
    assert len(topics_shown(quiet, 601)) == 601
    assert quiet.run("return document.getElementById('more-topics').hidden")
    assert quiet.run(f"return {SHOWN}.every(each => each.open)"), "all are expanded, those that came later too"
    quiet.run("document.querySelector('#t-zzz > summary').focus()")
    quiet.press("\ue007")
    assert not quiet.run("return document.getElementById('t-zzz').open")


def test_page_of_many_topics_filters_those_that_it_loads(quiet: Chromium, many: Path) -> None:
    quiet.open(many.as_uri())
    quiet.run("document.getElementById('filter').focus()")
    quiet.press("zzz")
    assert topics_shown(quiet, 1) == ["zzz"]
    assert quiet.run("return document.getElementById('matching').textContent") == "1 of 601 topics"
    quiet.run("document.getElementById('filter').value = ''")
    for level in ("BLOCKED", "SETTLED"):
        chip = f"[name=level][value={level}]"
        said = quiet.run(f"return document.querySelector('{chip}').nextElementSibling.textContent")
        quiet.run(f"document.querySelector('{chip}').click()")
        count = int(said.split()[-1])
        assert len(topics_shown(quiet, count)) == count
        assert quiet.run(f"return {SHOWN}.every(each => each.dataset.level === '{level}')")


def test_page_of_many_topics_sorts_those_that_it_loads(quiet: Chromium, many: Path) -> None:
    quiet.open(many.as_uri())
    quiet.run("document.querySelector('.head [data-key=topic]').click()")
    expected = [f"topic-{number:05d}" for number in range(600)] + ["zzz"]
    assert_names(quiet, expected[:500])
    quiet.run("document.getElementById('more-topics').click()")
    assert_names(quiet, expected)
    quiet.run("document.querySelector('.head [data-key=partitions]').click()")
    assert quiet.run(WAIT_FOR, "#t-zzz:first-child", 250), "the one of 60 partitions comes first"


def assert_names(page: Chromium, names: list[str]) -> None:
    """Fail if the topics shown are not these within 5 s."""
    end = time.monotonic() + 5
    found: list[str] = []
    while found != names and time.monotonic() < end:
        found = page.run(f"return {SHOWN}.map(each => each.dataset.topic)")
    assert found == names


def test_page_of_many_topics_opens_those_that_it_loads(quiet: Chromium, many: Path) -> None:
    quiet.open(f"{many.as_uri()}#t-zzz")
    assert quiet.run(WAIT_FOR, "#t-zzz[open]", 250)
    quiet.open("about:blank")
    quiet.open(many.as_uri())
    quiet.run("document.getElementById('more-topics').click()")
    topics_shown(quiet, 601)
    quiet.run("document.getElementById('t-zzz').open = true")
    assert quiet.run(WAIT_FOR, "#t-zzz .partition:nth-of-type(50)", 250)
    quiet.run("document.querySelector('#t-zzz .rest .more').click()")
    assert quiet.run(WAIT_FOR, "#t-zzz .partition:nth-of-type(60)", 250)


def test_permalink_leads_to_a_partition_that_the_list_has_not(quiet: Chromium, many: Path) -> None:
    quiet.open("about:blank")
    quiet.open(f"{many.as_uri()}#p-zzz-59")
    assert quiet.run(WAIT_FOR, "#p-zzz-59[open]", 250)
    assert quiet.run("return document.activeElement.parentElement.id") == "p-zzz-59"
    box = quiet.run("return document.getElementById('p-zzz-59').getBoundingClientRect().toJSON()")
    assert 0 <= box["top"] < 900, "it is in sight"
    assert topics_shown(quiet, 1) == ["zzz"], "the filter says why the others are not"
    quiet.run("location.hash = document.querySelector('#causes .examples a').hash")
    assert quiet.run(WAIT_FOR, ".topic[data-level=BLOCKED] .partition.target[open]", 250)


SHOWN_ROWS = "return [...document.querySelectorAll('#snapshots tr')].filter(each => !each.hidden).length"


def test_failover_page_filters_by_name_and_kind(quiet: Chromium, folder: Path) -> None:
    quiet.open((folder / "failover.html").as_uri())
    assert quiet.run(SHOWN_ROWS) == 13
    quiet.run("document.querySelector('.controls [type=search]').focus()")
    quiet.press("ORDERS-1")
    assert quiet.run(SHOWN_ROWS) == 3
    assert quiet.run("return document.querySelector('.matching').textContent") == "3 of 13 rows"
    quiet.run("document.querySelector('.controls [value=SUSPECT]').click()")
    assert quiet.run(SHOWN_ROWS) == 0
    quiet.run(
        "const f = document.querySelector('.controls [type=search]'); f.value = '';"
        "f.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert quiet.run(SHOWN_ROWS) == 1
    assert quiet.run("return document.querySelector('#snapshots tr:not([hidden])').dataset.kind") == "SUSPECT"


def test_trend_is_drawn_with_its_scale_and_times(quiet: Chromium, folder: Path) -> None:
    for name in ("index.html", "runs.html"):
        quiet.open((folder / name).as_uri())
        labels = quiet.run("return [...document.querySelectorAll('.trend text')].map(each => each.textContent)")
        assert "0 B" in labels
        assert any("Nov" in each for each in labels)
        box = quiet.run("return document.querySelector('.trend polyline').getBoundingClientRect().toJSON()")
        assert box["width"] > 600


def test_every_page_has_no_axe_violation(quiet: Chromium, folder: Path) -> None:
    for name in PAGES:
        quiet.open((folder / name).as_uri())
        quiet.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
        for dark in (True, False):
            quiet.colours(dark=dark)
            assert quiet.violations() == [], (name, dark)


def test_rows_loaded_later_have_no_axe_violation(quiet: Chromium, many: Path) -> None:
    quiet.open("about:blank")
    quiet.open(f"{many.as_uri()}#p-zzz-59")
    assert quiet.run(WAIT_FOR, "#p-zzz-59[open]", 250)
    for width in (390, 1280):
        quiet.resize(width)
        assert quiet.violations() == []
        assert quiet.run("return document.documentElement.scrollWidth") <= width


def test_a_page_without_its_folder_says_what_is_missing(browser: Chromium, fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_bytes((fleet / "index.html").read_bytes())
    browser.open((tmp_path / "index.html").as_uri())
    browser.run("document.querySelector('.topic').open = true")
    browser.run("return new Promise(done => setTimeout(done, 300))")
    assert "is not beside this page" in browser.run("return document.querySelector('.topic .rest').textContent")
    browser.console()
