import { storeContract } from "../contract/store.ts";
import { servers } from "../harness/servers.ts";
import { serverSubject } from "./subject.ts";

for (const name of servers) storeContract(`a limiter on ${name}`, () => serverSubject(name));
