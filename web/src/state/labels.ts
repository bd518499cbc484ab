// Labels of a node as they are typed: "rack=a, room=2".

export type Labels = Record<string, string>;

const KEY = /^[A-Za-z0-9_-]{1,128}$/;

export function written(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
}

/** What was typed as labels, or in words why it is none. */
export function read(text: string): Labels | string {
  const labels: Labels = {};
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const [key = "", value] = part.split(/=(.*)/s).map((each) => each.trim());
    if (value === undefined || value === "") return `"${part}" has no value: write it like rack=a`;
    if (!KEY.test(key)) return `"${key}" is no name of a label: letters, digits, - and _`;
    labels[key] = value;
  }
  return labels;
}

/** What to ask for so that `before` becomes `after`; an empty value gives the node's own back. */
export function difference(before: Labels, after: Labels): Labels {
  const gone = Object.keys(before).filter((key) => !(key in after));
  const other = Object.entries(after).filter(([key, value]) => before[key] !== value);
  return Object.fromEntries([...gone.map((key) => [key, ""]), ...other]);
}
