import { afterAll, beforeAll } from "vitest";
import { storeContract } from "../contract/store.ts";
import { startClusterOf, type TestCluster } from "../harness/cluster.ts";
import { libraries } from "./libraries.ts";
import { storeSubject } from "./subjects.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startClusterOf({ primaries: 3 });
});
afterAll(() => cluster.stop());

// With ioredis 6, the Cluster's own tests run it.
for (const library of libraries.slice(1))
  storeContract(`a limiter on a Cluster through ${library.name}`, async () => {
    const ports = cluster.nodes.map(({ port }) => port);
    return storeSubject(cluster.nodes, () => library.cluster({ ports }));
  });
