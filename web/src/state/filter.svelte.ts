// The filter: its text is in the address, its meaning comes from the hub, and the views ask what matches.

import { NotGranted, ask } from "../feed/ask";
import type { Gpu } from "./fleet";
import { page } from "./page.svelte";
import { route } from "./route.svelte";
import { type Term, matchesAll } from "./terms";
import { has, toggled } from "./typed";

interface Meaning {
  terms: Term[];
  error: string | null;
}

const TYPING_MS = 120;
const MOST_KEPT = 100;

class Filter {
  /** What the text means; while it makes no sense, what it meant before. */
  terms = $state.raw<readonly Term[]>([]);
  /** Why the text makes no sense, in the hub's words. */
  error = $state<string | null>(null);
  /** Whether a GPU matches; another function when the filter means something else. */
  readonly matches = $derived.by(() => {
    const terms = this.terms;
    return (gpu: Gpu): boolean => matchesAll(terms, gpu);
  });
  /** How many GPUs match; `null` where nothing is filtered. */
  readonly found = $derived(page.version > 0 && this.terms.length > 0 ? page.fleet.everyGpu().filter(this.matches).length : null);
  private readonly known = new Map<string, Meaning>([["", { terms: [], error: null }]]);
  private typing: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    $effect.root(() => {
      // A hub that did not answer is asked again when it is back.
      $effect(() => (page.connection === "refused" ? undefined : this.understand(route.query)));
    });
  }

  get text(): string {
    return route.query;
  }

  /** Whether the word is in the filter: "state:free". */
  has(word: string): boolean {
    return has(this.text, word);
  }

  toggle(word: string): void {
    this.set(toggled(this.text, word));
  }

  set(text: string): void {
    clearTimeout(this.typing);
    route.filter(text.trim());
  }

  /** As `set`, once the typing rests. */
  type(text: string): void {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.set(text), TYPING_MS);
  }

  /** Take in what a text means; asked of the hub once. Returns how to give up waiting. */
  private understand(text: string): (() => void) | undefined {
    const known = this.known.get(text);
    if (known) {
      this.take(known);
      return undefined;
    }
    const waiting = new AbortController();
    void this.learn(text, waiting.signal);
    return () => waiting.abort();
  }

  private async learn(text: string, signal: AbortSignal): Promise<void> {
    try {
      const meaning = await ask<Meaning>(`filter?text=${encodeURIComponent(text)}`, signal);
      if (this.known.size > MOST_KEPT) this.known.clear();
      this.known.set(text, meaning);
      this.take(meaning);
    } catch (failure) {
      if (failure instanceof NotGranted) this.error = failure.message;
    }
  }

  private take({ terms, error }: Meaning): void {
    this.error = error;
    if (error === null) this.terms = terms;
  }
}

export const filter = new Filter();
