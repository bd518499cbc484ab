"""The amd collector: no content of a file gives an error or a value out of range."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.figure_ranges import assert_in_range
from tests.node.collectors.amd_files import KFD, compute_nodes, read_gpus
from tests.node.file_trees import Content, drm_card, drm_client, write_tree

HOSTILE = st.one_of(
    st.none(),
    st.just(Path("/proc/self/mem")),  # can be opened, but reads fail with EIO
    st.binary(max_size=40),
    st.integers().map(str),
    st.sampled_from(
        [
            "",
            "9" * 5000,
            "-1",
            "4294967295",
            "1e400",
            "nan",
            "0x10",
            "0: 99999999Mhz *",
            "64.0 GT/s PCIe",
            "edge",
            "vddnb",
            "ue: 99999999999999999999\nce: -1",
            "5 KiB",
        ]
    ),
)

NAMES = (
    "uevent",
    "unique_id",
    "product_name",
    "gpu_busy_percent",
    "mem_busy_percent",
    "mem_info_vram_total",
    "mem_info_vram_used",
    "mem_info_gtt_total",
    "mem_info_gtt_used",
    "pp_dpm_sclk",
    "pp_dpm_mclk",
    "current_link_speed",
    "current_link_width",
    "max_link_width",
    "ras/umc_err_count",
    "hwmon/hwmon1/temp1_input",
    "hwmon/hwmon1/temp1_label",
    "hwmon/hwmon1/in1_label",
    "hwmon/hwmon1/power1_average",
    "hwmon/hwmon1/power1_cap",
    "hwmon/hwmon1/pwm1",
    "hwmon/hwmon1/pwm1_max",
    "hwmon/hwmon1/fan1_input",
    "hwmon/hwmon1/fan1_max",
    "hwmon/hwmon1/freq1_input",
    "hwmon/hwmon1/freq1_label",
)

ELSEWHERE = (
    f"{KFD}/topology/nodes/1/gpu_id",
    f"{KFD}/topology/nodes/1/properties",
    f"{KFD}/proc/41/vram_1001",
    f"{KFD}/proc/41/queues/0/gpuid",
    "proc/41/fdinfo/5",
)


@settings(max_examples=60, deadline=None)
@given(
    files=st.dictionaries(st.sampled_from(NAMES[1:]), HOSTILE),
    others=st.dictionaries(st.sampled_from(ELSEWHERE), HOSTILE),
)
def test_hostile_files_give_no_error_and_no_value_out_of_range(
    files: dict[str, Content], others: dict[str, Content]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = drm_card("amdgpu", files=files) | compute_nodes(0x300) | drm_client(41, "renderD128")
        (gpu,) = read_gpus(write_tree(Path(folder), tree | others))
    assert_in_range(gpu)
    for process in gpu.processes or ():
        assert process.gpu_memory_bytes is None or 0 <= process.gpu_memory_bytes <= 2**50
