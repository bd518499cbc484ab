"""Take the pictures of the page: the demo fleet in a real browser.

`python docs/images/make_page.py` starts `fleet-smi demo`, waits for its week of history and
rewrites the PNG files, each with a palette of 256 colours, which is a third of the size.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.browser import find_chromium
from tests.ports import free_port

FOLDER = Path(__file__).parent
_TIMEOUT_MS = 120_000
_SETTLE_MS = 3000  # requests of the view, and its animations; a picture is looked at anyway
_WIDTH = 1280


class Picture(NamedTuple):
    """A view, and the height and theme of the window; all are equally wide."""

    address: str
    height: int = 800
    dark: bool = False


PICTURES = {
    "page-light": Picture("#/"),
    "page-dark": Picture("#/history?range=24h", dark=True),
    "page-people": Picture("#/people", height=590),
}


@contextmanager
def demo() -> Iterator[str]:
    """Run the demo until the end of the block; its URL is given once its history is loaded."""
    port = free_port()
    command = [sys.executable, "-m", "fleet_smi", "demo", "--listen", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        # The last line that it prints when everything is there.
        for line in process.stdout:
            if "Ctrl-C" in line:
                break
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def take(browser: Browser, url: str, picture: Picture) -> bytes:
    """Return one picture as PNG."""
    page = browser.new_page(
        viewport={"width": _WIDTH, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
    )
    page.set_default_timeout(_TIMEOUT_MS)
    page.goto(f"{url}/{picture.address}")
    page.get_by_text("maria").first.wait_for()
    page.wait_for_timeout(_SETTLE_MS)
    data = page.screenshot(animations="disabled")
    page.close()
    return data


def with_palette(data: bytes) -> bytes:
    """Return the picture with 256 colours."""
    packed = BytesIO()
    Image.open(BytesIO(data)).convert("RGB").quantize(256).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def main() -> None:
    """Rewrite every picture."""
    with demo() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, picture in PICTURES.items():
            (FOLDER / f"{name}.png").write_bytes(with_palette(take(browser, url, picture)))
        browser.close()


if __name__ == "__main__":
    main()
