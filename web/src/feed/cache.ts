// A cache with a time to live for requests that several parts of the page make.

/** Wrap a request so that it is not repeated for the same key until `ttlMs` have passed. */
export function cached<T>(ttlMs: number, request: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const entries = new Map<string, { at: number; response: Promise<T> }>();
  return (key) => {
    const now = performance.now();
    for (const [each, { at }] of entries) if (now - at > ttlMs) entries.delete(each);
    const hit = entries.get(key);
    if (hit) return hit.response;
    const response = request(key);
    entries.set(key, { at: now, response });
    return response;
  };
}
