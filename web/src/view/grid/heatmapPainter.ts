// Draws the visible part of the heat map. Tiles are copied pixel by pixel: thousands in a millisecond or two.

import type { Grouping } from "../../state/arrange";
import type { Fleet, Gpu } from "../../state/fleet";
import { type Column, type HeatmapPlan, type Square, nodeNumber, sameNode } from "../../state/heatmap";
import { type Texts, LABELLED_PITCH, drawCaption, drawLabels, drawNodeNames } from "./heatmapText";
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
  readonly fontFamily: string;
  readonly bright: Tiles;
  readonly dim: Tiles;
}

const DIMMED = 0.25;
/** From this size on, squares are further apart. */
const LARGE_PITCH = 18;

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
    kit = kitFor(kit, canvas, scene, Math.round(squareSize(scene.plan) * ratio));
    const visible = scene.plan.columns.filter((column) => isVisible(scene, column));
    const pixels = new Uint32Array(image.data.buffer).fill(0);
    for (const column of visible) drawColumn(pixels, wide, tall, fleet, scene, column, kit, ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.putImageData(image, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, -scene.top * ratio);
    const texts: Texts = { pen, fleet, ...scene, colours: kit.colours, fontFamily: kit.fontFamily };
    for (const column of visible) {
      drawCaption(texts, column);
      drawNodeNames(texts, column);
      drawLabels(texts, column);
    }
    if (scene.chosen) drawOutline(pen, scene, scene.chosen, kit.colours);
  };
}

/** The size of a square without the gap beside it. */
function squareSize({ pitch }: HeatmapPlan): number {
  return pitch - (pitch < LARGE_PITCH ? 1 : 3);
}

function kitFor(kit: Kit | null, canvas: HTMLCanvasElement, { appearance, plan }: Scene, size: number): Kit {
  const isSoft = plan.pitch >= LABELLED_PITCH;
  const key = `${size} ${isSoft} ${appearance}`;
  if (kit?.key === key) return kit;
  const colours = readColours(canvas);
  const { fontFamily } = getComputedStyle(canvas);
  return { key, size, colours, fontFamily, bright: renderTiles(size, colours, isSoft), dim: renderTiles(size, colours, isSoft, DIMMED) };
}

function isVisible({ plan, top, height }: Scene, column: Column): boolean {
  return column.top + column.lines.length * plan.pitch >= top && column.top - plan.captionHeight <= top + height;
}

function drawColumn(pixels: Uint32Array, wide: number, tall: number, fleet: Fleet, scene: Scene, column: Column, kit: Kit, ratio: number): void {
  const { pitch } = scene.plan;
  column.lines.forEach((found, line) => {
    const y = Math.round((column.top + line * pitch - scene.top) * ratio);
    if (y + kit.size <= 0 || y >= tall) return;
    for (let place = 0; place < found.gpus.length; place += 1) {
      const gpu = fleet.nodes.get(nodeNumber(found, place))?.gpus[found.gpus[place] ?? -1];
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

/** Outline the node under the pointer, and stronger its GPU. */
function drawOutline(pen: CanvasRenderingContext2D, { plan }: Scene, { column, line, place }: Square, { ink }: Colours): void {
  const found = plan.columns[column];
  const squares = found?.lines[line];
  if (!squares) return;
  const { pitch } = plan;
  const size = squareSize(plan);
  const [first, last] = sameNode(squares, place);
  pen.strokeStyle = ink;
  pen.lineWidth = 1;
  pen.strokeRect(found.left + first * pitch - 1.5, found.top + line * pitch - 1.5, (last - first) * pitch + size + 3, size + 3);
  pen.lineWidth = 2;
  pen.strokeRect(found.left + place * pitch - 1, found.top + line * pitch - 1, size + 2, size + 2);
}
