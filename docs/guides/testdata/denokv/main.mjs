// Uses the store of an actor, and prints what it finds. The store has entries that another interface wrote.
import { open } from "./open.mjs";

const { kv, u64 } = await open(globalThis.Deno ? Deno.args[0] : process.argv[2]);

function text(v) {
  return JSON.stringify(v, (_, v) =>
    typeof v === "bigint" ? `${v}n`
      : v instanceof Uint8Array ? `bytes ${[...v]}`
      : v instanceof Map ? { map: [...v] }
      : typeof v === "number" && !Number.isFinite(v) ? String(v)
      : v?.constructor?.name?.endsWith("KvU64") ? `u64 ${v.value}`
      : v);
}

function print(what, v) {
  console.log(`${what}: ${text(v)}`);
}

async function all(selector, options) {
  const found = [];
  for await (const e of kv.list(selector, options)) found.push(e);
  return found;
}

async function refused(f) {
  try {
    await f();
    return "not refused";
  } catch {
    return "refused";
  }
}

async function wait(key) {
  while ((await kv.get(key)).versionstamp !== null) await new Promise((r) => setTimeout(r, 20));
}

// Entries of other interfaces.
for (const e of await all({ prefix: ["native"] })) print("native", [e.key, e.value]);

// Values.
const alice = await kv.set(["users", "alice"], { n: 1, tags: ["a", null], at: new Date(0), m: new Map([[1, 2n]]) });
print("set", [alice.ok, alice.versionstamp.length]);
const got = await kv.get(["users", "alice"]);
print("get", [got.value, got.versionstamp === alice.versionstamp]);
await kv.set(["users", "bytes"], new Uint8Array([0, 255]));
await kv.set(["users", "null"], null);
print("null", (await kv.get(["users", "null"])).versionstamp !== null);
print("absent", await kv.get(["users", "nobody"]));
print("many", (await kv.getMany([["users", "bytes"], ["x"], ["users", "null"]])).map((e) => [e.value, e.versionstamp !== null]));

// Keys: order, and each type of part.
const keys = [[true], [false], [Infinity], [NaN], [2], [0], [-1.5], [10n ** 30n], [5n], [-5n], ["b"], ["a", 1], ["a"], [""], [new Uint8Array([1])]];
for (const key of keys) await kv.set(["order", ...key], 0);
print("order", (await all({ prefix: ["order"] })).map((e) => e.key.slice(1)));
print("reverse", (await all({ prefix: ["order"] }, { reverse: true, limit: 2 })).map((e) => e.key.slice(1)));
print("range", (await all({ start: ["order", 0], end: ["order", 3] })).map((e) => e.key.slice(1)));
await kv.set(["user"], 1);
print("siblings", (await all({ prefix: ["user"] })).length);

// Pages.
for (let i = 0; i < 5; i++) {
  let write = kv.atomic();
  for (let j = 0; j < 50; j++) write = write.set(["page", i * 50 + j], i * 50 + j);
  await write.commit();
}
print("pages", (await all({ prefix: ["page"] }, { batchSize: 7 })).map((e) => e.value).every((v, i) => v === i));
const large = new Uint8Array(60000).fill(7);
for (let i = 0; i < 100; i++) await kv.set(["large", i], large);
print("large", (await all({ prefix: ["large"] }, { batchSize: 100 })).length);
const list = kv.list({ prefix: ["page"] }, { limit: 3 });
for await (const _ of list);
print("cursor", (await all({ prefix: ["page"] }, { limit: 2, cursor: list.cursor })).map((e) => e.value));

// Commits.
const check = { key: ["users", "alice"], versionstamp: alice.versionstamp };
const changed = await kv.atomic().check(check).set(["users", "alice"], 2).delete(["users", "bytes"]).commit();
print("commit", [changed.ok, changed.versionstamp > alice.versionstamp]);
print("conflict", (await kv.atomic().check(check).set(["users", "alice"], 3).commit()).ok);
print("create", (await kv.atomic().check({ key: ["users", "alice"], versionstamp: null }).set(["users", "alice"], 3).commit()).ok);
print("unchanged", (await kv.get(["users", "alice"])).value);
const empty = await kv.atomic().commit();
print("empty", [empty.ok, empty.versionstamp > changed.versionstamp]);

// Numbers.
await kv.atomic().sum(["n"], 5n).commit();
await kv.atomic().sum(["n"], 2n ** 64n - 1n).commit();
print("wraps", (await kv.get(["n"])).value);
await kv.atomic().max(["n"], 9n).min(["n"], 7n).commit();
print("bounded", (await kv.get(["n"])).value);
await kv.set(["u64"], u64(2n ** 64n - 1n));
print("u64", (await kv.get(["u64"])).value);
await kv.set(["text"], "a");
print("sum of a text", await refused(() => kv.atomic().set(["side"], 1).sum(["text"], 1n).commit()));
print("side", (await kv.get(["side"])).versionstamp);

// Expiry.
await kv.set(["soon"], 1, { expireIn: 150 });
print("before", (await kv.get(["soon"])).value);
await wait(["soon"]);
print("after", (await kv.get(["soon"])).value);
await kv.atomic().mutate({ type: "set", key: ["counted"], value: u64(1n), expireIn: 400 }).commit();
await kv.atomic().sum(["counted"], 1n).commit();
print("counted", (await kv.get(["counted"])).value);
await wait(["counted"]);
print("counted later", (await kv.get(["counted"])).value);

// Watching. The package @deno/kv does not tell that there is nothing at first.
await kv.set(["w", 2], "first");
const reader = kv.watch([["w", 1], ["w", 2]]).getReader();
const watched = async () => print("watched", (await reader.read()).value.map((e) => e.value));
await watched();
await kv.set(["w", 1], "hello");
await watched();
await kv.atomic().delete(["w", 1]).set(["w", 2], 7).commit();
await watched();
await kv.set(["w", 1], "soon gone", { expireIn: 200 });
await watched();
await watched();
await reader.cancel();

// What is too much.
print("large value", await refused(() => kv.set(["v"], new Uint8Array(70000))));
print("large key", await refused(() => kv.set(["k".repeat(3000)], 1)));
kv.close();
