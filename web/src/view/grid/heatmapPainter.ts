// Draws the visible part of the heat map. Tiles are copied pixel by pixel: thousands in a millisecond or two.

import { type Grouping, countFree } from "../../state/arrange";
import type { Fleet, Gpu } from "../../state/fleet";
import { type Column, type HeatmapPlan, type Square, SQUARES_PER_LINE } from "../../state/heatmap";
import { shortGroupHeading } from "../../text/grid";
import { type Colours, type Tiles, gpuTileKind, readColours, renderTiles } from "./heatmapTiles";

export interface Scene {
  readonly plan: HeatmapPlan;
  readonly grouping: Grouping;
  readonly matches: (gpu: Gpu) => boolean;
  /** How much of the plan is scrolled off above the canvas. */
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly chosen: Square | null;
  /** Changes with the theme: colours are then read again. */
  readonly appearance: string;
}

/** What is rendered once per theme and tile size. */
interface Kit {
  readonly key: string;
  readonly size: number;
  readonly colours: Colours;
  readonly font: string;
  readonly bright: Tiles;
  readonly dim: Tiles;
}

const DIMMED = 0.25;
const CAPTION_GAP = 6;

/** Create a function that draws this fleet. */
export function createPainter(fleet: Fleet): (canvas: HTMLCanvasElement, scene: Scene) => void {
  let kit: Kit | null = null;
  let image: ImageData | null = null;

  return (canvas, scene) => {
    const ratio = devicePixelRatio;
    const [wide, tall] = [Math.round(scene.width * ratio), Math.round(scene.height * ratio)];
    const pen = canvas.getContext("2d");
    if (!pen || wide < 1 || tall < 1) return;
    if (canvas.width !== wide || canvas.height !== tall || !image) {
      [canvas.width, canvas.height] = [wide, tall];
      canvas.style.width = `${scene.width}px`;
      canvas.style.height = `${scene.height}px`;
      image = new ImageData(wide, tall);
    }
    kit = kitFor(kit, canvas, scene, Math.round((scene.plan.pitch - 1) * ratio));
    const visible = scene.plan.columns.filter((column) => isVisible(scene, column));
    const pixels = new Uint32Array(image.data.buffer).fill(0);
    for (const column of visible) drawColumn(pixels, wide, tall, fleet, scene, column, kit, ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.putImageData(image, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, -scene.top * ratio);
    pen.font = kit.font;
    for (const column of visible) drawCaption(pen, fleet, scene, column, kit.colours);
    if (scene.chosen) drawOutline(pen, scene, scene.chosen, kit.colours);
  };
}

function kitFor(kit: Kit | null, canvas: HTMLCanvasElement, { appearance }: Scene, size: number): Kit {
  const key = `${size} ${appearance}`;
  if (kit?.key === key) return kit;
  const colours = readColours(canvas);
  const font = `11px ${getComputedStyle(canvas).fontFamily}`;
  return { key, size, colours, font, bright: renderTiles(size, colours), dim: renderTiles(size, colours, DIMMED) };
}

function isVisible({ plan, top, height }: Scene, column: Column): boolean {
  return column.top + column.lines.length * plan.pitch >= top && column.top - plan.pitch - CAPTION_GAP <= top + height;
}

function drawColumn(pixels: Uint32Array, wide: number, tall: number, fleet: Fleet, scene: Scene, column: Column, kit: Kit, ratio: number): void {
  const { pitch } = scene.plan;
  column.lines.forEach(({ number, first, count }, line) => {
    const y = Math.round((column.top + line * pitch - scene.top) * ratio);
    const node = fleet.nodes.get(number);
    if (!node || y + kit.size <= 0 || y >= tall) return;
    const gpus = node.gpus;
    for (let place = 0; place < count; place += 1) {
      const gpu = gpus[first + place];
      if (!gpu) continue;
      const tile = (scene.matches(gpu) ? kit.bright : kit.dim)[gpuTileKind(gpu)];
      copyTile(tile, kit.size, pixels, wide, tall, Math.round((column.left + place * pitch) * ratio), y);
    }
  });
}

/** Copy a tile into the image, clipped at the top and bottom. */
function copyTile(tile: Uint32Array, size: number, pixels: Uint32Array, wide: number, tall: number, x: number, y: number): void {
  if (x + size > wide) return;
  for (let row = Math.max(0, -y); row < size && y + row < tall; row += 1) {
    const from = row * size;
    const to = (y + row) * wide + x;
    for (let at = 0; at < size; at += 1) pixels[to + at] = tile[from + at] ?? 0;
  }
}

function drawCaption(pen: CanvasRenderingContext2D, fleet: Fleet, { plan, grouping }: Scene, column: Column, colours: Colours): void {
  const numbers = [...new Set(column.lines.map((line) => line.number))];
  const { free } = countFree(fleet, numbers);
  const first = fleet.nodes.get(numbers[0] ?? -1)?.info.name ?? "";
  const name = column.continued || grouping === "none" ? first : shortGroupHeading(column.name, grouping);
  const count = free > 0 ? `${free} free` : "";
  const maxWidth = plan.pitch * SQUARES_PER_LINE - 1 - (count ? pen.measureText(count).width + CAPTION_GAP : 0);
  const label = truncate(pen, name, maxWidth);
  pen.fillStyle = colours.caption;
  pen.fillText(label, column.left, column.top - CAPTION_GAP);
  pen.fillStyle = colours.freeWord;
  pen.fillText(count, column.left + pen.measureText(label).width + CAPTION_GAP, column.top - CAPTION_GAP);
}

function truncate(pen: CanvasRenderingContext2D, text: string, maxWidth: number): string {
  if (pen.measureText(text).width <= maxWidth) return text;
  let cut = text.slice(0, maxWidth);
  while (cut.length > 1 && pen.measureText(`${cut}…`).width > maxWidth) cut = cut.slice(0, -1);
  return `${cut}…`;
}

function drawOutline(pen: CanvasRenderingContext2D, { plan }: Scene, { column, line, place }: Square, { ink }: Colours): void {
  const found = plan.columns[column];
  if (!found) return;
  pen.strokeStyle = ink;
  pen.lineWidth = 2;
  pen.strokeRect(found.left + place * plan.pitch - 1.5, found.top + line * plan.pitch - 1.5, plan.pitch + 2, plan.pitch + 2);
}
