"""Classification of what nvidia-smi prints when it fails."""

import re

import pytest

from fleet_smi.errors import CollectError, DriverMismatch, NotPresent, ReadFailed
from fleet_smi.wire.parsers.nvidia_smi import (
    classify_failure,
    failed_devices,
    parse_xml,
)
from tests.captures import capture_files, capture_text
from tests.wire.parsers.nvidia_samples import document


@pytest.mark.parametrize(
    "text, kind, message",
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make",
            NotPresent,
            "not loaded",
        ),
        ("No devices were found\n", NotPresent, "no device"),
        (
            (
                "Failed to initialize NVML: Driver/library version mismatch\n"
                "NVML library version: 535.161\n"
            ),
            DriverMismatch,
            "library (535.161)",
        ),
        (
            (
                "API mismatch: the client has the version 2, but\nthis kernel module has the "
                "version 550.54.14.  Please\nNVML library version: 550.90"
            ),
            DriverMismatch,
            "driver (550.54.14) and its library (550.90)",
        ),
        ("Failed to initialize NVML: Unknown Error", ReadFailed, "container"),
        (
            "Failed to initialize NVML: GPU access blocked by the operating system",
            ReadFailed,
            "WSL",
        ),
        ("Failed to initialize NVML: Insufficient Permissions", ReadFailed, "permissions"),
        (
            "Unable to determine the device handle for GPU0000:07:00.0: Unknown Error",
            ReadFailed,
            "GPU 00000000:07:00.0 (Unknown Error)",
        ),
    ],
)
def test_a_known_failure_is_classified_with_a_remedy(
    text: str, kind: type[CollectError], message: str
) -> None:
    error = classify_failure(text, 255)
    assert type(error) is kind
    assert message in str(error)
    assert "\n" not in str(error)
    with pytest.raises(kind, match=re.escape(message)):
        parse_xml(text)


@pytest.mark.parametrize(
    "code, kind",
    [(6, NotPresent), (9, NotPresent), (15, ReadFailed), (18, DriverMismatch), (77, ReadFailed)],
)
def test_a_failure_without_a_message_is_classified_by_its_exit_code(
    code: int, kind: type[CollectError]
) -> None:
    assert type(classify_failure("", code)) is kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Return code 12 - NVML Shared Library couldn't be found or loaded",
        document("<power_smoothing>Insufficient Permissions</power_smoothing>"),
        "GPU-1, [Insufficient Permissions], [Unknown Error]",
    ],
)
def test_other_output_is_not_classified_as_a_failure(text: str) -> None:
    assert classify_failure(text, 0) is None


def test_lost_devices_are_found_where_the_console_wrapped_the_line() -> None:
    text = (
        "Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost.  Reboot\n"
        " the system to recover this GPU\n"
        "Unable to determine the device handle for gpu 00000001:0b:00.0: Not Found\n"
    )
    assert failed_devices(text) == {
        "00000000:03:00.0": "GPU is lost",
        "00000001:0B:00.0": "Not Found",
    }


NOT_FAILURES = {
    "dmesg-fallen-off-bus.txt",  # printed by the kernel
    "dmesg-rminitadapter-failed.txt",
    "err-fan-table.txt",  # a table with one bad cell
    "err-power-table-v100.txt",
    "err-powercap-table-t600.txt",
    "invalid-query-field-encoder-376.txt",  # of --query-gpu, which is not used
    "invalid-query-field-temperature-memory.txt",
    "invalid-query-field-throttle-unknown.txt",
    "invalid-query-field.txt",
    "exit-status-9-no-driver.txt",  # printed by another program
    "gpu-reset-in-use.txt",  # answers a reset, not a question
    "ps-nvidia-smi-d-state.txt",
    "return-codes-man-page.txt",
}


def test_every_captured_failure_of_nvidia_smi_is_classified() -> None:
    for path in capture_files("nvidia/errors"):
        error = classify_failure(capture_text(path))
        assert (error is None) == (path.name in NOT_FAILURES), path.name
