import { expect, it } from "vitest";
import table from "../../../tests/filter_cases.json";
import { METRIC_TERMS } from "../../src/text/search";

it("the hub parses the suggested metric terms as the page does", () => {
  for (const { word, key, op, bound } of METRIC_TERMS) {
    const found = table.suggested.find((each) => each.text === word);
    expect(found?.terms).toMatchObject([{ key, op, bound, values: [], negated: false }]);
  }
});
