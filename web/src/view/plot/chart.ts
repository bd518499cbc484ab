// uPlot in the page's colours. It is fetched when a plot is first looked at: the grid does not pay for it.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type PlotLines, isolatedPoints } from "../../state/series";
import { axisTime } from "../../text/plot";

/** Room for the words of the axes, in pixels; the band above a plot keeps the same distance. */
const LEFT = 46;
const RIGHT = 8;
const HEIGHT = 132;
const BELOW = 22;
const FONT_PIXELS = 11;
const FAINT = 0.4;
const EDGE_SHARE = 0.02;
const LONGEST_WORD = 6;
const REACH = 0.15;
const SHORTEST_ZOOM_PX = 8;

interface Colours {
  ink: string;
  faint: string;
  reach: string;
  grid: string;
  words: string;
  font: string;
}

interface Wanted {
  readonly box: HTMLElement;
  readonly unit: string;
  /** Plots of one group have one cursor. */
  readonly group: string;
  /** Told where the cursor is: at which of the moments, or at none. */
  readonly pointed: (at: number | null) => void;
  /** Told which stretch was marked, to look at it more closely. */
  readonly zoomed: (from: number, to: number) => void;
}

export class Chart {
  private readonly plot: uPlot;
  private readonly lines: number;
  private readonly observer: ResizeObserver;
  private colours: Colours;

  constructor(
    private readonly wanted: Wanted,
    private drawing: PlotLines,
  ) {
    const { box } = wanted;
    this.lines = Math.max(1, drawing.lines.length);
    this.colours = coloursOf(box);
    this.plot = new uPlot(this.options(), this.data(), box);
    this.observer = new ResizeObserver(() => this.plot.setSize({ width: box.clientWidth, height: HEIGHT }));
    this.observer.observe(box);
  }

  /** Where the line in ink is among the series. */
  private get last(): number {
    return this.lines + 2;
  }

  /** Whether it can draw that without being made anew. */
  fits(drawing: PlotLines): boolean {
    return Math.max(1, drawing.lines.length) === this.lines;
  }

  draw(drawing: PlotLines): void {
    this.drawing = drawing;
    this.plot.setData(this.data());
  }

  /** Take the colours of the page as they are now. */
  repaint(): void {
    this.colours = coloursOf(this.wanted.box);
    this.plot.redraw(false);
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot.destroy();
  }

  // The line in ink is the last, over the others; before it come the least and the most that it stands for.
  private ordered(): PlotLines["lines"] {
    const { lines } = this.drawing;
    return [...lines.filter(({ ink }) => !ink), ...lines.filter(({ ink }) => ink)];
  }

  private data(): uPlot.AlignedData {
    const { times, low, high } = this.drawing;
    const lines = this.ordered().map(({ figures }) => [...figures]);
    return [[...times], ...lines.slice(0, -1), [...low], [...high], lines.at(-1) ?? []];
  }

  private options(): uPlot.Options {
    const { box, group } = this.wanted;
    return {
      width: box.clientWidth,
      height: HEIGHT,
      padding: [8, RIGHT, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false, dist: SHORTEST_ZOOM_PX },
        sync: { key: group },
        points: { show: (_, at) => (at === this.last ? document.createElement("div") : (undefined as never)), size: 7 },
      },
      scales: {
        x: { time: true, range: () => [this.drawing.from, this.drawing.to] },
        y: { range: () => [this.drawing.least, this.drawing.most] },
      },
      axes: [this.timeAxis(), this.figureAxis()],
      series: [{}, ...this.ordered().slice(1).map(() => this.series(false)), EDGE, EDGE, this.series(true)],
      bands: [{ series: [this.last - 1, this.last - 2], fill: () => this.colours.reach }],
      hooks: { setCursor: [({ cursor }) => this.wanted.pointed(cursor.idx ?? null)], setSelect: [(plot) => this.marked(plot)] },
    };
  }

  private marked(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < SHORTEST_ZOOM_PX) return;
    this.wanted.zoomed(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private series(ink: boolean): uPlot.Series {
    const stroke = (): string => (ink ? this.colours.ink : this.colours.faint);
    return {
      stroke,
      width: ink ? 1.6 : 1,
      alpha: ink ? 1 : FAINT,
      points: { show: false, size: 4, fill: stroke, filter: (plot, at) => isolatedPoints([...(plot.data[at] ?? [])]) },
    };
  }

  private timeAxis(): uPlot.Axis {
    return {
      ...this.axis(BELOW),
      grid: { show: false },
      values: (_, splits) => splits.map((at) => (this.isCut(at) ? "" : axisTime(at, this.drawing.to - this.drawing.from))),
    };
  }

  /** Whether the word of a moment would lie half outside. */
  private isCut(at: number): boolean {
    const { from, to } = this.drawing;
    return Math.min(at - from, to - at) < EDGE_SHARE * (to - from);
  }

  private figureAxis(): uPlot.Axis {
    return {
      ...this.axis(LEFT),
      grid: { stroke: () => this.colours.grid, width: 1 },
      splits: () => [this.drawing.least, (this.drawing.least + this.drawing.most) / 2, this.drawing.most],
      values: (_, splits) => splits.map((value, at) => axisWord(value, at === splits.length - 1 ? this.wanted.unit : "")),
    };
  }

  private axis(size: number): uPlot.Axis {
    return { size, gap: 4, font: this.colours.font, stroke: () => this.colours.words, ticks: { show: false }, border: { show: false } };
  }
}

/** The unit is said at the top, where there is room for it. */
function axisWord(value: number, unit: string): string {
  const words = `${Math.round(value)} ${unit}`.trim();
  return words.length > LONGEST_WORD ? String(Math.round(value)) : words;
}

/** The least and the most are not drawn themselves: what is between them is filled. */
const EDGE: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };

/** The page's colours as they are now: a canvas knows no custom properties, so the box wears them. */
function coloursOf(box: HTMLElement): Colours {
  const { color, borderTopColor, borderBottomColor, outlineColor, fontFamily } = getComputedStyle(box);
  const reach = color.replace(/^rgba?\(([^,]+, [^,]+, [^,)]+).*$/, `rgba($1, ${REACH})`);
  return { ink: color, reach, grid: borderTopColor, faint: borderBottomColor, words: outlineColor, font: `${FONT_PIXELS}px ${fontFamily}` };
}
