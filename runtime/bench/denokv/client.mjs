// Sets values with so many calls at a time for so many milliseconds, and prints how many it has set.
import { openKv } from "@deno/kv";
import { deserialize, serialize } from "node:v8";

const [url, callers, ms] = process.argv.slice(2);
const kv = await openKv(url, { accessToken: "none", encodeV8: serialize, decodeV8: deserialize });
const value = { name: "Ada", text: "x".repeat(80) };
let count = 0, end = Infinity;
const call = async (caller) => {
  for (let i = 0; Date.now() < end; i++) {
    await kv.set(["users", Number(caller), i], value);
    count++;
  }
};
end = Date.now() + 500; // until the program is compiled, and the connections are there
await Promise.all(Array.from({ length: Number(callers) }, (_, i) => call(i)));
count = 0;
const began = Date.now();
end = began + Number(ms);
await Promise.all(Array.from({ length: Number(callers) }, (_, i) => call(i)));
console.log(count, Date.now() - began);
kv.close();
