// Texts of the wall view.

import type { State } from "../feed/state";
import type { Connection } from "../feed/stream";

/** The counts beside the free GPUs. */
export const WALL_COUNTS: readonly (readonly [State, string])[] = [
  ["busy", "busy"],
  ["leased", "leased"],
  ["held", "idle"],
  ["ghost", "ghost"],
  ["broken", "broken"],
  ["unknown", "unknown"],
];

/** Shown instead of the fleet if there is none to show; `null` if there is. */
export function wallNotice(connection: Connection, isEmpty: boolean): string | null {
  if (connection === "unauthorized") return "This screen has to sign in: open the page once without ?wall.";
  if (!isEmpty) return null;
  return connection === "lost" ? "Cannot reach the hub. Retrying." : "Connecting to the hub …";
}
