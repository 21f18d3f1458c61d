import { openKv } from "@deno/kv";
import { deserialize, serialize } from "node:v8";

const kv = await openKv("http://127.0.0.1:6420/kv/demo", {
  accessToken: process.env.DENO_KV_ACCESS_TOKEN ?? "none",
  encodeV8: serialize,
  decodeV8: deserialize,
});
await kv.set(["users", "ada"], { name: "Ada", born: new Date(0), balance: 12345678901234567890n });
console.log((await kv.get(["users", "ada"])).value.balance);
kv.close();
