// The texts of the heat map: a caption per group, and the names of nodes and users where the squares are large enough.

import type { Grouping } from "../../state/arrange";
import type { Fleet, Gpu } from "../../state/fleet";
import { type Column, type HeatmapPlan, nodeNumber } from "../../state/heatmap";
import { grouped } from "../../text/format";
import { holderName, shortGroupHeading } from "../../text/grid";
import type { Colours } from "./heatmapTiles";

/** From this size on, squares have the name of their user. */
export const LABELLED_PITCH = 40;
const GAP = 6;
const [SMALL_PX, FONT_PX] = [9, 11];

export interface Texts {
  readonly pen: CanvasRenderingContext2D;
  readonly fleet: Fleet;
  readonly plan: HeatmapPlan;
  readonly grouping: Grouping;
  readonly colours: Colours;
  readonly fontFamily: string;
  readonly matches: (gpu: Gpu) => boolean;
}

/** The name of a group and how many of its GPUs are free, or how many a user has: as much of it as fits above the column. */
export function drawCaption({ pen, fleet, plan, grouping, colours, fontFamily }: Texts, column: Column): void {
  const isOfUser = grouping === "user" && column.name !== null;
  const squares = countSquares(fleet, column);
  const shown = isOfUser ? squares.gpus : squares.free;
  const first = grouping === "user" ? `${shortGroupHeading(column.name, grouping)} …` : (fleet.nodes.get(column.lines[0]?.number ?? -1)?.info.name ?? "");
  const name = column.continued || grouping === "none" ? first : shortGroupHeading(column.name, grouping);
  pen.font = `${plan.captionHeight < 18 ? SMALL_PX : FONT_PX}px ${fontFamily}`;
  const left = column.left - plan.nameWidth;
  const width = plan.nameWidth + plan.pitch * column.squares - 1;
  const y = column.top - (plan.captionHeight < 18 ? 3 : GAP);
  const fits = (text: string): boolean => pen.measureText(text).width + GAP / 2 + Math.min(pen.measureText(name).width, 40) <= width;
  const count = shown === 0 ? "" : ([...(isOfUser ? [] : [`${grouped(shown)} free`]), grouped(shown), ""].find(fits) ?? "");
  const label = truncate(pen, name, width - (count ? pen.measureText(count).width + GAP / 2 : 0));
  pen.fillStyle = colours.caption;
  pen.fillText(label, left, y);
  pen.fillStyle = isOfUser ? colours.caption : colours.freeWord;
  pen.fillText(count, left + width - pen.measureText(count).width, y);
}

function countSquares(fleet: Fleet, { lines }: Column): { gpus: number; free: number } {
  const count = { gpus: 0, free: 0 };
  for (const line of lines) {
    count.gpus += line.gpus.length;
    for (const [place, gpu] of line.gpus.entries()) {
      if (fleet.nodes.get(nodeNumber(line, place))?.info.gpus[gpu]?.verdict.state === "free") count.free += 1;
    }
  }
  return count;
}

/** The names of the nodes of a column, left of their lines. */
export function drawNodeNames({ pen, fleet, plan, colours, fontFamily }: Texts, column: Column): void {
  if (plan.nameWidth === 0) return;
  pen.font = `${FONT_PX}px ${fontFamily}`;
  pen.fillStyle = colours.caption;
  column.lines.forEach(({ number, continued }, line) => {
    const name = !continued ? (fleet.nodes.get(number)?.info.name ?? "") : "";
    pen.fillText(truncate(pen, name, plan.nameWidth - GAP), column.left - plan.nameWidth, column.top + (line + 0.5) * plan.pitch + FONT_PX / 3);
  });
}

/** The users and loads inside large squares. */
export function drawLabels({ pen, fleet, plan, colours, fontFamily, matches }: Texts, column: Column): void {
  const { pitch } = plan;
  if (pitch < LABELLED_PITCH) return;
  pen.font = `${FONT_PX}px ${fontFamily}`;
  column.lines.forEach((found, line) => {
    found.gpus.forEach((position, place) => {
      const gpu = fleet.nodes.get(nodeNumber(found, place))?.gpus[position];
      if (!gpu) return;
      const { state } = gpu.info.verdict;
      const [x, y] = [column.left + place * pitch + 5, column.top + line * pitch + 15];
      pen.globalAlpha = matches(gpu) ? 1 : 0.25;
      pen.fillStyle = colours[`${state}Ink`];
      pen.fillText(truncate(pen, holderName(gpu.info.verdict), pitch - 12), x, y);
      const load = state === "busy" && gpu.figures[0] !== null ? `${gpu.figures[0]}%` : "";
      pen.fillText(load, x, column.top + (line + 1) * pitch - 10);
    });
  });
  pen.globalAlpha = 1;
}

function truncate(pen: CanvasRenderingContext2D, text: string, maxWidth: number): string {
  if (pen.measureText(text).width <= maxWidth) return text;
  let cut = text.slice(0, Math.max(1, Math.floor(maxWidth)));
  while (cut.length > 1 && pen.measureText(`${cut}…`).width > maxWidth) cut = cut.slice(0, -1);
  return `${cut}…`;
}
