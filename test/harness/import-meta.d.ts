/** What vitest adds to `import.meta`. */
/// <reference types="vite/client" />
