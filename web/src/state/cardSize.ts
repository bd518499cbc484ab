// Nominal sizes of memory, as the hub sends them; the same rule as model/card_size.py.

/** How far a requested size may be from the nominal one, and how much of a card may be in use. */
const SLACK = 0.03;
const GIB = 2 ** 30;

/**
 * How much memory a device counts as having, compared with a requested size, in bytes: the requested size itself if that
 * means this card and it is unused, else the memory that it has.
 */
export function memoryForRequest(memory: number, total: number | null, gigabytes: number | null, requested: number): number {
  if (total === null || gigabytes === null || memory < (1 - SLACK) * total) return memory;
  const nominal = gigabytes * GIB;
  return Math.abs(requested - nominal) <= SLACK * nominal ? Math.max(memory, requested) : memory;
}
