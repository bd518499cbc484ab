"""The Textual application: keys reach the screen, updates are drawn, only changes are sent."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fleet_smi.terminal.top.app import TopApp
from fleet_smi.terminal.top.feed import Deliver
from fleet_smi.terminal.top.requests import Request, SendSignal, Watch
from fleet_smi.terminal.top.state import ScreenState, TopData
from fleet_smi.terminal.top.updates import Trouble, ViewArrived
from tests.terminal import samples


class FakeFeed:
    """Delivers what a test tells it to, and notes what is requested."""

    source = "lab.example"
    has_history = True

    def __init__(self) -> None:
        self.deliver: Deliver = lambda _: None
        self.requested: list[Request] = []
        self.is_stopped = False

    def start(self, deliver: Deliver) -> None:
        self.deliver = deliver
        deliver(ViewArrived(samples.fleet(samples.eight(), samples.mixed())))

    def request(self, request: Request) -> None:
        self.requested.append(request)

    def stop(self) -> None:
        self.is_stopped = True


def run_app(
    scenario: Callable[[TopApp, Any, FakeFeed], Coroutine[Any, Any, None]],
    sent: list[SendSignal] | None = None,
    size: tuple[int, int] = (120, 40),
) -> TopApp:
    """Run the application with a pilot, until the scenario ends."""
    feed = FakeFeed()

    def send(request: SendSignal, _: TopData) -> str:
        assert sent is not None
        sent.append(request)
        return "it was asked to end"

    app = TopApp(feed, ScreenState(), theme_name="dark", is_ascii=False, send_signal=send)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await wait_for(pilot, app, "gpu01")
            await scenario(app, pilot, feed)
        assert feed.is_stopped

    asyncio.run(run())
    if app.bug is not None:
        raise app.bug
    return app


def text_of(app: TopApp) -> str:
    canvas = app._canvas
    return "\n".join([canvas.render_line(row).text for row in range(app.size.height)])


async def wait_for(pilot: Any, app: TopApp, text: str) -> None:
    async with asyncio.timeout(20):
        while text not in text_of(app):
            await pilot.pause(0.02)


def test_keys_move_and_q_quits() -> None:
    async def scenario(app: TopApp, pilot: Any, feed: FakeFeed) -> None:
        assert Watch("id-desk") in feed.requested
        await pilot.press("down")
        assert "▶gpu01" in text_of(app)
        assert Watch("id-gpu01") in feed.requested
        await pilot.press("question_mark")
        assert "Processes of yours" in text_of(app)
        await pilot.press("escape", "q")

    assert run_app(scenario).return_code == 0


def test_the_size_of_the_window_is_followed() -> None:
    async def scenario(app: TopApp, pilot: Any, _: FakeFeed) -> None:
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert {len(line) for line in text_of(app).splitlines()} == {80}
        for size in ((1, 1), (3, 2), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert app.bug is None

    run_app(scenario)


def test_a_click_chooses_a_node() -> None:
    async def scenario(app: TopApp, pilot: Any, _: FakeFeed) -> None:
        row = next(at for at, line in enumerate(text_of(app).splitlines()) if "gpu01" in line)
        await pilot.click(offset=(3, row))
        assert "▶gpu01" in text_of(app)

    run_app(scenario)


def test_trouble_is_shown_until_data_arrives_again() -> None:
    async def scenario(app: TopApp, pilot: Any, feed: FakeFeed) -> None:
        feed.deliver(Trouble("connection refused"))
        await wait_for(pilot, app, "connection refused; retrying")
        feed.deliver(ViewArrived(samples.fleet(samples.sliced())))
        await wait_for(pilot, app, "mig01")
        assert "retrying" not in text_of(app)

    run_app(scenario)


def test_a_signal_is_sent_after_yes_and_its_outcome_shown() -> None:
    sent: list[SendSignal] = []

    async def scenario(app: TopApp, pilot: Any, _: FakeFeed) -> None:
        await pilot.press("down", "tab", "t")
        assert "Terminate 19028" in text_of(app)
        await pilot.press("y")
        await wait_for(pilot, app, "it was asked to end")

    run_app(scenario, sent)
    assert [request.pid for request in sent] == [19028]


def test_every_theme_draws() -> None:
    async def scenario(app: TopApp, pilot: Any, _: FakeFeed) -> None:
        for theme in ("light", "terminal", "mono", "dark"):
            await pilot.press("c")
            assert f"theme: {theme}" in text_of(app)

    run_app(scenario)


def test_only_what_differs_is_drawn_again() -> None:
    async def scenario(app: TopApp, pilot: Any, feed: FakeFeed) -> None:
        drawn: list[Any] = []
        canvas = app._canvas
        original = canvas.refresh

        def refresh(*regions: Any, **options: Any) -> Any:
            drawn.append(regions)
            return original(*regions, **options)

        canvas.refresh = refresh  # type: ignore[method-assign]
        eight = samples.eight()
        changed = [samples.busy_gpu(0, *(eight.gpus[0].processes or ()), busy_percent=17.0)]
        changed += eight.gpus[1:]
        node = samples.node("gpu01", *changed)
        feed.deliver(ViewArrived(samples.fleet(node, samples.mixed())))
        await wait_for(pilot, app, "17%")
        (regions,) = [each for each in drawn if each]
        assert sum(region.area for region in regions) < 60

    run_app(scenario)
