"""Codec of capture files: JSON with a version, checked and bounded when it is read."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from fleet_smi.errors import UsageError
from fleet_smi.model.units import MAX_SECONDS
from fleet_smi.wire.error_text import describe_error

FORMAT: Literal["fleet-smi-capture"] = "fleet-smi-capture"
CAPTURE_VERSION = 1
MAX_CAPTURE_BYTES = 16 << 20
MAX_SAMPLES = 60
_Time = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
_Name = Annotated[str, Meta(max_length=128)]


class CapturedReading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one binding returned, as `raw_values` writes it, or the error that it raised.

    `outcome` is "ok" or the name of the error, `value` of a driver that did not answer what it
    had said before.
    """

    outcome: _Name
    value: Any = None
    message: str = ""
    seconds: float = 0.0
    since: float | None = None


class CapturedSample(Struct, frozen=True, kw_only=True):
    """One sample of the machine: the reading of each subject, and when."""

    at: _Time
    readings: Annotated[dict[_Name, CapturedReading], Meta(max_length=64)]


class CapturedOutput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command printed; `error` is why it could not be run."""

    text: str = ""
    exit_code: int | None = None
    error: str = ""


class CaptureFile(Struct, frozen=True, kw_only=True):
    """A capture of one machine; only `samples` are replayed, the rest is for people.

    `replaced` counts what was scrubbed, by kind.
    """

    format: Literal["fleet-smi-capture"] = FORMAT
    version: int = CAPTURE_VERSION
    fleet_smi: _Name
    taken_at: _Time
    facts: dict[str, Any] = {}
    samples: Annotated[tuple[CapturedSample, ...], Meta(min_length=1, max_length=MAX_SAMPLES)]
    outputs: dict[str, CapturedOutput] = {}
    replaced: dict[str, int] = {}


class _Header(Struct):
    format: str = ""
    version: int = 0


def encode_capture(capture: CaptureFile) -> bytes:
    """Encode a capture as indented JSON, which people can read before they send it."""
    return msgspec.json.format(msgspec.json.encode(capture), indent=1) + b"\n"


def decode_capture(data: bytes, name: str) -> CaptureFile:
    """Decode a capture; raise `UsageError`, with the name of the file, if it is none."""
    if len(data) > MAX_CAPTURE_BYTES:
        raise UsageError(
            f"{name} is too large for a capture: at most {MAX_CAPTURE_BYTES >> 20} MiB"
        )
    try:
        header = msgspec.json.decode(data, type=_Header)
        if header.format == FORMAT and header.version > CAPTURE_VERSION:
            raise UsageError(
                f"{name} is of a newer fleet-smi (version {header.version}): upgrade this one"
            )
        return msgspec.json.decode(data, type=CaptureFile)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not a capture of `fleet-smi capture`: {describe_error(error)}"
        ) from None
