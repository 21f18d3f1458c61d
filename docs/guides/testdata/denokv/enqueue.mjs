// Sends messages to an actor, with the package @deno/kv: Deno itself sends none to a database elsewhere.
import { open } from "./open.mjs";

const { kv } = await open(process.argv[2]);
await kv.enqueue({ job: 1 });
const { ok } = await kv.atomic()
  .check({ key: ["job", 2], versionstamp: null })
  .set(["job", 2], "sent")
  .enqueue({ job: 2 }, { delay: 10, keysIfUndelivered: [["lost", 2]], backoffSchedule: [10, 20] })
  .commit();
console.log(ok);
kv.close();
