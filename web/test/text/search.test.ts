import { expect, it } from "vitest";
import table from "../../../tests/filter_cases.json";
import { METRIC_TERMS } from "../../src/text/search";

it("the words for figures are read by the hub as they are meant here", () => {
  for (const { word, key, op, bound } of METRIC_TERMS) {
    const found = table.suggested.find((each) => each.text === word);
    expect(found?.terms).toMatchObject([{ key, op, bound, values: [], negated: false }]);
  }
});
