// The views whose code is not part of the first view: loaded when shown, or before that when the browser is idle.

export const lazyViews = {
  card: () => import("./grid/Card.svelte"),
  signin: () => import("./signin/SignInPage.svelte"),
  history: () => import("./history/HistoryPage.svelte"),
  trends: () => import("./trends/TrendsPage.svelte"),
  queue: () => import("./queue/QueuePage.svelte"),
  queueMe: () => import("./request/QueueMe.svelte"),
  node: () => import("./node/NodePage.svelte"),
  gpu: () => import("./gpu/GpuPage.svelte"),
  people: () => import("./people/PeoplePage.svelte"),
  person: () => import("./person/PersonPage.svelte"),
  job: () => import("./job/JobPage.svelte"),
  setup: () => import("./setup/SetupPage.svelte"),
  pastBanner: () => import("./time/PastBanner.svelte"),
  problems: () => import("./shell/ProblemsBanner.svelte"),
  sessionEnded: () => import("./signin/SessionEnded.svelte"),
  help: () => import("./shell/ShortcutHelp.svelte"),
  noResults: () => import("./search/NoResults.svelte"),
  noMatch: () => import("./request/NoMatch.svelte"),
  palette: () => import("./shell/Palette.svelte"),
  paused: () => import("./shell/PausedBanner.svelte"),
  firstRun: () => import("./setup/FirstRun.svelte"),
};

const PREFETCH_DELAY_MS = 4000;
const IDLE_TIMEOUT_MS = 60_000;

/** Load the code of every view while the browser is idle: a view then opens at once, and while the hub is away too. */
export function prefetchViews(): void {
  if ((navigator as { connection?: { saveData?: boolean } }).connection?.saveData) return;
  setTimeout(() => void loadAll(), PREFETCH_DELAY_MS);
}

async function loadAll(): Promise<void> {
  for (const load of Object.values(lazyViews)) {
    await idle();
    // What cannot be loaded now is loaded when it is shown.
    await load().catch(() => undefined);
  }
}

function idle(): Promise<void> {
  return new Promise((resolve) => {
    // Safari has no requestIdleCallback.
    if (typeof requestIdleCallback === "function") requestIdleCallback(() => resolve(), { timeout: IDLE_TIMEOUT_MS });
    else setTimeout(resolve, 200);
  });
}
