// Labels of a node as text: "rack=a, room=2".

export type Labels = Record<string, string>;

const KEY = /^[A-Za-z0-9_-]{1,128}$/;

/** Labels as text to edit, which `parseLabels` reads. */
export function labelsText(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
}

/** Parse labels; returns an error message if the text is invalid. */
export function parseLabels(text: string): Labels | string {
  const labels: Labels = {};
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const [key = "", value] = part.split(/=(.*)/s).map((each) => each.trim());
    if (value === undefined || value === "") return `"${part}" has no value: use the form rack=a`;
    if (!KEY.test(key)) return `"${key}" is not a valid label name: use letters, digits, - and _`;
    labels[key] = value;
  }
  return labels;
}

/** The changes from `before` to `after`; an empty value resets a label to the node's own. */
export function diffLabels(before: Labels, after: Labels): Labels {
  const removed = Object.keys(before).filter((key) => !(key in after));
  const changed = Object.entries(after).filter(([key, value]) => before[key] !== value);
  return Object.fromEntries([...removed.map((key) => [key, ""]), ...changed]);
}
