// One node over a stretch of time: its figures and who had its GPUs, asked again as time goes on.

import { briefly } from "../feed/briefly";
import { type Series, type Span, type Strips, seriesOf, stripsOf } from "../feed/history";
import { Asked } from "./asked.svelte";
import { page } from "./page.svelte";
import { type Range, around, rangeOf, secondsOf, until } from "./range";
import { route } from "./route.svelte";

const POINTS = 720;
const COLUMNS = 240;
const HOUR_FRESH_MS = 9000;

export interface Recalled {
  readonly span: Span;
  readonly series: Series;
  readonly strips: Strips;
}

export class LookBack {
  readonly asked = new Asked<Recalled>();
  /** A part that the reader marked, to look at it more closely. */
  private zoom = $state.raw<Span | null>(null);
  private before: Span | null = null;

  get range(): Range {
    return rangeOf(route.range, "1h");
  }

  get isZoomed(): boolean {
    return this.zoom !== null;
  }

  choose(range: Range): void {
    this.zoom = null;
    route.over(range);
  }

  /** Look at this part alone; `null` is all of the range again. */
  closer(part: Span | null): void {
    this.zoom = part;
  }

  /** Ask about a node, for an effect: again when the stretch is another. */
  watch(nodeId: string): () => void {
    const { start, end } = this.zoom ?? this.live();
    return this.asked.ask((signal) => recalled(nodeId, { start, end }, signal));
  }

  private live(): Span {
    const seconds = secondsOf(this.range);
    const pace = Math.min(60, seconds / 240);
    return (this.before = around(route.at, Math.floor(page.clock / pace) * pace, seconds, this.before));
  }
}

/** The last hour of a node, at most some seconds old. */
export const lastHour = briefly<Recalled>(HOUR_FRESH_MS, (nodeId) => recalled(nodeId, until(page.clock, secondsOf("1h"))));

async function recalled(nodeId: string, span: Span, signal?: AbortSignal): Promise<Recalled> {
  const [series, strips] = await Promise.all([seriesOf(nodeId, span, POINTS, signal), stripsOf(span, COLUMNS, { node: nodeId }, signal)]);
  return { span, series, strips };
}
