"""Threads for queries: only a few, so that queries cannot take the processor from reports.

All threads of a process share one interpreter lock. Every further thread that computes makes the
event loop, which receives the reports, wait longer for its turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

MAX_QUERY_THREADS = 2
SWITCH_SECONDS = 0.0001
"""How long such a thread may compute while the event loop waits; the default of Python is 50 times
as long. The event loop waits anew for every report: with five times this and 2,000 reports a second
it would only wait."""
_T = TypeVar("_T")
_Args = ParamSpec("_Args")
_pool = ThreadPoolExecutor(MAX_QUERY_THREADS, "query")


async def run_in_query_thread(
    function: Callable[_Args, _T], *args: _Args.args, **kwargs: _Args.kwargs
) -> _T:
    """Run a function of a query in one of the threads, when those before it are done."""
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_pool, call)
