// The text of a filter as words: which is being typed, one put in or taken out. What they mean, the hub says.

import { STATES } from "../feed/event";

const WORD = /(?:[^\s"]|"[^"]*(?:"|$))+/g;
const ALTERNATIVE = /(?:[^,"]|"[^"]*(?:"|$))+/g;
const KEYED = /^([a-z]+):(.+)$/is;

export function wordsOf(text: string): string[] {
  return text.match(WORD) ?? [];
}

/** The word that is being typed; empty where a new one would begin. */
export function unfinished(text: string): string {
  const words = wordsOf(text);
  const last = words.at(-1) ?? "";
  return text.endsWith(last) ? last : "";
}

/** The text with this word in the place of the one that is being typed. */
export function completed(text: string, word: string): string {
  return `${text.slice(0, text.length - unfinished(text).length)}${word} `;
}

/** `key:value` as a word; what the value has in it that a word cannot have is in quotes. */
export function keyed(key: string, value: string): string {
  const plain = value.replaceAll('"', "*");
  return `${key}:${/[\s,]/.test(plain) ? `"${plain}"` : plain}`;
}

/** Whether the word is there, alone or beside others that widen it. */
export function has(text: string, word: string): boolean {
  return wordsOf(text).some((each) => includes(each, word));
}

/** The text with the word put in, or taken out where it was. Values of one key widen each other. */
export function toggled(text: string, word: string): string {
  const words = wordsOf(text);
  if (words.some((each) => includes(each, word))) {
    return words.map((each) => without(each, word)).filter(Boolean).join(" ");
  }
  const [key, value] = parts(word);
  const beside = words.findIndex((each) => key !== "" && parts(each)[0] === key);
  if (beside < 0) return [...words, word].join(" ");
  const widened = [...alternatives(parts(words[beside] ?? "")[1]), value].join(",");
  return words.with(beside, `${key}:${widened}`).join(" ");
}

/** Key and value; a bare state is one of `state`, and any other word has no key. */
function parts(word: string): [key: string, value: string] {
  const [, key = "", value = ""] = KEYED.exec(word) ?? [];
  if (key) return [key.toLowerCase(), value];
  const isState = alternatives(word).every((each) => STATES.some((state) => state === each.toLowerCase()));
  return isState ? ["state", word] : ["", word];
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
