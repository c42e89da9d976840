import { gzipSync } from "node:zlib";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const STATIC = "../static";

/** Writes each file once more, compressed, so that the host does not compress anything. */
function gzipped(): Plugin {
  return {
    name: "gzipped",
    closeBundle() {
      for (const name of readdirSync(STATIC, { recursive: true, encoding: "utf8" })) {
        if (!/\.(css|html|js|svg)$/.test(name)) continue;
        const path = join(STATIC, name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  base: "./", // an app of ASGI may be mounted below a path
  build: {
    outDir: STATIC,
    assetsDir: "console",
    emptyOutDir: true,
    license: { fileName: "console/licences.md" },
    modulePreload: { polyfill: false },
    target: "es2023",
    assetsInlineLimit: 0,
  },
  plugins: [gzipped()],
});
