// The tiles of the heat map: every state has its own colour and its own shape.

import type { State } from "../../feed/state";
import type { Gpu } from "../../state/fleet";
import { loadStep } from "../../state/totals";

const CSS_COLOURS = {
  paper: "var(--paper)",
  ink: "var(--ink)",
  caption: "var(--ink-2)",
  freeWord: "var(--free-ink)",
  busy1: "var(--busy-1)",
  busy2: "var(--busy-2)",
  busy3: "var(--busy-3)",
  busy4: "var(--busy-4)",
  busy5: "var(--busy-5)",
  free: "var(--free-mark)",
  leased: "var(--leased-mark)",
  held: "var(--held-solid)",
  heldBars: "color-mix(in srgb, var(--held-solid) 40%, black)",
  broken: "var(--broken-mark)",
  unknown: "var(--unknown-mark)",
  soft1: "var(--busy-fill-1)",
  soft2: "var(--busy-fill-2)",
  soft3: "var(--busy-fill-3)",
  soft4: "var(--busy-fill-4)",
  soft5: "var(--busy-fill-5)",
  freeSoft: "var(--free-bg)",
  leasedSoft: "var(--leased-bg)",
  heldSoft: "var(--held-fill)",
  brokenSoft: "var(--broken-bg)",
  freeInk: "var(--free-ink)",
  leasedInk: "var(--leased-ink)",
  busyInk: "var(--busy-ink)",
  heldInk: "var(--held-ink)",
  ghostInk: "var(--ghost-ink)",
  brokenInk: "var(--broken-ink)",
  unknownInk: "var(--unknown-ink)",
} as const;
export type Colours = Record<keyof typeof CSS_COLOURS, string>;

const BUSY = ["busy1", "busy2", "busy3", "busy4", "busy5"] as const;
const KINDS = [...BUSY, "free", "leased", "held", "ghost", "broken", "unknown"] as const;
const [BAR, INSET] = [0.14, 0.27];
export type Kind = (typeof KINDS)[number];

/** Read the current colours of the theme: a canvas cannot use CSS custom properties. */
export function readColours(element: HTMLElement): Colours {
  const before = element.style.color;
  const found = Object.entries(CSS_COLOURS).map(([name, colour]) => {
    element.style.color = colour;
    return [name, getComputedStyle(element).color];
  });
  element.style.color = before;
  return Object.fromEntries(found) as Colours;
}

export function gpuTileKind({ info, figures }: Gpu): Kind {
  return tileKind(info.verdict.state, figures[0]);
}

export function tileKind(state: State, busy: number | null): Kind {
  return state === "busy" ? BUSY[loadStep(busy) - 1]! : state;
}

/** The pixels of a tile of each kind. */
export type Tiles = Record<Kind, Uint32Array>;

/** Render the tiles; soft ones carry text. */
export function renderTiles(size: number, colours: Colours, isSoft: boolean, opacity = 1): Tiles {
  return Object.fromEntries(KINDS.map((kind) => [kind, pixels(kind, size, colours, isSoft, opacity)])) as Tiles;
}

function pixels(kind: Kind, size: number, colours: Colours, isSoft: boolean, opacity: number): Uint32Array {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  if (!pen) return new Uint32Array(size * size);
  pen.globalAlpha = opacity;
  if (isSoft) drawSoftTile(pen, kind, size, colours);
  else drawTile(pen, kind, size, colours);
  return new Uint32Array(pen.getImageData(0, 0, size, size).data.buffer);
}

const SOFT: Partial<Record<Kind, readonly [ground: keyof Colours, frame: keyof Colours]>> = {
  busy1: ["soft1", "busy1"],
  busy2: ["soft2", "busy2"],
  busy3: ["soft3", "busy2"],
  busy4: ["soft4", "busy3"],
  busy5: ["soft5", "busy3"],
  free: ["freeSoft", "free"],
  leased: ["leasedSoft", "leased"],
  held: ["heldSoft", "held"],
  broken: ["brokenSoft", "broken"],
};

/** Draw a large tile, light enough for text; its shape is in the corner. */
function drawSoftTile(pen: CanvasRenderingContext2D, kind: Kind, size: number, colours: Colours): void {
  const [ground, frame] = SOFT[kind] ?? [null, "unknown"];
  const width = kind === "broken" || kind === "free" ? 2 : 1;
  if (ground) {
    pen.fillStyle = colours[ground];
    pen.fillRect(0, 0, size, size);
  }
  pen.strokeStyle = colours[kind === "ghost" ? "held" : frame];
  pen.lineWidth = width;
  pen.setLineDash(ground ? [] : [4, 3]);
  pen.strokeRect(width / 2, width / 2, size - width, size - width);
  pen.setLineDash([]);
  if (kind.startsWith("busy")) return;
  const mark = Math.round(size / 4);
  pen.save();
  pen.translate(size - mark - 5, size - mark - 5);
  pen.beginPath();
  pen.rect(0, 0, mark, mark);
  pen.clip();
  drawTile(pen, kind, mark, colours);
  pen.restore();
}

/** Draw a tile at the origin of a canvas. */
export function drawTile(pen: CanvasRenderingContext2D, kind: Kind, size: number, colours: Colours): void {
  const unit = Math.max(1, Math.min(4, Math.floor(size / 8)));
  const frame = (colour: string, width: number): void => {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(width / 2, width / 2, size - width, size - width);
  };
  const stroke = (colour: string, width: number, lines: number[][]): void => {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    for (const [x = 0, y = 0, toX = 0, toY = 0] of lines) {
      pen.moveTo(x, y);
      pen.lineTo(toX, toY);
    }
    pen.stroke();
  };
  const rising = [0, size, size, 0];
  if (kind === "free") return frame(colours.free, 2 * unit);
  if (kind === "leased") {
    frame(colours.leased, unit);
    pen.fillStyle = colours.leased;
    return pen.fillRect(3 * unit, 3 * unit, size - 6 * unit, size - 6 * unit);
  }
  if (kind === "unknown") {
    stroke(colours.unknown, unit, [rising]);
    return frame(colours.unknown, unit);
  }
  if (kind === "ghost") {
    stroke(colours.held, 1.5 * unit, [rising, [-size / 2, size, size / 2, 0], [size / 2, size, 1.5 * size, 0]]);
    return frame(colours.held, unit);
  }
  pen.fillStyle = colours[kind];
  pen.fillRect(0, 0, size, size);
  if (kind === "broken") return stroke(colours.paper, 1.5 * unit, [[unit, unit, size - unit, size - unit], [unit, size - unit, size - unit, unit]]);
  if (kind !== "held") return;
  const [bar, inset] = [Math.max(1, Math.round(size * BAR)), Math.round(size * INSET)];
  pen.fillStyle = colours.heldBars;
  pen.fillRect(inset, inset, bar, size - 2 * inset);
  pen.fillRect(size - inset - bar, inset, bar, size - 2 * inset);
}
