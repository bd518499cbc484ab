// A uPlot chart in the theme's colours. Loaded with the first plot, not with the grid.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Line, type PlotLines, isolatedPoints } from "../../state/series";
import { axisTime } from "../../text/plot";

/** Room for the axis labels, in pixels; the band above a plot has the same margin. */
const LEFT = 46;
const RIGHT = 8;
const HEIGHT = 132;
const BELOW = 22;
const FONT_PIXELS = 11;
const FAINT = 0.4;
const DASH = [4, 3];
const EDGE_SHARE = 0.02;
const MAX_LABEL_LENGTH = 6;
const BAND_ALPHA = 0.15;
const MIN_ZOOM_PX = 8;

interface Colours {
  ink: string;
  faint: string;
  band: string;
  grid: string;
  text: string;
  font: string;
}

interface ChartOptions {
  readonly box: HTMLElement;
  readonly unit: string;
  /** Charts of the same group share the cursor. */
  readonly group: string;
  /** Called with the index of the point under the cursor, or `null`. */
  readonly onHover: (at: number | null) => void;
  /** Called with the selected span. */
  readonly onZoom: (from: number, to: number) => void;
}

export class Chart {
  private readonly plot: uPlot;
  /** The kinds of its lines, by which it knows whether it can draw others. */
  private readonly kinds: string;
  private readonly observer: ResizeObserver;
  private colours: Colours;

  constructor(
    private readonly config: ChartOptions,
    private plotLines: PlotLines,
  ) {
    const { box } = config;
    this.kinds = kindsOf(ordered(plotLines));
    this.colours = readColours(box);
    this.plot = new uPlot(this.options(), this.data(), box);
    this.observer = new ResizeObserver(() => this.plot.setSize({ width: box.clientWidth, height: HEIGHT }));
    this.observer.observe(box);
  }

  /** The index of the main line among the series. */
  private get last(): number {
    return ordered(this.plotLines).length + 2;
  }

  /** Whether it can draw these lines without being created again. */
  fits(lines: PlotLines): boolean {
    return kindsOf(ordered(lines)) === this.kinds;
  }

  draw(lines: PlotLines): void {
    this.plotLines = lines;
    this.plot.setData(this.data());
  }

  /** Read the colours of the theme again. */
  repaint(): void {
    this.colours = readColours(this.config.box);
    this.plot.redraw(false);
  }

  destroy(): void {
    this.observer.disconnect();
    this.plot.destroy();
  }

  private data(): uPlot.AlignedData {
    const { times, low, high } = this.plotLines;
    const lines = ordered(this.plotLines).map(({ values }) => [...values]);
    return [[...times], ...lines.slice(0, -1), [...low], [...high], lines.at(-1) ?? []];
  }

  private options(): uPlot.Options {
    const { box, group } = this.config;
    return {
      width: box.clientWidth,
      height: HEIGHT,
      padding: [8, RIGHT, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false, dist: MIN_ZOOM_PX },
        sync: { key: group },
        points: { show: (_, at) => (at === this.last ? document.createElement("div") : (undefined as never)), size: 7 },
      },
      scales: {
        x: { time: true, range: () => [this.plotLines.from, this.plotLines.to] },
        y: { range: () => [this.plotLines.min, this.plotLines.max] },
      },
      axes: [this.timeAxis(), this.valueAxis()],
      series: [{}, ...ordered(this.plotLines).slice(0, -1).map(({ kind }) => this.series(kind)), EDGE, EDGE, this.series("main")],
      bands: [{ series: [this.last - 1, this.last - 2], fill: () => this.colours.band }],
      hooks: { setCursor: [({ cursor }) => this.config.onHover(cursor.idx ?? null)], setSelect: [(plot) => this.onSelect(plot)] },
    };
  }

  private onSelect(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < MIN_ZOOM_PX) return;
    this.config.onZoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private series(kind: Line["kind"]): uPlot.Series {
    const stroke = (): string => (kind === "sibling" ? this.colours.faint : this.colours.ink);
    return {
      stroke,
      width: kind === "main" ? 1.6 : kind === "other" ? 1.2 : 1,
      alpha: kind === "sibling" ? FAINT : 1,
      ...(kind === "other" && { dash: DASH }),
      points: { show: false, size: 4, fill: stroke, filter: (plot, at) => isolatedPoints([...(plot.data[at] ?? [])]) },
    };
  }

  private timeAxis(): uPlot.Axis {
    return {
      ...this.axis(BELOW),
      grid: { show: false },
      values: (_, splits) => splits.map((at) => (this.isCutOff(at) ? "" : axisTime(at, this.plotLines.to - this.plotLines.from))),
    };
  }

  /** Whether the label of a tick would be cut off at the edge. */
  private isCutOff(at: number): boolean {
    const { from, to } = this.plotLines;
    return Math.min(at - from, to - at) < EDGE_SHARE * (to - from);
  }

  private valueAxis(): uPlot.Axis {
    return {
      ...this.axis(LEFT),
      grid: { stroke: () => this.colours.grid, width: 1 },
      splits: () => [this.plotLines.min, (this.plotLines.min + this.plotLines.max) / 2, this.plotLines.max],
      values: (_, splits) => splits.map((value, at) => axisLabel(value, at === splits.length - 1 ? this.config.unit : "")),
    };
  }

  private axis(size: number): uPlot.Axis {
    return { size, gap: 4, font: this.colours.font, stroke: () => this.colours.text, ticks: { show: false }, border: { show: false } };
  }
}

const NO_MAIN_LINE: Line = { name: "", values: [], kind: "main" };

/** The main line comes last, on top of the others, even if it has no values; before it come its minimum and maximum. */
function ordered({ lines }: PlotLines): Line[] {
  const others = lines.filter(({ kind }) => kind !== "main").sort((a, b) => b.kind.localeCompare(a.kind));
  return [...others, lines.find(({ kind }) => kind === "main") ?? NO_MAIN_LINE];
}

function kindsOf(lines: readonly Line[]): string {
  return lines.map(({ kind }) => kind).join();
}

/** The label of a value; the top one has the unit if there is room. */
function axisLabel(value: number, unit: string): string {
  const label = `${Math.round(value)} ${unit}`.trim();
  return label.length > MAX_LABEL_LENGTH ? String(Math.round(value)) : label;
}

/** Minimum and maximum are invisible: the band between them is filled. */
const EDGE: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };

/** Read the colours of the theme from the box: a canvas cannot use CSS custom properties. */
function readColours(box: HTMLElement): Colours {
  const { color, borderTopColor, borderBottomColor, outlineColor, fontFamily } = getComputedStyle(box);
  const band = color.replace(/^rgba?\(([^,]+, [^,]+, [^,)]+).*$/, `rgba($1, ${BAND_ALPHA})`);
  return { ink: color, band, grid: borderTopColor, faint: borderBottomColor, text: outlineColor, font: `${FONT_PIXELS}px ${fontFamily}` };
}
