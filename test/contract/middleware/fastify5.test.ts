import { conformance } from "./conformance.ts";
import { fastifyKit } from "./fastify.kit.ts";

conformance(fastifyKit);
