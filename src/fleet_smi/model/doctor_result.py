"""The result of one check of `fleet-smi doctor`, and what to do about it."""

from typing import Literal

from msgspec import Struct

DoctorStatus = Literal["PASS", "WARN", "FAIL", "SKIP"]


class DoctorResult(Struct, frozen=True, kw_only=True):
    """The result of one check; `id` is stable ("nvidia.driver"), `words` is the text for people."""

    id: str
    status: DoctorStatus
    words: str
    remedy: str | None = None
