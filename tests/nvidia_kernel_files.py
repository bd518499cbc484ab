"""The /proc and /sys files of the NVIDIA kernel driver, below a root folder of a test."""

from pathlib import Path


def write_nvidia_kernel_files(
    root: Path, *addresses: str, version: str = "590.48.01", asleep: bool = False
) -> None:
    """Write the files of NVIDIA devices at these PCI addresses, as the kernel driver does."""
    for number, address in enumerate(addresses):
        device = root / "proc/driver/nvidia/gpus" / address
        device.mkdir(parents=True)
        (device / "information").write_text(
            f"Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-kernel-{number}\n"
        )
        power = root / "sys/bus/pci/devices" / address / "power"
        power.mkdir(parents=True)
        (power / "runtime_status").write_text("suspended\n" if asleep else "active\n")
        (power / "control").write_text("auto\n" if asleep else "on\n")
    module = root / "sys/module/nvidia"
    module.mkdir(parents=True)
    (module / "version").write_text(f"{version}\n")
    for name in ("stat", "meminfo", "loadavg"):
        (root / "proc" / name).write_text(Path("/proc", name).read_text())
