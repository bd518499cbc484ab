// Paints what is in view of the heat map. Squares are copied pixel by pixel: thousands in a millisecond or two.

import { type Grouping, freeOf } from "../../state/arrange";
import type { Fleet, Gpu } from "../../state/fleet";
import { ACROSS, type Column, type Plan, type Square } from "../../state/heat";
import { caption } from "../../text/grid";
import { type Colours, type Tiles, coloursOf, kindOf, tilesOf } from "./squares";

export interface Scene {
  readonly plan: Plan;
  readonly grouping: Grouping;
  readonly matches: (gpu: Gpu) => boolean;
  /** How much of the plan is above the canvas. */
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly chosen: Square | null;
  /** Another text for another look: colours are read anew. */
  readonly appearance: string;
}

/** What is made once for a look and a size. */
interface Kit {
  readonly made: string;
  readonly size: number;
  readonly colours: Colours;
  readonly font: string;
  readonly bright: Tiles;
  readonly dim: Tiles;
}

const DIMMED = 0.25;
const OVER = 6;

/** A painter of this fleet. */
export function painter(fleet: Fleet): (canvas: HTMLCanvasElement, scene: Scene) => void {
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
    const seen = scene.plan.columns.filter((column) => isSeen(scene, column));
    const pixels = new Uint32Array(image.data.buffer).fill(0);
    for (const column of seen) squares(pixels, wide, tall, fleet, scene, column, kit, ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.putImageData(image, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, -scene.top * ratio);
    pen.font = kit.font;
    for (const column of seen) captioned(pen, fleet, scene, column, kit.colours);
    if (scene.chosen) outline(pen, scene, scene.chosen, kit.colours);
  };
}

function kitFor(kit: Kit | null, canvas: HTMLCanvasElement, { appearance }: Scene, size: number): Kit {
  const made = `${size} ${appearance}`;
  if (kit?.made === made) return kit;
  const colours = coloursOf(canvas);
  const font = `11px ${getComputedStyle(canvas).fontFamily}`;
  return { made, size, colours, font, bright: tilesOf(size, colours), dim: tilesOf(size, colours, DIMMED) };
}

function isSeen({ plan, top, height }: Scene, column: Column): boolean {
  return column.top + column.lines.length * plan.pitch >= top && column.top - plan.pitch - OVER <= top + height;
}

function squares(pixels: Uint32Array, wide: number, tall: number, fleet: Fleet, scene: Scene, column: Column, kit: Kit, ratio: number): void {
  const { pitch } = scene.plan;
  column.lines.forEach(({ number, first, count }, line) => {
    const y = Math.round((column.top + line * pitch - scene.top) * ratio);
    const node = fleet.nodes.get(number);
    if (!node || y + kit.size <= 0 || y >= tall) return;
    const gpus = node.gpus;
    for (let place = 0; place < count; place += 1) {
      const gpu = gpus[first + place];
      if (!gpu) continue;
      const tile = (scene.matches(gpu) ? kit.bright : kit.dim)[kindOf(gpu)];
      copy(tile, kit.size, pixels, wide, tall, Math.round((column.left + place * pitch) * ratio), y);
    }
  });
}

/** Copy a tile to a place of the picture, as far as it lies in it. */
function copy(tile: Uint32Array, size: number, pixels: Uint32Array, wide: number, tall: number, x: number, y: number): void {
  if (x + size > wide) return;
  for (let row = Math.max(0, -y); row < size && y + row < tall; row += 1) {
    const from = row * size;
    const to = (y + row) * wide + x;
    for (let at = 0; at < size; at += 1) pixels[to + at] = tile[from + at] ?? 0;
  }
}

function captioned(pen: CanvasRenderingContext2D, fleet: Fleet, { plan, grouping }: Scene, column: Column, colours: Colours): void {
  const numbers = [...new Set(column.lines.map((line) => line.number))];
  const { free } = freeOf(fleet, numbers);
  const first = fleet.nodes.get(numbers[0] ?? -1)?.brief.name ?? "";
  const name = column.continued || grouping === "none" ? first : caption(column.name, grouping);
  const counted = free > 0 ? `${free} free` : "";
  const room = plan.pitch * ACROSS - 1 - (counted ? pen.measureText(counted).width + OVER : 0);
  const named = shortened(pen, name, room);
  pen.fillStyle = colours.caption;
  pen.fillText(named, column.left, column.top - OVER);
  pen.fillStyle = colours.freeWord;
  pen.fillText(counted, column.left + pen.measureText(named).width + OVER, column.top - OVER);
}

function shortened(pen: CanvasRenderingContext2D, text: string, room: number): string {
  if (pen.measureText(text).width <= room) return text;
  let kept = text.slice(0, room);
  while (kept.length > 1 && pen.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}

function outline(pen: CanvasRenderingContext2D, { plan }: Scene, { column, line, place }: Square, { ink }: Colours): void {
  const found = plan.columns[column];
  if (!found) return;
  pen.strokeStyle = ink;
  pen.lineWidth = 2;
  pen.strokeRect(found.left + place * plan.pitch - 1.5, found.top + line * plan.pitch - 1.5, plan.pitch + 2, plan.pitch + 2);
}
