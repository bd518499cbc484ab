import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./", // the hub may be below a path of a proxy
  plugins: [svelte()],
  build: {
    outDir: "../src/fleet_smi/server/page",
    emptyOutDir: true,
    assetsInlineLimit: 0, // a picture inside a stylesheet would need a weaker security policy
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": "http://127.0.0.1:7070" } },
  test: { include: ["test/**/*.test.ts"] },
});
