"""The built site, looked at in a browser: ``SKDPDYN_SITE`` names its folder.

``.ci/run`` builds the site, installs Debian's chromium and chromium-driver, and sets the variable.
The test serves the site itself, and asks no other host for anything.
"""

import functools
import html
import http.server
import json
import os
import re
import shutil
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

SITE = os.environ.get("SKDPDYN_SITE")
built = pytest.mark.skipif(not SITE, reason="SKDPDYN_SITE names no built site")
pytestmark = [pytest.mark.slow, pytest.mark.system, built]
PAGES = [path.relative_to(SITE).as_posix() for path in Path(SITE).rglob("*.html")] if SITE else []
PAGES = sorted(page for page in PAGES if "_static" not in page.split("/"))
# Pages that show each kind of content; every other one is held against the same rules of links
WRITTEN = "generated/", "_modules/"
SEEN = [page for page in PAGES if not page.startswith(WRITTEN) and "sg_execution" not in page]
SEEN += [page for page in PAGES if page.endswith("skdpdyn.PrivateLogisticRegression.html")]
WIDTHS = {"desk": (1400, 1000), "phone": (390, 844)}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    """Serve the site on this machine alone."""
    handler = functools.partial(Quiet, directory=SITE)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium = shutil.which("chromium")
    driver = shutil.which("chromedriver")
    assert chromium, "SKDPDYN_SITE is set: install chromium and chromium-driver"
    assert driver, "SKDPDYN_SITE is set: install chromium and chromium-driver"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    off = "gpu dev-shm-usage quic background-networking component-update sync"
    flags = ["headless", "no-sandbox", "no-first-run", *(f"disable-{name}" for name in off.split())]
    flags += ["host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no other host answers
    for flag in (*flags, f"user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_page_load_timeout(60)
    yield browser
    browser.quit()


def wait_for(condition, seconds=30):
    """Return the first true value of a condition."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "the page did not get that far in time"
        time.sleep(0.05)
    return value


def look_at(browser, url, width="desk", theme="light"):
    """Open a page, in a width and a theme, and wait until its mathematics is set."""
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {**size, "deviceScaleFactor": 1, "mobile": width == "phone"},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    browser.get(url)
    ready = "return document.readyState === 'complete' && (!window.MathJax || !MathJax.startup || "
    ready += "(MathJax.startup.promise.then(() => { window.isSet = true }), window.isSet === true))"
    wait_for(lambda: browser.execute_script(ready))


def requested(browser):
    """Return what was asked for since the last look, but for what is in the page itself."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = (one for one in messages if one["method"] == "Network.requestWillBeSent")
    urls = (message["params"]["request"]["url"] for message in sent)
    return [url for url in urls if not url.startswith(("data:", "blob:", "about:", "chrome:"))]


@pytest.mark.parametrize(("width", "theme"), [("desk", "light"), ("phone", "dark")])
def test_pages_are_whole(browser, address, width, theme):
    """No error, no other host, nothing too wide, and the right theme."""
    assert len(SEEN) > 40
    problems = []
    for page in SEEN:
        look_at(browser, address + page, width, theme)
        foreign = [url for url in requested(browser) if not url.startswith(address)]
        problems += [f"{page} asks for {url}" for url in foreign]
        errors = [e["message"] for e in browser.get_log("browser") if e["level"] == "SEVERE"]
        problems += [f"{page}: {message}" for message in errors]
        found = browser.execute_script(LAYOUT)
        problems += [f"{page} in {width}, {theme}: {what}" for what in found["problems"]]
        if found["theme"] != theme:
            problems.append(f"{page} is {found['theme']} where {theme} is asked for")
    assert not problems, "\n".join(problems)


# Pages may not scroll sideways. Code may where lines are longer than the box is wide, on a phone
# alone: on a desk, 100 columns fit.
LAYOUT = """
const problems = [], page = document.documentElement;
if (page.scrollWidth > page.clientWidth + 1)
    problems.push(`the page is ${page.scrollWidth} wide, the window ${page.clientWidth}`);
for (const code of document.querySelectorAll('.bd-article pre')) {
    const box = code.getBoundingClientRect();
    const outer = code.closest('.bd-article').getBoundingClientRect();
    const text = code.textContent.trim().slice(0, 40);
    if (box.right > outer.right + 1) problems.push(`code leaves the article: ${text}`);
    if (page.clientWidth > 1200 && code.scrollWidth > code.clientWidth + 1)
        problems.push(`code is ${code.scrollWidth} wide, its box ${code.clientWidth}: ${text}`);
}
for (const link of document.querySelectorAll('.bd-sidebar-secondary a'))
    if (page.clientWidth > 1200 && link.getBoundingClientRect().right > page.clientWidth + 1)
        problems.push(`beside the page, ${link.textContent.trim()} is cut off`);
for (const image of document.images)
    if (image.complete && image.naturalWidth === 0) problems.push(`no image ${image.src}`);
const background = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
return {problems, theme: background[0] + background[1] + background[2] > 384 ? 'light' : 'dark'};
"""


def test_search_finds_epsilon(browser, address):
    look_at(browser, f"{address}search.html?q=epsilon")
    links = "return [...document.querySelectorAll('#search-results li a')].map(a => a.href)"
    wait_for(lambda: any("guide/choosing" in link for link in browser.execute_script(links)))
    assert not [url for url in requested(browser) if not url.startswith(address)]


def test_mathematics_is_set(browser, address):
    look_at(browser, f"{address}theory/index.html")
    formulas = "return document.querySelectorAll('mjx-container').length"
    assert wait_for(lambda: browser.execute_script(formulas)) > 4


def links_and_names(page):
    """Return the links of a page, and the names of places in it."""
    text = (Path(SITE) / page).read_text(encoding="utf-8")
    text = re.sub(r"<script.*?</script>|<pre.*?</pre>", "", text, flags=re.DOTALL)
    links = re.findall(r'<(?:a|link|img|script)\b[^>]*?\b(?:href|src)="([^"]*)"', text)
    return [html.unescape(link) for link in links], set(re.findall(r'\bid="([^"]*)"', text))


def test_no_link_is_dead():
    names = {page: links_and_names(page)[1] for page in PAGES}
    dead = []
    for page in PAGES:
        for link in links_and_names(page)[0]:
            target = urlsplit(urljoin(f"http://site/{page}", link))
            if target.scheme not in ("http", "https") or target.netloc != "site":
                continue
            path = unquote(target.path).lstrip("/") or "index.html"
            place = unquote(target.fragment)
            if not (Path(SITE) / path).is_file():
                dead.append(f"{page} links to {link}")
            elif path in names and place and place not in names[path]:
                dead.append(f"{page} links to {link}, a place that is not there")
    assert not dead, "\n".join(sorted(set(dead)))
