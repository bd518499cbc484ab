// GPU states and readings, as used all over the page.

import type { VerdictPayload } from "./types";

export type State = VerdictPayload["state"];
/** All states in display order. */
export const STATES = ["free", "leased", "busy", "held", "ghost", "broken", "unknown"] as const satisfies readonly State[];

/** A measured value; `null` if it was not measured. */
export type Reading = number | null;
