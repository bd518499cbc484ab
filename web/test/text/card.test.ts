import { describe, expect, it } from "vitest";
import type { JudgedGpu, Process } from "../../src/feed/types";
import { cardFacts, cardReason, cardTitle, processName, processesOf, unlistedProcesses, verdictReason, verdictTitle } from "../../src/text/card";
import { singleGpu } from "../fleets";

const NOW = 1000 + 41 * 60 + 2 * 3600;

describe("the card", () => {
  const process: Process = {
    pid: 7, pid_is_made: false, parent_pid: null, kind: "compute", gpu_memory_bytes: 1, user: "mei", name: "python", command: null,
    started_at: null, busy_percent: null, container: null, slurm_job: null, condition: null, hidden: false,
    uid: null, group: null, cpu_percent: null, host_memory_bytes: null, pod: null,
  };
  const full = {
    uuid: "GPU-0", processes: null, more_processes: 870, verdict: { state: "busy", reason: "", since: 0, was: null, notes: [], idle_seconds: null }, power_limit_watts: 700, sm_clock_mhz: null,
    sm_clock_max_mhz: 1980, memory_clock_mhz: 2619, pcie_generation: 5, pcie_width: 16, throttle_reasons: ["sw_power_cap"], ecc_uncorrected: 0,
    fault: null, instances: [],
  } as unknown as JudgedGpu;

  it("shows user and reason from the stream alone", () => {
    const held = singleGpu({}, { state: "held", users: ["mei", "omar"], idle_since: NOW - 60 });
    expect(cardTitle(held)).toBe("Held by mei and 1 more");
    expect(cardReason(held, NOW)).toBe("Idle for 1 min, 73 of 80 GiB allocated");
  });

  it("has the users in the title, and not again in the reason", () => {
    const verdict = (state: "busy" | "held" | "broken", reason: string): JudgedGpu["verdict"] => ({ ...full.verdict, state, reason, since: NOW - 2 * 86_400 });
    expect(verdictTitle("busy", ["maria"])).toBe("Used by maria");
    expect(verdictReason(verdict("busy", "maria, 99 %"), NOW)).toBe("99 % busy for 2 d.");
    expect(verdictReason(verdict("held", "bob and mei, idle for 3 h, 16.2 GiB allocated"), NOW)).toBe("Idle for 3 h, 16.2 GiB allocated.");
    expect(verdictReason(verdict("broken", "fell off the bus, it seems"), NOW)).toBe("Fell off the bus, it seems.");
    expect(verdictReason(verdict("busy", "in use, 4.0 GiB; processes not readable"), NOW)).toBe("In use, 4.0 GiB; processes not readable.");
  });

  it("shows more when the node is loaded, and a dash for unknown values", () => {
    expect(cardFacts(singleGpu({}, {}), undefined)).toHaveLength(4);
    const facts = Object.fromEntries(cardFacts(singleGpu({}, {}), full).map(({ name, value, rest }) => [name, `${value} ${rest ?? ""}`.trim()]));
    expect(facts).toMatchObject({ Power: "365 / 700 W", "SM clock": "— / 1980", PCIe: "gen 5 ×16", Throttling: "sw power cap" });
  });

  it("distinguishes unreadable processes from none, and includes those of instances", () => {
    expect(processesOf(full)).toBeNull();
    expect(processesOf({ ...full, processes: [] })).toEqual([]);
    expect(unlistedProcesses([{ ...full, instances: [{ more_processes: 2 } as JudgedGpu["instances"][number]] }])).toBe(872);
    const instance = { uuid: "MIG-1", profile: null, verdict: full.verdict, processes: [process], memory_used_bytes: 1, memory_total_bytes: 2, busy_percent: null } as unknown as JudgedGpu["instances"][number];
    expect(processesOf({ ...full, instances: [instance] })).toEqual([process]);
  });

  it("names a process by what the user may see", () => {
    expect(processName({ ...process, command: "python train.py" })).toBe("python train.py");
    expect(processName(process)).toBe("python");
    expect(processName({ ...process, name: null, hidden: true })).toBe("hidden from the agent");
  });
});
