import { describe, expect, it } from "vitest";
import { type Square, allGpus, nextSquare, nodeNumber, planHeatmap, sameNode, squareAt } from "../../src/state/heatmap";

describe("the heat map", () => {
  const groups = [{ name: "r1", numbers: [1, 2, 3] }, { name: "r2", numbers: [4] }];
  const plan = planHeatmap(groups, (number) => allGpus(number === 3 ? 12 : 8), 1000, 400);

  it("has one line per eight GPUs of a node", () => {
    expect(plan.columns.map((column) => column.lines.length)).toEqual([4, 1]);
    expect(plan.columns[0]?.lines[3]).toEqual({ number: 3, gpus: [8, 9, 10, 11], continued: true });
  });

  it("finds the square under a point, and none between squares", () => {
    const middle = (square: Square): [number, number] => {
      const column = plan.columns[square.column];
      return [(column?.left ?? 0) + (square.place + 0.5) * plan.pitch, (column?.top ?? 0) + (square.line + 0.5) * plan.pitch];
    };
    for (const square of [{ column: 0, line: 0, place: 7 }, { column: 0, line: 3, place: 3 }, { column: 1, line: 0, place: 0 }]) {
      expect(squareAt(plan, ...middle(square))).toEqual(square);
    }
    expect(squareAt(plan, ...middle({ column: 0, line: 3, place: 5 }))).toBeNull();
    expect(squareAt(plan, 3, 3)).toBeNull();
  });

  it("is navigated by arrow keys from column to column", () => {
    expect(nextSquare(plan, { column: 0, line: 0, place: 7 }, "ArrowRight")).toEqual({ column: 1, line: 0, place: 0 });
    expect(nextSquare(plan, { column: 1, line: 0, place: 0 }, "ArrowLeft")).toEqual({ column: 0, line: 0, place: 7 });
    expect(nextSquare(plan, { column: 0, line: 2, place: 6 }, "ArrowDown")).toEqual({ column: 0, line: 3, place: 3 });
    expect(nextSquare(plan, { column: 1, line: 0, place: 7 }, "ArrowDown")).toEqual({ column: 1, line: 0, place: 7 });
    expect(nextSquare(plan, { column: 0, line: 0, place: 0 }, "Enter")).toBeNull();
  });

  it("has squares that fill the window, whatever the fleet", () => {
    const racks = (count: number): { name: string; numbers: number[] }[] =>
      Array.from({ length: count }, (_, rack) => ({ name: `r${rack}`, numbers: Array.from({ length: 16 }, (_, at) => 16 * rack + at) }));
    const few = planHeatmap(racks(1), () => allGpus(8), 1072, 700);
    expect(few.pitch).toBeGreaterThan(40);
    for (const plan of [few, planHeatmap(racks(20), () => allGpus(8), 1072, 700), planHeatmap(racks(313), () => allGpus(8), 1072, 720)]) {
      expect(plan.height).toBeLessThanOrEqual(720);
      expect(Math.max(...plan.columns.map(({ left, squares }) => left + squares * plan.pitch))).toBeLessThanOrEqual(1072);
    }
  });

  it("splits racks where squares become much larger by that", () => {
    const racks = Array.from({ length: 9 }, (_, rack) => ({ name: `r${rack}`, numbers: Array.from({ length: 32 }, (_, at) => 32 * rack + at) }));
    const plan = planHeatmap(racks, () => allGpus(8), 1072, 720);
    expect(plan.pitch).toBeGreaterThanOrEqual(13);
    expect(plan.height).toBeLessThanOrEqual(720);
    expect(plan.columns.filter(({ continued }) => !continued)).toHaveLength(9);
  });

  it("has only the GPUs of a user in their group", () => {
    const byUser = planHeatmap([{ name: "alice", numbers: [1, 2] }, { name: "bob", numbers: [2] }], (number, user) => (user === "bob" ? [1, 7] : number === 1 ? [0, 3] : []), 1000, 400);
    expect(byUser.columns.map(({ name, lines }) => [name, lines.map(({ number, gpus }) => [number, gpus])])).toEqual([["alice", [[1, [0, 3]]]], ["bob", [[2, [1, 7]]]]]);
    expect(byUser.columns[0]?.squares).toBe(2);
  });

  it("packs the GPUs that a user has on many nodes, as long as lines have no names", () => {
    const groups = [{ name: "alice", numbers: [...Array(600).keys()] }, { name: null, numbers: [...Array(600).keys()] }];
    const gpusOf = (number: number, user: string | null): readonly number[] => (number % 50 === 49 ? allGpus(8) : user === "alice" ? [2, 5] : [7]);
    const loose = planHeatmap(groups, gpusOf, 1072, 700);
    const plan = planHeatmap(groups, gpusOf, 1072, 700, true);
    expect(plan.pitch).toBeGreaterThan(1.5 * loose.pitch);
    const squares = plan.columns.filter(({ name }) => name === "alice").flatMap(({ lines }) => lines.flatMap((line) => line.gpus.map((gpu, place) => [nodeNumber(line, place), gpu])));
    expect(squares).toEqual(groups[0]?.numbers.flatMap((number) => gpusOf(number, "alice").map((gpu) => [number, gpu])));
    expect(sameNode(plan.columns[0]!.lines[0]!, 3)).toEqual([2, 3]);
    const few = planHeatmap([{ name: "alice", numbers: [1, 2] }], gpusOf, 1072, 700, true);
    expect(few.columns[0]?.lines).toHaveLength(2);
  });

  it("splits long groups into columns, and scrolls where even the smallest squares do not fit", () => {
    const many = planHeatmap([{ name: null, numbers: [...Array(50_000).keys()] }], () => allGpus(8), 1400, 700);
    expect(Math.max(...many.columns.map((column) => column.lines.length))).toBeLessThan(240);
    expect(many.columns.filter((column) => !column.continued)).toHaveLength(1);
    expect(many.height).toBeGreaterThan(700);
  });
});
