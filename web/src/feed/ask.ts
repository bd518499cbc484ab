// One question to the hub, and its answer: what is not in the stream, and what changes something.

/** The hub said no, in its own words; a status of 0 is a hub that did not answer. */
export class NotGranted extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    words: string,
  ) {
    super(words);
  }
}

type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** The answer to a question, or `NotGranted`. */
export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await sent("GET", path, undefined, signal)).json() as Promise<T>;
}

/** Ask for a change; what it answers, `undefined` when that is nothing. */
export async function change<T = undefined>(method: Exclude<Method, "GET">, path: string, body: unknown = {}): Promise<T> {
  const answer = await sent(method, path, body);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

async function sent(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method,
      cache: "no-store",
      ...(signal && { signal }),
      ...(body !== undefined && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
    });
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw new NotGranted(0, "no_answer", "the hub does not answer");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer: Response): Promise<NotGranted> {
  try {
    const { error } = (await answer.json()) as { error: { code: string; message: string } };
    return new NotGranted(answer.status, error.code, error.message);
  } catch {
    return new NotGranted(answer.status, "no_words", `the hub answered ${answer.status}`);
  }
}
