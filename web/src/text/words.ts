// Every word of the page, and how numbers and times are said. English now, in one place.

import type { State } from "../feed/event";

export const NOT_MEASURED = "–";
const GIB = 1024;

export const MEANING: Record<State, string> = {
  free: "nobody is on it",
  leased: "taken or closed, though nobody is seen on it",
  busy: "somebody uses it",
  held: "somebody keeps its memory and does nothing",
  ghost: "memory is in use, and no process accounts for it",
  broken: "it cannot be used until somebody sees to it",
  unknown: "its machine is silent, or cannot tell",
};

/** "74" of gibibytes; "0.5" below ten where that says more. */
export function gibibytes(mebibytes: number | null): string {
  if (mebibytes === null) return NOT_MEASURED;
  const gib = mebibytes / GIB;
  return gib >= 10 ? gib.toFixed(0) : String(Number(gib.toFixed(1)));
}

/** A length of time in one or two units: "4 s", "38 m", "9 h 12", "3 d". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 10) return `${hours} h ${String(minutes % 60).padStart(2, "0")}`;
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

/** "1 node", "9 nodes". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** The model without what every card of the maker is called: "H100 80GB HBM3". */
export function shortModel(name: string | null): string {
  return name === null ? "unknown model" : name.replace(/^(NVIDIA|AMD|Intel)(\(R\))? /, "").replace(/^(GeForce|Radeon|Tesla|Quadro) /, "");
}

/** Two letters that stand for a user in a narrow cell. */
export function initials(user: string): string {
  const letters = user.replace(/^svc[-_]/, "").replace(/[^\p{L}\p{N}]/gu, "");
  return (letters.charAt(0).toUpperCase() + letters.charAt(1)) || "?";
}

export function watts(total: number): string {
  return total >= 10_000 ? `${(total / 1000).toFixed(1)} kW` : `${Math.round(total).toLocaleString("en")} W`;
}
