// uPlot in the page's colours. It is fetched when a plot is first looked at: the grid does not pay for it.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Drawing, alone } from "../../state/series";
import { moment } from "../../text/plot";

/** Room for the words of the axes, in pixels; the band above a plot keeps the same distance. */
const LEFT = 46;
const RIGHT = 8;
const HEIGHT = 132;
const BELOW = 22;
const FONT_PIXELS = 11;
const FAINT = 0.4;

interface Colours {
  ink: string;
  faint: string;
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
}

export class Chart {
  private readonly plot: uPlot;
  private readonly lines: number;
  private readonly observer: ResizeObserver;
  private colours: Colours;

  constructor(
    private readonly wanted: Wanted,
    private drawing: Drawing,
  ) {
    const { box } = wanted;
    this.lines = drawing.lines.length;
    this.colours = coloursOf(box);
    this.plot = new uPlot(this.options(), this.data(), box);
    this.observer = new ResizeObserver(() => this.plot.setSize({ width: box.clientWidth, height: HEIGHT }));
    this.observer.observe(box);
  }

  /** Whether it can draw that without being made anew. */
  fits(drawing: Drawing): boolean {
    return drawing.lines.length === this.lines;
  }

  draw(drawing: Drawing): void {
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

  // The line in ink is the last, over the others.
  private ordered(): Drawing["lines"] {
    const { lines } = this.drawing;
    return [...lines.filter(({ ink }) => !ink), ...lines.filter(({ ink }) => ink)];
  }

  private data(): uPlot.AlignedData {
    return [[...this.drawing.times], ...this.ordered().map(({ figures }) => [...figures])];
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
        drag: { x: false, y: false },
        sync: { key: group },
        points: { show: (_, at) => (at === this.lines ? document.createElement("div") : (undefined as never)), size: 7 },
      },
      scales: {
        x: { time: true, range: () => [this.drawing.from, this.drawing.to] },
        y: { range: () => [this.drawing.least, this.drawing.most] },
      },
      axes: [this.timeAxis(), this.figureAxis()],
      series: [{}, ...this.ordered().map((_, at) => this.series(at + 1 === this.lines))],
      hooks: { setCursor: [({ cursor }) => this.wanted.pointed(cursor.idx ?? null)] },
    };
  }

  private series(ink: boolean): uPlot.Series {
    const stroke = (): string => (ink ? this.colours.ink : this.colours.faint);
    return {
      stroke,
      width: ink ? 1.6 : 1,
      alpha: ink ? 1 : FAINT,
      points: { show: false, size: 4, fill: stroke, filter: (plot, at) => alone([...(plot.data[at] ?? [])]) },
    };
  }

  private timeAxis(): uPlot.Axis {
    return {
      ...this.axis(BELOW),
      grid: { show: false },
      values: (_, splits) => splits.map((at) => moment(at, this.drawing.to - this.drawing.from)),
    };
  }

  private figureAxis(): uPlot.Axis {
    return {
      ...this.axis(LEFT),
      grid: { stroke: () => this.colours.grid, width: 1 },
      splits: () => [this.drawing.least, (this.drawing.least + this.drawing.most) / 2, this.drawing.most],
      values: (_, splits) => splits.map((value, at) => String(Math.round(value)) + (at === splits.length - 1 ? ` ${this.wanted.unit}` : "")),
    };
  }

  private axis(size: number): uPlot.Axis {
    return { size, gap: 4, font: this.colours.font, stroke: () => this.colours.words, ticks: { show: false }, border: { show: false } };
  }
}

/** The page's colours as they are now: a canvas knows no custom properties, so the box wears them. */
function coloursOf(box: HTMLElement): Colours {
  const { color, borderTopColor, borderBottomColor, outlineColor, fontFamily } = getComputedStyle(box);
  return { ink: color, grid: borderTopColor, faint: borderBottomColor, words: outlineColor, font: `${FONT_PIXELS}px ${fontFamily}` };
}
