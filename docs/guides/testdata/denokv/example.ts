const kv = await Deno.openKv("http://127.0.0.1:6420/kv/demo");
const { value, versionstamp } = await kv.get(["users", "ada"]);
const moved = await kv.atomic().check({ key: ["users", "ada"], versionstamp }).set(["people", "ada"], value).delete(["users", "ada"]).commit();
console.log(moved.ok);
kv.close();
