// Writes each file of the built page once more, compressed by Brotli: Python, and so the hub, has no Brotli.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";

const PAGE = new URL("../src/fleet_smi/server/page/", import.meta.url);

for (const name of readdirSync(PAGE, { recursive: true })) {
  if (/\.(html|js|css|svg)$/.test(name)) writeFileSync(new URL(`${name}.br`, PAGE), brotliCompressSync(readFileSync(new URL(name, PAGE))));
}
