// Keeps a wall screen running for weeks: it loads the page of an updated hub, and a fresh one every day.

import type { Connection } from "../feed/stream";

const CHECK_MS = 60_000;
const MAX_AGE_MS = 24 * 3_600_000;
const SCRIPT = /assets\/[\w-]+\.js/;

/** Watch the hub; reload when its page has changed, when this one is a day old, or to try again without access. */
export function keepFresh(connection: () => Connection): () => void {
  const openedAt = performance.now();
  const own = SCRIPT.exec(document.querySelector("script[type=module]")?.getAttribute("src") ?? "")?.[0];
  const check = async (): Promise<void> => {
    const current = await currentScript();
    // Without an answer there is nothing to load: the last data stays on the screen.
    if (current === null) return;
    const isOld = performance.now() - openedAt > MAX_AGE_MS;
    if (isOld || connection() === "unauthorized" || (own !== undefined && current !== own)) location.reload();
  };
  const timer = setInterval(() => void check(), CHECK_MS);
  return () => clearInterval(timer);
}

/** The script of the page that the hub serves now; `null` if it does not answer with a page. */
async function currentScript(): Promise<string | null> {
  try {
    const response = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" }, cache: "no-store" });
    return response.ok ? (SCRIPT.exec(await response.text())?.[0] ?? null) : null;
  } catch {
    return null;
  }
}

/** Ask the browser not to turn off the screen; again whenever it had stopped to. */
export function keepAwake(): () => void {
  const request = (): void => void (document.visibilityState === "visible" && navigator.wakeLock?.request("screen").catch(() => undefined));
  request();
  document.addEventListener("visibilitychange", request);
  return () => document.removeEventListener("visibilitychange", request);
}
