// Texts of bookings and leases.

import type { BookingCheck, Expected, LeaseRow, ReservationInfo } from "../feed/types";
import type { Scale } from "../state/calendar";
import { duration, plural } from "./format";
import { clockTime } from "./time";

export const SCALE_LABELS: Record<Scale, string> = { day: "Day", week: "Week", fortnight: "2 weeks" };
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric" });
const DATE = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const MONTH = new Intl.DateTimeFormat("en-GB", { month: "long" });

/** "Mon 16". */
export function dayLabel(seconds: number): string {
  return DAY.format(seconds * 1000);
}

/** "Fri 20 Nov 18:00". */
export function whenText(seconds: number): string {
  return `${DATE.format(seconds * 1000).replace(",", "")} ${clockTime(seconds)}`;
}

/** "Fri 20 Nov 18:00 – Sat 21 Nov 06:00"; the day once if it is the same. */
export function rangeText(start: number, end: number): string {
  const sameDay = new Date(start * 1000).toDateString() === new Date(end * 1000).toDateString();
  return `${whenText(start)} – ${sameDay ? clockTime(end) : whenText(end)}`;
}

/** "16–29 November", "30 November – 6 December". */
export function spanLabel(start: number, end: number): string {
  const [first, last] = [new Date(start * 1000), new Date((end - 1) * 1000)];
  const days = first.toDateString() === last.toDateString() ? `${first.getDate()}` : `${first.getDate()}–${last.getDate()}`;
  if (first.getMonth() === last.getMonth()) return `${days} ${MONTH.format(first)}`;
  return `${first.getDate()} ${MONTH.format(first)} – ${last.getDate()} ${MONTH.format(last)}`;
}

/** "alice, 4 of 8"; without the total where it is not known. */
export function barText({ owner, gpus }: ReservationInfo, total: number | null): string {
  return total === null ? `${owner}, ${plural(gpus, "GPU")}` : `${owner}, ${gpus} of ${total}`;
}

/** The label of a bar for screen readers. */
export function barLabel(one: ReservationInfo): string {
  return `${one.owner}: ${plural(one.gpus, "GPU")} of ${one.node}, ${rangeText(one.starts_at, one.ends_at)}${one.note && `, ${one.note}`}`;
}

/** How a bar of one's own is moved by keys, for screen readers. */
export const barKeys = "Left and right move it, with Shift its end; Enter opens it with these times.";

/** What happens with a booking now: "in use", "2 of 4 in use by lucas", "not used yet". */
export function bookingState({ state, used, missing, gpus, in_the_way: others }: ReservationInfo): string {
  if (missing > 0) return `${missing} of ${gpus} in use${others.length > 0 ? ` by ${others.join(", ")}` : ""}`;
  if (state === "active") return used ? "in use" : "not used yet: released after 30 minutes";
  return state === "upcoming" ? "" : state;
}

/** When it does not fit and why, a sentence per conflict. */
export function conflictTexts({ conflicts }: BookingCheck): string[] {
  return conflicts.map(({ starts_at, ends_at, booked, gpus, owners }) => `${owners.join(" and ")} booked ${booked} of ${plural(gpus, "GPU")}, ${rangeText(starts_at, ends_at)}.`);
}

/** A kind line to the owner of a booking. */
export function askOwner({ owner, node, gpus, starts_at, ends_at }: ReservationInfo): string {
  return `Hi ${owner}, you have booked ${plural(gpus, "GPU")} of ${node} (${rangeText(starts_at, ends_at)}). Do you need all of them, all that time? I could use some. Thanks!`;
}

/** "by Fri 20 Nov 23:00, 7 of 10"; "unknown" where the past does not tell. */
export function expectedText({ by, of_ten: chance }: Expected): string {
  return by === null || chance === null ? "unknown" : `by ${whenText(by)}, ${chance} of 10`;
}

/** "until Mon 23 Nov 09:00", "for 4 min". */
export function leaseText({ lease }: LeaseRow, now: number): string {
  if (!lease) return "";
  return lease.until === null ? `for ${duration(now - lease.taken_at)}` : `until ${whenText(lease.until)}`;
}
