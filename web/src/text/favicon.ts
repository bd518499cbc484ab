// The favicon: the number of free GPUs, visible among many tabs.

/** The favicon as a data URL; a ring while the number is not known. */
export function faviconUrl(free: number | null): string {
  const content = free === null ? RING : number(free);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20"><rect width="20" height="20" rx="4" fill="#15171a"/>${content}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

const RING = '<circle cx="10" cy="10" r="5" fill="none" stroke="#3fd6a0" stroke-width="3"/>';

function number(free: number): string {
  const shown = free > 999 ? "1k+" : String(free);
  const size = [15, 13, 10][shown.length - 1] ?? 10;
  const colour = free > 0 ? "#83e9c3" : "#b0b7be";
  return `<text x="10" y="10" dy=".36em" text-anchor="middle" font-family="sans-serif" font-weight="700" font-size="${size}" fill="${colour}">${shown}</text>`;
}
