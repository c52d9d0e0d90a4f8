import { defaultServerConditions } from "vite";
import { defineConfig } from "vitest/config";

// Tests run our packages from source, so that no build can be stale.
const conditions = ["@tidegate/source", ...defaultServerConditions];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["test/**/*.test.ts", "packages/**/*.test.ts"],
    exclude: ["**/node_modules/**", "**/dist/**"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ["default", ["json", { outputFile: ".cache/test-report.json" }]],
  },
});
