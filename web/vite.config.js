import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig } from "vite";

/** Writes each file a second and a third time, compressed as well as it can be. */
function compressed() {
  let directory = "";
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      directory = config.build.outDir;
    },
    closeBundle() {
      for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(css|html|js|json|svg)$/.test(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const body = readFileSync(path);
        const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
        writeFileSync(`${path}.br`, brotliCompressSync(body, { params }));
        writeFileSync(`${path}.gz`, gzipSync(body, { level: 9 }));
      }
    },
  };
}

/** Writes the licences of what the page contains, as they ask for. */
function licences() {
  let directory = "";
  return {
    name: "licences",
    apply: "build",
    configResolved(config) {
      directory = config.build.outDir;
    },
    closeBundle() {
      const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
      const texts = Object.entries(packages)
        .filter(([path, { dev, optional }]) => path && !dev && !optional)
        .map(([path, { version }]) => {
          const file = readdirSync(path).find((name) => /^licen[cs]e/i.test(name));
          if (!file) throw new Error(`${path} has no licence`);
          const name = path.replace(/.*node_modules\//, "");
          return `${name} ${version}\n\n${readFileSync(join(path, file), "utf8").trim()}\n`;
        });
      writeFileSync(join(directory, "licences.txt"), texts.join(`\n${"-".repeat(78)}\n\n`));
    },
  };
}

// All addresses are relative: the page is also served below the path of a proxy.
export default defineConfig({
  base: "./",
  plugins: [licences(), compressed()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    emptyOutDir: true,
    // A data: address in style sheets would need a wider policy, and polyfills inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { proxy: { "/api": process.env.EQUIPOISE_SERVER ?? "http://127.0.0.1:10259" } },
});
