// The texts of the heat map: a caption per group, and the names of nodes and users where the squares are large enough.

import { type Grouping, countFree, countOwned } from "../../state/arrange";
import type { Fleet, Gpu } from "../../state/fleet";
import type { Column, HeatmapPlan } from "../../state/heatmap";
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

/** The name of a group and how many of its GPUs are free, as much of it as fits above the column. */
export function drawCaption({ pen, fleet, plan, grouping, colours, fontFamily }: Texts, column: Column): void {
  const numbers = [...new Set(column.lines.map((line) => line.number))];
  const isOfUser = grouping === "user";
  const { free } = isOfUser ? countOwned(fleet, { name: column.name, numbers }) : countFree(fleet, numbers);
  const first = isOfUser ? `${shortGroupHeading(column.name, grouping)} …` : (fleet.nodes.get(numbers[0] ?? -1)?.info.name ?? "");
  const name = column.continued || grouping === "none" ? first : shortGroupHeading(column.name, grouping);
  pen.font = `${plan.captionHeight < 18 ? SMALL_PX : FONT_PX}px ${fontFamily}`;
  const left = column.left - plan.nameWidth;
  const width = plan.nameWidth + plan.pitch * column.squares - 1;
  const y = column.top - (plan.captionHeight < 18 ? 3 : GAP);
  const fits = (text: string): boolean => pen.measureText(text).width + GAP / 2 + Math.min(pen.measureText(name).width, 40) <= width;
  const count = free === 0 ? "" : ([`${free} free`, String(free), ""].find(fits) ?? "");
  const label = truncate(pen, name, width - (count ? pen.measureText(count).width + GAP / 2 : 0));
  pen.fillStyle = colours.caption;
  pen.fillText(label, left, y);
  pen.fillStyle = colours.freeWord;
  pen.fillText(count, left + width - pen.measureText(count).width, y);
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
  column.lines.forEach(({ number, gpus }, line) => {
    const node = fleet.nodes.get(number);
    gpus.forEach((position, place) => {
      const gpu = node?.gpus[position];
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
