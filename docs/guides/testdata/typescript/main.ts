// The program that the test runs: node out/main.js URL TOKEN. It prints what it got, as JSON.
import { connect, fill, key, Refused, type Failure } from "./client.js";

declare const process: { argv: string[] };
const [, , url = "", token = ""] = process.argv;

const n: number = await fill(url, token, [{ article: "bolt", n: 7 }, { article: "nut", n: 9, note: "M8" }]);

const node = connect(url, token);
const params = { path: { key: key("shop", "ann") } };
const lines = await node.POST("/actors/basket/{key}/-/call/entries", { params });
if (lines.error) throw new Refused(lines.error);
const articles: (string | undefined)[] = (lines.data ?? []).map((e) => e.article);

let code: Failure["code"] | undefined;
try {
  await fill(url, token, [{ article: "bolt", n: -1 }]);
} catch (e) {
  if (e instanceof Refused) code = e.failure.code;
}
const refused = await connect(url, "wrong").POST("/actors/basket/{key}/-/call/entries", { params });
const emptied = await node.POST("/actors/basket/{key}/-/call/empty", { params });
const other = await node.GET("/actors/basket/{key}/-/", { params: { path: { key: key("~nobody", "a/b", "-", "..") } } });

console.log(JSON.stringify({
  n, articles, code, refused: refused.error?.code, emptied: emptied.response.status, missing: other.error?.code,
}));
