// Editing the text of a filter: splitting it into terms, adding and removing one. The hub parses the terms.

import { STATES } from "../feed/state";

const TERM = /(?:[^\s"]|"[^"]*(?:"|$))+/g;
const ALTERNATIVE = /(?:[^,"]|"[^"]*(?:"|$))+/g;
const KEY_AND_VALUE = /^([a-z]+):(.+)$/is;

export function splitTerms(text: string): string[] {
  return text.match(TERM) ?? [];
}

/** The term that is being typed; empty after a space. */
export function lastTerm(text: string): string {
  const last = splitTerms(text).at(-1) ?? "";
  return text.endsWith(last) ? last : "";
}

/** Replace the term that is being typed. */
export function completeTerm(text: string, term: string): string {
  return `${text.slice(0, text.length - lastTerm(text).length)}${term} `;
}

/** `key:value`, quoted if needed. A quote in the value becomes a wildcard. */
export function formatTerm(key: string, value: string): string {
  const plain = value.replaceAll('"', "*");
  return `${key}:${/[\s,]/.test(plain) ? `"${plain}"` : plain}`;
}

/** Whether the text has the term, alone or as one of several values: "state:free,held". */
export function hasTerm(text: string, term: string): boolean {
  return splitTerms(text).some((each) => includes(each, term));
}

/** Add the term, or remove it if it is there. Values of the same key are joined by commas. */
export function toggleTerm(text: string, term: string): string {
  const terms = splitTerms(text);
  if (terms.some((each) => includes(each, term))) {
    return terms.map((each) => without(each, term)).filter(Boolean).join(" ");
  }
  const [key, value] = parts(term);
  const index = terms.findIndex((each) => key !== "" && parts(each)[0] === key);
  if (index < 0) return [...terms, term].join(" ");
  const values = [...alternatives(parts(terms[index] ?? "")[1]), value].join(",");
  return terms.with(index, `${key}:${values}`).join(" ");
}

/** Key and value of a term; a bare state has the key `state`, any other word has none. */
function parts(term: string): [key: string, value: string] {
  const [, key = "", value = ""] = KEY_AND_VALUE.exec(term) ?? [];
  if (key) return [key.toLowerCase(), value];
  const isState = alternatives(term).every((each) => STATES.some((state) => state === each.toLowerCase()));
  return isState ? ["state", term] : ["", term];
}

function alternatives(value: string): string[] {
  return value.match(ALTERNATIVE) ?? [];
}

function includes(word: string, wanted: string): boolean {
  const [[key, values], [wantedKey, value]] = [parts(word), parts(wanted)];
  return key === wantedKey && alternatives(values).some((each) => same(each, value));
}

function without(word: string, unwanted: string): string {
  if (!includes(word, unwanted)) return word;
  const [[key, values], [, value]] = [parts(word), parts(unwanted)];
  const rest = alternatives(values).filter((each) => !same(each, value));
  return rest.length === 0 ? "" : `${key && `${key}:`}${rest.join(",")}`;
}

function same(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
