// How numbers, sizes, times and states are written.

import type { State } from "../feed/state";

/** Shown for a value that is not known. */
export const UNKNOWN = "—";
const MIB_PER_GIB = 1024;

export const STATE_MEANING: Record<State, string> = {
  free: "not in use",
  leased: "reserved or closed, not in use",
  busy: "in use",
  held: "memory allocated, no work",
  ghost: "memory in use by no known process",
  broken: "unusable until repaired",
  unknown: "node silent, or state not readable",
};

/** Gibibytes: "74"; "0.5" below ten. */
export function gibibytes(mebibytes: number | null): string {
  if (mebibytes === null) return UNKNOWN;
  const gib = mebibytes / MIB_PER_GIB;
  return gib >= 10 ? gib.toFixed(0) : String(Number(gib.toFixed(1)));
}

/** The size that a card is sold with, "48 GB"; its memory if that is not known, "45 GiB". */
export function cardSize(gigabytes: number | null, mebibytes: number | null): string {
  return gigabytes === null ? `${gibibytes(mebibytes)} GiB` : `${gigabytes} GB`;
}

/** A duration in one or two units: "4 s", "38 min", "9 h 12", "1 h", "3 d". */
export function duration(seconds: number): string {
  return formatDuration(seconds, "min");
}

/** `duration` for a narrow place: "38 m". */
export function shortDuration(seconds: number): string {
  return formatDuration(seconds, "m");
}

function formatDuration(seconds: number, minute: string): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} ${minute}`;
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  if (hours < 10) return rest === 0 ? `${hours} h` : `${hours} h ${String(rest).padStart(2, "0")}`;
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

/** A count with its thousands grouped: "12,480". */
export function grouped(count: number): string {
  return count.toLocaleString("en");
}

/** "1 node", "9 nodes". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** A message of the hub as a sentence: with a capital and a full stop. */
export function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;
}

/** The model without vendor and brand: "H100 80GB HBM3". */
export function shortModel(name: string | null): string {
  return name === null ? "unknown model" : name.replace(/^(NVIDIA|AMD|Intel)(\(R\))? /, "").replace(/^(GeForce|Radeon|Tesla|Quadro) /, "");
}

/** Power: "850 W", "16.1 kW", "1.25 MW". */
export function watts(total: number): string {
  if (total >= 999_950) return `${(total / 1e6).toFixed(2)} MW`;
  return total >= 10_000 ? `${(total / 1000).toFixed(1)} kW` : `${grouped(Math.round(total))} W`;
}
