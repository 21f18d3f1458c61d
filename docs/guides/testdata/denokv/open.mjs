// Opens the store of an actor: with Deno itself, or with the package @deno/kv in Node.
export async function open(url) {
  if (globalThis.Deno) {
    return { kv: await Deno.openKv(url), u64: (n) => new Deno.KvU64(n) };
  }
  const { openKv, KvU64 } = await import("@deno/kv");
  const { serialize, deserialize } = await import("node:v8");
  const kv = await openKv(url, {
    accessToken: process.env.DENO_KV_ACCESS_TOKEN,
    encodeV8: serialize,
    decodeV8: deserialize,
  });
  return { kv, u64: (n) => new KvU64(n) };
}
