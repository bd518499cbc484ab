// Bookings of a span and the leases of the fleet, polled while their view is open; and changes of bookings.

import { ApiError, get, send } from "../feed/client";
import type { Span } from "../feed/history";
import type { BookingCheck, Closing, ClosingList, LeaseList, ReservationInfo, ReservationList } from "../feed/types";
import { page } from "./page.svelte";

const POLL_MS = 15_000;

/** A booking that is being made or, with an id, changed. */
export interface Draft {
  readonly id: string | null;
  readonly node: string;
  readonly gpus: number;
  readonly start: number;
  readonly end: number;
  readonly note: string;
}

class Reservations {
  list = $state.raw<ReservationList | null>(null);
  own = $state.raw<readonly ReservationInfo[]>([]);
  leases = $state.raw<LeaseList | null>(null);
  closings = $state.raw<readonly Closing[]>([]);
  error = $state("");
  private reload = (): void => undefined;

  /** Keep the bookings of a span up to date until the returned function is called. */
  watch({ start, end }: Span): () => void {
    const abort = new AbortController();
    this.reload = () => void this.load(start, end, abort.signal);
    this.reload();
    const timer = setInterval(() => page.connection === "live" && !document.hidden && this.reload(), POLL_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }

  async check(draft: Draft, signal: AbortSignal): Promise<BookingCheck> {
    const found = await send<BookingCheck>("POST", "reservations/check", { ...bodyOf(draft), ...(draft.id !== null && { id: draft.id }) });
    signal.throwIfAborted();
    return found;
  }

  async save(draft: Draft, force: boolean): Promise<void> {
    const body = { ...bodyOf(draft), note: draft.note, force };
    if (draft.id === null) await send("POST", "reservations", body);
    else await send("PATCH", `reservations/${encodeURIComponent(draft.id)}`, body);
    this.reload();
  }

  async cancel(id: string): Promise<void> {
    await send("DELETE", `reservations/${encodeURIComponent(id)}`);
    this.reload();
  }

  private async load(start: number, end: number, signal: AbortSignal): Promise<void> {
    try {
      const [list, leases, { closings }] = await Promise.all([
        get<ReservationList>(`reservations?since=${start}&until=${end}`, signal),
        get<LeaseList>("leases", signal),
        get<ClosingList>("closings", signal),
      ]);
      // Those of the signed-in user at any time to come, not only in the span.
      const own = list.person === null ? [] : (await get<ReservationList>(`reservations?owner=${encodeURIComponent(list.person)}`, signal)).reservations;
      this.list = list;
      this.leases = leases;
      this.closings = closings;
      this.own = own;
      this.error = "";
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      // The connection banner reports a hub that is gone; the old list stays.
      this.error = error.status === 0 ? "" : error.message;
    }
  }
}

function bodyOf({ node, gpus, start, end }: Draft): Record<string, unknown> {
  return { node, gpus, starts_at: start, ends_at: end };
}

export const reservations = new Reservations();
