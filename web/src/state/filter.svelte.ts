// The filter: its text is in the address, the hub parses it, and the views ask what matches.

import { ApiError, get } from "../feed/client";
import type { Meaning } from "../feed/types";
import { type Term, matchesAll } from "./filterMatch";
import { hasTerm, toggleTerm } from "./filterText";
import type { Gpu } from "./fleet";
import { MatchCounts } from "./matchCounts";
import { page } from "./page.svelte";
import { route } from "./route.svelte";

const DEBOUNCE_MS = 120;
const MAX_CACHED = 100;

class Filter {
  /** The parsed text; while the text is invalid, what it was before. */
  terms = $state.raw<readonly Term[]>([]);
  /** Why the text is invalid, from the hub. */
  error = $state<string | null>(null);
  /** Whether a GPU matches; a new function whenever the terms change. */
  readonly matches = $derived.by(() => {
    const terms = this.terms;
    return (gpu: Gpu): boolean => matchesAll(terms, gpu);
  });
  /** How many GPUs and MIG instances of each node match. */
  readonly counts = $derived(new MatchCounts(this.terms));
  /** How many GPUs and MIG instances match; `null` without a filter. */
  readonly matchCount = $derived(page.version > 0 && this.terms.length > 0 ? this.counts.total(page.fleet.nodes.values()) : null);
  readonly isWithoutMatch = $derived(this.matchCount?.gpus === 0 && this.matchCount.instances === 0);
  private readonly cache = new Map<string, Meaning>([["", { terms: [], error: null }]]);
  private debounce: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    $effect.root(() => {
      // Depends on the connection, so that a request that failed is repeated after a reconnect.
      $effect(() => (page.connection === "unauthorized" ? undefined : this.parse(route.query)));
    });
  }

  get text(): string {
    return route.query;
  }

  /** Whether the text has this term: "state:free". */
  has(term: string): boolean {
    return hasTerm(this.text, term);
  }

  toggle(term: string): void {
    this.set(toggleTerm(this.text, term));
  }

  set(text: string): void {
    clearTimeout(this.debounce);
    route.setFilter(text.trim());
  }

  /** Set the text once typing has paused. */
  setDebounced(text: string): void {
    clearTimeout(this.debounce);
    this.debounce = setTimeout(() => this.set(text), DEBOUNCE_MS);
  }

  /** Parse a text, from the cache or by the hub. Returns how to cancel. */
  private parse(text: string): (() => void) | undefined {
    const cached = this.cache.get(text);
    if (cached) {
      this.apply(cached);
      return undefined;
    }
    const abort = new AbortController();
    void this.load(text, abort.signal);
    return () => abort.abort();
  }

  private async load(text: string, signal: AbortSignal): Promise<void> {
    try {
      const parsed = await get<Meaning>(`filter?text=${encodeURIComponent(text)}`, signal);
      if (this.cache.size > MAX_CACHED) this.cache.clear();
      this.cache.set(text, parsed);
      this.apply(parsed);
    } catch (error) {
      if (error instanceof ApiError) this.error = error.message;
    }
  }

  private apply({ terms, error }: Meaning): void {
    this.error = error;
    if (error === null) this.terms = terms;
  }
}

export const filter = new Filter();
