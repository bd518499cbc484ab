"""Small hand-written documents of `nvidia-smi -q -x`."""

from fleet_smi.model.snapshot import Gpu
from fleet_smi.wire.parsers.nvidia_smi import parse_xml

MIB = 1024 * 1024
UUID = "GPU-11111111-2222-3333-4444-555555555555"

GPU_XML = f"""
<product_name>NVIDIA RTX 9000</product_name>
<persistence_mode>Enabled</persistence_mode>
<addressing_mode>HMM</addressing_mode>
<mig_mode><current_mig>Disabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
<mig_devices>
    None
</mig_devices>
<uuid>{UUID}</uuid>
<gpu_recovery_action>None</gpu_recovery_action>
<pci>
    <pci_bus_id>00000001:1A:00.0</pci_bus_id>
    <pci_gpu_link_info>
        <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>4</current_link_gen></pcie_gen>
        <link_widths>
            <max_link_width>16x</max_link_width><current_link_width>8x</current_link_width>
        </link_widths>
    </pci_gpu_link_info>
    <tx_util>50 KB/s</tx_util><rx_util>1200 KB/s</rx_util>
</pci>
<fan_speed>30 %</fan_speed>
<performance_state>P2</performance_state>
<clocks_event_reasons>
    <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
    <clocks_event_reason_sw_thermal_slowdown>Active
    </clocks_event_reason_sw_thermal_slowdown>
    <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
    <clocks_event_reason_hw_slowdown>N/A</clocks_event_reason_hw_slowdown>
</clocks_event_reasons>
<fb_memory_usage>
    <total>10240 MiB</total><reserved>240 MiB</reserved><used>1000 MiB</used><free>9000 MiB</free>
</fb_memory_usage>
<bar1_memory_usage><total>256 MiB</total><used>7 MiB</used></bar1_memory_usage>
<compute_mode>Exclusive_Process</compute_mode>
<utilization>
    <gpu_util>37 %</gpu_util><memory_util>0 %</memory_util>
    <encoder_util>1 %</encoder_util><decoder_util>N/A</decoder_util>
</utilization>
<ecc_errors>
    <volatile>
        <sram_correctable>1</sram_correctable>
        <sram_uncorrectable_parity>2</sram_uncorrectable_parity>
        <sram_uncorrectable_secded>3</sram_uncorrectable_secded>
        <dram_correctable>10</dram_correctable><dram_uncorrectable>20</dram_uncorrectable>
    </volatile>
    <aggregate><dram_correctable>9999</dram_correctable></aggregate>
</ecc_errors>
<retired_pages><pending_retirement>No</pending_retirement></retired_pages>
<remapped_rows>
    <remapped_row_pending>No</remapped_row_pending>
    <remapped_row_failure>No</remapped_row_failure>
</remapped_rows>
<temperature>
    <gpu_temp>61 C</gpu_temp><gpu_temp_tlimit>22 C</gpu_temp_tlimit><memory_temp>70 C</memory_temp>
</temperature>
<gpu_power_readings>
    <average_power_draw>N/A</average_power_draw><instant_power_draw>120.50 W</instant_power_draw>
    <current_power_limit>300.00 W</current_power_limit>
    <requested_power_limit>310.00 W</requested_power_limit>
</gpu_power_readings>
<module_power_readings><average_power_draw>999.00 W</average_power_draw></module_power_readings>
<clocks><graphics_clock>1 MHz</graphics_clock><sm_clock>1500 MHz</sm_clock>
    <mem_clock>9000 MHz</mem_clock></clocks>
<applications_clocks><mem_clock>2 MHz</mem_clock></applications_clocks>
<max_clocks><sm_clock>2100 MHz</sm_clock><mem_clock>10000 MHz</mem_clock></max_clocks>
<processes>
    <process_info>
        <gpu_instance_id>N/A</gpu_instance_id><compute_instance_id>N/A</compute_instance_id>
        <pid>4711</pid><type>C</type>
        <process_name>/opt/bin/python3 -m train, --lr=1</process_name>
        <used_memory>800 MiB</used_memory>
    </process_info>
    <process_info>
        <pid>12</pid><type>C+G</type><process_name>Unknown Error</process_name>
        <used_memory>N/A</used_memory>
    </process_info>
</processes>
"""

MIG_XML = f"""
<uuid>{UUID}</uuid><mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices>
    <mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id>
        <compute_instance_id>0</compute_instance_id>
        <fb_memory_usage><total>40448 MiB</total><reserved>0 MiB</reserved><used>11091 MiB</used>
        </fb_memory_usage>
        <bar1_memory_usage><total>1 MiB</total><used>1 MiB</used></bar1_memory_usage></mig_device>
    <mig_device><index>1</index><gpu_instance_id>9</gpu_instance_id>
        <compute_instance_id>0</compute_instance_id></mig_device>
</mig_devices>
<fb_memory_usage><total>81559 MiB</total><used>11125 MiB</used></fb_memory_usage>
<utilization><gpu_util>N/A</gpu_util></utilization>
<processes>
    <process_info><gpu_instance_id>9</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <pid>90</pid><type>C</type></process_info>
    <process_info><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
        <pid>20</pid><type>M+C</type></process_info>
</processes>
"""
LISTING = (
    f"GPU 0: NVIDIA H100 (UUID: {UUID})\n"
    "  MIG 3g.40gb     Device  0: (UUID: MIG-aaaa)\n"
    "  MIG 1g.10gb     Device  1: (UUID: MIG-bbbb)\n"
)


def document(*gpus: str, head: str = "") -> str:
    blocks = "".join(f'<gpu id="00000000:0{n}:00.0">{gpu}</gpu>' for n, gpu in enumerate(gpus))
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
        f"<nvidia_smi_log><driver_version>590.48.01</driver_version>"
        f"<cuda_version>13.1</cuda_version><attached_gpus>{len(gpus)}</attached_gpus>{head}"
        f"{blocks}</nvidia_smi_log>\n"
    )


def read_gpu(gpu: str) -> Gpu:
    (found,) = parse_xml(document(gpu)).gpus
    return found
